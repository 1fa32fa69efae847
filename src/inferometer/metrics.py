"""Every published formula, a pure function of arrays and scalars. No I/O; knows no record, no file.

Stamps are int64 nanoseconds of one monotonic clock, results are seconds, tokens or joules as the
name says. Token events of many requests come as one flat array and `offsets` (int64[n + 1]): the
events of request i are `[offsets[i]:offsets[i + 1]]`, in order of arrival. In float arrays NaN is
an unknown value; a `Figure` without a value says why. Definitions: `docs/metrics.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NS = 1e9
MIN_SESSIONS = 6
"""Sessions below which a resampled interval is left open. With fewer than six independent values
even the order statistics of a median have no 95 % interval."""
MAX_POWER_GAP_S = 3.0
"""Longest gap between two power samples over which a straight line is still believed."""
DURATION_SLACK_S, DURATION_SLACK_SHARE = 0.5, 0.01
COUNTER_SLACK_SHARE = 0.05


class Figure(NamedTuple):
    """A number, or None; `why` says why there is none, or what to know of the one there is."""

    value: float | None
    why: str | None = None


class Interval(NamedTuple):
    """A confidence interval; a None bound is open, and `why` says so."""

    lo: float | None
    hi: float | None
    why: str | None = None


class PowerSeries(NamedTuple):
    """Power of one GPU: `at_ns` int64[n] ascending, `watts` float64[n], and where the card has an
    energy counter `counter_j` float64[n], cumulative joules at the same stamps.
    """

    at_ns: Ints
    watts: Floats
    counter_j: Floats | None


# Latency of a request


def ttft(first_token_ns: Ints, sent_ns: Ints) -> Floats:
    """Time to first token, s: first token-bearing event (content, reasoning, tool-call arguments,
    refusal) minus `sent`, the stamp just before the first body byte on a connected socket.
    """
    return _seconds(first_token_ns - sent_ns)


def ttft_scheduled(first_token_ns: Ints, scheduled_ns: Ints) -> Floats:
    """Time to first token as the schedule sees it, s: first token-bearing event minus the time the
    request was due. What a late client adds shows here and not in `ttft`.
    """
    return _seconds(first_token_ns - scheduled_ns)


def ttfv(first_visible_ns: Ints, sent_ns: Ints) -> Floats:
    """Time to first visible token, s: first token that is not reasoning minus `sent`."""
    return _seconds(first_visible_ns - sent_ns)


def e2el_scheduled(last_token_ns: Ints, scheduled_ns: Ints) -> Floats:
    """End-to-end latency as the schedule sees it, s: last token-bearing event minus the time the
    request was due.
    """
    return _seconds(last_token_ns - scheduled_ns)


def e2el(last_token_ns: Ints, sent_ns: Ints) -> Floats:
    """End-to-end latency, s: last token-bearing event minus `sent`; a final usage chunk is none."""
    return _seconds(last_token_ns - sent_ns)


def segment_sums(values: Counts | Bools, offsets: Ints) -> Ints:
    """int64[n]: sum of each request's events; requests without any give 0."""
    sums = np.zeros(len(offsets) - 1, np.int64)
    some = np.diff(offsets) > 0
    # `reduceat` has no empty segment; without them the others still adjoin.
    if some.any():
        sums[some] = np.add.reduceat(values, offsets[:-1][some], dtype=np.int64)
    return sums


def tokens_at_first(at_ns: Ints, tokens: Counts, offsets: Ints) -> Ints:
    """int64[n]: tokens of all events that share the stamp of their request's first event.

    `tokens` holds the count of each event, or 1 where the server does not say (assumed).
    """
    lengths = np.diff(offsets)
    first = np.repeat(at_ns[offsets[:-1][lengths > 0]], lengths[lengths > 0])
    return segment_sums(np.where(at_ns == first, tokens, 0), offsets)


def tpot(first_token_ns: Ints, last_token_ns: Ints, osl: Ints, at_first: Ints) -> Floats:
    """Time per output token after the first, s: (last - first) / (osl - `at_first`).

    NaN where nothing came later than the first stamp: the divisor is then 0 in truth, whatever the
    assumed counts say, or the counts contradict each other (divisor below 1).
    """
    later, span_ns = osl - at_first, last_token_ns - first_token_ns
    known = (later > 0) & (span_ns > 0)
    return np.where(known, _seconds(span_ns) / np.where(known, later, 1), np.nan)


def chunk_gap(at_ns: Ints, offsets: Ints) -> Floats:
    """Pooled gaps between successive token-bearing arrivals of a request, s. Not a time a token: a
    chunk may carry several (speculative decoding, stream intervals).
    """
    return _seconds(chunk_gaps_ns(at_ns, offsets))


def chunk_gaps_ns(at_ns: Ints, offsets: Ints) -> Ints:
    """`chunk_gap` as stamped, ns."""
    return _within(np.diff(at_ns), offsets)


def itl(at_ns: Ints, tokens: Counts, offsets: Ints) -> Floats:
    """Pooled inter-token latency, s: gap / tokens of the later chunk, one sample a token.

    A chunk of k tokens gives k samples, so that a percentile is a share of tokens. Only for
    requests whose server counts each chunk. An event counted 0 is merged with the next counted one.
    """
    return np.repeat(*_itl(at_ns, tokens, offsets, NS))


def itl_ns(at_ns: Ints, tokens: Counts, offsets: Ints) -> tuple[Floats, Ints]:
    """`itl` in ns, one value a chunk, and how many samples each is."""
    return _itl(at_ns, tokens, offsets, 1.0)


