"""The window of a point, and the part of it that rates are taken over.

A duration run has the window that its client declared: from the hand-over out of warm-up, for the
declared time. A request-count run has one by its records, and inside it a steady part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import Columns
from inferometer.core import Status, Window
from inferometer.metrics import Bools, Ints
from inferometer.store import ABSENT

STEADY_MIN_SHARE = 0.5
"""Share of the window's tokens that the steady part must hold to speak for the whole: below a half,
most of what was measured would be thrown away."""


@dataclass(frozen=True, slots=True)
class Windows:
    """`whole` chooses the latency population, `rates` is what rates and occupancy are taken over.

    `steady` is None for a duration run, which needs none; `note` says what `rates` is.
    """

    whole: Window
    rates: Window
    steady: bool | None
    note: str | None


def sent_inside(cols: Columns, window: Window) -> Bools:
    """Measured requests that were sent, or failed before they could be, in [start, end)."""
    return cols.measured & (cols.tried_ns >= window.start_ns) & (cols.tried_ns < window.end_ns)


def counts_in_rates(cols: Columns) -> Bools:
    """Requests whose tokens count: ended OK or censored, warm-up too. Failed ones do not."""
    return cols.ended(Status.OK, Status.CENSORED)


def output_inside(cols: Columns, window: Window) -> metrics.Floats:
    """Output tokens of each request that arrived in the window, float64[n].

    Without counts a chunk the final count is spread evenly over the request's events. Tokens that
    never showed a text (half a character at the end, an end token) are taken as of its last event.
    """
    inside = cols.inside(window)
    spread = cols.osl / np.maximum(cols.events, 1)
    ended = (cols.last_ns > window.start_ns) & (cols.last_ns <= window.end_ns)
    unseen = np.where(ended, np.maximum(cols.osl - cols.shown, 0), 0)
    return np.where(cols.counted, inside + unseen, spread * inside)


def first_inside(cols: Columns, window: Window) -> Bools:
    """Requests whose first token, and with it their input, falls in (start, end]."""
    return (cols.first_ns > window.start_ns) & (cols.first_ns <= window.end_ns)


def find_windows(
    cols: Columns, declared: Window, lanes: int, *, open_loop: bool = False
) -> Windows:
    """Both windows of a run. `declared` is the client's own, `lanes` how many it had."""
    if declared.kind == "duration":
        cols.source.foresee([declared], _latencies_of(cols, declared))
        return Windows(declared, declared, None, None)
    whole = _first_sent_to_last_token(cols, declared)
    pooled = _latencies_of(cols, whole)
    steady = _while_arriving(cols, whole) if open_loop else _all_lanes_busy(cols, whole, lanes)
    if steady is None:
        cols.source.foresee([whole], pooled)
        never = "nothing arrived in it" if open_loop else "at no time all lanes were busy"
        return Windows(whole, whole, False, f"over the whole window: {never}")
    cols.source.foresee([whole, steady], pooled)
    share = _tokens(cols, steady) / max(_tokens(cols, whole), 1.0)
    if share < STEADY_MIN_SHARE:
        note = f"over the whole window: its steady part holds {share:.0%} of the tokens"
        return Windows(whole, whole, False, note)
    note = f"over the steady part, {steady.seconds:.3f} of {whole.seconds:.3f} s"
    return Windows(whole, steady, True, note)


def _latencies_of(cols: Columns, window: Window) -> Bools:
    """Whose gaps will be asked for, among all requests: the timed ones of the population."""
    mask = np.zeros(cols.source.count, np.bool_)
    mask[cols.rows[sent_inside(cols, window) & timed(cols)]] = True
    return mask


def timed(cols: Columns) -> Bools:
    """Requests that have latencies: ended OK, with a token."""
    return cols.ended(Status.OK) & cols.sent & (cols.events > 0)


def _while_arriving(cols: Columns, whole: Window) -> Window | None:
    """Of an open loop: from the first request sent to the last."""
    sent = cols.sent_ns[cols.measured & cols.sent]
    if len(sent) == 0:
        return None
    end_ns = min(whole.end_ns, int(sent.max()))
    return replace(whole, end_ns=end_ns) if end_ns > whole.start_ns else None


def _first_sent_to_last_token(cols: Columns, declared: Window) -> Window:
    first = cols.sent_ns[cols.measured & cols.sent]
    last = cols.last_ns[cols.measured & counts_in_rates(cols) & (cols.events > 0)]
    if len(first) == 0 or len(last) == 0:
        return declared
    return replace(declared, start_ns=int(first.min()), end_ns=int(last.max()))


def _all_lanes_busy(cols: Columns, whole: Window, lanes: int) -> Window | None:
    """From when the last lane has begun to when the first has nothing left to do.

    The turnaround between two requests of a lane counts as busy: the lane had work.
    """
    opened, closed = _per_lane(cols)
    if len(opened) < lanes:
        return None
    start_ns = max(whole.start_ns, int(opened.max()))
    end_ns = min(whole.end_ns, int(closed.min()))
    return replace(whole, start_ns=start_ns, end_ns=end_ns) if end_ns > start_ns else None


def _per_lane(cols: Columns) -> tuple[Ints, Ints]:
    """First `sent` and last token (or end, without one) of every lane that sent something."""
    sent = cols.sent
    names, lane = np.unique(cols.lane[sent], return_inverse=True)
    last = np.where(cols.last_ns != ABSENT, cols.last_ns, cols.end_ns)[sent]
    opened = np.full(len(names), np.iinfo(np.int64).max)
    closed = np.full(len(names), ABSENT)
    np.minimum.at(opened, lane, cols.sent_ns[sent])
    np.maximum.at(closed, lane, last)
    return opened, closed


def _tokens(cols: Columns, window: Window) -> float:
    counted = counts_in_rates(cols)
    read = cols.input_tokens[counted & first_inside(cols, window)].sum()
    return float(output_inside(cols, window)[counted].sum() + read)
