"""Pacers as tables of numbers, and their rates as statistics."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
from fakes import WORKLOAD
from hypothesis import given
from hypothesis import strategies as st

from inferometer.clock import NS
from inferometer.core import WorkloadSettings
from inferometer.load import pacers
from inferometer.load.pacers import Ramp, Schedule, along, lane_starts, pacer, ramped_lanes

MS = 1_000_000


def settings(**changes: object) -> WorkloadSettings:
    return replace(WORKLOAD, **changes)  # type: ignore[arg-type]


def seconds(given: WorkloadSettings, count: int, starts_ns: tuple[int, ...] = ()) -> list[float]:
    return [offset / NS for offset in islice(pacer(given, starts_ns), count)]


TABLES: tuple[tuple[dict[str, object], list[float]], ...] = (
    ({"arrival": "constant", "rate": 4.0}, [0, 0.25, 0.5, 0.75, 1.0]),
    ({"arrival": "burst"}, [0, 0, 0, 0, 0]),
    # The integral of a rate from 1 to 3 in 4 s is t + t²/4: 1 at 0.828 s; 8 at the end, 3/s after.
    (
        {"arrival": "constant", "rate": 3.0, "rate_from": 1.0, "rate_ramp_s": 4.0},
        [0, 0.828427125, 1.464101615, 2, 2.472135955, 2.898979486, 3.291502622, 3.656854249, 4],
    ),
    # Down: 3t - t²/4.
    (
        {"arrival": "constant", "rate": 1.0, "rate_from": 3.0, "rate_ramp_s": 4.0},
        [0, 0.343145751, 0.708497378, 1.101020514, 1.527864045, 2, 2.535898385, 3.171572875, 4, 5],
    ),
    # From nothing: t²/4.
    (
        {"arrival": "constant", "rate": 2.0, "rate_from": 0.0, "rate_ramp_s": 4.0},
        [0, 2, 2.828427125, 3.464101615, 4, 4.5],
    ),
    # Levels 1, 2 and 3 of 2 s each: 2, 4 and 6 arrivals.
    (
        {
            "arrival": "constant",
            "rate": 3.0,
            "rate_from": 1.0,
            "rate_ramp_s": 6.0,
            "rate_ramp_steps": 3,
        },
        [0, 1, 2, 2.5, 3, 3.5, 4, 4 + 1 / 3, 4 + 2 / 3, 5, 5 + 1 / 3, 5 + 2 / 3, 6, 6 + 1 / 3],
    ),
    # A first level of nothing.
    (
        {
            "arrival": "constant",
            "rate": 1.0,
            "rate_from": 0.0,
            "rate_ramp_s": 4.0,
            "rate_ramp_steps": 2,
        },
        [2, 3, 4, 5],
    ),
    # One seed, one table, on every machine.
    (
        {"arrival": "poisson", "rate": 2.0, "seed": 7},
        [1.23113, 1.67016, 1.80394, 2.32714, 2.48909],
    ),
    (
        {"arrival": "gamma", "burstiness": 0.5, "rate": 2.0, "seed": 7},
        [0.05381, 0.21811, 2.0713, 2.11061, 2.13699],
    ),
)


@pytest.mark.parametrize(("given_", "expected"), TABLES)
def test_tables(given_: dict[str, object], expected: list[float]) -> None:
    found = seconds(settings(**given_), len(expected))
    tolerance = 1e-4 if "seed" in given_ else 1e-8
    assert found == pytest.approx(expected, abs=tolerance)


def test_recorded_times_start_at_the_first_and_are_in_order() -> None:
    found = seconds(settings(arrival="timestamps"), 9, (7 * NS, 5 * NS, 5 * NS, 12 * NS))
    assert found == [0, 0, 2, 7]


def test_a_closed_loop_has_no_schedule() -> None:
    with pytest.raises(ValueError, match="closed loop"):
        pacer(settings(), ())


@pytest.mark.parametrize("arrival", ["constant", "poisson", "gamma"])
def test_one_seed_gives_one_schedule_and_another_another(arrival: str) -> None:
    first = settings(arrival=arrival, rate=3.0, seed=1)
    assert seconds(first, 3_000) == seconds(first, 3_000)
    same = seconds(first, 3_000) == seconds(replace(first, seed=2), 3_000)
    assert same == (arrival == "constant")


@pytest.mark.parametrize(
    ("arrival", "burstiness", "variation"),
    [("poisson", 1.0, 1.0), ("gamma", 0.25, 2.0), ("gamma", 4.0, 0.5), ("constant", 1.0, 0.0)],
)
def test_gaps_have_the_mean_and_the_variation_asked_for(
    arrival: str, burstiness: float, variation: float
) -> None:
    given_ = settings(arrival=arrival, burstiness=burstiness, rate=50.0)
    gaps = np.diff(seconds(given_, 100_000))
    assert gaps.mean() == pytest.approx(0.02, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.03, abs=1e-6)


@pytest.mark.parametrize("steps", [None, 4])
def test_a_ramped_poisson_process_is_one(steps: int | None) -> None:
    """Counts of disjoint intervals are Poisson of the integral of the rate: mean and variance."""
    ramp = Ramp(20.0, 100.0, 10.0, steps)
    edges = np.linspace(0, 14, 8)
    expected = np.array([_expected(ramp, edge) for edge in edges])
    counts = []
    for seed in range(400):
        arrivals = pacers.paced(pacers.poisson(seed), along(ramp))
        times = np.array(list(islice(arrivals, 1_500))) / NS
        assert times[-1] > edges[-1]
        counts.append(np.histogram(times, edges)[0])
    found = np.array(counts)
    means = np.diff(expected)
    # Five standard errors of 400 counts.
    assert np.abs(found.mean(axis=0) - means).max() < (5 * np.sqrt(means / 400)).max()
    assert found.var(axis=0) / means == pytest.approx(np.ones(7), abs=0.4)
    neighbours = np.corrcoef(found.T)[np.triu_indices(7, 1)]
    assert np.abs(neighbours).max() < 0.25


def _expected(ramp: Ramp, at_s: float) -> float:
    """The integral of the rate, by summing it up."""
    times = np.linspace(0, at_s, 200_001)[1:] - at_s / 400_000
    if ramp.steps is None:
        rates = ramp.first + (ramp.last - ramp.first) * np.minimum(times / ramp.seconds, 1)
    else:
        level = np.minimum(times // (ramp.seconds / ramp.steps), ramp.steps - 1)
        rates = ramp.first + (ramp.last - ramp.first) * level / (ramp.steps - 1)
    return float(rates.sum() * at_s / 200_000)


@given(
    first=st.floats(0, 1e3),
    last=st.floats(0.01, 1e3),
    length=st.floats(0.01, 1e4),
    steps=st.none() | st.integers(2, 20),
    points=st.lists(st.floats(0, 1e5), min_size=2, max_size=20),
)
def test_the_time_change_rises_and_ends_at_the_last_rate(
    first: float, last: float, length: float, steps: int | None, points: list[float]
) -> None:
    change = along(Ramp(first, last, length, steps))
    times = [change(point) for point in sorted(points)]
    assert all(math.isfinite(at) and at >= 0 for at in times)
    assert all(b >= a - 1e-6 * max(1, a) for a, b in pairwise(times))
    far = 1e9
    assert change(far + last) - change(far) == pytest.approx(1, rel=1e-3)


def test_lanes_along_a_ramp() -> None:
    assert ramped_lanes(5, 1, 8.0, None) == [0, 2 * NS, 4 * NS, 6 * NS, 8 * NS]
    assert ramped_lanes(4, 3, 2.0, None) == [0, 0, 0, 2 * NS]
    # Levels 2, 5 and 8, 3 s each.
    assert ramped_lanes(8, 2, 9.0, 3) == [0] * 2 + [3 * NS] * 3 + [6 * NS] * 3
    given_ = settings(conc_from=1, conc_ramp_s=8.0)
    assert lane_starts(5, given_) == ramped_lanes(5, 1, 8.0, None)
    assert lane_starts(1, given_) == [0]
    assert lane_starts(3, settings()) == [0, 0, 0]


def test_a_schedule_hands_out_every_arrival_once() -> None:
    schedule = Schedule(pacers.paced(pacers.even(), pacers.at_rate(2)), 10 * NS, warmup=2)
    assert schedule.opens_ns == 11 * NS
    taken = [schedule.take() for _ in range(4)]
    assert taken == [(i, 10 * NS + i * 500 * MS) for i in range(4)]
    assert schedule.taken_in_window == 2
    # 12, 12.5 and 13 s are left before 13.1 s.
    assert schedule.left_until(13_100 * MS) == 3
    assert schedule.next_ns == 13_500 * MS


def test_a_schedule_that_ends() -> None:
    schedule = Schedule(iter([0, 5]), 0, warmup=4)
    assert schedule.opens_ns == 5
    assert [schedule.take(), schedule.take()] == [(0, 0), (1, 5)]
    assert schedule.next_ns is None
    with pytest.raises(ValueError, match="no arrival"):
        schedule.take()
