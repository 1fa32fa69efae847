"""All requests of a point as arrays, without their token events; those come in batches.

A million requests take about 200 MB here, whatever their length. Order: that of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from inferometer.core import Phase, Record, Status
from inferometer.deferred import Deferred
from inferometer.errors import StoreError
from inferometer.store import varint
from inferometer.store.events import EventBatch, batch_sizes, batches
from inferometer.store.parquet import connected, first_line

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = Deferred("duckdb")

ABSENT = int(np.iinfo(np.int64).min)
"""A stamp or count that a request lacks."""
STATUSES = tuple(Status)
NUMBERS = (
    "lane",
    "play",
    "ready_ns",
    "scheduled_ns",
    "dequeued_ns",
    "sent_ns",
    "first_token_ns",
    "first_visible_ns",
    "last_token_ns",
    "end_ns",
    "input_tokens",
    "max_tokens",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "completion_tokens",
    "events",
)
"""Columns of the store that are taken as they are."""
LATER = ("recorded_tokens", "live_replies", "canned_replies")
"""Likewise; files from before there were any lack them, and then nothing has them."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestTable:
    """`numbers`: int64[n] by name: `NUMBERS` and `LATER`; `measured` and `counted` (0 or 1);
    `status`, an index of `STATUSES`; `session`, numbered in order of name, and so `agent` and
    `parent`, which is -1 where an agent has none. `batches` gives the events, in this order, as
    often as it is called.
    """

    numbers: dict[str, npt.NDArray[np.int64]]
    batches: Callable[[], Iterator[EventBatch]]

    def __len__(self) -> int:
        return len(self.numbers["status"])


def table_of(records: Sequence[Record]) -> RequestTable:
    """A table of records that are in memory."""
    exchanges = [record.exchange for record in records]
    own = ("lane", "play", "ready_ns", "scheduled_ns", "dequeued_ns", "input_tokens", "max_tokens")
    derived = ("first_token_ns", "last_token_ns", "output_tokens")
    seen = ("sent_ns", "first_visible_ns", "end_ns", "prompt_tokens", "cached_tokens")
    numbers = {name: _ints([getattr(r, name) for r in records]) for name in own + derived}
    numbers |= {
        name: _ints([getattr(exchange, name) for exchange in exchanges])
        for name in (*seen, "completion_tokens")
    }
    threads = [record.threading for record in records]
    numbers["recorded_tokens"] = _ints([t.recorded_tokens if t else None for t in threads])
    numbers["live_replies"] = _ints([t.live if t else None for t in threads])
    numbers["canned_replies"] = _ints([t.canned if t else None for t in threads])
    numbers["events"] = _ints([len(exchange.arrivals) for exchange in exchanges])
    numbers["counted"] = _ints([exchange.arrivals.tokens is not None for exchange in exchanges])
    numbers["measured"] = _ints([record.phase is Phase.MEASURED for record in records])
    numbers["status"] = _ints([STATUSES.index(exchange.status) for exchange in exchanges])
    named = _numbers(record.session for record in records)
    agents = _numbers(name for record in records for name in (record.agent, record.parent_agent))
    numbers["session"] = _ints([named[record.session] for record in records])
    numbers["agent"] = _ints([agents[record.agent] for record in records])
    numbers["parent"] = _ints([agents[record.parent_agent] for record in records])
    arrivals = [exchange.arrivals for exchange in exchanges]
    return RequestTable(numbers, lambda: batches(arrivals))


def read_table(parquet: Path, *, sessions: bool) -> RequestTable:
    """A table of a parquet file of records; without `sessions` all have number 0, agents too.

    Raises StoreError where the file is damaged.
    """
    statuses = ", ".join(f"'{status.value}'" for status in STATUSES)
    rest = (
        f"(phase = '{Phase.MEASURED.value}')::BIGINT AS measured, "
        "(arrival_tokens IS NOT NULL)::BIGINT AS counted, "
        f"(list_position([{statuses}], status) - 1)::BIGINT AS status FROM read_parquet(?)"
    )
    try:
        with connected() as connection:
            query = f"SELECT {_selected(connection, parquet)}, {rest}"
            found = connection.execute(query, [str(parquet)]).fetchnumpy()
            numbers = {name: np.asarray(found[name], dtype=np.int64) for name in list(found)}
            numbers |= _names(connection, parquet, sessions=sessions)
    except duckdb.Error as error:
        raise StoreError(f"{parquet}: not readable: {first_line(error)}") from None
    return RequestTable(numbers, lambda: _batches(parquet, numbers["events"]))


