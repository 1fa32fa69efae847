"""Values pooled over all requests in bounded memory: exact while they are few, then in bins.

Values are nanoseconds, 0 or more. Up to `EXACT` of them are kept as they are. Beyond, all go into
bins that are 1/2048 of an octave wide, so that a percentile is off by at most 0.025 % and a mean
by nothing; how many requests there were then moves no memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from inferometer import metrics
from inferometer.metrics import Figure, Floats, Ints

EXACT = 1 << 22
"""32 MB of values."""
MANTISSA_BITS = 11
OCTAVES = 50
"""Up to 2^50 ns, 13 days; what is longer counts as that."""
_SHIFT = 52 - MANTISSA_BITS
_ONE = 1023 << MANTISSA_BITS
"""The bin of 1 ns, by the bits of a float64."""
_BINS = (OCTAVES << MANTISSA_BITS) + 1


class Pool:
    """A pooled distribution; results are in seconds."""

    def __init__(self, exact: int = EXACT) -> None:
        self.count = 0
        self._sum_ns = 0.0
        self._exact = exact
        self._values: list[Floats] = []
        self._bins: Ints | None = None

    def add(self, values_ns: Floats, times: Ints | None = None) -> None:
        """Take values, each as often as `times` says (int64[n], else once)."""
        count = len(values_ns) if times is None else int(times.sum())
        self.count += count
        self._sum_ns += float(values_ns.sum() if times is None else (values_ns * times).sum())
        if self._bins is None and self.count <= self._exact:
            self._values.append(values_ns if times is None else np.repeat(values_ns, times))
            return
        if self._bins is None:
            self._bins = np.zeros(_BINS, np.int64)
            for kept in self._values:
                self._bins += _binned(kept, None)
            self._values = []
        self._bins += _binned(values_ns, times)

    def mean(self) -> Figure:
        """The mean; None without values."""
        if self.count == 0:
            return Figure(None, "no values")
        if self._bins is None:
            return metrics.mean(np.concatenate(self._values) / metrics.NS)
        return Figure(self._sum_ns / self.count / metrics.NS)

    def percentiles(self, percents: Sequence[int]) -> list[Figure]:
        """As `metrics.percentiles`; a note says where they are of bins."""
        if self._bins is None:
            values = np.concatenate([np.empty(0), *self._values])
            return metrics.percentiles(values / metrics.NS, percents)
        ends = np.cumsum(self._bins)
        note = f"to within 0.025 %: {self.count} values, in bins"
        found = []
        for percent in percents:
            rank = (self.count - 1) * percent / 100
            low, high = (
                _middle_ns(int(np.searchsorted(ends, at, side="right")))
                for at in (math.floor(rank), math.ceil(rank))
            )
            value = low + (high - low) * (rank - math.floor(rank))
            found.append(Figure(value / metrics.NS, note))
        return found


def _binned(values_ns: Floats, times: Ints | None) -> Ints:
    """Counts by bin: 0 has what is below 1 ns, then `2^MANTISSA_BITS` bins an octave."""
    bits = np.ascontiguousarray(values_ns, dtype=np.float64).view(np.int64) >> _SHIFT
    keys = np.clip(bits - _ONE + 1, 0, _BINS - 1)
    if times is None:
        return np.bincount(keys, minlength=_BINS)
    return np.bincount(keys, weights=times, minlength=_BINS).astype(np.int64)


def _middle_ns(key: int) -> float:
    if key == 0:
        return 0.0
    edges = np.array([key - 1 + _ONE, key + _ONE], dtype=np.int64) << _SHIFT
    low, high = edges.view(np.float64).tolist()
    return float(low + high) / 2
