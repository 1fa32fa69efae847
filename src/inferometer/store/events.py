"""Token events of many requests, a batch at a time: what an analysis reads and does not keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inferometer.core import Arrivals

BATCH_EVENTS = 1 << 20
"""Events of a batch, unless a single request has more."""


class EventBatch(NamedTuple):
    """Events of the requests `first ... first + n - 1`, in order.

    `at_ns` int64[m], `tokens` int32[m] (1 where the server counts no chunk), `coalesced` bool[m],
    `offsets` int64[n + 1], `counted` bool[n].
    """

    first: int
    offsets: npt.NDArray[np.int64]
    at_ns: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int32]
    coalesced: npt.NDArray[np.bool_]
    counted: npt.NDArray[np.bool_]


def batches(arrivals: Sequence[Arrivals]) -> Iterator[EventBatch]:
    """Batches of arrivals that are in memory."""
    first = 0
    for size in batch_sizes([len(each) for each in arrivals]):
        yield batch(first, arrivals[first : first + size])
        first += size


def batch_sizes(events: Sequence[int], most: int = BATCH_EVENTS) -> Iterator[int]:
    """How many requests go together, by their events: `most`, or one request that has more."""
    size = total = 0
    for count in events:
        if size and total + count > most:
            yield size
            size = total = 0
        size += 1
        total += count
    if size:
        yield size


def batch(first: int, arrivals: Sequence[Arrivals]) -> EventBatch:
    """One batch."""
    lengths = np.array([len(each) for each in arrivals], dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    at_ns = np.concatenate([np.empty(0, np.int64), *(each.at_ns for each in arrivals)])
    tokens = np.ones(len(at_ns), np.int32)
    coalesced = np.zeros(len(at_ns), np.bool_)
    counted = np.array([each.tokens is not None for each in arrivals], dtype=np.bool_)
    for index, each in enumerate(arrivals):
        here = slice(offsets[index], offsets[index + 1])
        if each.tokens is not None:
            tokens[here] = each.tokens
        if each.coalesced is not None:
            coalesced[here] = each.coalesced
    return EventBatch(first, offsets, at_ns, tokens, coalesced, counted)
