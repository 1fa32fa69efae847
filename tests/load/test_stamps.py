"""Kernel stamps on the monotonic clock: conversion, bounds, and what happens when time is set."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

from inferometer.load.stamps import (
    NS,
    RESAMPLE_NS,
    SO_TIMESTAMPNS,
    Arrival,
    ArrivalStamps,
    WallOffset,
)


def ticking(readings: list[int]) -> Callable[[], int]:
    """A clock that gives these readings, one a call."""
    left: Iterator[int] = iter(readings)
    return lambda: next(left)


def stamp(wall_ns: int) -> list[tuple[int, int, bytes]]:
    data = struct.pack("@ll", wall_ns // NS, wall_ns % NS)
    return [(socket.SOL_SOCKET, SO_TIMESTAMPNS, data)]


class FakeTime:
    """Monotonic and wall clock, both set by hand."""

    def __init__(self, monotonic_ns: int, wall_ns: int) -> None:
        self.monotonic_ns, self.wall_ns = monotonic_ns, wall_ns

    def stamps(self) -> ArrivalStamps:
        return ArrivalStamps(WallOffset(lambda: self.monotonic_ns, lambda: self.wall_ns))


def test_the_closest_of_the_paired_readings_gives_the_offset() -> None:
    # pairs of width 100, 10, 60, 40, 30; the second: wall 1_105 between 100 and 110
    monotonic = ticking([0, 100, 110, 170, 210, 240])
    wall = ticking([1_020, 1_105, 9_999, 9_999, 9_999])
    assert WallOffset(monotonic, wall).resample() == 1_105 - 105


def test_the_offset_is_sampled_anew_only_after_its_time() -> None:
    time = FakeTime(1_000, 5_000)
    offset = WallOffset(lambda: time.monotonic_ns, lambda: time.wall_ns)
    assert offset.at(1_000) == 4_000
    time.wall_ns += 70
    assert offset.at(1_000 + RESAMPLE_NS - 1) == 4_000
    time.monotonic_ns += 20
    assert offset.at(1_000 + RESAMPLE_NS) == 4_050


def test_a_kernel_stamp_is_converted() -> None:
    time = FakeTime(10 * NS, 1_700_000_000 * NS)
    arrival = time.stamps().arrival(stamp(1_700_000_000 * NS - 250), 9 * NS, 10 * NS)
    assert arrival == Arrival(10 * NS - 250, kernel=True)


def test_without_a_kernel_stamp_the_time_of_the_read_stands_in() -> None:
    time = FakeTime(10 * NS, 1_700_000_000 * NS)
    other = [(socket.SOL_SOCKET, SO_TIMESTAMPNS + 1, bytes(16))]
    short = [(socket.SOL_SOCKET, SO_TIMESTAMPNS, bytes(8))]
    for ancillary in ([], other, short):
        assert time.stamps().arrival(ancillary, 0, 123) == Arrival(123, kernel=False)


def test_a_stamp_stays_between_the_previous_one_and_the_read() -> None:
    time = FakeTime(1_000_000, 5_000_000)
    stamps = time.stamps()
    assert stamps.arrival(stamp(5_000_007), 999_000, 1_000_000).at_ns == 1_000_000
    assert stamps.arrival(stamp(4_998_000), 999_000, 1_000_000).at_ns == 999_000


def test_when_the_wall_clock_is_set_the_offset_is_sampled_at_once() -> None:
    time = FakeTime(1_000_000, 5_000_000)
    stamps = time.stamps()
    assert stamps.arrival(stamp(4_999_900), 0, 1_000_000).at_ns == 999_900
    time.monotonic_ns, time.wall_ns = 1_000_500, 5_000_500 + 3_600 * NS
    late = stamps.arrival(stamp(5_000_300 + 3_600 * NS), 999_900, 1_000_500)
    assert late == Arrival(1_000_300, kernel=True)
