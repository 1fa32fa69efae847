"""N lanes in a closed loop: each holds one session until its whole tree has drained.

The one coordinator of a load: it decides which turn is sent and when, counts failures as they
come, and turns what the transport saw into records. It knows no socket and no tokenizer; time
comes from the clock. Replay rules `agentx-1`: docs/replay.md.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from inferometer.clock import NS, Clock
from inferometer.core import (
    ClientSettings,
    Exchange,
    Phase,
    Prompt,
    Record,
    Request,
    Session,
    Status,
    Turn,
    WorkloadSettings,
)
from inferometer.load.play import Play, Ready
from inferometer.load.timers import Timers
from inferometer.load.transport import Transport

T = TypeVar("T")

FEW_REQUESTS = 10
"""Below this many finished requests a share of failures says nothing, unless all have failed."""
FRUITLESS_SESSIONS = 1_000
"""After this many sessions in a row that exceed the context limit, a lane has nothing to send."""


class Start(Protocol):
    """Where a lane's first play begins: turns taken as done, and how many follow as warm-up."""

    @property
    def skipped(self) -> frozenset[int]: ...

    @property
    def warmup(self) -> int: ...


class Workload(Protocol):
    """What is sent: sessions as a function of (seed, lane, play), never of who finished first."""

    @property
    def wrapped_lanes(self) -> int: ...

    def session(self, lane: int, play: int) -> Session: ...

    def start(self, lane: int) -> Start: ...

    def prompt(self, session: Session, turn: Turn, lane: int, play: int) -> Prompt: ...

    def notes(self) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True)
class LanesConfig:
    """What the lanes need of a launch plan. `tag` begins every request id of the run."""

    lanes: int
    tag: str
    max_model_len: int | None
    client: ClientSettings
    workload: WorkloadSettings


