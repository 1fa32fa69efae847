"""Latencies of single requests and of the chunks and tokens they came in. See the package for the
form of the arrays.
"""

from __future__ import annotations

import numpy as np

from inferometer.metrics.figures import NS, Bools, Counts, Figure, Floats, Ints, seconds


def ttft(first_token_ns: Ints, sent_ns: Ints) -> Floats:
    """Time to first token, s: first token-bearing event (content, reasoning, tool-call arguments,
    refusal) minus `sent`, the stamp just before the first body byte on a connected socket.
    """
    return seconds(first_token_ns - sent_ns)


def ttft_scheduled(first_token_ns: Ints, scheduled_ns: Ints) -> Floats:
    """Time to first token as the schedule sees it, s: first token-bearing event minus the time the
    request was due. What a late client adds shows here and not in `ttft`.
    """
    return seconds(first_token_ns - scheduled_ns)


def ttfv(first_visible_ns: Ints, sent_ns: Ints) -> Floats:
    """Time to first visible token, s: first token that is not reasoning minus `sent`."""
    return seconds(first_visible_ns - sent_ns)


def e2el_scheduled(last_token_ns: Ints, scheduled_ns: Ints) -> Floats:
    """End-to-end latency as the schedule sees it, s: last token-bearing event minus the time the
    request was due.
    """
    return seconds(last_token_ns - scheduled_ns)


def e2el(last_token_ns: Ints, sent_ns: Ints) -> Floats:
    """End-to-end latency, s: last token-bearing event minus `sent`; a final usage chunk is none."""
    return seconds(last_token_ns - sent_ns)


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
    return np.where(known, seconds(span_ns) / np.where(known, later, 1), np.nan)


def chunk_gap(at_ns: Ints, offsets: Ints) -> Floats:
    """Pooled gaps between successive token-bearing arrivals of a request, s. Not a time a token: a
    chunk may carry several (speculative decoding, stream intervals).
    """
    return seconds(chunk_gaps_ns(at_ns, offsets))


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


def chunk_gap_of_each(at_ns: Ints, offsets: Ints, statistic: str) -> Floats:
    """float64[n], s: a statistic (`of_each`) of each request's own chunk gaps; NaN without any."""
    gaps = chunk_gaps_ns(at_ns, offsets)
    return of_each(seconds(gaps), _gaps_of_each(offsets), statistic)


def itl_of_each(at_ns: Ints, tokens: Counts, offsets: Ints, statistic: str) -> Floats:
    """float64[n], s: a statistic (`of_each`) of each request's own `itl`, one sample a token; NaN
    without any. Only for requests whose server counts each chunk.
    """
    each, times = itl_ns(at_ns, tokens, offsets)
    gaps = _gaps_of_each(np.concatenate(([0], np.cumsum(tokens > 0)))[offsets])
    ends = np.concatenate(([0], np.cumsum(times)))
    samples = np.diff(ends[np.concatenate(([0], np.cumsum(gaps)))])
    return of_each(np.repeat(each, times) / NS, samples, statistic)


def of_each(values: Floats, counts: Ints, statistic: str) -> Floats:
    """float64[n]: `mean`, `max` or a percentile such as `p99` of adjoining groups of `counts`
    values; NaN for an empty one.

    Percentiles are linear between order statistics, of any number of values: a group is all there
    is of its request, and no sample of it.
    """
    found = np.full(len(counts), np.nan)
    some = counts > 0
    ends = np.cumsum(counts)
    first, length = (ends - counts)[some], counts[some]
    if not some.any():
        return found
    if statistic == "mean":
        found[some] = np.add.reduceat(values, first) / length
    elif statistic == "max":
        found[some] = np.maximum.reduceat(values, first)
    else:
        ordered = values[np.lexsort((values, np.repeat(np.arange(len(counts)), counts)))]
        rank = (length - 1) * int(statistic.removeprefix("p")) / 100
        low = np.floor(rank).astype(np.int64)
        below, above = ordered[first + low], ordered[first + np.ceil(rank).astype(np.int64)]
        found[some] = below + (above - below) * (rank - low)
    return found


def _gaps_of_each(offsets: Ints) -> Ints:
    gaps: Ints = np.maximum(np.diff(offsets) - 1, 0)
    return gaps


def input_speed(input_tokens: Ints, ttft_s: Floats) -> Floats:
    """Prompt tokens, cached ones included, / `ttft` of each request, tok/s; infinite at no time."""
    return _over(input_tokens.astype(np.float64), ttft_s)


def e2e_intvty_of_each(osl: Ints, e2el_s: Floats) -> Floats:
    """osl / `e2el` of each request, tok/s: the inverse of `seconds_per_token`."""
    return _over(osl.astype(np.float64), e2el_s)


def _over(amounts: Floats, spans_s: Floats) -> Floats:
    there = spans_s > 0
    return np.where(there, amounts / np.where(there, spans_s, 1), np.inf)


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


def _within(between: Counts, offsets: Ints) -> Ints:
    """Drop, of values that stand between successive events, those across two requests."""
    edges = np.unique(offsets[1:-1])
    return np.delete(between, edges[(edges > 0) & (edges <= len(between))] - 1).astype(np.int64)
