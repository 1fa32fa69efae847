"""One lane and what it holds, the tally of a load, and the record of an exchange. No clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from inferometer.core import (
    Canned,
    ClientSettings,
    Exchange,
    Phase,
    Prompt,
    Record,
    Request,
    Status,
    Threading,
    Turn,
    WorkloadSettings,
)
from inferometer.load.play import Play, Ready
from inferometer.load.transport import Follower

FEW_REQUESTS = 10
"""Below this many finished requests a share of failures says nothing, unless all have failed."""


@dataclass(frozen=True, slots=True)
class LanesConfig:
    """What the lanes need of a launch plan. `tag` begins every request id of the run."""

    lanes: int
    tag: str
    max_model_len: int | None
    client: ClientSettings
    workload: WorkloadSettings
    lead_ns: int = 0
    """So long before its gap ends a turn is given to the transport, which sends it at the end."""


class Lane:
    """One unit of concurrency, and the play it holds."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.number = -1
        self.play: Play | None = None
        self.upcoming: Play | None = None
        """The next one, made ready while this one is under way."""
        self.open: dict[str, Turn] = {}
        """Requests that are under way, by id."""
        self.successor: Follower | None = None
        """What leaves by itself when the open request has ended well."""
        self.idle_since_ns = 0
        self.warm_left = 0
        """Warm-up requests still to be sent."""
        self.warming: set[str] = set()
        """Warm-up requests on their way."""
        self.warm = False
        self.fruitless = 0
        """Sessions in a row of which no turn could be sent."""

    def next(self) -> Lane:
        """The lane as it will be when its next session begins."""
        coming = Lane(self.index)
        coming.number, coming.play = self.number + 1, self.upcoming
        return coming


class Due(NamedTuple):
    """A turn in its recorded gap."""

    lane: Lane
    ready: Ready


class Tally:
    """How many requests were sent and how they ended, as they do."""

    def __init__(self) -> None:
        self.sent = 0
        self.ok = 0
        self.failed = 0

    def count(self, exchange: Exchange, stop_failed_share: float) -> str | None:
        """Count one that ended; the reason to stop where too many have failed."""
        if exchange.status is Status.OK:
            self.ok += 1
            return None
        if not exchange.status.failed:
            return None
        self.failed += 1
        finished = self.ok + self.failed
        if self.failed <= stop_failed_share * finished:
            return None
        if finished < FEW_REQUESTS and (self.ok or finished < 3):
            return None
        last = f"{exchange.status}: {exchange.error or 'no further detail'}"
        return f"{self.failed} of {finished} requests failed; the last: {last}"


def max_tokens(lane: Lane, turn: Turn, lanes: int) -> int:
    """Output to ask for: in warm-up one token, or the turn's own cut to its lane's share."""
    if lane.warm_left == 0:
        return turn.output_tokens
    if lane.play is not None and len(lane.play.session.turns) > 1:
        return 1
    # Lanes that all start at once would stay in step: the first answers of single requests are cut
    # to different lengths, so that the window opens on lanes spread over a whole request.
    return math.ceil(turn.output_tokens * (lane.index + 1) / lanes)


def request_of(
    lane: Lane, item: Ready, config: LanesConfig, phase: Phase, prompt: Prompt
) -> Request:
    """A turn of the lane's play as it is about to be sent."""
    assert lane.play is not None
    turn = item.turn
    tag = f"{config.tag}-{lane.index:04d}-{lane.number:04d}"
    return Request(
        id=f"{tag}-{turn.index:05d}",
        phase=phase,
        lane=lane.index,
        play=lane.number,
        turn=turn.index,
        session=lane.play.session.id,
        agent=turn.agent,
        parent_agent=turn.parent_agent,
        affinity=tag,
        prompt=prompt,
        max_tokens=max_tokens(lane, turn, config.lanes),
        ready_ns=item.ready_ns,
        # During warm-up a turn does not wait for its gap: it is due when it is ready.
        scheduled_ns=item.ready_ns if lane.warm_left > 0 else item.due_ns,
        recorded_tokens=turn.input_tokens if config.workload.replies == "live" else None,
    )


def record_of(request: Request, dequeued_ns: int, exchange: Exchange) -> Record:
    """All that is kept of one request: of an answer's text, nothing."""
    if exchange.answer is not None:
        exchange = replace(exchange, answer=None)
    return Record(
        request_id=request.id,
        phase=request.phase,
        lane=request.lane,
        play=request.play,
        turn=request.turn,
        session=request.session,
        agent=request.agent,
        parent_agent=request.parent_agent,
        ready_ns=request.ready_ns,
        scheduled_ns=request.scheduled_ns,
        dequeued_ns=dequeued_ns,
        input_tokens=request.prompt.tokens,
        max_tokens=request.max_tokens,
        exchange=exchange,
        threading=_threading(request),
    )


def _threading(request: Request) -> Threading | None:
    """What the answers in a prompt are; None where the recorded context was sent."""
    if request.recorded_tokens is None:
        return None
    answers = request.prompt.parts[1::2]
    canned = sum(isinstance(answer, Canned) for answer in answers)
    return Threading(request.recorded_tokens, len(answers) - canned, canned)
