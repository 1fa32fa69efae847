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
OWN_WEIGHT = 2
"""What a sub-agent's own requests say of its `t` counts for more than what its parent did."""


class Interval(NamedTuple):
    """When a request was open; not `known`: its duration is not, and `end_ns` is `start_ns`."""

    start_ns: int
    end_ns: int
    known: bool = True


class Run(NamedTuple):
    """When a sub-agent was launched, the offset that makes its times those of the trace, and when
    it ended.
    """

    launch_ns: int
    offset_ns: int
    end_ns: int


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
    A sub-agent starts once the turn that launches it has ended, and ends before its parent goes on;
    requests whose times cannot count from its launch lie within its run. Each reading is tested on
    every sub-agent with a duration, and the one that fails less often holds. Where neither fails it
    is the end, which puts the launch nearer to the turn that caused it; where both fail as often,
    the start: a parent may go on beside its sub-agent, and launches none before its time.
    """
    fails_as_start = fails_as_end = before = 0
    for row in rows:
        if not is_subagent(row):
            before += 1
        elif (length := _length(row)) is not None:
            stamp = nanoseconds(row["t"])
            within_start, within_end = _within(row, stamp, length)
            launched_after = max((interval.end_ns for interval in root[:before]), default=0)
            early = stamp - length < launched_after - TOLERANCE_NS
            fails_as_end += early + OWN_WEIGHT * (within_start and not within_end)
            resumed = root[before].start_ns if before < len(root) else None
            late = resumed is not None and resumed < stamp + length - TOLERANCE_NS
            fails_as_start += late + OWN_WEIGHT * (within_end and not within_start)
    return fails_as_end < fails_as_start or not fails_as_end


def _within(row: Row, stamp: int, length: int) -> tuple[bool, bool]:
    """Whether times of the trace put a sub-agent's requests within its run, its `t` read as its
    start and as its end; (True, True) where their times may count from its launch, or it has none.
    """
    own = [each for each in row.get("requests") or () if not is_subagent(each)]
    first = min((nanoseconds(each["t"]) for each in own), default=0)
    last = max((nanoseconds(each["t"] + (each.get("api_time") or 0)) for each in own), default=0)
    if last <= length + TOLERANCE_NS:
        return True, True
    launches = (stamp, stamp - length)
    as_start, as_end = (
        first >= launch - TOLERANCE_NS and last <= launch + length + TOLERANCE_NS
        for launch in launches
    )
    return as_start, as_end


def run_of(row: Row, nested: Sequence[Interval], at_end: bool, ended_ns: int) -> Run:
    """Launch, time base and end of a sub-agent; `nested` are its requests in their own base, not
    empty. `ended_ns` is when the parent's turns before it had ended (0: there is none), in the
    parent's time base.

    A time base fits when the requests lie within the sub-agent's run; where both bases fit, or
    none, the one holds under which the first request is nearer to the launch.
    """
    length = _length(row)
    if length is None and not is_background(row):
        return _run_without_length(row, nested, at_end, ended_ns)
    stamp = nanoseconds(row["t"])
    first, last = nested[0].start_ns, max(interval.end_ns for interval in nested)
    launch = max(0, stamp - length) if at_end and length is not None else stamp
    room = None if length is None else length + TOLERANCE_NS
    relative_fits = room is None or last <= room
    absolute_fits = first >= launch - TOLERANCE_NS and (room is None or last <= launch + room)
    nearer_relative = first <= abs(first - launch)
    relative = relative_fits if relative_fits != absolute_fits else nearer_relative
    end = stamp if at_end else launch + (length or 0)
    return Run(launch, launch if relative else 0, end)


def _run_without_length(row: Row, nested: Sequence[Interval], at_end: bool, ended_ns: int) -> Run:
    """The run of a sub-agent that came back and does not say after how long.

    It ended with its last request. Its `t` is when it ended, where that is so of the others of its
    parent and leaves it a launch after the turns before; else its launch.
    """
    stamp = nanoseconds(row["t"])
    first, last = nested[0].start_ns, max(interval.end_ns for interval in nested)
    earliest = ended_ns - TOLERANCE_NS
    if first > TOLERANCE_NS and abs(first - stamp) < first and first >= earliest:
        return Run(min(first, stamp), 0, last)
    if at_end and stamp - last >= earliest:
        launch = max(0, stamp - last)
        return Run(launch, launch, stamp)
    return Run(stamp, stamp, stamp + last)


def joining(spans: Sequence[Interval], before: int, end_ns: int) -> int | None:
    """The first of a parent's requests from number `before` on that began when a sub-agent had
    ended, up to the second to which times are recorded; None where there is none.
    """
    later = range(before, len(spans))
    return next((i for i in later if spans[i].start_ns >= end_ns - TOLERANCE_NS), None)


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
