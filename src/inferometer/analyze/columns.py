"""Records as columns: one array a field, and all token events in one flat array, joined once.

No formula and no choice of population here. A stamp or count that a record lacks is `ABSENT`; the
masks beside the arrays say which are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from inferometer.core import Phase, Record, Status
from inferometer.metrics import Bools, Counts, Ints, segment_sums

ABSENT = np.iinfo(np.int64).min
STATUSES = tuple(Status)
FAILURES = tuple(status for status in STATUSES if status.failed)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """n requests and their m token events, in the order of the records.

    `status` int8[n] indexes `STATUSES`; `session` int64[n] numbers distinct session names; `tried`
    is `sent`, or where the request never got that far the time it was handed to the transport;
    `counted` says that the server counted each chunk. Events: `at_ns` int64[m], `tokens` int32[m]
    (1 where not counted), `coalesced` bool[m], `offsets` int64[n + 1].
    """

    measured: Bools
    status: Ints
    lane: Ints
    play: Ints
    session: Ints
    ready_ns: Ints
    scheduled_ns: Ints
    tried_ns: Ints
    sent_ns: Ints
    end_ns: Ints
    visible_ns: Ints
    intended: Ints
    asked: Ints
    prompt: Ints
    cached: Ints
    completion: Ints
    counted: Bools
    offsets: Ints
    at_ns: Ints
    tokens: Counts
    coalesced: Bools

    def __len__(self) -> int:
        return len(self.status)

    def ended(self, *statuses: Status) -> Bools:
        """Requests that ended in one of these ways."""
        wanted = np.array([status in statuses for status in STATUSES], dtype=np.bool_)
        return wanted[self.status]

    def count(self, *statuses: Status) -> int:
        """How many ended in one of these ways."""
        return int(self.ended(*statuses).sum())

    @property
    def sent(self) -> Bools:
        """Requests whose body was begun."""
        mask: Bools = self.sent_ns != ABSENT
        return mask

    @property
    def events(self) -> Ints:
        """Token-bearing events of each request."""
        return np.diff(self.offsets)

    @property
    def first_ns(self) -> Ints:
        """Stamp of the first token-bearing event."""
        return self._at(self.offsets[:-1])

    @property
    def last_ns(self) -> Ints:
        """Stamp of the last token-bearing event."""
        return self._at(self.offsets[1:] - 1)

    @property
    def osl(self) -> Ints:
        """Output tokens: server usage, else the sum over the events (1 each where not counted)."""
        seen = segment_sums(self.tokens, self.offsets)
        return np.where(self.completion != ABSENT, self.completion, seen)

    @property
    def input_tokens(self) -> Ints:
        """Prompt tokens: server usage, else what the workload meant to send."""
        return np.where(self.prompt != ABSENT, self.prompt, self.intended)

    def take(self, mask: Bools) -> Columns:
        """The requests where `mask` is true, with their events."""
        if mask.all():
            return self
        events = np.repeat(mask, self.events)
        offsets = np.concatenate(([0], np.cumsum(self.events[mask])))
        per_event = {name: getattr(self, name)[events] for name in _PER_EVENT}
        per_request = {name: getattr(self, name)[mask] for name in _PER_REQUEST}
        return Columns(offsets=offsets, **per_request, **per_event)

    def _at(self, index: Ints) -> Ints:
        found = np.full(len(self), ABSENT)
        some = self.events > 0
        found[some] = self.at_ns[index[some]]
        return found


_PER_EVENT = ("at_ns", "tokens", "coalesced")
_PER_REQUEST = tuple(
    field.name for field in fields(Columns) if field.name not in (*_PER_EVENT, "offsets")
)


def columns(records: Sequence[Record]) -> Columns:
    """Columns of the records, in their order."""
    exchanges = [record.exchange for record in records]
    # In sorted order, so that the seeded resampling by session is the same in every process.
    names = {name: i for i, name in enumerate(sorted({record.session for record in records}))}
    sent = _ints(exchange.sent_ns for exchange in exchanges)
    dequeued = _ints(record.dequeued_ns for record in records)
    return Columns(
        measured=np.array([record.phase is Phase.MEASURED for record in records], dtype=np.bool_),
        status=_ints(STATUSES.index(exchange.status) for exchange in exchanges),
        lane=_ints(record.lane for record in records),
        play=_ints(record.play for record in records),
        session=_ints(names[record.session] for record in records),
        ready_ns=_ints(record.ready_ns for record in records),
        scheduled_ns=_ints(record.scheduled_ns for record in records),
        tried_ns=np.where(sent != ABSENT, sent, dequeued),
        sent_ns=sent,
        end_ns=_ints(exchange.end_ns for exchange in exchanges),
        visible_ns=_ints(exchange.first_visible_ns for exchange in exchanges),
        intended=_ints(record.input_tokens for record in records),
        asked=_ints(record.max_tokens for record in records),
        prompt=_ints(exchange.prompt_tokens for exchange in exchanges),
        cached=_ints(exchange.cached_tokens for exchange in exchanges),
        completion=_ints(exchange.completion_tokens for exchange in exchanges),
        **_events(records)._asdict(),
    )


class _Events(NamedTuple):
    counted: Bools
    offsets: Ints
    at_ns: Ints
    tokens: Counts
    coalesced: Bools


def _events(records: Sequence[Record]) -> _Events:
    arrivals = [record.exchange.arrivals for record in records]
    lengths = _ints(len(each) for each in arrivals)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    at_ns = np.concatenate([np.empty(0, np.int64), *(each.at_ns for each in arrivals)])
    tokens = np.ones(len(at_ns), np.int32)
    coalesced = np.zeros(len(at_ns), np.bool_)
    for index, each in enumerate(arrivals):
        here = slice(offsets[index], offsets[index + 1])
        if each.tokens is not None:
            tokens[here] = each.tokens
        if each.coalesced is not None:
            coalesced[here] = each.coalesced
    counted = np.array([each.tokens is not None for each in arrivals], dtype=np.bool_)
    return _Events(counted, offsets, at_ns, tokens, coalesced)


def _ints(values: Iterable[int | None]) -> Ints:
    return np.array([ABSENT if value is None else value for value in values], dtype=np.int64)
