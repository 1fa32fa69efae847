"""The frontier and its knee, on points that can be drawn."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.analyze import knee, pareto


def test_points_that_another_beats_on_both_axes_are_left_out() -> None:
    # tok/s/user against tok/s/GPU, more is better on both
    xs, ys = [10.0, 50.0, 30.0, 20.0], [90.0, 10.0, 60.0, 50.0]
    assert pareto(xs, ys, "max", "max") == [0, 2, 1]


def test_either_axis_may_be_better_low() -> None:
    # latency against throughput, and latency against cost
    assert pareto([1.0, 2.0, 3.0], [5.0, 9.0, 7.0], "min", "max") == [0, 1]
    assert pareto([1.0, 2.0, 3.0], [5.0, 9.0, 4.0], "min", "min") == [0, 2]
    assert pareto([1.0, 2.0, 3.0], [5.0, 9.0, 4.0], "max", "min") == [2]


def test_ties_are_kept_once() -> None:
    # the same x: the better y; the same point: the first
    assert pareto([1.0, 1.0, 2.0, 2.0], [5.0, 6.0, 3.0, 3.0], "max", "max") == [1, 2]
    # the same y: the better x
    assert pareto([1.0, 2.0], [5.0, 5.0], "max", "max") == [1]


def test_unknown_values_are_left_out() -> None:
    assert pareto([None, 2.0, math.nan, 4.0], [9.0, 5.0, 9.0, None], "max", "max") == [1]
    assert pareto([], [], "max", "max") == []


small = st.integers(0, 6).map(float)


@settings(deadline=None)
@given(st.lists(st.tuples(small, small), max_size=20))
def test_the_frontier_is_what_no_other_point_dominates(points: list[tuple[float, float]]) -> None:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    front = {points[i] for i in pareto(xs, ys, "max", "max")}
    undominated = {
        (x, y)
        for x, y in points
        if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in points)
    }
    assert front == undominated
    assert [xs[i] for i in pareto(xs, ys, "max", "max")] == sorted(x for x, _ in undominated)


def test_the_knee_is_farthest_above_the_line_between_the_ends() -> None:
    # scaled: (0, 1), (0.5, 0.9), (0.8, 0.5), (1, 0): above the line by 0, 0.4, 0.3, 0
    xs, ys = [0.0, 50.0, 80.0, 100.0], [10.0, 9.0, 5.0, 0.0]
    assert knee(xs, ys, "max", "max") == 1
    # the same, as latency: less is better on x
    assert knee([-x for x in xs], ys, "min", "max") == 1


def test_no_knee_in_a_line_a_dent_or_two_points() -> None:
    assert knee([0.0, 1.0, 2.0], [2.0, 1.0, 0.0], "max", "max") is None
    assert knee([0.0, 1.0, 2.0], [9.0, 1.0, 0.0], "max", "max") is None
    assert knee([0.0, 1.0], [1.0, 0.0], "max", "max") is None
