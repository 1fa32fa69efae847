"""Sessions under way: N lanes in a closed loop, or arrivals by a schedule in an open one.

A closed lane holds one session until its whole tree has drained, then takes its next. In an open
loop every arrival is a lane of its own, of one session.

The one coordinator of a load: it decides which turn is sent and when, counts failures as they
come, and turns what the transport saw into records. It knows no socket and no tokenizer; time
comes from the clock. Replay rules `agentx-1`: docs/replay.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from inferometer.clock import NS, Clock
from inferometer.core import Exchange, Phase, Prompt, Record, Request, Status, Turn
from inferometer.load.lane import Due, Lane, LanesConfig, Tally, record_of, request_of
from inferometer.load.openloop import OpenLoop
from inferometer.load.pacers import lane_starts
from inferometer.load.play import Play, Ready
from inferometer.load.successors import Successors, begun
from inferometer.load.timers import Timers
from inferometer.load.transport import Follower, Following, Transport
from inferometer.load.workload import Workload

T = TypeVar("T")

LATER_S = 0.001
"""A request is written within two turns of the loop, which take far less."""
FRUITLESS_SESSIONS = 1_000
"""After this many sessions in a row that exceed the context limit, a lane has nothing to send."""


class Lanes:
    """Runs the lanes: `on_record` takes each finished request, `stop_reason` says why they stop.

    `prepare` is given prompts some time before they are sent, to do what can be done by then;
    `following` requests that leave without being asked for when the one before has ended.
    """

    def __init__(
        self,
        config: LanesConfig,
        workload: Workload,
        transport: Transport,
        clock: Clock,
        on_record: Callable[[Record], None],
        prepare: Callable[[Prompt], None] | None = None,
        following: Following | None = None,
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
        self.tally = Tally()
        self.measured_sent = 0
        self.context_overflows = 0
        self._workload = workload
        self._transport = transport
        self._clock = clock
        self._on_record = on_record
        self._prepare = prepare
        self._successors: Successors | None = None
        if following is not None:
            self._successors = Successors(config, workload, following, self.timers.waits)
        self._sending = True
        self._cold_lanes = config.lanes
        self._idle_since_ns = 0
        self._wake: asyncio.TimerHandle | None = None
        self._wake_ns: int | None = None
        self._arrivals: OpenLoop | None = None
        self._later: list[Callable[[], None]] = []
        self._filing: asyncio.TimerHandle | None = None
        self._fruitless = 0
        """Arrivals in a row of which no turn could be sent."""

    def start(self) -> None:
        """Give every lane its first session, or begin to wait for arrivals."""
        now_ns, settings = self._clock.now_ns(), self.config.workload
        if settings.open_loop:
            self._arrivals = OpenLoop(self.config.lanes, settings, self._workload, now_ns)
            self._fire()
            return
        starts = zip(self.lanes, lane_starts(self.config.lanes, settings), strict=True)
        at_once = []
        for lane, offset_ns in starts:
            if offset_ns == 0:
                at_once.append(lane)
            else:
                begin_ns = now_ns + offset_ns
                asyncio.get_running_loop().call_at(begin_ns / NS, self._join, [lane], begin_ns)
        self._join(at_once, now_ns)

    def close_arrivals(self, end_ns: int) -> tuple[int, int] | None:
        """(due, not sent) arrivals of the window that ends at `end_ns`; None in a closed loop.

        Those of a counted window that are beyond the count are none of its own.
        """
        if self._arrivals is None:
            return None
        return self._arrivals.close(end_ns, counted=self.config.workload.requests is not None)

    def _join(self, lanes: list[Lane], at_ns: int) -> None:
        """Lanes take up their first sessions."""
        if not self._sending:
            return
        # Two rounds: where no lane warms up, the window is open before the first request.
        skipped = [self._begin(lane) for lane in lanes]
        for lane, turns in zip(lanes, skipped, strict=True):
            self._play(lane, turns, at_ns)
        self._settle()

    def stop_sending(self) -> None:
        """Start no further turn; what is open goes on."""
        self._sending = False
        if self._successors is not None:
            self._successors.close()
        if self._wake is not None:
            self._wake.cancel()
        if not self.open:
            self.drained.set()

    def stop(self, reason: str) -> None:
        """Give up: the first reason stands."""
        self.stop_reason = self.stop_reason or reason
        self.stop_sending()
        self.stopped.set()

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

    def _arrive(self, arrivals: OpenLoop, now_ns: int) -> None:
        """Begin every session that is due by now and has a place."""
        opens_ns = arrivals.schedule.opens_ns
        while self._sending and (arrival := arrivals.take(now_ns)) is not None:
            # Not before: what was due earlier is warm-up, also where it leaves late.
            if self.window_start_ns is None and arrival.due_ns >= opens_ns:
                self._open_window(opens_ns)
            lane = arrivals.lane(arrival)
            assert lane.play is not None
            ready = lane.play.start((), arrival.due_ns)
            self._take(lane, [r._replace(ready_ns=arrival.ready_ns) for r in ready])
            self._over(lane, arrival.ready_ns)
        if self.window_start_ns is None and now_ns >= opens_ns:
            self._open_window(opens_ns)

    def _over(self, lane: Lane, at_ns: int) -> None:
        """Where the lane's session has drained: the next, or the end of the lane."""
        if lane.play is None or not lane.play.drained:
            return
        self._workload.over(lane.index, lane.number)
        if self._arrivals is None:
            self._play(lane, self._begin(lane), at_ns)
            return
        self._fruitless = self._fruitless + 1 if lane.fruitless else 0
        self._arrivals.leave(at_ns)
        if self._fruitless > FRUITLESS_SESSIONS:
            self.stop(f"no session fits the context limit of {self.config.max_model_len}")

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
        if (left := begun(lane, turn, item)) is not None:
            self._follow(lane, turn, *left)
            return
        successors = self._successors
        if successors is not None and successors.holds(lambda: self._send(lane, item)):
            return
        if not self._sending:
            return
        prompt = None
        if turn.agent not in play.ended_agents:
            prompt = self._workload.prompt(play.session, turn, lane.index, lane.number)
        if prompt is None or self._overflows(prompt.tokens + turn.output_tokens):
            self._take(lane, play.failed(turn, self._clock.now_ns()))
            return
        phase = Phase.WARMUP if self.window_start_ns is None else Phase.MEASURED
        request = request_of(lane, item, self.config, phase, prompt)
        self._workload.sent(play.session, turn, request)
        self._follow(lane, turn, request)

    def _follow(
        self, lane: Lane, turn: Turn, request: Request, left: Follower | None = None
    ) -> None:
        """Count a request that is sent now, or has `left` by itself, and wait for its answer."""
        lane.open[request.id] = turn
        lane.fruitless = 0
        if lane.warm_left > 0:
            lane.warm_left -= 1
            lane.warming.add(request.id)
        self.tally.sent += 1
        self.measured_sent += request.phase is Phase.MEASURED
        task = asyncio.create_task(self._exchange(lane, turn, request, left))
        task.add_done_callback(self._note_fault)
        self.open[request.id] = task
        self._check_requests()
        opening = self._arrivals
        if opening.looks_out if opening is not None else lane.upcoming is None:
            self._after_sends(self._look_ahead, lane)
        elif self._successors is not None:
            self._after_sends(self._successors.look_at, lane)

    def _note_fault(self, task: asyncio.Task[None]) -> None:
        """A fault of ours must not leave the load waiting; whoever awaits the task raises it."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.stop(f"the client failed: {fault!r}")

    def _look_ahead(self, lane: Lane) -> None:
        """Have the lane's next session ready: making one takes time, and a lane must not wait."""
        if not self._sending:
            return
        if self._arrivals is not None:
            coming = self._arrivals.look_out()
        elif lane.upcoming is None:
            lane.upcoming = Play(self._workload.session(lane.index, lane.number + 1))
            coming = (lane.index, lane.number + 1, lane.upcoming)
            if self._successors is not None:
                self._successors.look_at(lane)
        else:
            coming = None
        if coming is not None and self._prepare is not None:
            index, number, play = coming
            first = play.session.turns[0]
            self._prepare(self._workload.prompt(play.session, first, index, number))

    def _make_ready(self, due: Due) -> None:
        """Have the prompt of a waiting turn rendered before it is due."""
        play = due.lane.play
        if self._prepare is not None and play is not None and self._sending and not play.drained:
            turn = due.ready.turn
            where = (due.lane.index, due.lane.number)
            self._prepare(self._workload.prompt(play.session, turn, *where))

    def _overflows(self, tokens: int) -> bool:
        limit = self.config.max_model_len
        over = limit is not None and tokens > limit
        self.context_overflows += over
        return over

    async def _exchange(
        self, lane: Lane, turn: Turn, request: Request, left: Follower | None
    ) -> None:
        begun_ns = None if left is None else left.begun_ns
        dequeued_ns = begun_ns or max(self._clock.now_ns(), request.scheduled_ns)
        exchange = await (self._transport.send(request) if left is None else left.exchange())
        del self.open[request.id], lane.open[request.id]
        if lane.successor is not None and lane.successor.begun_ns is None:
            lane.successor = None  # it was not to be
        self._workload.heard(turn, request, exchange)
        self._count(exchange)
        if request.id in lane.warming:
            lane.warming.remove(request.id)
            self._note_warm(lane)
        if self._sending or lane.successor is not None:
            self._go_on(lane, turn, exchange)
        elif not self.open:
            self.drained.set()
        assert lane.successor is None or lane.successor.begun_ns is None  # what left was taken up
        self._after_sends(self._on_record, record_of(request, dequeued_ns, exchange))

    def _after_sends(self, work: Callable[[T], None], item: T) -> None:
        """Do it a little later, with whatever else waits: what is to be sent now leaves first."""
        self._later.append(lambda: work(item))
        if self._filing is None:
            self._filing = asyncio.get_running_loop().call_later(LATER_S, self.file)

    def file(self) -> None:
        """Do all that waits: hand over records, make ready what comes next."""
        if self._filing is not None:
            self._filing.cancel()
            self._filing = None
        later, self._later = self._later, []
        for work in later:
            work()

    def _go_on(self, lane: Lane, turn: Turn, exchange: Exchange) -> None:
        play = lane.play
        assert play is not None
        lane.idle_since_ns = exchange.end_ns
        self._idle_since_ns = max(self._idle_since_ns, exchange.end_ns)
        step = play.done if exchange.status is Status.OK else play.failed
        self._take(lane, step(turn, exchange.end_ns))
        self._over(lane, exchange.end_ns)
        if self._arrivals is not None:
            self._arrive(self._arrivals, self._clock.now_ns())
        self._settle(lane)

    def _count(self, exchange: Exchange) -> None:
        reason = self.tally.count(exchange, self.config.client.stop_failed_share)
        if reason is not None:
            self.stop(reason)

    def _note_warm(self, lane: Lane) -> None:
        if lane.warm or lane.warm_left or lane.warming:
            return
        lane.warm = True
        self._cold_lanes -= 1
        if self._cold_lanes == 0:
            self._open_window(self._clock.now_ns())

    def _open_window(self, at_ns: int) -> None:
        self.window_start_ns = at_ns
        if self._arrivals is None:
            duration_s = self.config.workload.duration_s
            until_ns = None if duration_s is None else at_ns + round(duration_s * NS)
            self.timers.lead(self.config.lead_ns, until_ns)
        if self._successors is not None:
            self._successors.open(at_ns, self.lanes)
        self.all_warm.set()

    def _check_requests(self) -> None:
        wanted = self.config.workload.requests
        if wanted is not None and self.measured_sent >= wanted:
            self.stop_sending()
        elif self._successors is not None:
            self._successors.sent(self.measured_sent)

    def _settle(self, lane: Lane | None = None) -> None:
        """After every change: apply the idle caps where something fell idle, set the alarm."""
        rules = self.config.workload
        if lane is not None and not lane.open:
            self.timers.cap_tree(lane, lane.idle_since_ns, round(rules.tree_idle_cap_s * NS))
        # In an open loop arrivals end what is idle, when they are due.
        if not self.open and self._arrivals is None:
            self.timers.cap_system(self._idle_since_ns, round(rules.system_idle_cap_s * NS))
        next_ns = self._next_ns()
        over = next_ns is None and not self.open and self._sending
        if over and self._arrivals is not None and rules.requests is not None:
            # Nothing is open and nothing will come: a declared count cannot be had any more.
            count = self._arrivals.schedule.taken
            self.stop(f"the workload ended: it has {count} arrivals")
        if next_ns == self._wake_ns and self._wake is not None and not self._wake.cancelled():
            return
        if self._wake is not None:
            self._wake.cancel()
        if next_ns is not None and self._sending:
            self._wake_ns = next_ns
            wake_ns = next_ns - self.timers.lead_ns(next_ns)
            self._wake = asyncio.get_running_loop().call_at(wake_ns / NS, self._fire)

    def _next_ns(self) -> int | None:
        """When there is something to do next, unless an answer ends first."""
        due_ns = self.timers.next_due_ns()
        if self._arrivals is None:
            return due_ns
        opens_ns = self._arrivals.schedule.opens_ns if self.window_start_ns is None else None
        times = (due_ns, self._arrivals.next_ns, opens_ns)
        return min((at_ns for at_ns in times if at_ns is not None), default=None)

    def _fire(self) -> None:
        """Send every turn whose gap has run out, or is about to: due where caps moved it to."""
        self._wake = None
        now_ns = self._clock.now_ns()
        for due_ns, due in self.timers.pop_due(now_ns + self.timers.lead_ns(now_ns)):
            self._send(due.lane, due.ready._replace(due_ns=due_ns))
            self._over(due.lane, due_ns)
        if self._arrivals is not None:
            self._arrive(self._arrivals, now_ns)
        self._settle()
