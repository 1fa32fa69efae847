"""One row a play: which session it was, how long it took and why, and what its gaps came to.

From the records of a point alone, warm-up included; each row names the records that it is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferometer.analyze.columns import FAILURES, Columns, columns
from inferometer.analyze.plays import Bounds, bounds, play_times
from inferometer.core import Status
from inferometer.metrics import NS, Ints
from inferometer.store import ABSENT, RequestTable, RequestWords


@dataclass(frozen=True, slots=True)
class PlayRow:
    """A play as far as it was sent. Times in seconds, counts in tokens; None is unknown.

    `records` begins the `request_id` of each of its records. `start_s` counts from the window's
    start. `drained` is True where its lane went on to another play, None where nothing says. Gaps
    are summed over requests sent after warm-up: due less ready, and sent less ready.
    """

    records: str
    session: str
    lane: int
    play: int
    requests: int
    ok: int
    failed: int
    warmup: int
    agents: int
    drained: bool | None
    start_s: float
    makespan_s: float
    critical_path_s: float
    join_wait_s: float
    recorded_gap_s: float
    achieved_gap_s: float
    input_tokens: int
    cached_tokens: int | None
    output_tokens: int
    live_replies: int | None
    canned_replies: int | None


def play_rows(
    table: RequestTable, words: RequestWords, window_start_ns: int, *, open_loop: bool
) -> list[PlayRow]:
    """A row a play of which a request was sent, by lane and play.

    In an open loop a lane is a name, and nothing says whether a session drained.
    """
    cols = columns(table)
    sent = cols.take(cols.sent)
    found = bounds(sent)
    return [
        _row(sent, words, found, index, window_start_ns, open_loop=open_loop)
        for index in range(len(found.heads))
    ]


def _row(
    sent: Columns,
    words: RequestWords,
    found: Bounds,
    index: int,
    window_start_ns: int,
    *,
    open_loop: bool,
) -> PlayRow:
    head = found.heads[index]
    rows = found.order[head : head + found.sizes[index]]
    of = sent.take(_mask(rows, len(sent)))
    makespan_s, critical_s, join_wait_s = play_times(sent, rows)
    measured = of.take(of.measured)
    first = int(of.rows[0])
    named = words.texts["request_id"][first] or ""
    drained = None if open_loop or not found.followed[index] else True
    return PlayRow(
        records=named.rpartition("-")[0],
        session=words.texts["session"][first] or "",
        lane=int(of.lane[0]),
        play=int(of.play[0]),
        requests=len(of),
        ok=of.count(Status.OK),
        failed=of.count(*FAILURES),
        warmup=len(of) - len(measured),
        agents=len(np.unique(of.agent)),
        drained=drained,
        start_s=float(of.sent_ns.min() - window_start_ns) / NS,
        makespan_s=makespan_s,
        critical_path_s=critical_s,
        join_wait_s=join_wait_s,
        recorded_gap_s=_seconds(measured.scheduled_ns, measured.ready_ns),
        achieved_gap_s=_seconds(measured.sent_ns, measured.ready_ns),
        input_tokens=int(of.input_tokens.sum()),
        cached_tokens=_sum(of.cached),
        output_tokens=int(of.osl.sum()),
        live_replies=_sum(of.live),
        canned_replies=_sum(of.canned),
    )


def _mask(rows: Ints, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask


def _seconds(late: Ints, early: Ints) -> float:
    """An arrival that waited for a place was ready late, and has no gap."""
    return float(np.maximum(late - early, 0).sum()) / NS


def _sum(values: Ints) -> int | None:
    """Of those that are known; None where none is."""
    known = values[values != ABSENT]
    return int(known.sum()) if len(known) else None
