"""What an analysis needs of token events, taken in passes over batches of them.

The events themselves are never all in memory: a request has a few numbers here, and what is pooled
over requests goes into a `Pool`. One pass gives everything where it is told beforehand what will
be asked; what was not foreseen costs a pass of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from inferometer import metrics
from inferometer.analyze.pool import Pool
from inferometer.core import Window
from inferometer.metrics import Bools, Floats, Ints
from inferometer.store import EventBatch

Span = tuple[int, int]
"""A window: after its start, up to its end, ns."""


class Events:
    """The events of n requests, by reduction.

    `batches` gives them from the first request on, as often as it is asked.
    """

    def __init__(self, count: int, batches: Callable[[], Iterator[EventBatch]]) -> None:
        self.count = count
        self._batches = batches
        self._inside: dict[Span, Ints] = {}
        self._each: dict[str, Ints] = {}
        self._pooled: Bools | None = None
        self._gaps, self._itl = Pool(), Pool()

    def foresee(self, windows: Iterable[Window], pooled: Bools) -> None:
        """One pass for all that will be asked: tokens in these windows, gaps of these requests."""
        self._scan([_span(window) for window in windows], pooled)

    def each(self, name: str) -> Ints:
        """int64[n]: `tokens` of all events, `at_first` of those at the first stamp, how many events
        are `coalesced`, and whether the first one is, `first_coalesced`.
        """
        if name not in self._each:
            self._scan([], None)
        return self._each[name]

    def inside(self, window: Window) -> Ints:
        """int64[n]: tokens (events, where not counted) that arrived in the window."""
        if _span(window) not in self._inside:
            self._scan([_span(window)], None)
        return self._inside[_span(window)]

    def gaps(self, pooled: Bools) -> tuple[Pool, Pool]:
        """(chunk gaps, ITL) pooled over these requests; ITL over those counted by chunk."""
        if self._pooled is None or not np.array_equal(self._pooled, pooled):
            self._scan([], pooled)
        return self._gaps, self._itl

    def statistics(self, wanted: Sequence[tuple[str, str]], of: Bools) -> dict[str, Floats]:
        """float64[n] in s, in one pass: of each of these requests a statistic of its own
        `chunk_gap` or `itl`, by the name of both, e.g. `itl_p99`. NaN for the others, and without a
        value.
        """
        found = {f"{of_what}_{how}": np.full(self.count, np.nan) for of_what, how in wanted}
        for batch in self._batches() if found else ():
            here = of[batch.first : batch.first + len(batch.counted)]
            for of_what, how in wanted:
                rows = here & batch.counted if of_what == "itl" else here
                at_ns, tokens, offsets = _chosen(batch, rows)
                found[f"{of_what}_{how}"][batch.first + np.flatnonzero(rows)] = (
                    metrics.itl_of_each(at_ns, tokens, offsets, how)
                    if of_what == "itl"
                    else metrics.chunk_gap_of_each(at_ns, offsets, how)
                )
        return found

    def _scan(self, spans: list[Span], pooled: Bools | None) -> None:
        inside = {span: np.zeros(self.count, np.int64) for span in spans}
        names = ("tokens", "at_first", "coalesced", "first_coalesced")
        each = {name: np.zeros(self.count, np.int64) for name in names}
        gaps, itl = Pool(), Pool()
        for batch in self._batches():
            here = slice(batch.first, batch.first + len(batch.counted))
            at_ns, tokens, offsets = batch.at_ns, batch.tokens, batch.offsets
            each["tokens"][here] = metrics.segment_sums(tokens, offsets)
            each["at_first"][here] = metrics.tokens_at_first(at_ns, tokens, offsets)
            each["coalesced"][here] = metrics.segment_sums(batch.coalesced, offsets)
            some = np.flatnonzero(np.diff(offsets))
            each["first_coalesced"][batch.first + some] = batch.coalesced[offsets[some]]
            for span, found in inside.items():
                found[here] = metrics.tokens_inside(at_ns, tokens, offsets, *span)
            if pooled is not None:
                _pool(batch, pooled[here], gaps, itl)
        self._inside |= inside
        self._each = each
        if pooled is not None:
            self._pooled, self._gaps, self._itl = pooled, gaps, itl


def _span(window: Window) -> Span:
    return window.start_ns, window.end_ns


def _pool(batch: EventBatch, wanted: Bools, gaps: Pool, itl: Pool) -> None:
    at_ns, _, offsets = _chosen(batch, wanted)
    gaps.add(metrics.chunk_gaps_ns(at_ns, offsets).astype(np.float64))
    counted = wanted & batch.counted
    if counted.any():
        itl.add(*metrics.itl_ns(*_chosen(batch, counted)))


def _chosen(batch: EventBatch, wanted: Bools) -> tuple[Ints, metrics.Counts, Ints]:
    """Stamps, tokens and offsets of the chosen requests of a batch."""
    if wanted.all():
        return batch.at_ns, batch.tokens, batch.offsets
    lengths = np.diff(batch.offsets)
    events = np.repeat(wanted, lengths)
    offsets = np.concatenate(([0], np.cumsum(lengths[wanted])))
    return batch.at_ns[events], batch.tokens[events], offsets
