"""Rates over a window, and what was open in it: requests, lanes, sessions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from inferometer.metrics.figures import Counts, Figure, Floats, Ints
from inferometer.metrics.requests import segment_sums


def tokens_inside(
    at_ns: Ints, tokens: Counts, offsets: Ints, start_ns: int, end_ns: int
) -> npt.NDArray[np.int64]:
    """int64[n]: tokens of each request that arrived in (start, end].

    The interval is closed at its end because a token belongs to the time that made it: the last
    token of a run ends its window, and adjoining windows never count a token twice.
    """
    inside = (at_ns > start_ns) & (at_ns <= end_ns)
    return segment_sums(np.where(inside, tokens, 0), offsets)


def per_second(amount: float, seconds: float) -> Figure:
    """A rate, 1/s; None over an empty window."""
    return Figure(amount / seconds) if seconds > 0 else Figure(None, "the window is empty")


def in_flight(opened_ns: Ints, closed_ns: Ints, start_ns: int, end_ns: int) -> Figure:
    """Time-average of open requests: open time inside the window / window. By Little's law this is
    throughput x time in system, exact at the edges because each interval is clipped.
    """
    inside = np.clip(closed_ns, start_ns, end_ns) - np.clip(opened_ns, start_ns, end_ns)
    return per_second(float(inside.sum()), end_ns - start_ns)


def covered_ns(lane: Ints, opened_ns: Ints, closed_ns: Ints, start_ns: int, end_ns: int) -> int:
    """Lane-time in the window with at least one interval, ns: the union of each lane's, summed."""
    if len(lane) == 0:
        return 0
    codes = np.unique(lane, return_inverse=True)[1]
    # Each lane gets its own stretch of one axis, so that a single sweep serves all of them.
    shift = codes * (end_ns - start_ns) - start_ns
    opened = np.clip(opened_ns, start_ns, end_ns) + shift
    closed = np.clip(closed_ns, start_ns, end_ns) + shift
    order = np.argsort(opened, kind="stable")
    opened, closed = opened[order], closed[order]
    reached = np.concatenate(([0], np.maximum.accumulate(closed)[:-1]))
    return int(np.maximum(0, closed - np.maximum(opened, reached)).sum())


def lane_occupancy(open_ns: int, lanes: int, window_ns: int) -> Figure:
    """Share of lane-time with at least one open request, 0..1; `open_ns` from `covered_ns`."""
    return per_second(open_ns, lanes * window_ns)


def harness_bound(open_ns: int, open_or_gap_ns: int, lanes: int, window_ns: int) -> Figure:
    """Share of lane-time with no request open while a recorded gap runs, 0..1: load that the trace
    withholds and no engine could serve faster.
    """
    return per_second(open_or_gap_ns - open_ns, lanes * window_ns)


def session_engine_bound(critical_s: Floats, makespan_s: Floats) -> Figure:
    """Of all time that sessions took, the share in requests on the paths that decided their ends.

    The rest is recorded gaps, cut by the idle caps, and the client: no engine could shorten it.
    """
    total = float(makespan_s.sum())
    if total <= 0:
        return Figure(None, "no session drained")
    return Figure(float(critical_s.sum()) / total)


def little_residual(gauge_mean: float, in_flight_mean: float) -> Figure:
    """(sampled gauge of open requests - `in_flight` of the records) / `in_flight`. Little, 1961:
    both are L; what differs was open and not recorded (above 0), or the reverse.
    """
    if in_flight_mean <= 0:
        return Figure(None, "no request was open in the window")
    return Figure((gauge_mean - in_flight_mean) / in_flight_mean)
