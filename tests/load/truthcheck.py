"""One comparison for all: what the client kept of a stream against what the server says it did.

A `Case` names a plan of the truthserver and how it has to end; counts follow from the plan. Times
are compared with the server's log only where they cannot depend on how busy the machine is: the
kernel stamps a chunk on loopback while the server still writes it, so a stamp lies between the
server's time before that write and its time before the next one, however late either was.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from random import Random

import numpy as np

from inferometer.core import Exchange, Status
from inferometer.load.ceiling import coalesced
from referee import Truth

NS = 1_000_000_000
CLOCKS_NS = 2_000_000
"""What the two clocks may be apart: the offset is sampled on a machine that may be busy."""
SPLIT_NS = 2 * NS
"""Many tiny segments wait for acknowledgements, which may be put off, and more than once."""


@dataclass(frozen=True)
class Case:
    """A plan, and how a stream of it ends.

    `events` are the token-bearing events that come (None: all `n`); `error` is searched for in
    what the record says; `held` chunks are in the server's log, but were never written.
    """

    plan: str
    status: Status = Status.OK
    events: int | None = None
    error: str | None = None
    held: int = 0

    def number(self, key: str, default: int) -> int:
        """What the plan says for a key."""
        found = re.search(rf"(?:^|\+){key}=(\d+)", self.plan)
        return int(found[1]) if found else default

    @property
    def comes(self) -> int:
        """Token-bearing events that reach the client."""
        return self.number("n", 8) if self.events is None else self.events

    @property
    def model(self) -> str:
        """The plan with this module's defaults for what it leaves out."""
        defaults = {"n": 8, "ttft": 15, "itl": 4}
        parts = [f"{key}={self.number(key, value)}" for key, value in defaults.items()]
        return "+".join([self.plan, *parts])


ENDED = "connection lost"
DIED = "^engine core died$"
NO_TOKEN = "ended without a token"
BROKEN = "broken JSON"
ENDS = ("", "", "err", "drop", "empty", "status", "bad")


def drawn(random: Random) -> Case:
    """A stream with any of the misbehaviours together, and how it ends."""
    n = random.randint(1, 12)
    end = random.choice(ENDS)
    thought = random.choice((0, 0, random.randint(0, n)))
    called = random.choice((0, 0, random.randint(0, n - thought)))
    batch = random.choice((1, 1, 1, 2, 3, 4))
    # A reset discards what waits to be acknowledged, and so an unknown part of a split chunk.
    split = 0 if end == "drop" else random.choice((0, 0, 0, 1, 3, 7, 20, 50))
    knobs = {"n": n, "think": thought, "tool": called, "batch": batch, "split": split}
    knobs |= {key: random.choice((0, 0, 1)) for key in ("crlf", "nospace", "comment")}
    knobs |= {key: random.choice((0, 1, 1)) for key in ("role", "done")}
    knobs |= {"usage": random.randint(0, 2), "k": random.choice((1, 1, 2, 9))}
    knobs |= {"pt": random.choice((0, 1, 100, 999_999))}
    after = random.randint(0, n - 1)
    whole = after - after % batch
    code = random.choice((400, 404, 429, 500, 503))
    told, status, events, error, held = {
        "": (1, Status.OK, None, None, 0),
        "err": (after, Status.IN_BAND, after, DIED, 0),
        "bad": (after, Status.MALFORMED, after, BROKEN, 0),
        "drop": (after, Status.TRUNCATED, whole, ENDED, after - whole),
        "empty": (1, Status.EMPTY, 0, NO_TOKEN, 0),
        "status": (code, Status.HTTP_STATUS, 0, f"^HTTP {code}: ", 0),
    }[end]
    knobs |= {end: told} if end else {}
    plan = "+".join(f"{key}={value}" for key, value in knobs.items())
    return Case(plan, status, events, error, held)


def judge(case: Case, exchange: Exchange, truth: Truth | None) -> None:
    """Fail where the exchange is not what the server's plan and log say. Needs no clock."""
    check_class(case, exchange)
    check_counts(case, exchange)
    check_order(exchange)
    if case.status is Status.HTTP_STATUS:
        assert truth is None, "the server logs no stream where it answered with a status"
        return
    assert truth is not None, "the server knows nothing of this request"
    check_log(case, exchange, truth)
    check_times(case, exchange, truth)
    check_marks(case, exchange)


