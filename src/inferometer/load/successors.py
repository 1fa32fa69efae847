"""Which request follows the open one of a lane whatever happens, and is left with its worker.

Only where nothing but the end of the open request decides: a closed loop with recorded answers, the
window open, a lane with one request open and no gap running. All else the lanes send themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from inferometer.clock import NS
from inferometer.core import Phase, Request, Turn
from inferometer.load.lane import Lane, LanesConfig, request_of
from inferometer.load.play import Ready
from inferometer.load.transport import LARGE_TOKENS, Follower, Following
from inferometer.load.workload import Workload

AT_ONCE_NS = NS // 2000
"""How long requests are made in one turn of the loop; what comes meanwhile waits."""


class Successors:
    """Leaves them with the transport, in idle time, and says which have begun."""

    def __init__(
        self,
        config: LanesConfig,
        workload: Workload,
        transport: Following,
        gap_runs: Callable[[Lane], bool],
    ) -> None:
        settings = config.workload
        self._allowed = not settings.open_loop and settings.replies != "live"
        """False where answers, or a schedule, decide what is sent, and once nothing may leave."""
        self._opened = False
        self._recalling = False
        self._held: list[Callable[[], None]] = []
        """What is to be sent when it is known which requests have left by themselves."""
        self._config = config
        self._workload = workload
        self._transport = transport
        self._gap_runs = gap_runs
        self._until_ns: int | None = None
        self._lanes: deque[Lane] = deque()
        self._at_work = False

    def open(self, at_ns: int, lanes: list[Lane]) -> None:
        """The window is open from `at_ns` on."""
        self._opened = True
        duration_s = self._config.workload.duration_s
        self._until_ns = None if duration_s is None else at_ns + round(duration_s * NS)
        for lane in lanes:
            self.look_at(lane)

    def sent(self, measured: int) -> None:
        """So many requests were sent in a window that may be counted.

        What leaves by itself is counted afterwards, so there has to be room for one in every lane,
        and nothing else is sent until it is known what has left.
        """
        requests = self._config.workload.requests
        if requests is not None and requests - measured < self._config.lanes:
            self.close()

    def close(self) -> None:
        """None leaves by itself any more, but those that have."""
        if self._allowed:
            self._allowed = False
            self._recalling = True
            self._lanes.clear()
            self._transport.recall(self._recalled)

    def holds(self, send: Callable[[], None]) -> bool:
        """True where this has to wait until it is known what has left; it is done then."""
        if self._recalling:
            self._held.append(send)
        return self._recalling

    def _recalled(self) -> None:
        self._recalling = False
        held, self._held = self._held, []
        for send in held:
            send()

    def look_at(self, lane: Lane) -> None:
        """Something changed in it: when there is time, leave what follows."""
        if self._allowed and self._opened:
            self._lanes.append(lane)
            if not self._at_work:
                self._at_work = True
                asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        """What comes in between two goes is served first."""
        until_ns = time.monotonic_ns() + AT_ONCE_NS
        while self._lanes and time.monotonic_ns() < until_ns:
            self._leave(self._lanes.popleft())
        self._at_work = bool(self._lanes)
        if self._at_work:
            asyncio.get_running_loop().call_soon(self._work)

    def _leave(self, lane: Lane) -> None:
        if lane.successor is not None or len(lane.open) != 1 or self._gap_runs(lane):
            return
        ((before, turn),) = lane.open.items()
        coming = self._coming(lane, turn)
        request = None if coming is None else self._request(*coming)
        if request is not None:
            lane.successor = self._transport.follow(request, before, self._until_ns)

    def _coming(self, lane: Lane, turn: Turn) -> tuple[Lane, Turn] | None:
        """What is due the moment `turn` has succeeded, and the lane as it will be then."""
        play = lane.play
        assert play is not None
        if freed := play.freed_by(turn):
            after, there = freed, lane
        elif play.ends_with(turn) and lane.upcoming is not None:
            after, there = lane.upcoming.first, lane.next()
        else:
            return None
        # The first of several: whatever becomes of the others, it is sent before.
        return (there, after[0]) if after[0].gap_ns == 0 else None

    def _request(self, lane: Lane, turn: Turn) -> Request | None:
        """None of a turn that is too large to be made here, or to be sent at all."""
        assert lane.play is not None
        prompt = self._workload.prompt(lane.play.session, turn, lane.index, lane.number)
        limit = self._config.max_model_len
        if prompt.tokens >= LARGE_TOKENS:
            return None
        if limit is not None and prompt.tokens + turn.output_tokens > limit:
            return None
        return request_of(lane, Ready(turn, 0, 0), self._config, Phase.MEASURED, prompt)


def begun(lane: Lane, turn: Turn, item: Ready) -> tuple[Request, Follower] | None:
    """The successor that has left by itself, if it is this turn: what was sent, as it was due."""
    left = lane.successor
    if left is None or left.begun_ns is None:
        return None
    request = left.request
    if (request.play, request.turn) != (lane.number, turn.index):
        return None
    lane.successor = None
    return replace(request, ready_ns=item.ready_ns, scheduled_ns=item.due_ns), left
