"""Time in bins, for what is drawn over it: tokens, gaps and counters a bin, steps, fewer points.

Pure functions of arrays, ns and counts. A bin is open at its start and closed at its end, as every
window here is: adjoining bins count nothing twice, and those of a window sum to the window's
figure. What is not known in a bin is NaN, never 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from inferometer import metrics
from inferometer.analyze.series import MAX_GAP_S, Series
from inferometer.metrics import Bools, Floats, Ints
from inferometer.store import EventBatch

NS = 1_000_000_000
OCTAVE = 64
"""Bins of a gap's length in an octave: a percentile is off by at most 0.6 %."""
_OCTAVES = 44
"""From 1 ns to 2^44 ns, nearly five hours; what is longer counts as that."""


@dataclass(frozen=True, slots=True)
class Bins:
    """`count` bins of `width_ns`, the first after `start_ns`."""

    start_ns: int
    width_ns: int
    count: int

    @property
    def edges_ns(self) -> Ints:
        """int64[count + 1]."""
        return self.start_ns + self.width_ns * np.arange(self.count + 1)

    def of(self, at_ns: Ints) -> Ints:
        """Each stamp's bin; -1 outside of all."""
        index = (at_ns - self.start_ns - 1) // self.width_ns
        return np.where((index >= 0) & (index < self.count), index, -1)


