"""Integer nanoseconds, real or virtual, and the event loop whose time jumps to the next timer.

Everything in `load/` and `engine/simulated` takes time from a `Clock` and nowhere else, so that
the same lanes and the same scheduler run in real time, or as fast as the CPU allows and exactly
repeatable. Under the virtual loop nothing may wait for a socket, a thread or a process: with no
timer left and no callback ready, such a wait could never end, so it is an error at once.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

NS = 1_000_000_000
T = TypeVar("T")


class Clock(Protocol):
    """The one source of time."""

    def now_ns(self) -> int:
        """The time, in integer nanoseconds since an arbitrary origin."""
        ...

    async def sleep_until(self, at_ns: int) -> None:
        """Return no earlier than `at_ns`; at once when that is past."""
        ...


class RealClock:
    """CLOCK_MONOTONIC. Sleeps end up to about 1 ms late: event loops round their timers up."""

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    async def sleep_until(self, at_ns: int) -> None:
        """Sleep to an absolute deadline, so that lateness does not add up."""
        while (wait_ns := at_ns - time.monotonic_ns()) > 0:
            await asyncio.sleep(wait_ns / NS)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still while callbacks run and jumps to the next timer."""

    def __init__(self) -> None:
        self._virtual_ns = 0
        super().__init__(_JumpingSelector(self))
        # A timer within this of now is due. Half a nanosecond: floats of the loop round, integer
        # nanoseconds stay apart.
        self._clock_resolution = 0.5 / NS

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual_ns / NS

    def time_ns(self) -> int:
        """Virtual nanoseconds since the loop was made."""
        return self._virtual_ns

    def jump(self, seconds: float) -> None:
        """Move the clock on to the timer that is `seconds` away; by a nanosecond at least, as one
        between two of them would never be reached.
        """
        self._virtual_ns += max(1, round(seconds * NS))


class _JumpingSelector(selectors.DefaultSelector):
    """Takes the loop's wait for the next timer as an order to jump there."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("virtual time: every task waits and no timer is set (a deadlock)")
        if timeout > 0:
            self._loop.jump(timeout)
        return []


class VirtualClock:
    """The clock of a `VirtualLoop`; only valid inside `run_virtual`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        """Virtual nanoseconds."""
        return self._loop.time_ns()

    async def sleep_until(self, at_ns: int) -> None:
        """Sleep to an absolute virtual time."""
        loop = self._loop
        while loop.time_ns() < at_ns:
            waiter: asyncio.Future[None] = loop.create_future()
            loop.call_at(at_ns / NS, _wake, waiter)
            await waiter


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def run_virtual(main: Coroutine[Any, Any, T], loop: VirtualLoop) -> T:
    """Run a coroutine to its end on a virtual loop, and close the loop."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)