class Lane:
    """One unit of concurrency, and the play it holds."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.number = -1
        self.play: Play | None = None
        self.upcoming: Play | None = None
        """The next one, made ready while this one is under way."""
        self.open = 0
        self.idle_since_ns = 0
        self.warm_left = 0
        """Warm-up requests still to be sent."""
        self.warming: set[str] = set()
        """Warm-up requests on their way."""
        self.warm = False
        self.fruitless = 0
        """Sessions in a row of which no turn could be sent."""


class Due(NamedTuple):
    """A turn in its recorded gap."""

    lane: Lane
    ready: Ready


class Lanes:
    """Runs the lanes: `on_record` takes each finished request, `stop_reason` says why they stop.

    `prepare` is given prompts some time before they are sent, to do what can be done by then.
    """

    def __init__(
        self,
        config: LanesConfig,
        workload: Workload,
        transport: Transport,
        clock: Clock,
        on_record: Callable[[Record], None],
        prepare: Callable[[Prompt], None] | None = None,
    ) -> None:
        self.config = config
        self.timers: Timers[Lane, Due] = Timers()
        self.lanes = [Lane(index) for index in range(config.lanes)]
        self.all_warm = asyncio.Event()
        self.stopped = asyncio.Event()
        self.drained = asyncio.Event()
        self.stop_reason: str | None = None
        self.window_start_ns: int | None = None
        """When the last lane became warm: the hand-over, from which on requests are measured."""
        self.open: dict[str, asyncio.Task[None]] = {}
        self.counts = {"sent": 0, "ok": 0, "failed": 0}
        self.measured_sent = 0
        self.context_overflows = 0
        self.last_error: str | None = None
        self._workload = workload
        self._transport = transport
        self._clock = clock
        self._on_record = on_record
        self._prepare = prepare
        self._sending = True
        self._cold_lanes = config.lanes
        self._idle_since_ns = 0
        self._wake: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Give every lane its first session."""
        now_ns = self._clock.now_ns()
        # Two rounds: where no lane warms up, the window is open before the first request.
        skipped = [self._begin(lane) for lane in self.lanes]
        for lane, turns in zip(self.lanes, skipped, strict=True):
            self._play(lane, turns, now_ns)
        self._settle()

    def stop_sending(self) -> None:
        """Start no further turn; what is open goes on."""
        self._sending = False
        if self._wake is not None:
            self._wake.cancel()
        if not self.open:
            self.drained.set()

    def stop(self, reason: str) -> None:
        """Give up: the first reason stands."""
        self.stop_reason = self.stop_reason or reason
        self.stop_sending()
        self.stopped.set()

    def pending_gaps(self) -> tuple[tuple[int, int], ...]:
        """(lane, ready_ns) of every turn that is still in its recorded gap."""
        return tuple((due.lane.index, due.ready.ready_ns) for _, due in self.timers.pending())

    def _begin(self, lane: Lane) -> frozenset[int]:
        """Give a lane its next session; the turns of its first play that are taken as done."""
        lane.number += 1
        lane.fruitless += 1
        lane.play = lane.upcoming or Play(self._workload.session(lane.index, lane.number))
        lane.upcoming = None
        if lane.number > 0:
            return frozenset()
        begin = self._workload.start(lane.index)
        lane.warm_left = begin.warmup
        self._note_warm(lane)
        return begin.skipped

    def _play(self, lane: Lane, skipped: frozenset[int], at_ns: int) -> None:
        """Start the lane's session; where not one turn could be sent, take the next."""
        while lane.play is not None:
            if lane.fruitless > FRUITLESS_SESSIONS:
                self.stop(f"no session fits the context limit of {self.config.max_model_len}")
                return
            self._take(lane, lane.play.start(skipped, at_ns))
            if not lane.play.drained:
                return
            skipped = self._begin(lane)

    def _take(self, lane: Lane, ready: list[Ready]) -> None:
        """Send what is due, set a timer for the rest."""
        now_ns = self._clock.now_ns()
        for item in ready:
            if item.due_ns <= now_ns or lane.warm_left > 0:
                self._send(lane, item)
            else:
                self.timers.add(lane, item.due_ns, Due(lane, item))
                self._after_sends(self._make_ready, Due(lane, item))

    def _send(self, lane: Lane, item: Ready) -> None:
        play, turn = lane.play, item.turn
        assert play is not None
        if not self._sending:
            return
        if turn.agent in play.ended_agents or self._overflows(turn):
            self._take(lane, play.failed(turn, self._clock.now_ns()))
            return
        request = self._request(lane, item)
        lane.open += 1
        lane.fruitless = 0
        if lane.warm_left > 0:
            lane.warm_left -= 1
            lane.warming.add(request.id)
        self.counts["sent"] += 1
        self.measured_sent += request.phase is Phase.MEASURED
        task = asyncio.create_task(self._exchange(lane, turn, request))
        task.add_done_callback(self._note_fault)
        self.open[request.id] = task
        self._check_requests()
        if lane.upcoming is None:
            self._after_sends(self._look_ahead, lane)

    def _note_fault(self, task: asyncio.Task[None]) -> None:
        """A fault of ours must not leave the load waiting; whoever awaits the task raises it."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.stop(f"the client failed: {fault!r}")

    def _look_ahead(self, lane: Lane) -> None:
        """Have the lane's next session ready: making one takes time, and a lane must not wait."""
        if lane.upcoming is None and self._sending:
            session = self._workload.session(lane.index, lane.number + 1)
            lane.upcoming = Play(session)
            if self._prepare is not None:
                first = session.turns[0]
                self._prepare(self._workload.prompt(session, first, lane.index, lane.number + 1))

    def _make_ready(self, due: Due) -> None:
        """Have the prompt of a waiting turn rendered before it is due."""
        play = due.lane.play
        if self._prepare is not None and play is not None and self._sending:
            turn = due.ready.turn
            where = (due.lane.index, due.lane.number)
            self._prepare(self._workload.prompt(play.session, turn, *where))

    def _overflows(self, turn: Turn) -> bool:
        limit = self.config.max_model_len
        over = limit is not None and turn.input_tokens + turn.output_tokens > limit
        self.context_overflows += over
        return over

    def _request(self, lane: Lane, item: Ready) -> Request:
        assert lane.play is not None
        turn, session = item.turn, lane.play.session
        tag = f"{self.config.tag}-{lane.index:04d}-{lane.number:04d}"
        return Request(
            id=f"{tag}-{turn.index:05d}",
            phase=Phase.WARMUP if self.window_start_ns is None else Phase.MEASURED,
            lane=lane.index,
            play=lane.number,
            turn=turn.index,
            session=session.id,
            agent=turn.agent,
            parent_agent=turn.parent_agent,
            affinity=tag,
            prompt=self._workload.prompt(session, turn, lane.index, lane.number),
            max_tokens=self._max_tokens(lane, turn),
            ready_ns=item.ready_ns,
            # During warm-up a turn does not wait for its gap: it is due when it is ready.
            scheduled_ns=item.ready_ns if lane.warm_left > 0 else item.due_ns,
        )

    def _max_tokens(self, lane: Lane, turn: Turn) -> int:
        if lane.warm_left == 0:
            return turn.output_tokens
        if lane.play is not None and len(lane.play.session.turns) > 1:
            return 1
        # Lanes that all start at once would stay in step: the first answers of single requests are
        # cut to different lengths, so that the window opens on lanes spread over a whole request.
        return math.ceil(turn.output_tokens * (lane.index + 1) / self.config.lanes)

    async def _exchange(self, lane: Lane, turn: Turn, request: Request) -> None:
        dequeued_ns = self._clock.now_ns()
        exchange = await self._transport.send(request)
        del self.open[request.id]
        lane.open -= 1
        self._count(exchange)
        if request.id in lane.warming:
            lane.warming.remove(request.id)
            self._note_warm(lane)
        if self._sending:
            self._go_on(lane, turn, exchange)
        elif not self.open:
            self.drained.set()
        self._after_sends(self._on_record, _record(request, dequeued_ns, exchange))

    def _after_sends(self, work: Callable[[T], None], item: T) -> None:
        """Do it three turns of the loop later: by then what is to be sent now has left."""
        later = asyncio.get_running_loop().call_soon
        later(later, later, work, item)

    def _go_on(self, lane: Lane, turn: Turn, exchange: Exchange) -> None:
        play = lane.play
        assert play is not None
        lane.idle_since_ns = exchange.end_ns
        self._idle_since_ns = max(self._idle_since_ns, exchange.end_ns)
        step = play.done if exchange.status is Status.OK else play.failed
        self._take(lane, step(turn, exchange.end_ns))
        if play.drained:
            self._play(lane, self._begin(lane), exchange.end_ns)
        self._settle(lane)

    def _count(self, exchange: Exchange) -> None:
        if exchange.status is Status.OK:
            self.counts["ok"] += 1
        elif exchange.status.failed:
            self.counts["failed"] += 1
            self.last_error = f"{exchange.status}: {exchange.error or 'no further detail'}"
        failed, finished = self.counts["failed"], self.counts["ok"] + self.counts["failed"]
        too_many = failed > self.config.client.stop_failed_share * finished
        if too_many and (finished >= FEW_REQUESTS or (failed == finished and finished >= 3)):
            self.stop(f"{failed} of {finished} requests failed; the last: {self.last_error}")

    def _note_warm(self, lane: Lane) -> None:
        if lane.warm or lane.warm_left or lane.warming:
            return
        lane.warm = True
        self._cold_lanes -= 1
        if self._cold_lanes == 0:
            self.window_start_ns = self._clock.now_ns()
            self.all_warm.set()

    def _check_requests(self) -> None:
        wanted = self.config.workload.requests
        if wanted is not None and self.measured_sent >= wanted:
            self.stop_sending()

    def _settle(self, lane: Lane | None = None) -> None:
        """After every change: apply the idle caps where something fell idle, set the alarm."""
        rules = self.config.workload
        if lane is not None and lane.open == 0:
            self.timers.cap_tree(lane, lane.idle_since_ns, round(rules.tree_idle_cap_s * NS))
        if not self.open:
            self.timers.cap_system(self._idle_since_ns, round(rules.system_idle_cap_s * NS))
        if self._wake is not None:
            self._wake.cancel()
        next_ns = self.timers.next_due_ns()
        if next_ns is not None and self._sending:
            self._wake = asyncio.get_running_loop().call_at(next_ns / NS, self._fire)

    def _fire(self) -> None:
        """Send every turn whose gap has run out. Its due time is where the caps moved it to."""
        for due_ns, due in self.timers.pop_due(self._clock.now_ns()):
            self._send(due.lane, due.ready._replace(due_ns=due_ns))
            if due.lane.play is not None and due.lane.play.drained:
                self._play(due.lane, self._begin(due.lane), due_ns)
        self._settle()


def _record(request: Request, dequeued_ns: int, exchange: Exchange) -> Record:
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
    )
