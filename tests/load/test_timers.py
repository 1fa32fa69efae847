"""Recorded gaps and idle caps, as tables."""

from __future__ import annotations

from inferometer.load.timers import Timers


def filled() -> Timers[str, str]:
    timers: Timers[str, str] = Timers()
    timers.add("a", 100, "a1")
    timers.add("b", 50, "b1")
    timers.add("a", 70, "a2")
    return timers


def test_timers_fire_in_due_order() -> None:
    timers = filled()
    assert timers.next_due_ns() == 50
    assert timers.pop_due(80) == [(50, "b1"), (70, "a2")]
    assert timers.pop_due(99) == []
    assert timers.pop_due(100) == [(100, "a1")]
    assert timers.next_due_ns() is None


def test_the_tree_cap_shifts_that_tree_together() -> None:
    timers = filled()
    timers.cap_tree("a", idle_since_ns=10, cap_ns=20)
    assert timers.tree_shift_ns == 40
    assert timers.pop_due(1000) == [(30, "a2"), (50, "b1"), (60, "a1")]


def test_a_gap_within_the_cap_is_kept() -> None:
    timers = filled()
    timers.cap_tree("a", idle_since_ns=10, cap_ns=60)
    timers.cap_system(idle_since_ns=10, cap_ns=40)
    assert (timers.tree_shift_ns, timers.system_shift_ns) == (0, 0)
    assert timers.next_due_ns() == 50


def test_the_system_cap_shifts_every_tree_by_the_same() -> None:
    timers = filled()
    timers.cap_system(idle_since_ns=0, cap_ns=10)
    assert timers.system_shift_ns == 40
    assert timers.pop_due(1000) == [(10, "b1"), (30, "a2"), (60, "a1")]
