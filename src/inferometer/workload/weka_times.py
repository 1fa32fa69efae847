"""What the times of a weka trace mean: the interval of a request, the run of a sub-agent.

The format leaves three things open, and each is settled here from the recording itself: how long a
request without `api_time` took, whether `t` of a sub-agent is its start or its end, and whether
times inside it count from its start or from that of the trace. Times are integer nanoseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from inferometer.clock import NS
from inferometer.workload.weka_schema import BACKGROUND, CLOCK_S, Row, is_subagent

TOLERANCE_NS = round(CLOCK_S * NS)
"""Recorders write `t` of a root request in whole seconds."""


class Interval(NamedTuple):
    """When a request was open; not `known`: its duration is not, and `end_ns` is `start_ns`."""

    start_ns: int
    end_ns: int
    known: bool = True


class Run(NamedTuple):
    """When a sub-agent was launched, and the offset that makes its times those of the trace."""

    launch_ns: int
    offset_ns: int
    joined: bool = True
    """Whether the parent may have waited for it."""


def nanoseconds(seconds: float) -> int:
    """Seconds as recorded, in integer nanoseconds."""
    return round(seconds * NS)


def intervals(rows: Sequence[Row], tally: Counter[str]) -> list[Interval]:
    """[t, t + api_time] of one agent's requests, ordered by `t`, in their own time base.

    A missing `api_time` is inferred from the next request: the last reply came `think_time` before
    it. Where that is not after `t` (a recorder that measures `think_time` from the last reply whose
    duration it knew), the duration is unknown and the end is taken to be `t`.
    """
    found: list[Interval] = []
    for index, row in enumerate(rows):
        start = nanoseconds(row["t"])
        follower = rows[index + 1] if index + 1 < len(rows) else None
        end = _end(row, start, follower, tally)
        if found and 0 < found[-1].end_ns - start < TOLERANCE_NS:
            tally["near_overlaps"] += 1
        found.append(Interval(start, end, end > start or row.get("api_time") is not None))
    return found


def stamped_at_end(rows: Sequence[Row], root: Sequence[Interval]) -> bool:
    """Whether `t` of the trace's joined sub-agents is when they ended, not when they started.

    `rows` are the root requests and sub-agents ordered by `t`, `root` the intervals of the former.
    A sub-agent starts once the turn that launches it has ended, and ends before its parent goes on.
    Each reading is tested on every sub-agent with a duration; the one that fails less often holds,
    and the end where both do as well: it puts the launch nearer to the turn that caused it.
    """
    fails_as_start = fails_as_end = before = 0
    for row in rows:
        if not is_subagent(row):
            before += 1
        elif (length := _length(row)) is not None:
            stamp = nanoseconds(row["t"])
            launched_after = max((interval.end_ns for interval in root[:before]), default=0)
            fails_as_end += stamp - length < launched_after - TOLERANCE_NS
            resumed = root[before].start_ns if before < len(root) else None
            fails_as_start += resumed is not None and resumed < stamp + length - TOLERANCE_NS
    return fails_as_end <= fails_as_start


def run_of(row: Row, nested: Sequence[Interval], at_end: bool) -> Run:
    """Launch and time base of a sub-agent; `nested` are its requests in their own base, not empty.

    A time base fits when the requests lie within the sub-agent's run; where both bases fit, or
    none, the one holds under which the first request is nearer to the launch.
    """
    length = _length(row)
    stamp = nanoseconds(row["t"])
    first, last = nested[0].start_ns, max(interval.end_ns for interval in nested)
    if length is None and at_end and not is_background(row) and first <= TOLERANCE_NS:
        # Times from its launch on: it ran until its last request had ended.
        length = last
    launch = max(0, stamp - length) if at_end and length is not None else stamp
    room = None if length is None else length + TOLERANCE_NS
    relative_fits = room is None or last <= room
    absolute_fits = first >= launch - TOLERANCE_NS and (room is None or last <= launch + room)
    nearer_relative = first <= abs(first - launch)
    relative = relative_fits if relative_fits != absolute_fits else nearer_relative
    return Run(launch, launch if relative else 0)


class Around(NamedTuple):
    """What its parent did around a sub-agent: when the turns before it had ended (0: there is
    none), and when the next one began (None likewise). In the parent's time base.
    """

    ended_ns: int
    resumed_ns: int | None


def run_without_end(row: Row, nested: Sequence[Interval], at_end: bool, around: Around) -> Run:
    """The run of a sub-agent that says neither how long it ran nor how it ended.

    It ended with its last request. Its `t` is when it ended, where that is so of the others of its
    parent and leaves it a launch after the turns before; else its launch. Then the parent waited
    for it if its next turn did not begin before that end.
    """
    stamp = nanoseconds(row["t"])
    first, last = nested[0].start_ns, max(interval.end_ns for interval in nested)
    earliest = around.ended_ns - TOLERANCE_NS
    if first > TOLERANCE_NS and abs(first - stamp) < first and first >= earliest:
        launch, offset, end = first, 0, last
    elif at_end and stamp - last >= earliest:
        launch = offset = max(0, stamp - last)
        end = stamp
    else:
        launch = offset = stamp
        end = stamp + last
    resumed = around.resumed_ns
    return Run(launch, offset, resumed is None or resumed >= end - TOLERANCE_NS)


def is_background(row: Row) -> bool:
    """Whether the parent goes on without waiting for this sub-agent."""
    return row.get("status") in BACKGROUND


def _end(row: Row, start: int, follower: Row | None, tally: Counter[str]) -> int:
    if row.get("api_time") is not None:
        return start + nanoseconds(row["api_time"])
    if follower is not None and follower.get("think_time") is not None:
        inferred = nanoseconds(follower["t"]) - nanoseconds(follower["think_time"])
        if inferred > start:
            tally["api_time_inferred"] += 1
            return inferred
    tally["api_time_unknown"] += 1
    return start


def _length(row: Row) -> int | None:
    """Duration of a joined sub-agent; one in the background has none that its `t` could end."""
    if is_background(row) or row.get("duration_ms") is None:
        return None
    return nanoseconds(row["duration_ms"] / 1000)
