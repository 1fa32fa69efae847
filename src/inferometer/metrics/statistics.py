"""Means, percentiles and their confidence intervals, of any values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from inferometer.metrics.figures import Figure, Floats, Interval, Ints

MIN_SESSIONS = 6
"""Sessions below which a resampled interval is left open. With fewer than six independent values
even the order statistics of a median have no 95 % interval."""


def mean(values: Floats) -> Figure:
    """Arithmetic mean; None without values."""
    return Figure(float(np.mean(values))) if len(values) else Figure(None, "no values")


def percentile(values: Floats, percent: int) -> Figure:
    """Percentile, linear between order statistics; needs n >= 1 / (1 - percent/100) values."""
    return percentiles(values, (percent,))[0]


def percentiles(values: Floats, percents: Sequence[int]) -> list[Figure]:
    """`percentile` for several percents, in one pass over the values."""
    supported = [percent for percent in percents if _supports(len(values), percent)]
    found = np.percentile(values, supported) if supported else ()
    figures = dict(zip(supported, found, strict=True))
    return [
        Figure(float(figures[percent])) if percent in figures else _too_few(len(values), percent)
        for percent in percents
    ]


def percentile_with_errors(values: Floats, errors: int, percent: int) -> Figure:
    """`percentile` over the values and `errors` more that are infinite (may return +inf)."""
    count = len(values) + errors
    if not _supports(count, percent):
        return _too_few(count, percent)
    rank = (count - 1) * percent / 100
    if math.ceil(rank) >= len(values):
        return Figure(math.inf)
    low, high = np.sort(values)[[math.floor(rank), math.ceil(rank)]]
    return Figure(float(low + (high - low) * (rank - math.floor(rank))))


def highest_supported(count: int, percents: Sequence[int]) -> int | None:
    """The highest of `percents` that `count` values support, or None."""
    return max((percent for percent in percents if _supports(count, percent)), default=None)


def percentile_interval(values: Floats, percent: int, confidence: float = 0.95) -> Interval:
    """Distribution-free confidence interval of a percentile by order statistics.

    The bounds are the values of ranks l and u with P(B < l) and P(B >= u) at most half the error
    each, B ~ Binomial(n, percent/100). Assumes independent values. A side that n cannot close is
    open. Source: David and Nagaraja, Order Statistics, 3rd ed., section 7.1.
    """
    count, tail = len(values), (1 - confidence) / 2
    if count == 0:
        return Interval(None, None, "no values")
    cdf = _binomial_cdf(count, percent / 100)
    low = int(np.searchsorted(cdf, tail, side="right")) - 1
    high = int(np.searchsorted(cdf, 1 - tail, side="left"))
    ranked = np.sort(values)
    lo = float(ranked[low]) if low >= 0 else None
    hi = float(ranked[high]) if high < count else None
    is_open = lo is None or hi is None
    why = f"open: {count} values cannot bound p{percent} at {confidence:.0%}" if is_open else None
    return Interval(lo, hi, why)


def session_intervals(
    values: Floats,
    session: Ints,
    percents: Sequence[int],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """95 % bootstrap intervals of percentiles, resampling whole sessions with replacement.

    `session` int64[n] names the session of each value: the turns of one session are not
    independent. Open below `MIN_SESSIONS` sessions, and for a percentile that the values do not
    support. Source: Davison and Hinkley, Bootstrap Methods and their Application, section 3.8
    (clusters), percentile method.
    """
    names, codes = np.unique(session, return_inverse=True)
    if len(names) < MIN_SESSIONS:
        why = f"open: {len(names)} sessions, {MIN_SESSIONS} needed"
        return [Interval(None, None, why)] * len(percents)
    order = np.argsort(values)
    ranked, codes = values[order], codes[order]
    random = np.random.default_rng(seed)
    even = np.full(len(names), 1 / len(names))
    found = np.empty((resamples, len(percents)))
    shares = np.array(percents) / 100
    for index in range(resamples):
        drawn = np.cumsum(random.multinomial(len(names), even)[codes])
        ranks = (int(drawn[-1]) - 1) * shares
        below = np.floor(ranks)
        low = ranked[np.searchsorted(drawn, below, "right")]
        high = ranked[np.searchsorted(drawn, np.ceil(ranks), "right")]
        found[index] = low + (high - low) * (ranks - below)
    bounds = np.percentile(found, (2.5, 97.5), axis=0).T.tolist()
    return [
        Interval(lo, hi)
        if _supports(len(values), percent)
        else Interval(None, None, f"open: {_too_few(len(values), percent).why}")
        for percent, (lo, hi) in zip(percents, bounds, strict=True)
    ]


def _supports(count: int, percent: int) -> bool:
    # In integers: 1 / (1 - 0.9) is above 10 in floats.
    return count * (100 - percent) >= 100


def _too_few(count: int, percent: int) -> Figure:
    needed = math.ceil(100 / (100 - percent))
    return Figure(None, f"p{percent} needs {needed} values, there are {count}")


def _binomial_cdf(count: int, share: float) -> Floats:
    """float64[count + 1]: P(B <= k), by logarithms, since (1 - share)^count may underflow."""
    ranks = np.arange(1, count + 1)
    steps = np.log((count - ranks + 1) / ranks) + math.log(share / (1 - share))
    logs = count * math.log1p(-share) + np.concatenate(([0.0], np.cumsum(steps)))
    return np.cumsum(np.exp(logs))