def _itl(at_ns: Ints, tokens: Counts, offsets: Ints, unit: float) -> tuple[Floats, Ints]:
    counted = tokens > 0
    offsets = np.concatenate(([0], np.cumsum(counted)))[offsets]
    gaps = _within(np.diff(at_ns[counted]), offsets)
    later = _within(tokens[counted][1:], offsets)
    return gaps / unit / later, later


# Statistics


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


def intvty(tpot_percentile: Figure) -> Figure:
    """Interactivity, tok/s/user: 1 / pXX(`tpot`), percentile first, then the inverse. So
    `intvty_p90` is the speed that 90 % of requests reach or exceed.
    """
    if tpot_percentile.value is None or tpot_percentile.value <= 0:
        return Figure(None, tpot_percentile.why or "a time per token of zero has no inverse")
    return Figure(1 / tpot_percentile.value, tpot_percentile.why)


def seconds_per_token(e2el_s: Floats, osl: Ints) -> Floats:
    """`e2el` / osl of each request, s: what `e2e_intvty` is the inverse of."""
    return e2el_s / osl


# Rates and open requests


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


# Cost, energy, speed of light


def usd_per_mtok(usd_per_gpu_hour: float, tok_s_per_gpu: float) -> Figure:
    """Cost, $/Mtok: price of a GPU-hour / (tok/s/GPU x 3600 / 1e6). Which tokens the rate counts
    (input, output, total) is part of the name under which it is published.
    """
    if tok_s_per_gpu <= 0:
        return Figure(None, "no tokens")
    return Figure(usd_per_gpu_hour / (tok_s_per_gpu * 3600 / 1e6))


def gpu_energy(series: PowerSeries, start_ns: int, end_ns: int) -> Figure:
    """Energy of one GPU over the window, J: trapezoid, power interpolated at both edges.

    None unless the samples bracket the window, no gap that touches it exceeds `MAX_POWER_GAP_S`,
    and the card's energy counter, where there is one, agrees within 5 %.
    """
    at_ns, watts = series.at_ns, series.watts
    if len(at_ns) < 2 or at_ns[0] > start_ns or at_ns[-1] < end_ns or end_ns <= start_ns:
        return Figure(None, "the samples do not bracket the window")
    touching = (at_ns[1:] > start_ns) & (at_ns[:-1] < end_ns)
    gap_s = float(np.diff(at_ns)[touching].max()) / NS
    if gap_s > MAX_POWER_GAP_S:
        return Figure(None, f"a gap of {gap_s:.1f} s between samples")
    inside = at_ns[(at_ns > start_ns) & (at_ns < end_ns)]
    knots = np.concatenate(([start_ns], inside, [end_ns])) - start_ns
    energy_j = float(np.trapezoid(np.interp(knots, at_ns - start_ns, watts), knots / NS))
    if series.counter_j is not None:
        edges = np.interp([0, end_ns - start_ns], at_ns - start_ns, series.counter_j)
        counted_j = float(edges[1] - edges[0])
        if abs(counted_j - energy_j) > COUNTER_SLACK_SHARE * energy_j:
            return Figure(None, f"its energy counter says {counted_j:.0f} J, not {energy_j:.0f} J")
    return Figure(energy_j)


def energy(
    series: Mapping[str, PowerSeries],
    deployment: Sequence[str],
    start_ns: int,
    end_ns: int,
    reported_s: float,
) -> Figure:
    """Energy of a deployment over the window, J: the sum over its GPUs, named by UUID.

    GPUs in `series` that are not of the deployment are not counted. None if any GPU has no valid
    value, or the duration that the result reports differs from the window by more than
    max(0.5 s, 1 %).
    """
    window_s = (end_ns - start_ns) / NS
    if abs(reported_s - window_s) > max(DURATION_SLACK_S, DURATION_SLACK_SHARE * window_s):
        return Figure(None, f"reported {reported_s:.1f} s, the window is {window_s:.1f} s")
    if not deployment:
        return Figure(None, "no GPU is named")
    total_j = 0.0
    for uuid in deployment:
        if uuid not in series:
            return Figure(None, f"{uuid}: no power samples")
        figure = gpu_energy(series[uuid], start_ns, end_ns)
        if figure.value is None:
            return Figure(None, f"{uuid}: {figure.why}")
        total_j += figure.value
    return Figure(total_j)


def joules_per_token(energy_j: Figure, tokens: float) -> Figure:
    """J/token over the same window. Per input, output or total token: alternatives, not addends."""
    if energy_j.value is None or tokens <= 0:
        return Figure(None, energy_j.why or "no tokens")
    return Figure(energy_j.value / tokens)


def speed_of_light(measured: float, bound: float) -> Figure:
    """Measured rate / the rate that the roofline of the point allows, 0..1. Above 1 the bound, or
    what it assumes, is wrong. Source: Williams, Waterman and Patterson, CACM 52(4), 2009.
    """
    return Figure(measured / bound) if bound > 0 else Figure(None, "no bound")


def _seconds(span_ns: Counts) -> Floats:
    return span_ns / NS


def _within(between: Counts, offsets: Ints) -> Ints:
    """Drop, of values that stand between successive events, those across two requests."""
    edges = np.unique(offsets[1:-1])
    return np.delete(between, edges[(edges > 0) & (edges <= len(between))] - 1).astype(np.int64)


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
