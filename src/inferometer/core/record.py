"""What happened: all stamps and counts of one request, one value of a time series, the window.

Every `_ns` is an integer of CLOCK_MONOTONIC (virtual runs: of the virtual clock).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the processes that only send need no arrays, and start without them
    import numpy as np
    import numpy.typing as npt


StampSource = Literal["kernel", "read", "virtual"]
TokenSource = Literal["usage_per_chunk", "usage_final", "assumed"]


class Phase(StrEnum):
    """Warm-up requests count only in rates and in-flight."""

    WARMUP = "warmup"
    MEASURED = "measured"


class Status(StrEnum):
    """How a request ended. Only OK is a success; CENSORED was open when the grace period ended."""

    OK = "ok"
    CENSORED = "censored"
    CANCELLED = "cancelled"
    CONNECT = "connect"
    TIMEOUT = "timeout"
    HTTP_STATUS = "http_status"
    IN_BAND = "in_band"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    EMPTY = "empty"

    @property
    def failed(self) -> bool:
        """True for every class that the engine or the network answers for."""
        return self not in (Status.OK, Status.CENSORED, Status.CANCELLED)


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The token-bearing events of a stream, in order.

    `at_ns` int64[n]; `tokens` int32[n] where the server counts each chunk, else None (then one an
    event is `assumed`); `coalesced` bool[n]: the stamp is that of a later event of the same read,
    late by at most the gap; None where no event was.
    """

    at_ns: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int32] | None
    coalesced: npt.NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.at_ns)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an answer says, as a later prompt repeats it: visible text, in the order it came.

    `hidden_events` are its token events that show none of it: reasoning.
    """

    text: str
    hidden_events: int


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """What the transport saw of one request: stamps, events, counts, and how it ended."""

    connected_ns: int | None
    sent_ns: int | None
    body_sent_ns: int | None
    first_byte_ns: int | None
    first_visible_ns: int | None
    """First token-bearing event that is not reasoning."""
    end_ns: int
    arrivals: Arrivals
    status: Status
    error: str | None
    http_status: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    token_source: TokenSource
    stamp_source: StampSource
    reused_connection: bool
    answer: Answer | None = None
    """Only where it was asked for; never kept in a record."""


@dataclass(frozen=True, slots=True)
class Threading:
    """How a prompt with real answers came about (`live` replay).

    Of the assistant's parts in it `live` are real answers, and `canned` recorded ones in the place
    of an answer that could not be had.
    """

    recorded_tokens: int
    """The recorded length of the context."""
    live: int
    canned: int


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """All that is kept of one request: who asked for it, what was asked, what came back."""

    request_id: str
    phase: Phase
    lane: int
    play: int
    turn: int
    session: str
    agent: str
    parent_agent: str | None
    ready_ns: int
    scheduled_ns: int
    dequeued_ns: int
    input_tokens: int
    """Tokens the workload meant to send; `exchange.prompt_tokens` is what the server counted."""
    max_tokens: int
    exchange: Exchange
    threading: Threading | None = None
    """None where the recorded context was sent."""

    @property
    def first_token_ns(self) -> int | None:
        """Stamp of the first token-bearing event."""
        at = self.exchange.arrivals.at_ns
        return int(at[0]) if len(at) else None

    @property
    def last_token_ns(self) -> int | None:
        """Stamp of the last token-bearing event."""
        at = self.exchange.arrivals.at_ns
        return int(at[-1]) if len(at) else None

    @property
    def output_tokens(self) -> int | None:
        """Server usage, else what the chunks counted, else one an event; else None."""
        if self.exchange.completion_tokens is not None:
            return self.exchange.completion_tokens
        arrivals = self.exchange.arrivals
        counted = len(arrivals) if arrivals.tokens is None else int(arrivals.tokens.sum())
        return counted or None


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a time series, e.g. `client.in_flight` or `engine.running`."""

    at_ns: int
    name: str
    labels: str
    value: float


@dataclass(frozen=True, slots=True)
class Window:
    """The measured interval; `declared_s` is what the plan asked, `complete` that it was had."""

    kind: Literal["duration", "requests"]
    start_ns: int
    end_ns: int
    declared_s: float | None
    complete: bool
    stop_reason: str | None

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return (self.end_ns - self.start_ns) / 1e9
