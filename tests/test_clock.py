"""Virtual time jumps to the next timer, exactly, in order, and never waits."""

from __future__ import annotations

import asyncio

import pytest

from inferometer.clock import NS, RealClock, VirtualClock, VirtualLoop, run_virtual


def test_an_hour_passes_to_the_nanosecond() -> None:
    loop = VirtualLoop()
    clock = VirtualClock(loop)

    async def main() -> int:
        await clock.sleep_until(3600 * NS + 7)
        return clock.now_ns()

    assert run_virtual(main(), loop) == 3600 * NS + 7


def test_sleepers_wake_in_order_and_a_past_deadline_returns_at_once() -> None:
    loop = VirtualLoop()
    clock = VirtualClock(loop)
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, at_ns: int) -> None:
        await clock.sleep_until(at_ns)
        woken.append((name, clock.now_ns()))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 5), sleeper("soon", 3), sleeper("past", -1))

    run_virtual(main(), loop)
    assert woken == [("past", 0), ("soon", 3), ("late", 5)]


@pytest.mark.parametrize("seconds", [12113.0649999985, 5e-10, 2.5e-9, 86_400 * 90 + 0.1])
def test_a_timer_between_two_nanoseconds_is_reached(seconds: float) -> None:
    loop = VirtualLoop()

    async def main() -> float:
        await asyncio.wait([loop.create_future()], timeout=seconds)
        return loop.time()

    assert run_virtual(main(), loop) == pytest.approx(seconds, rel=1e-12, abs=1e-9)


def test_a_wait_that_nothing_can_end_is_an_error() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        await loop.create_future()

    with pytest.raises(RuntimeError, match="deadlock"):
        run_virtual(main(), loop)


def test_the_real_clock_never_returns_early() -> None:
    clock = RealClock()

    async def main() -> int:
        deadline = clock.now_ns() + 2_000_000
        await clock.sleep_until(deadline)
        return clock.now_ns() - deadline

    assert asyncio.run(main()) >= 0