def check_class(case: Case, exchange: Exchange) -> None:
    assert exchange.status is case.status, f"{exchange.status}: {exchange.error}"
    assert exchange.http_status == case.number("status", 200)
    if case.error is None:
        assert exchange.error is None
    else:
        assert exchange.error is not None
        assert re.search(case.error, exchange.error), exchange.error


def check_counts(case: Case, exchange: Exchange) -> None:
    """Events, tokens, usage and where each count came from."""
    events, per_event = case.comes, case.number("k", 1)
    assert len(exchange.arrivals) == events
    usage, told = case.number("usage", 1), None
    if case.status in (Status.OK, Status.EMPTY):
        told = events * per_event if usage else None
    elif usage == 2 and events:
        told = events * per_event
    assert exchange.completion_tokens == told
    assert exchange.prompt_tokens == (None if told is None else case.number("pt", 100))
    tokens = exchange.arrivals.tokens
    if usage == 2 and events:
        assert exchange.token_source == "usage_per_chunk"
        assert tokens is not None
        assert tokens.tolist() == [per_event] * events
    else:
        assert exchange.token_source == ("assumed" if told is None else "usage_final")
        assert tokens is None


def check_order(exchange: Exchange) -> None:
    """Stamps of one request are in order, and all bytes bore the kernel's where it gives them."""
    stamps = [
        exchange.connected_ns,
        exchange.sent_ns,
        exchange.first_byte_ns,
        *exchange.arrivals.at_ns.tolist(),
        exchange.end_ns,
    ]
    assert None not in stamps
    assert stamps == sorted(stamps, key=lambda stamp: stamp or 0)
    assert exchange.stamp_source == ("kernel" if sys.platform == "linux" else "read")


def check_log(case: Case, exchange: Exchange, truth: Truth) -> None:
    """The server wrote as many chunks as came; a client that went first may have missed some."""
    wrote = len(truth.chunk_ns) - case.held
    if case.status is Status.MALFORMED:
        assert wrote >= case.comes
    else:
        assert wrote == case.comes
    thought = min(case.number("think", 0), case.comes)
    at_ns = exchange.arrivals.at_ns
    first_visible = int(at_ns[thought]) if case.comes > thought else None
    assert exchange.first_visible_ns == first_visible, "reasoning is a token but not visible"


def check_times(case: Case, exchange: Exchange, truth: Truth) -> None:
    """No stamp before the write it belongs to, none after the server had gone on."""
    at, count = exchange.arrivals.at_ns, case.comes
    assert exchange.sent_ns is not None
    assert exchange.sent_ns <= truth.request_ns + CLOCKS_NS, "read before it was sent"
    if not count:
        return
    wrote = np.array([*truth.chunk_ns, truth.end_ns], dtype=np.int64)
    early = wrote[:count] - at
    assert early.max() <= CLOCKS_NS, "a token was stamped before it was written"
    ttft = (at[0] - exchange.sent_ns) - (wrote[0] - truth.request_ns)
    assert ttft >= -2 * CLOCKS_NS, "a first token came sooner than the server made it"
    if exchange.stamp_source != "kernel":
        return  # a client that is kept waiting stamps late, and says so
    slack = SPLIT_NS if case.number("split", 0) else CLOCKS_NS
    assert at.max() <= truth.end_ns + slack, "a token was stamped after the stream had ended"
    late = at - wrote[1 : count + 1]
    alone = ~coalesced(exchange) & (np.diff(wrote)[:count] > 0)  # not those of one write
    if alone.any():
        assert late[alone].max() <= slack, "stamped after the server had gone on to the next"


def check_marks(case: Case, exchange: Exchange) -> None:
    """Chunks of one write come in one read, and all but its last have a stamp that is not theirs.

    Whether that last one is marked depends on what else was there to be read.
    """
    batch = case.number("batch", 1)
    if batch == 1 or case.number("split", 0):
        return
    marks = coalesced(exchange)
    inside = (np.arange(1, case.comes + 1) % batch != 0) & (
        np.arange(1, case.comes + 1) != case.comes
    )
    assert marks[inside].all(), "a chunk that was not the last of its read is not marked"
