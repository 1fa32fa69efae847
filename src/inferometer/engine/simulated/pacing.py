"""Plays the scheduler in real time: each step's tokens go out at its scheduled end.

Deadlines are absolute: while the engine is busy a step starts where the one before was due to end,
not when it was noticed, so lateness is measured and never adds up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from inferometer.clock import Clock
from inferometer.core import Prompt
from inferometer.engine.simulated.contract import Outcome
from inferometer.engine.simulated.scheduler import Scheduler
from inferometer.engine.simulated.sequence import Sequence
from inferometer.engine.simulated.telemetry import Telemetry

COARSE_NS = 1_000_000
"""Event loops round timers up to whole milliseconds: the rest of a wait is spent polling."""

Emit = Callable[[Sequence, int], None]
"""Called with a sequence and how many new tokens it has."""


class Pacer:
    """Owns the scheduler's time. `run` never returns; cancel it to stop."""

    def __init__(self, scheduler: Scheduler, telemetry: Telemetry, clock: Clock) -> None:
        self._scheduler = scheduler
        self._telemetry = telemetry
        self._clock = clock
        self._work = asyncio.Event()
        self._streams: dict[str, tuple[Sequence, Emit]] = {}
        self._sent: dict[str, int] = {}
        self._between: list[asyncio.Future[None]] = []
        self._busy = False

    async def between_steps(self) -> None:
        """Return right after a step's tokens went out, or at once when idle: the best moment for
        work that would make the next step late.
        """
        if self._busy:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._between.append(waiter)
            await waiter

    def submit(self, id: str, prompt: Prompt, max_tokens: int, emit: Emit) -> Sequence:
        """Queue a request; `emit` is called at each step that gives it tokens. InputError when it
        can never be served.
        """
        sequence = self._scheduler.submit(id, prompt, max_tokens, self._clock.now_ns())
        self._streams[id] = (sequence, emit)
        self._sent[id] = 0
        self._work.set()
        return sequence

    def cancel(self, id: str) -> None:
        """Drop a request whose client has gone; nothing happens when it is done."""
        if self._streams.pop(id, None) is not None:
            del self._sent[id]
            self._scheduler.cancel(id)

    async def run(self) -> None:
        """One step after the other, for ever."""
        start = self._clock.now_ns()
        while True:
            segment = self._scheduler.next_segment(start, max_steps=1)
            if segment is None:
                self._busy = False
                self._work.clear()
                await self._work.wait()
                start = self._clock.now_ns()
                continue
            self._busy = True
            end = int(segment.ends_ns[0])
            await self._wait_until(end)
            self._telemetry.late(self._clock.now_ns() - end)
            self._emit(self._scheduler.commit(1), end)
            start = end
            for waiter in self._between:
                if not waiter.done():
                    waiter.set_result(None)
            self._between.clear()

    async def _wait_until(self, at_ns: int) -> None:
        await self._clock.sleep_until(at_ns - COARSE_NS)
        # At least once, however late: sockets must be served between two steps.
        await asyncio.sleep(0)
        while self._clock.now_ns() < at_ns:
            await asyncio.sleep(0)

    def _emit(self, outcome: Outcome, at_ns: int) -> None:
        for sequence in outcome.started:
            self._telemetry.started(sequence, at_ns)
        for sequence, emit in list(self._streams.values()):
            new = sequence.generated - self._sent[sequence.id]
            if new > 0:
                self._sent[sequence.id] = sequence.generated
                emit(sequence, new)
        for sequence in outcome.finished:
            self._telemetry.finished(sequence, at_ns)
            self._streams.pop(sequence.id, None)
            self._sent.pop(sequence.id, None)
