"""The client against a referee: exact counts, exact classes, stamps close to the truth.

The bounds have slack for a busy machine: they show that the stamps mean what they say, not how
fast the client is. A stamp of the kernel can be late only by what lies between a write and its
arrival on loopback.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loopback import SETTINGS, make_request, make_transport, stamping

from inferometer.core import Exchange, Request, Status
from inferometer.load.ceiling import coalesced
from inferometer.load.endpoints import ENDPOINTS
from referee import Referee, Truth, build_referee, running_referee

pytestmark = pytest.mark.sockets

EARLY_NS = 1_000_000
MEDIAN_NS = 5_000_000
STALL_S = 2.0
"""Deadline of a stream that stalls. No other pause of the server is nearly as long."""


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with stamping():
        yield build_referee(tmp_path_factory.mktemp("truthserver"))


@pytest.fixture
def referee(binary: Path, tmp_path: Path) -> Iterator[Referee]:
    with running_referee(binary, tmp_path / "truth.csv") as running:
        yield running


def send_all(url: str, models: list[str], **changes: Any) -> list[Exchange]:
    """One request a plan, all at once; the n-th has the id `r<n>`."""
    settings = replace(SETTINGS, **changes)

    def encode(request: Request) -> bytes:
        return ENDPOINTS["chat"].body(models[int(request.id[1:])], "hello", request, settings)

    async def every() -> list[Exchange]:
        transport = make_transport(url, encode=encode, **changes)
        sends = (transport.send(make_request(f"r{n}")) for n in range(len(models)))
        exchanges = await asyncio.gather(*sends)
        assert transport.tokens_seen == sum(len(e.arrivals) for e in exchanges)
        await transport.close()
        return exchanges

    return asyncio.run(every())


def check_against(exchange: Exchange, truth: Truth) -> None:
    """Every token event, its count, its stamp, and the two latencies made of stamps."""
    at, wrote = exchange.arrivals.at_ns, np.array(truth.chunk_ns)
    assert len(at) == len(wrote)
    late = at - wrote
    assert late.min() >= -EARLY_NS, "a token was stamped before it was written"
    exact = late[~coalesced(exchange)]  # a client that was kept waiting marks the rest
    assert len(exact) < 5 or np.median(exact) < MEDIAN_NS
    assert exchange.sent_ns is not None
    ttft = (at[0] - exchange.sent_ns) - (wrote[0] - truth.request_ns)
    assert ttft >= -EARLY_NS, "a first token came sooner than the server made it"
    if len(exact) == len(at) > 1:
        assert np.median(np.abs(np.diff(at) - np.diff(wrote))) < MEDIAN_NS


def stamps_are_ordered(exchange: Exchange) -> bool:
    stamps = [
        exchange.connected_ns,
        exchange.sent_ns,
        exchange.first_byte_ns,
        *exchange.arrivals.at_ns.tolist(),
        exchange.end_ns,
    ]
    return stamps == sorted(stamps, key=lambda stamp: stamp or 0)


SHAPES = [
    "role=0",
    "role=1",
    "usage=0",
    "usage=2",
    "usage=2+k=3",
    "done=0",
    "done=0+usage=0",
    "crlf=1",
    "nospace=1",
    "comment=1",
    "crlf=1+nospace=1+comment=1",
    "split=7",
    "split=1+crlf=1",
    "batch=4",
    "think=3",
    "think=10",
    "tool=4",
    "think=2+tool=2+usage=2",
]


def test_streams_of_every_shape(referee: Referee) -> None:
    models = [f"n=10+ttft=30+itl=6+{shape}" for shape in SHAPES]
    exchanges = send_all(referee.url, models, usage_every_chunk=True)
    truths = referee.stop()
    for number, (shape, exchange) in enumerate(zip(SHAPES, exchanges, strict=True)):
        assert (exchange.status, exchange.error) == (Status.OK, None), shape
        assert len(exchange.arrivals) == 10, shape
        assert exchange.http_status == 200
        assert exchange.stamp_source == ("kernel" if sys.platform == "linux" else "read")
        assert stamps_are_ordered(exchange), shape
        if "batch" not in shape:
            check_against(exchange, truths[f"r{number}"])


def test_usage_and_where_it_came_from(referee: Referee) -> None:
    plans = {"usage=0": "assumed", "usage=1": "usage_final", "usage=2": "usage_per_chunk"}
    models = [f"n=4+ttft=1+itl=1+k=3+pt=77+{plan}" for plan in plans]
    none, final, every = send_all(referee.url, models, usage_every_chunk=True)
    assert [e.token_source for e in (none, final, every)] == list(plans.values())
    assert (none.prompt_tokens, none.completion_tokens) == (None, None)
    for exchange in (final, every):
        assert (exchange.prompt_tokens, exchange.completion_tokens) == (77, 12)
    assert final.arrivals.tokens is None
    assert every.arrivals.tokens is not None
    assert every.arrivals.tokens.tolist() == [3, 3, 3, 3]


def test_reasoning_is_a_token_but_not_visible(referee: Referee) -> None:
    plain, thinking, only = send_all(
        referee.url, [f"n=8+ttft=5+itl=5+think={n}" for n in (0, 3, 8)]
    )
    assert plain.first_visible_ns == plain.arrivals.at_ns[0]
    assert thinking.first_visible_ns == thinking.arrivals.at_ns[3]
    assert only.first_visible_ns is None


def test_chunks_of_one_write_are_marked(referee: Referee) -> None:
    (exchange,) = send_all(referee.url, ["n=8+ttft=5+itl=40+batch=4"])
    assert exchange.arrivals.coalesced is not None
    flags = exchange.arrivals.coalesced.tolist()
    assert flags[:3] + flags[4:7] == [True] * 6, "three of four were not the last of their read"


def test_the_last_chunk_of_a_write_is_not_marked(referee: Referee) -> None:
    """However late it is read: nothing is ever written behind it."""
    (exchange,) = send_all(
        referee.url, ["n=8+ttft=5+itl=2+batch=4+stall=4"], between_bytes_timeout_s=STALL_S
    )
    assert exchange.status is Status.TIMEOUT
    assert exchange.arrivals.coalesced is not None
    assert exchange.arrivals.coalesced.tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("plan", "status", "events", "error"),
    [
        ("n=9+err=3", Status.IN_BAND, 3, "engine core died"),
        ("n=9+err=0", Status.IN_BAND, 0, "engine core died"),
        ("n=9+drop=4", Status.TRUNCATED, 4, "connection lost"),
        ("n=9+drop=0+role=0", Status.TRUNCATED, 0, "connection lost"),
        ("n=9+stall=2", Status.TIMEOUT, 2, "between bytes"),
        ("empty=1", Status.EMPTY, 0, "without a token"),
        ("empty=1+usage=0+done=0", Status.EMPTY, 0, "without a token"),
        ("status=429", Status.HTTP_STATUS, 0, "HTTP 429: .*asked to fail"),
        ("status=503", Status.HTTP_STATUS, 0, "HTTP 503: "),
        ("n=9+bad=5", Status.MALFORMED, 5, "broken JSON"),
    ],
)
def test_failures_keep_their_class(
    referee: Referee, plan: str, status: Status, events: int, error: str
) -> None:
    timeout_s = STALL_S if status is Status.TIMEOUT else 20.0
    (exchange,) = send_all(referee.url, [f"{plan}+ttft=5+itl=2"], between_bytes_timeout_s=timeout_s)
    assert exchange.status is status
    assert exchange.error is not None
    assert re.search(error, exchange.error)
    assert len(exchange.arrivals) == events
    assert exchange.http_status == (int(plan[7:]) if "status" in plan else 200)


def test_the_check_sees_a_record_that_is_50_ms_off(referee: Referee) -> None:
    (exchange,) = send_all(referee.url, ["n=10+ttft=60+itl=5"])
    truth = referee.stop()["r0"]
    check_against(exchange, truth)
    for shift in (50_000_000, -50_000_000):
        at_ns = exchange.arrivals.at_ns + shift
        # Marks are taken off: a client that was kept waiting has few stamps to judge.
        claimed = replace(exchange.arrivals, at_ns=at_ns, coalesced=None)
        shifted = replace(exchange, arrivals=claimed)
        with pytest.raises(AssertionError):
            check_against(shifted, truth)
    lost = replace(exchange.arrivals, at_ns=exchange.arrivals.at_ns[1:])
    with pytest.raises(AssertionError):
        check_against(replace(exchange, arrivals=lost), truth)


def test_connections_are_kept(referee: Referee) -> None:
    async def main() -> list[Exchange]:
        transport = make_transport(referee.url, "n=3+ttft=1+itl=1")
        exchanges = [await transport.send(make_request(f"r{n}")) for n in range(3)]
        await transport.close()
        return exchanges

    exchanges = asyncio.run(main())
    assert [e.status for e in exchanges] == [Status.OK] * 3
    assert not exchanges[0].reused_connection
    accepted = {line.split(",")[3] for line in _log_after_stop(referee)}
    assert len(accepted) + sum(e.reused_connection for e in exchanges) == 3


def _log_after_stop(referee: Referee) -> list[str]:
    referee.stop()
    return referee.log.read_text().splitlines()[1:]
