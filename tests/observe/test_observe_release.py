"""GPU memory before an engine and after its end, with cards that are lists of readings and a clock
that is a number.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from inferometer.core import Gpu, GpuReading, GpuRelease, PowerField
from inferometer.observe.release import Release

GB = 1e9
Used = tuple[float, ...]


class Cards:
    """Two cards; each call of `read` is a second later. `silent` calls have nothing new."""

    name = "fake"
    driver: str | None = None
    power_field: PowerField = "instant"

    def __init__(self, used: Sequence[Used], users: tuple[int, ...] | None = None) -> None:
        self.used = list(used)
        self.users = users
        self.now_s = 0.0
        self.closed = 0

    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(Gpu(f"GPU-{n}", n, "x", int(100 * GB), None) for n in range(2))

    def read(self) -> list[GpuReading]:
        self.now_s += 1.0
        used = self.used.pop(0) if len(self.used) > 1 else self.used[0]
        return [self.reading(f"GPU-{n}", bytes_) for n, bytes_ in enumerate(used)]

    def reading(self, uuid: str, used: float) -> GpuReading:
        none = (None,) * 6
        return GpuReading(0, uuid, *none, used, None, self.users)

    def close(self) -> None:
        self.closed += 1


def release_of(cards: Cards, deadline_s: float = 10.0, stopped: bool = False) -> GpuRelease | None:
    def sleep(seconds: float) -> None:
        cards.now_s += seconds

    release = Release(lambda: cards, lambda: cards.now_s, sleep)
    return release.wait(lambda: stopped, deadline_s)


def test_it_waits_until_every_card_holds_what_it_did_before() -> None:
    cards = Cards([(1 * GB, 1 * GB), (90 * GB, 1 * GB), (40 * GB, 1 * GB), (1.1 * GB, 1 * GB)])
    found = release_of(cards)
    assert found is not None
    assert found.before_bytes == {"GPU-0": 1 * GB, "GPU-1": 1 * GB}
    assert found.held_bytes == {}
    assert found.told() is None
    # Three readings, and the time between them.
    assert found.waited_s == pytest.approx(4.0)
    assert cards.closed == 2


def test_what_is_not_given_back_is_told_with_whoever_has_it() -> None:
    found = release_of(Cards([(1 * GB, 0.0), (91.5 * GB, 0.0)], users=(4711,)))
    assert found is not None
    assert found.held_bytes == {"GPU-0": 90.5 * GB}
    assert found.waited_s >= 10
    told = found.told()
    assert told is not None
    assert told.endswith("90.5 GB of GPU-0 (processes 4711) are not free again")


def test_less_than_a_context_of_a_process_is_no_leak() -> None:
    found = release_of(Cards([(0.0, 0.0), (0.2 * GB, 0.0)]))
    assert found is not None
    assert (found.held_bytes, found.waited_s) == ({}, 1.0)


def test_a_stop_by_the_user_ends_the_wait() -> None:
    found = release_of(Cards([(0.0, 0.0), (90 * GB, 0.0)]), deadline_s=1e9, stopped=True)
    assert found is not None
    assert (found.held_bytes, found.waited_s) == ({"GPU-0": 90 * GB}, 1.0)


def test_a_command_that_prints_its_first_line_late_is_waited_for_and_not_for_ever() -> None:
    late: list[Used] = [(), (), (1 * GB, 2 * GB), (1 * GB, 2 * GB)]
    found = release_of(Cards(late))
    assert found is not None
    assert found.before_bytes == {"GPU-0": 1 * GB, "GPU-1": 2 * GB}
    assert release_of(Cards([()])) is None


def test_without_gpus_nothing_is_said() -> None:
    def none() -> Cards:
        raise OSError("no driver")

    assert Release(none).wait() is None
