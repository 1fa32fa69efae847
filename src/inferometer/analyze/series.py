"""What a scraped series says of a window. Pure functions of arrays; no record, no file.

Counters are read as differences, linear between the two scrapes around each edge; gauges as
time-weighted means of straight lines between scrapes; histograms as differences of their buckets.
Never outside of what was scraped: a window that its scrapes do not bracket has no difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from inferometer import metrics
from inferometer.core import Window
from inferometer.metrics import Figure, Floats, Ints

MAX_GAP_S = 3.0
"""Longest gap between two scrapes over which a straight line is still believed, as of power."""
HISTOGRAM_GAP_S = 4.5
"""Of histograms, which are read every 3 s by the timetable: farther apart is a page that was late
or missing."""
EDGES_OPEN = 0.05
"""One long prompt may be counted at once, just where the window opens: above 5 % it is told."""
MIN_COVERED = 0.5
"""Share of the window that believed lines must cover for a mean to speak of the window."""
NS = 1e9


class Series(NamedTuple):
    """Values at scrapes: `at_ns` int64[n] ascending, `values` float64[n]."""

    at_ns: Ints
    values: Floats


def difference(series: Series, window: Window, apart_s: float = MAX_GAP_S) -> Figure:
    """By how much a counter grew in the window; a note where the scrapes around an edge are farther
    apart than `apart_s`.

    Null where scrapes do not bracket it, and where the counter fell on the way (a restart).
    """
    at_ns, values = series
    if not len(at_ns) or at_ns[0] > window.start_ns or at_ns[-1] < window.end_ns:
        return Figure(None, "no scrapes before and after the window")
    first = int(np.searchsorted(at_ns, window.start_ns, "right")) - 1
    last = int(np.searchsorted(at_ns, window.end_ns, "left"))
    falls = np.flatnonzero(np.diff(values[first : last + 1]) < 0)
    if len(falls):
        at_s = (at_ns[first + 1 + falls[0]] - window.start_ns) / NS
        return Figure(None, f"the counter fell {at_s:.1f} s into the window: reset")
    start, end = np.interp([window.start_ns, window.end_ns], at_ns, values)
    edges = (at_ns[min(first + 1, last)] - at_ns[first], at_ns[last] - at_ns[max(last - 1, 0)])
    gap_s = float(max(edges)) / NS
    note = f"scrapes around an edge are {gap_s:.1f} s apart" if gap_s > apart_s else None
    return Figure(float(end - start), note)


def edges_note(series: Series, window: Window) -> str | None:
    """How far off a counter's difference may be for what it jumped by between the scrapes around
    the window's edges, beyond its usual pace; None where that is little. The window is bracketed.
    """
    at_ns, values = series
    grown = difference(series, window).value
    if not grown:
        return None
    pace = grown / (window.end_ns - window.start_ns)
    jumped = 0.0
    for after in (
        int(np.searchsorted(at_ns, window.start_ns, "right")),
        int(np.searchsorted(at_ns, window.end_ns, "left")),
    ):
        if 0 < after < len(at_ns):
            usual = pace * float(at_ns[after] - at_ns[after - 1])
            jumped += max(0.0, float(values[after] - values[after - 1]) - usual)
    if jumped <= EDGES_OPEN * grown:
        return None
    return f"up to {jumped / grown:.0%} off: it jumped between the scrapes around an edge"


def time_mean(series: Series, window: Window) -> Figure:
    """Mean of a gauge over the time of the window that scrapes no more than 3 s apart cover."""
    at_ns, values = series
    if len(at_ns) < 2:
        return Figure(None, "fewer than two scrapes")
    start = np.clip(at_ns[:-1], window.start_ns, window.end_ns)
    end = np.clip(at_ns[1:], window.start_ns, window.end_ns)
    believed = (np.diff(at_ns) <= MAX_GAP_S * NS) & (end > start)
    spans = np.where(believed, end - start, 0).astype(np.float64)
    covered = float(spans.sum()) / max(window.end_ns - window.start_ns, 1)
    if covered < MIN_COVERED:
        return Figure(None, f"scrapes cover {covered:.0%} of the window")
    middle = (np.interp(start, at_ns, values) + np.interp(end, at_ns, values)) / 2
    note = None if covered > 0.99 else f"over the {covered:.0%} of the window that scrapes cover"
    return Figure(float((middle * spans).sum() / spans.sum()), note)


def highest(series: Series, window: Window) -> Figure:
    """The highest scrape inside the window; what was between two scrapes is not seen."""
    inside = (series.at_ns >= window.start_ns) & (series.at_ns <= window.end_ns)
    if not inside.any():
        return Figure(None, "no scrape in the window")
    return Figure(float(series.values[inside].max()))


def mean_while(series: Series, other: Series, window: Window) -> Figure:
    """Mean of a gauge over the scrapes in the window at which another one was above 0."""
    held = other.at_ns[other.values > 0]
    inside = (series.at_ns >= window.start_ns) & (series.at_ns <= window.end_ns)
    chosen = inside & np.isin(series.at_ns, held)
    if not chosen.any():
        return Figure(None, "in no scrape of the window")
    count = int(chosen.sum())
    return Figure(float(series.values[chosen].mean()), f"of {count} scrapes in the window")


class Histogram(NamedTuple):
    """How many observations fell at or below each bound: ascending, the last bound infinite."""

    bounds: Floats
    at_or_below: Floats

    @property
    def total(self) -> float:
        """All of them."""
        return float(self.at_or_below[-1]) if len(self.at_or_below) else 0.0


def histogram(buckets: Mapping[str, Series], window: Window) -> tuple[Histogram | None, str | None]:
    """Bucket differences over the window, by `le`; None with the reason where one has none."""
    found: list[tuple[float, float]] = []
    note = None
    for le, series in buckets.items():
        figure = difference(series, window, HISTOGRAM_GAP_S)
        if figure.value is None:
            return None, figure.why
        found.append((float(le), figure.value))
        note = note or figure.why
    found.sort()
    bounds = np.array([bound for bound, _ in found])
    counts = np.array([count for _, count in found])
    if not len(bounds) or not math.isinf(bounds[-1]):
        return None, "the histogram has no last bucket"
    # Buckets of one scrape agree; rounding of the edges may not.
    return Histogram(bounds, np.maximum.accumulate(counts)), note


def quantile(found: Histogram, percent: int, total: float | None = None) -> Figure:
    """Estimate of a percentile: linear inside the bucket that holds it, the first one from 0, and
    within what `total`, the sum of all observations, leaves room for.

    Null below 1 / (1 - XX) observations, and where it lies above the last finite bound.
    """
    count = round(found.total)
    if metrics.highest_supported(count, (percent,)) is None:
        return Figure(None, f"{count} observations in the window")
    rank = percent / 100 * found.total
    index = int(np.searchsorted(found.at_or_below, rank, "left"))
    low = found.bounds[index - 1] if index else min(0.0, float(found.bounds[0]))
    high = found.bounds[index]
    if math.isinf(high):
        return Figure(None, f"above the last bucket, {low:g}")
    before = found.at_or_below[index - 1] if index else 0.0
    inside = found.at_or_below[index] - before
    share = (rank - before) / inside if inside > 0 else 1.0
    value = float(low + (high - low) * share)
    note = f"estimate: inside the bucket from {low:g} to {high:g}"
    least, most = _room(found, index, rank, total)
    if value > most:
        return Figure(most, f"{note}, and at most this by the sum of all")
    if value < least:
        return Figure(least, f"{note}, and at least this by the sum of all")
    return Figure(value, note)


def _room(found: Histogram, index: int, rank: float, total: float | None) -> tuple[float, float]:
    """The least and the most that the value at `rank`, in bucket `index`, can be.

    All observations at the lower bounds of their buckets make the least sum there can be. What is
    above `rank` in the bucket is no less than the value, so that many times (value - lower bound)
    comes on top of it and may not exceed `total`. From above likewise.
    """
    counts = np.diff(found.at_or_below, prepend=0.0)
    lows = np.concatenate(([min(0.0, float(found.bounds[0]))], found.bounds[:-1]))
    low, high = float(lows[index]), float(found.bounds[index])
    if total is None:
        return low, high
    held = counts > 0
    above = float(found.at_or_below[index]) - rank
    below = counts[index] - above
    spare = total - float((counts * lows)[held].sum())
    short = float((counts[held] * found.bounds[held]).sum()) - total
    most = low + max(0.0, spare) / above if above > 0 else high
    least = high - max(0.0, short) / below if below > 0 else low
    return float(max(low, least)), float(min(high, most))
