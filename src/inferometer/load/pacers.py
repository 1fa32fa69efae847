"""When sessions arrive, as pure functions: numbers in, offsets in nanoseconds out. No clock inside.

Every pacer is one process in two steps: arrivals at a rate of one (evenly spaced, Poisson, gamma),
then time changed so that the rate is the one asked for, ramp or not. The time change of a Poisson
process is exact (Cox and Lewis, 1966): a ramped one is a Poisson process of the ramped rate.
Offsets never fall, count from the start of the load, and are a function of the seed alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, count, islice, repeat

import numpy as np

from inferometer.clock import NS
from inferometer.core import WorkloadSettings

ARRIVALS = 3
"""Apart in the seeds from the order of sessions and their starts."""
BLOCK = 1024
"""Gaps drawn at a time: one by one each would cost a call."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """A rate that goes from `first` to `last`, 1/s, over `seconds`, and stays there.

    `steps` levels of equal length, both ends included; None is a straight line.
    """

    first: float
    last: float
    seconds: float
    steps: int | None


# Arrivals at a rate of one: where each is, in arrivals expected so far.


def even() -> Iterator[float]:
    """0, 1, 2, ...: the first at once."""
    return map(float, count())


def gamma(burstiness: float, seed: int) -> Iterator[float]:
    """Independent gamma gaps of mean 1 and shape `burstiness`: 1 is a Poisson process, less comes
    in bursts, more is more even. The first gap comes before the first arrival.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, ARRIVALS]))

    def draw() -> Iterator[float]:
        while True:
            yield from rng.gamma(burstiness, 1 / burstiness, BLOCK).tolist()

    return accumulate(draw())


def poisson(seed: int) -> Iterator[float]:
    """Independent exponential gaps of mean 1."""
    return gamma(1.0, seed)


# The time change: from arrivals expected to seconds.


def at_rate(rate: float) -> Callable[[float], float]:
    """A rate that does not change, 1/s."""
    return lambda expected: expected / rate


def along(ramp: Ramp) -> Callable[[float], float]:
    """When so many arrivals are expected, in seconds: the inverse of the integral of the rate."""
    levels = _levels(ramp)
    length = ramp.seconds / len(levels)
    ends = list(accumulate((first + last) / 2 * length for first, last in levels))

    def seconds(expected: float) -> float:
        before = 0.0
        for index, ((first, last), end) in enumerate(zip(levels, ends, strict=True)):
            if expected < end:
                return index * length + _inside(expected - before, first, last, length)
            before = end
        return ramp.seconds + (expected - before) / ramp.last

    return seconds


def _levels(ramp: Ramp) -> list[tuple[float, float]]:
    """(rate at its start, at its end) of each stretch, all of one length."""
    if ramp.steps is None:
        return [(ramp.first, ramp.last)]
    return [(rate, rate) for rate in np.linspace(ramp.first, ramp.last, ramp.steps).tolist()]


def _inside(expected: float, first: float, last: float, length: float) -> float:
    """Of first·t + (last - first)·t²/(2·length) = expected the root that cancels nothing."""
    if expected <= 0:
        return 0.0
    divisor = first + math.sqrt(first**2 + 2 * (last - first) / length * expected)
    # Of the least float the root underflows.
    return 2 * expected / divisor if divisor > 0 else 0.0


# Whole pacers.


def paced(arrivals: Iterable[float], seconds: Callable[[float], float]) -> Iterator[int]:
    """Offsets in ns of arrivals at a rate of one, after the time change."""
    return (round(seconds(expected) * NS) for expected in arrivals)


def burst() -> Iterator[int]:
    """All at once: as fast as whoever takes them can."""
    return repeat(0)


def recorded(starts_ns: Iterable[int]) -> Iterator[int]:
    """The recording's own times, in order, from its first."""
    times = sorted(starts_ns)
    return (time - times[0] for time in times)


def pacer(settings: WorkloadSettings, starts_ns: Iterable[int]) -> Iterator[int]:
    """The offsets that the settings ask for; `starts_ns` are the workload's own times.

    Raises ValueError for a closed loop, which has no schedule.
    """
    match settings.arrival:
        case "burst":
            return burst()
        case "timestamps":
            return recorded(starts_ns)
        case "constant":
            return paced(even(), _rate(settings))
        case "poisson":
            return paced(poisson(settings.seed), _rate(settings))
        case "gamma":
            return paced(gamma(settings.burstiness, settings.seed), _rate(settings))
    raise ValueError("a closed loop has no schedule")


def _rate(settings: WorkloadSettings) -> Callable[[float], float]:
    rate, first, seconds = settings.rate, settings.rate_from, settings.rate_ramp_s
    if rate is None:
        raise ValueError(f"{settings.arrival} arrivals need a rate")
    if first is None or seconds is None:
        return at_rate(rate)
    return along(Ramp(first, rate, seconds, settings.rate_ramp_steps))


def lane_starts(lanes: int, settings: WorkloadSettings) -> list[int]:
    """When each lane of a closed loop begins, ns: all at once, or along a ramp of concurrency."""
    first, seconds = settings.conc_from, settings.conc_ramp_s
    if first is None or seconds is None or first >= lanes:
        return [0] * lanes
    return ramped_lanes(lanes, first, seconds, settings.conc_ramp_steps)


def ramped_lanes(lanes: int, first: int, seconds: float, steps: int | None) -> list[int]:
    """`first` lanes at once, the last at the end of a straight ramp, or at the start of its last
    level where there are `steps` levels of equal length.
    """
    if steps is None:
        share = seconds / (lanes - first)
        late = [round((lane + 1 - first) * share * NS) for lane in range(first, lanes)]
        return [0] * first + late
    levels = np.rint(np.linspace(first, lanes, steps)).astype(int).tolist()
    starts: list[int] = []
    for index, level in enumerate(levels):
        starts += [round(index * seconds / steps * NS)] * (level - len(starts))
    return starts


class Schedule:
    """The arrivals of an open loop that are still to come, from `origin_ns` on.

    The first `warmup` are warm-up: the window opens when the next is due, at `opens_ns`.
    """

    def __init__(self, offsets: Iterator[int], origin_ns: int, warmup: int) -> None:
        self._origin_ns = origin_ns
        first = list(islice(offsets, warmup + 1))
        self._offsets = chain(first, offsets)
        self.opens_ns = origin_ns + (first[-1] if first else 0)
        self.taken = 0
        self.taken_in_window = 0
        self.next_ns: int | None = None
        """When the next is due; None when there is none."""
        self._advance()

    def take(self) -> tuple[int, int]:
        """(number, due_ns) of the next arrival. ValueError when there is none."""
        if self.next_ns is None:
            raise ValueError("no arrival is left")
        number, due_ns = self.taken, self.next_ns
        self.taken += 1
        self.taken_in_window += due_ns >= self.opens_ns
        self._advance()
        return number, due_ns

    def left_until(self, end_ns: int) -> int:
        """How many are due before `end_ns` and were not taken; they are gone then."""
        left = 0
        while self.next_ns is not None and self.next_ns < end_ns:
            left += self.next_ns >= self.opens_ns
            self._advance()
        return left

    def _advance(self) -> None:
        offset = next(self._offsets, None)
        self.next_ns = None if offset is None else self._origin_ns + offset