def _selected(connection: duckdb.DuckDBPyConnection, parquet: Path) -> str:
    """The numbers, as integers."""
    asked = "SELECT name FROM parquet_schema(?)"
    there = {name for (name,) in connection.execute(asked, [str(parquet)]).fetchall()}
    named = [(name, name if name in there else "NULL") for name in LATER]
    named += [(name, name) for name in NUMBERS]
    return ", ".join(f"coalesce({have}, {ABSENT})::BIGINT AS {name}" for name, have in named)


def _names(
    connection: duckdb.DuckDBPyConnection, parquet: Path, *, sessions: bool
) -> dict[str, npt.NDArray[np.int64]]:
    """Sessions and agents as numbers, in order of name: what is drawn by session is then the same
    in every process."""
    if not sessions:
        rows = connection.execute("SELECT count(*) FROM read_parquet(?)", [str(parquet)]).fetchall()
        zeros = np.zeros(rows[0][0], np.int64)
        return {"session": zeros, "agent": zeros, "parent": zeros - 1}
    named = _distinct(connection, parquet, "session")
    agents = {
        **_distinct(connection, parquet, "agent"),
        **_distinct(connection, parquet, "parent_agent"),
    }
    return {
        "session": _codes(connection, parquet, "session", _numbers(named)),
        "agent": _codes(connection, parquet, "agent", _numbers(agents)),
        "parent": _codes(connection, parquet, "parent_agent", _numbers(agents)),
    }


def _distinct(
    connection: duckdb.DuckDBPyConnection, parquet: Path, column: str
) -> dict[str | None, None]:
    query = f"SELECT DISTINCT {column} FROM read_parquet(?)"
    return {name: None for (name,) in connection.execute(query, [str(parquet)]).fetchall()}


def _codes(
    connection: duckdb.DuckDBPyConnection,
    parquet: Path,
    column: str,
    numbers: Mapping[str | None, int],
) -> npt.NDArray[np.int64]:
    """A column of names as numbers, in the order of the file."""
    connection.execute(f"SELECT {column} FROM read_parquet(?)", [str(parquet)])
    codes: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    while some := connection.fetchmany(1 << 14):
        codes.append(np.array([numbers[name] for (name,) in some], dtype=np.int64))
    return np.concatenate(codes)


def _numbers(names: Iterable[str | None]) -> dict[str | None, int]:
    """Numbers of names in their order; -1 for none."""
    known = sorted({name for name in names if name is not None})
    return {None: -1, **{name: number for number, name in enumerate(known)}}


def _batches(parquet: Path, events: npt.NDArray[np.int64]) -> Iterator[EventBatch]:
    query = "SELECT arrivals, arrival_tokens, coalesced FROM read_parquet(?)"
    try:
        with connected() as connection:
            connection.execute(query, [str(parquet)])
            first = 0
            for size in batch_sizes(events.tolist()):
                rows: list[tuple[bytes, bytes | None, bytes | None]] = connection.fetchmany(size)
                yield _decoded(first, rows)
                first += size
    except duckdb.Error as error:
        raise StoreError(f"{parquet}: not readable: {first_line(error)}") from None


def _decoded(first: int, rows: Sequence[tuple[bytes, bytes | None, bytes | None]]) -> EventBatch:
    at_ns, offsets = varint.decode_many([row[0] for row in rows])
    counted = np.array([row[1] is not None for row in rows], dtype=np.bool_)
    tokens = np.ones(len(at_ns), np.int32)
    if counted.any():
        counts, _ = varint.decode_many([row[1] for row in rows if row[1] is not None])
        tokens[np.repeat(counted, np.diff(offsets))] = counts
    coalesced = np.zeros(len(at_ns), np.bool_)
    for index, (_, _, flags) in enumerate(rows):
        if flags is not None:
            here = slice(offsets[index], offsets[index + 1])
            count = int(offsets[index + 1] - offsets[index])
            coalesced[here] = np.unpackbits(np.frombuffer(flags, np.uint8), count=count)
    return EventBatch(first, offsets, at_ns, tokens, coalesced, counted)


def _ints(values: Sequence[int | None]) -> npt.NDArray[np.int64]:
    return np.array([ABSENT if value is None else value for value in values], dtype=np.int64)