def bins_over(first_ns: int, last_ns: int, zero_ns: int, most: int, least_ns: int) -> Bins:
    """At most `most` bins of a round width (1, 2 or 5 times a power of ten) that cover first to
    last; `zero_ns` is one of their edges, and none is narrower than `least_ns`.
    """
    # Two bins are lost at the edges, where the first and the last stick out.
    wanted = max(least_ns, (last_ns - first_ns) / max(most - 2, 1), 1)
    power = 10 ** math.floor(math.log10(wanted))
    width = next(step * power for step in (1, 2, 5, 10) if step * power >= wanted)
    before = -(-(zero_ns - first_ns) // width)
    after = -(-(last_ns - zero_ns) // width)
    return Bins(zero_ns - before * width, width, max(before + after, 1))


def tokens_by_bin(batch: EventBatch, osl: Ints, wanted: Bools, bins: Bins) -> Floats:
    """float64[bins]: output tokens of the batch's `wanted` requests that arrived in each bin.

    Without counts a chunk a request's `osl` tokens are spread evenly over its events, as
    `output_tok_s` has it. `osl` and `wanted` are of the batch's requests.
    """
    lengths = np.diff(batch.offsets)
    spread = np.where(batch.counted, 0.0, osl / np.maximum(lengths, 1))
    by_event = np.where(np.repeat(batch.counted, lengths), batch.tokens, np.repeat(spread, lengths))
    index = bins.of(batch.at_ns)
    here = (index >= 0) & np.repeat(wanted, lengths)
    return sums_by_bin(index[here], by_event[here], bins)


def sums_by_bin(index: Ints, amounts: Ints | Floats, bins: Bins) -> Floats:
    """float64[bins]: the amounts of each bin; `index` is as of `Bins.of`, without -1."""
    return np.bincount(index, amounts, bins.count).astype(np.float64)


class GapBins:
    """Gaps between chunks by the bin in which they ended, in memory that no run length moves."""

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._counts = np.zeros((bins.count, OCTAVE * _OCTAVES), np.int64)

    def add(self, batch: EventBatch) -> None:
        """Take the gaps of a batch."""
        gaps = metrics.chunk_gaps_ns(batch.at_ns, batch.offsets)
        later = np.ones(len(batch.at_ns), np.bool_)
        later[batch.offsets[:-1][np.diff(batch.offsets) > 0]] = False
        index = self._bins.of(batch.at_ns[later])
        rank = np.floor(np.log2(np.maximum(gaps, 1)) * OCTAVE).astype(np.int64)
        here = index >= 0
        width = OCTAVE * _OCTAVES
        flat = index[here] * width + np.minimum(rank[here], width - 1)
        self._counts += np.bincount(flat, minlength=self._counts.size).reshape(-1, width)

    def percentile_s(self, percent: int) -> Floats:
        """float64[bins], s: the percentile by rank; NaN below 1 / (1 - XX) gaps."""
        upto = np.cumsum(self._counts, axis=1)
        total = upto[:, -1]
        rank = np.ceil(total * percent / 100)
        index = (upto < rank[:, None]).sum(axis=1)
        middle_s = 2.0 ** ((index + 0.5) / OCTAVE) / NS
        return np.where(total * (100 - percent) >= 100, middle_s, np.nan)


def growth_by_bin(counter: Series, bins: Bins) -> Floats:
    """float64[bins]: by how much a counter grew, linear between scrapes.

    NaN in a bin that scrapes do not bracket, that touches a stretch without any for over 3 s (or
    three times the usual), and in which the counter fell (a restart).
    """
    at_ns, values = counter
    if len(at_ns) < 2:
        return np.full(bins.count, np.nan)
    edges = bins.edges_ns
    grown = np.diff(np.interp(edges, at_ns, values, left=np.nan, right=np.nan))
    doubtful = (np.diff(at_ns) > longest_gap_ns(at_ns)) | (np.diff(values) < 0)
    # How many doubtful stretches begin before an edge, less how many end before it, and so on.
    opened = np.searchsorted(at_ns[:-1][doubtful], edges[1:], "left")
    closed = np.searchsorted(at_ns[1:][doubtful], edges[:-1], "right")
    return np.where(opened > closed, np.nan, grown)


def longest_gap_ns(at_ns: Ints) -> float:
    """Longest time between two samples over which a straight line is believed."""
    usual = float(np.median(np.diff(at_ns))) if len(at_ns) > 1 else 0.0
    return max(MAX_GAP_S * NS, 3 * usual)


def steps(opened_ns: Ints, closed_ns: Ints) -> Series:
    """How many intervals are open from each moment on; those that close there no longer are."""
    at_ns = np.concatenate((opened_ns, closed_ns))
    change = np.concatenate((np.ones(len(opened_ns)), -np.ones(len(closed_ns))))
    moments, which = np.unique(at_ns, return_inverse=True)
    return Series(moments, np.cumsum(np.bincount(which, change, len(moments))))


def spread_by_bin(at_ns: Ints, values: Floats, bins: Bins) -> tuple[Floats, Floats, Floats]:
    """Lowest, mean and highest value in each bin; NaN in one without any."""
    index = bins.of(at_ns)
    index, values = index[index >= 0], values[index >= 0]
    low, high = np.full(bins.count, np.inf), np.full(bins.count, -np.inf)
    np.minimum.at(low, index, values)
    np.maximum.at(high, index, values)
    count = np.bincount(index, minlength=bins.count)
    total = sums_by_bin(index, values, bins)
    none = count == 0
    mean = np.where(none, np.nan, total / np.maximum(count, 1))
    return np.where(none, np.nan, low), mean, np.where(none, np.nan, high)


def thinned(series: Series, most: int) -> Ints:
    """Positions of at most `most` points: the lowest and the highest of each stretch of time, and
    both ends, in order. No peak is lost, and nothing is averaged; NaN is kept as the lowest.
    """
    at_ns, values = series
    if len(at_ns) <= most:
        return np.arange(len(at_ns))
    buckets = max((most - 2) // 2, 1)
    span = max(int(at_ns[-1] - at_ns[0]), 1)
    bucket = np.minimum((at_ns - at_ns[0]) * buckets // span, buckets - 1)
    ranked = np.where(np.isnan(values), -np.inf, values)
    order = np.lexsort((ranked, bucket))
    first = np.flatnonzero(np.diff(bucket[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    ends = np.array([0, len(at_ns) - 1])
    return np.unique(np.concatenate((order[first], order[last], ends)))
