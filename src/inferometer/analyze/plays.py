"""What decided how long each session play took, from its records alone; session trees not needed.

A turn is ready when the last of those it waits for has ended, so the one that ended at that very
time is the one it waited for. Failed requests count like others: they release who waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inferometer.analyze.columns import Columns
from inferometer.metrics import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Plays:
    """Plays without a warm-up turn that drained, float64[n] each, in seconds.

    `makespan`: first `sent` to last end. `critical`: of it, the time in requests on the chain of
    turns that decided the end. `join_wait`: summed over joins, from when an agent's own last turn
    had ended to when the last sub-agent it waited for had.
    """

    makespan: Floats
    critical: Floats
    join_wait: Floats


class Bounds(NamedTuple):
    """Plays in an order of rows by lane and play: where each begins in it, and how many rows it
    has; `followed`: its lane has a later one.
    """

    order: Ints
    heads: Ints
    sizes: Ints
    followed: Bools


def drained_plays(cols: Columns) -> Plays:
    """The plays of a closed loop: one has drained where its lane has a later one."""
    sent = cols.take(cols.sent)
    found = bounds(sent)
    order = found.order
    counts = found.followed
    if len(order):
        counts = counts & np.logical_and.reduceat(sent.measured[order], found.heads)
    heads, sizes = found.heads[counts], found.sizes[counts]
    # Of single requests there may be millions.
    single = order[heads[sizes == 1]]
    took = (sent.end_ns[single] - sent.sent_ns[single]) / 1e9
    several = zip(heads[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True)
    times = [play_times(sent, order[low : low + size]) for low, size in several]
    rows = np.array(times, np.float64).reshape(-1, 3)
    return Plays(
        np.append(took, rows[:, 0]),
        np.append(took, rows[:, 1]),
        np.append(np.zeros(len(took)), rows[:, 2]),
    )


def bounds(sent: Columns) -> Bounds:
    """The plays of requests that were sent."""
    order = np.lexsort((sent.play, sent.lane))
    if len(order) == 0:
        return Bounds(order, order, order, np.zeros(0, np.bool_))
    lane, play = sent.lane[order], sent.play[order]
    heads = np.flatnonzero(np.diff(lane, prepend=lane[0] - 1) | np.diff(play, prepend=play[0] - 1))
    followed = np.append(lane[heads][1:] == lane[heads][:-1], False)
    return Bounds(order, heads, np.diff(heads, append=len(order)), followed)


def play_times(sent: Columns, rows: Ints) -> tuple[float, float, float]:
    """Makespan, critical path and join wait of the requests of one play, s."""
    opened, closed = sent.sent_ns[rows], sent.end_ns[rows]
    ready, agent, parent = sent.ready_ns[rows], sent.agent[rows], sent.parent[rows]
    makespan = int(closed.max() - opened.min())
    critical = _critical_ns(opened, closed, ready)
    return makespan / 1e9, critical / 1e9, _join_wait_ns(closed, ready, agent, parent) / 1e9


def _critical_ns(opened: Ints, closed: Ints, ready: Ints) -> int:
    """Time in requests along the chain that ends last; gaps and lateness are not in it."""
    by_end: dict[int, int] = {}
    for row, end in enumerate(closed.tolist()):
        by_end.setdefault(end, row)
    at: int | None = int(closed.argmax())
    spent, seen = 0, set[int]()
    while at is not None and at not in seen:
        seen.add(at)
        spent += int(closed[at] - opened[at])
        at = by_end.get(int(ready[at]))
    return spent


def _join_wait_ns(closed: Ints, ready: Ints, agent: Ints, parent: Ints) -> int:
    """Summed over distinct (agent, time) at which a sub-agent was the last to end."""
    by_end: dict[int, list[int]] = {}
    for row, end in enumerate(closed.tolist()):
        by_end.setdefault(end, []).append(row)
    joins = {
        (mine, at)
        for mine, at in zip(agent.tolist(), ready.tolist(), strict=True)
        if any(parent[row] == mine for row in by_end.get(at, ()))
    }
    waited = 0
    for mine, at in joins:
        own = closed[(agent == mine) & (closed <= at)]
        waited += at - int(own.max()) if len(own) else 0
    return waited
