"""Requests as bars in rows: each lane has as many rows as it has requests at a time.

The main agent's requests take the first row of their lane that is free, those of sub-agents one
below it, so that a lane reads as a tree does: its trunk above, its branches under it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferometer.metrics import Bools, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """`order` int64[m]: requests by row, and by time within it; `lane` and `track` int64[r] of each
    row, `counts` int64[r] how many requests it holds.
    """

    order: Ints
    lane: Ints
    track: Ints
    counts: Ints


def rows_of(lane: Ints, opened_ns: Ints, closed_ns: Ints, sub_agent: Bools) -> Rows:
    """Every request in a row in which nothing else is open. int64[n] and bool[n], any order."""
    track = np.zeros(len(lane), np.int64)
    free: dict[int, list[int]] = {}
    for index in np.lexsort((closed_ns, sub_agent, opened_ns)).tolist():
        ends = free.setdefault(int(lane[index]), [])
        track[index] = place = _place(ends, int(opened_ns[index]), int(sub_agent[index]))
        ends.extend([_NEVER] * (place + 1 - len(ends)))
        ends[place] = int(closed_ns[index])
    order = np.lexsort((closed_ns, opened_ns, track, lane))
    pairs = np.stack((lane[order], track[order]), axis=1)
    starts = np.flatnonzero(np.any(np.diff(pairs, axis=0, prepend=_NEVER), axis=1))
    counts = np.diff(np.append(starts, len(order)))
    return Rows(order, pairs[starts, 0], pairs[starts, 1], counts)


_NEVER = int(np.iinfo(np.int64).min // 4)


def _place(ends: list[int], opened: int, first: int) -> int:
    """The first row, from `first` on, whose last request has ended."""
    free = (row for row in range(first, len(ends)) if ends[row] <= opened)
    return next(free, max(first, len(ends)))


def whole_lanes(lane: Ints, most: int) -> Bools:
    """Which requests to draw of too many: those of whole lanes, from the first on, `most` at most
    together; of a single lane that has more, all.
    """
    names, counts = np.unique(lane, return_counts=True)
    kept = max(int(np.searchsorted(np.cumsum(counts), most, "right")), 1)
    mask: Bools = np.isin(lane, names[:kept])
    return mask
