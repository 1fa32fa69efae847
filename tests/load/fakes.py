"""A transport that answers by rule, and a workload of given sessions: virtual time only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from examples import AGENTIC
from inferometer.clock import NS, VirtualClock, VirtualLoop, run_virtual
from inferometer.core import (
    Arrivals,
    ClientReport,
    ClientSettings,
    Exchange,
    Prompt,
    Record,
    Request,
    Session,
    Status,
    Turn,
    WorkloadSettings,
)
from inferometer.load.drive import Drive
from inferometer.load.lane import LanesConfig

MS = 1_000_000

CLIENT = ClientSettings("chat", 1, 1, 1, 1, True, True, 0.0, None, 0.10, 5.0)
WORKLOAD = replace(AGENTIC, warmup_requests_per_lane=0, warmup_grace_s=600.0)


def chain(name: str, turns: int, gap_s: float, output: int = 4, first_gap_ns: int = 0) -> Session:
    """A session of `turns` root turns, `gap_s` apart."""
    gap_ns = round(gap_s * NS)
    blocks = np.arange(1, dtype=np.int64)
    return Session(
        name,
        64,
        tuple(
            Turn(
                i,
                "root",
                None,
                (i - 1,) if i else (),
                first_gap_ns if i == 0 else gap_ns,
                blocks,
                64,
                output,
            )
            for i in range(turns)
        ),
    )


@dataclass(frozen=True)
class FakeStart:
    skipped: frozenset[int] = frozenset()
    warmup: int = 0


class FakeWorkload:
    """The same session for every play."""

    def __init__(self, session: Session, start: FakeStart | None = None) -> None:
        self._session = session
        self._start = start or FakeStart()

    wrapped_lanes = 0
    starts: Sequence[int] = ()

    def session(self, lane: int, play: int) -> Session:
        return self._session

    def start(self, lane: int) -> FakeStart:
        return self._start

    def starts_ns(self) -> Sequence[int]:
        return self.starts

    def prompt(self, session: Session, turn: Turn, lane: int, play: int) -> Prompt:
        blocks = turn.block_ids[: turn.input_tokens // 64]
        return Prompt(blocks, 64, turn.input_tokens - 64 * len(blocks), turn.index)

    def sent(self, session: Session, turn: Turn, request: Request) -> None:
        return None

    def heard(self, turn: Turn, request: Request, exchange: Exchange) -> None:
        return None

    def over(self, lane: int, play: int) -> None:
        return None

    def notes(self) -> Mapping[str, float]:
        return {}


class FakeFollower:
    """A request that leaves by itself."""

    def __init__(self, request: Request, until_ns: int | None) -> None:
        self.request = request
        self.until_ns = until_ns
        self.begun_ns: int | None = None
        self.going: asyncio.Future[Exchange] | None = None

    async def exchange(self) -> Exchange:
        assert self.going is not None
        return await self.going


class FakeTransport:
    """Answers every request after `seconds(request)` with one event a token, or a status."""

    def __init__(
        self,
        clock: VirtualClock,
        seconds: Callable[[Request], float],
        status: Callable[[Request], Status] = lambda _: Status.OK,
    ) -> None:
        self.tokens_seen = 0
        self.open = 0
        self.most_open = 0
        self.sent: list[Request] = []
        self.handed_ns: dict[str, int] = {}
        """When each was given to it."""
        self._clock = clock
        self._seconds = seconds
        self._status = status
        self._aborts: dict[str, asyncio.Future[Status]] = {}
        self.followers: dict[str, FakeFollower] = {}
        """What waits, by the id of the request that it follows."""
        self.begun: list[str] = []
        """What left by itself."""

    def follow(self, request: Request, after: str, until_ns: int | None) -> FakeFollower | None:
        assert after not in self.followers
        if after not in self._aborts:
            return None  # it has ended
        follower = self.followers[after] = FakeFollower(request, until_ns)
        return follower

    def recall(self, done: Callable[[], None]) -> None:
        self.followers.clear()
        done()

    def _end(self, request: Request, status: Status, now_ns: int) -> None:
        """As a worker does: what follows leaves before anybody hears of the end."""
        del self._aborts[request.id]
        follower = self.followers.pop(request.id, None)
        if follower is None or status is not Status.OK:
            return
        if follower.until_ns is None or now_ns < follower.until_ns:
            follower.begun_ns = now_ns
            follower.going = asyncio.ensure_future(self.send(follower.request))
            self.begun.append(follower.request.id)

    async def send(self, request: Request) -> Exchange:
        self.sent.append(request)
        self.handed_ns[request.id] = self._clock.now_ns()
        abort = self._aborts[request.id] = asyncio.get_running_loop().create_future()
        if self._clock.now_ns() < request.scheduled_ns:  # as a worker does
            await self._clock.sleep_until(request.scheduled_ns)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        sent_ns = self._clock.now_ns()
        await asyncio.wait([abort], timeout=self._seconds(request))
        self.open -= 1
        status = abort.result() if abort.done() else self._status(request)
        now = self._clock.now_ns()
        self._end(request, status, now)
        count = request.max_tokens if status is Status.OK else 0
        at_ns = np.linspace(sent_ns, now, count + 1, dtype=np.int64)[1:]
        self.tokens_seen += count
        return Exchange(
            connected_ns=None,
            sent_ns=sent_ns,
            body_sent_ns=sent_ns,
            first_byte_ns=int(at_ns[0]) if count else None,
            first_visible_ns=int(at_ns[0]) if count else None,
            end_ns=now,
            arrivals=Arrivals(at_ns, np.ones(count, dtype=np.int32), None),
            status=status,
            error=None if status is Status.OK else "by rule",
            http_status=200,
            prompt_tokens=request.prompt.tokens,
            cached_tokens=None,
            completion_tokens=count or None,
            token_source="usage_per_chunk",
            stamp_source="virtual",
            reused_connection=False,
        )

    def abort(self, request_id: str, status: Status) -> None:
        # One that has begun by itself may be aborted before its turn of the loop.
        if request_id in self._aborts and not self._aborts[request_id].done():
            self._aborts[request_id].set_result(status)

    async def close(self) -> None:
        return None


@dataclass(frozen=True)
class Outcome:
    report: ClientReport
    records: list[Record]
    transport: FakeTransport


def drive(
    workload: FakeWorkload,
    settings: WorkloadSettings,
    lanes: int,
    seconds: Callable[[Request], float],
    status: Callable[[Request], Status] = lambda _: Status.OK,
    max_model_len: int | None = None,
    driven: list[Drive] | None = None,
    prepared: Callable[[Prompt, int], None] = lambda *_: None,
    following: bool = False,
    lead_ns: int = 0,
) -> Outcome:
    """Run a whole load in virtual time."""
    loop = VirtualLoop()
    clock = VirtualClock(loop)
    transport = FakeTransport(clock, seconds, status)
    records: list[Record] = []

    async def main() -> ClientReport:
        config = LanesConfig(lanes, "t", max_model_len, CLIENT, settings, lead_ns)

        def prepare(prompt: Prompt) -> None:
            prepared(prompt, clock.now_ns())

        follows = transport if following else None
        made = Drive(config, workload, transport, clock, records.append, prepare, follows)
        if driven is not None:
            driven.append(made)
        return await made.run()

    return Outcome(run_virtual(main(), loop), records, transport)
