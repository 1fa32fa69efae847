"""Requests as columns: one array a field. Token events are behind `Events`, and never all here.

No formula and no choice of population here. A stamp or count that a request lacks is `ABSENT`; the
masks beside the arrays say which are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from inferometer.analyze.events import Events
from inferometer.analyze.pool import Pool
from inferometer.core import Record, Status, Window
from inferometer.metrics import Bools, Floats, Ints
from inferometer.store import ABSENT, STATUSES, RequestTable, table_of

FAILURES = tuple(status for status in STATUSES if status.failed)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """n requests, in the order of the store.

    `status` int8[n] indexes `STATUSES`; `session` int64[n] numbers distinct session names, `agent`
    and `parent` those of agents (-1: none); `tried`
    is `sent`, or where the request never got that far the time it was handed to the transport;
    `counted` says that the server counted each chunk; `events` int64[n] are token-bearing ones,
    `first_ns` and `last_ns` the stamps of the first and the last; `osl` is by server usage, else
    the sum over the events (1 each where not counted). `recorded`, `live` and `canned` are
    of prompts with real answers in them. `rows` are the requests' numbers in `source`.
    """

    measured: Bools
    status: Ints
    lane: Ints
    play: Ints
    session: Ints
    agent: Ints
    parent: Ints
    ready_ns: Ints
    scheduled_ns: Ints
    tried_ns: Ints
    sent_ns: Ints
    end_ns: Ints
    visible_ns: Ints
    first_ns: Ints
    last_ns: Ints
    intended: Ints
    asked: Ints
    recorded: Ints
    live: Ints
    canned: Ints
    prompt: Ints
    cached: Ints
    completion: Ints
    osl: Ints
    events: Ints
    counted: Bools
    rows: Ints
    source: Events

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
    def shown(self) -> Ints:
        """Tokens of all events (events, where not counted)."""
        return self.source.each("tokens")[self.rows]

    @property
    def at_first(self) -> Ints:
        """Tokens of all events that share the first one's stamp."""
        return self.source.each("at_first")[self.rows]

    @property
    def coalesced(self) -> Ints:
        """Events that were read together with a later one."""
        return self.source.each("coalesced")[self.rows]

    @property
    def first_coalesced(self) -> Ints:
        """1 where the first event was, else 0."""
        return self.source.each("first_coalesced")[self.rows]

    def inside(self, window: Window) -> Ints:
        """Tokens (events, where not counted) of each request that arrived in the window."""
        return self.source.inside(window)[self.rows]

    def gaps(self) -> tuple[Pool, Pool]:
        """(chunk gaps, ITL) pooled over these requests."""
        return self.source.gaps(self.mask)

    def statistics(self, wanted: Sequence[tuple[str, str]]) -> dict[str, Floats]:
        """Of each request a statistic of its own chunk gaps or ITL, s: `Events.statistics`."""
        found = self.source.statistics(wanted, self.mask)
        return {name: values[self.rows] for name, values in found.items()}

    @property
    def mask(self) -> Bools:
        """These requests among all of the source."""
        mask = np.zeros(self.source.count, np.bool_)
        mask[self.rows] = True
        return mask

    @property
    def input_tokens(self) -> Ints:
        """Prompt tokens: server usage, else what the workload meant to send."""
        return np.where(self.prompt != ABSENT, self.prompt, self.intended)

    def take(self, mask: Bools) -> Columns:
        """The requests where `mask` is true."""
        if mask.all():
            return self
        return Columns(source=self.source, **{n: getattr(self, n)[mask] for n in _PER_REQUEST})


_PER_REQUEST = tuple(field.name for field in fields(Columns) if field.name != "source")


def columns(requests: Sequence[Record] | RequestTable) -> Columns:
    """Columns of records, or of a table of the store."""
    table = requests if isinstance(requests, RequestTable) else table_of(requests)
    found = table.numbers
    sent, events = found["sent_ns"], found["events"]
    return Columns(
        measured=found["measured"].astype(np.bool_),
        status=found["status"],
        lane=found["lane"],
        play=found["play"],
        session=found["session"],
        agent=found["agent"],
        parent=found["parent"],
        ready_ns=found["ready_ns"],
        scheduled_ns=found["scheduled_ns"],
        tried_ns=np.where(sent != ABSENT, sent, found["dequeued_ns"]),
        sent_ns=sent,
        end_ns=found["end_ns"],
        visible_ns=found["first_visible_ns"],
        first_ns=found["first_token_ns"],
        last_ns=found["last_token_ns"],
        intended=found["input_tokens"],
        asked=found["max_tokens"],
        recorded=found["recorded_tokens"],
        live=found["live_replies"],
        canned=found["canned_replies"],
        prompt=found["prompt_tokens"],
        cached=found["cached_tokens"],
        completion=found["completion_tokens"],
        osl=np.where(found["output_tokens"] != ABSENT, found["output_tokens"], 0),
        events=events,
        counted=found["counted"].astype(np.bool_),
        rows=np.arange(len(events)),
        source=Events(len(events), table.batches),
    )
