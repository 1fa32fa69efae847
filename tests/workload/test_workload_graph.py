"""The graph of turns, and what the times of sub-agents mean; worked by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.core import Turn
from inferometer.workload.graph import ROOT, Recorded, RecordedAgent, build_graph, frontier
from inferometer.workload.weka_times import (
    Interval,
    intervals,
    nanoseconds,
    run_of,
    stamped_at_end,
)


def agent(
    spans: list[tuple[int, int]], name: str = ROOT, launch: int = 0, joined: int | None = None
) -> RecordedAgent:
    ids = np.empty(0, np.int64)
    requests = tuple(Recorded(start, end, ids, 1, 1) for start, end in spans)
    return RecordedAgent(name, requests, launch, joined)


def edges(turns: tuple[Turn, ...]) -> list[tuple[str, tuple[int, ...], int]]:
    return [(turn.agent, turn.after, turn.gap_ns) for turn in turns]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 5), (5, 8), (9, 10)], [(), (0,), (1,)]),  # touching is sequential; no edge 0 -> 2
        ([(0, 5), (4, 8), (9, 10)], [(), (), (0, 1)]),  # an overlap gives no edge
        ([(0, 5), (1, 2), (3, 9), (6, 7)], [(), (), (1,), (0, 1)]),
        ([(0, 0), (0, 0), (0, 4)], [(), (0,), (1,)]),  # unknown durations, one instant
        ([(0, 9), (1, 2), (3, 4), (10, 11)], [(), (), (1,), (0, 2)]),
    ],
)
def test_frontier(spans: list[tuple[int, int]], expected: list[tuple[int, ...]]) -> None:
    assert frontier([s for s, _ in spans], [e for _, e in spans]) == expected


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), min_size=1, max_size=25))
def test_frontier_is_the_transitive_reduction(raw: list[tuple[int, int]]) -> None:
    spans = sorted((start, start + length) for start, length in raw)
    reached: list[set[int]] = []
    for node, before in enumerate(frontier([s for s, _ in spans], [e for _, e in spans])):
        through = set().union(*(reached[other] for other in before))
        assert not through & set(before), "an edge that another path implies"
        reached.append(through | set(before))
        assert reached[node] == {o for o in range(node) if spans[o][1] <= spans[node][0]}


def test_a_joined_subagent_lies_between_two_root_turns() -> None:
    root = agent([(0, 10), (40, 50)])
    sub = agent([(12, 15), (18, 30)], "root/explore-1", launch=11, joined=1)
    assert edges(build_graph(root, [sub]).turns) == [
        ("root", (), 0),
        ("root/explore-1", (0,), 2),
        ("root/explore-1", (1,), 3),
        ("root", (2,), 10),
    ]


def test_a_background_subagent_is_waited_for_by_nobody() -> None:
    root = agent([(0, 10), (20, 25)])
    sub = agent([(12, 60)], "root/task-1", launch=12)
    assert edges(build_graph(root, [sub]).turns) == [
        ("root", (), 0),
        ("root/task-1", (0,), 2),
        ("root", (0,), 10),
    ]


def test_a_fan_out_joins_all_its_last_turns() -> None:
    root = agent([(0, 10), (50, 60)])
    one = agent([(11, 20), (12, 25)], "root/a-1", launch=11, joined=1)
    two = agent([(13, 30)], "root/a-2", launch=11, joined=1)
    turns = build_graph(root, [one, two]).turns
    assert edges(turns) == [
        ("root", (), 0),
        ("root/a-1", (0,), 1),
        ("root/a-1", (0,), 2),
        ("root/a-2", (0,), 3),
        ("root", (1, 2, 3), 20),
    ]
    assert [turn.parent_agent for turn in turns] == [None, "root", "root", "root", None]


def test_without_a_predecessor_the_gap_counts_from_the_first_turn() -> None:
    turns = build_graph(agent([(5, 20), (8, 9)]), []).turns
    assert edges(turns) == [("root", (), 0), ("root", (), 3)]


def test_a_join_before_the_recorded_end_is_counted_and_has_no_gap() -> None:
    root = agent([(0, 10), (20, 25)])
    sub = agent([(12, 30)], "root/a-1", launch=12, joined=1)
    graph = build_graph(root, [sub])
    assert graph.early_starts == 1
    assert edges(graph.turns)[-1] == ("root", (1,), 0)


def subagent(t: float, seconds: float | None, *starts: float, **more: Any) -> dict[str, Any]:
    duration = None if seconds is None else seconds * 1000
    nested = [{"t": start, "type": "n", "api_time": 1.0} for start in starts]
    return {"t": t, "type": "subagent", "duration_ms": duration, "requests": nested, **more}


def root_row(t: float, api_time: float = 10.0) -> dict[str, Any]:
    return {"t": t, "type": "n", "api_time": api_time}


@pytest.mark.parametrize(
    ("rows", "at_end"),
    [
        # Launched at 10 by the first turn, over at 60, and then the parent goes on.
        ([root_row(0), subagent(60, 50), root_row(70)], True),
        # Launched at 10; read as its end, it would start long before its parent's turn ended.
        ([root_row(0), subagent(10, 50), root_row(70)], False),
        # Side by side, stamped one after the other: all started at 10.
        ([root_row(0), subagent(60, 50), subagent(90, 80), root_row(95)], True),
        # Nothing follows and both readings fit: the end, as it leaves no pause before the launch.
        ([root_row(0), subagent(60, 50)], True),
        # Its requests begin after its `t`, which so is not its end; the parent goes on meanwhile.
        ([root_row(0, 1), subagent(20, 9, 20, 27), root_row(24), root_row(40)], False),
        # They are over by its `t`; read as its start, they would begin before it.
        ([root_row(0, 15), subagent(20, 9, 12, 18), root_row(40)], True),
        # Both readings fail: it cannot have been launched before the trace began.
        ([root_row(0, 1), subagent(2, 9, 0, 7), root_row(6), root_row(14)], False),
        # In the background there is no duration to tell by.
        ([root_row(0), subagent(10, 50, status="async_launched"), root_row(20)], True),
    ],
)
def test_what_the_stamp_of_a_subagent_is(rows: list[dict[str, Any]], at_end: bool) -> None:
    spans = intervals([row for row in rows if row["type"] == "n"], Counter())
    assert stamped_at_end(rows, spans) is at_end


@pytest.mark.parametrize(
    ("row", "at_end", "launch_s", "offset_s"),
    [
        (subagent(160, 60, 0, 20), True, 100, 100),  # relative
        (subagent(160, 60, 100, 120), True, 100, 0),  # absolute
        (subagent(100, 60, 0.5, 20), False, 100, 100),
        (subagent(100, 60, 100.5, 120), False, 100, 0),
        (subagent(100, None, 2, 20), True, 79, 79),  # no duration: it ended with its last request
        (subagent(100, None, 2, 20), False, 100, 100),
        (subagent(100, None, 101, 120), True, 100, 0),
        (subagent(4, None, 3, 9), True, 3, 0),  # both fit: 1 s from the launch against 3 s
    ],
)
def test_time_base_of_a_subagent(
    row: dict[str, Any], at_end: bool, launch_s: float, offset_s: float
) -> None:
    spans = intervals(row["requests"], Counter())
    expected = (nanoseconds(launch_s), nanoseconds(offset_s))
    assert run_of(row, spans, at_end, 0)[:2] == expected


def test_intervals_are_exact_nanoseconds() -> None:
    assert intervals([root_row(30.0, 22.85)], Counter()) == [
        Interval(30_000_000_000, 52_850_000_000)
    ]
