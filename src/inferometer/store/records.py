"""Records and samples as rows: one flat row a request, arrival times as compact blobs.

The columns are the published format of `records.parquet` (docs/formats.md); a name once published
keeps its meaning.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inferometer.core import Arrivals, Exchange, Phase, Record, Sample, Status, Threading
from inferometer.store import varint
from inferometer.store.journal import Journal, read_rows, seal

MAX_EVENTS = 1 << 20
"""Kept of a request's token events, at most. Of more, the last stands for all from here on: it has
its own stamp, and the tokens of them all where the server counts each chunk.
"""

RECORD_COLUMNS = {
    "request_id": "VARCHAR",
    "phase": "VARCHAR",
    "status": "VARCHAR",
    "error": "VARCHAR",
    "http_status": "INTEGER",
    "session": "VARCHAR",
    "lane": "INTEGER",
    "play": "INTEGER",
    "turn": "INTEGER",
    "agent": "VARCHAR",
    "parent_agent": "VARCHAR",
    "ready_ns": "BIGINT",
    "scheduled_ns": "BIGINT",
    "dequeued_ns": "BIGINT",
    "connected_ns": "BIGINT",
    "sent_ns": "BIGINT",
    "body_sent_ns": "BIGINT",
    "first_byte_ns": "BIGINT",
    "first_token_ns": "BIGINT",
    "first_visible_ns": "BIGINT",
    "last_token_ns": "BIGINT",
    "end_ns": "BIGINT",
    "input_tokens": "BIGINT",
    "recorded_tokens": "BIGINT",
    "live_replies": "INTEGER",
    "canned_replies": "INTEGER",
    "max_tokens": "BIGINT",
    "prompt_tokens": "BIGINT",
    "cached_tokens": "BIGINT",
    "output_tokens": "BIGINT",
    "completion_tokens": "BIGINT",
    "token_source": "VARCHAR",
    "stamp_source": "VARCHAR",
    "reused_connection": "BOOLEAN",
    "events": "BIGINT",
    "arrivals": "BLOB",
    "arrival_tokens": "BLOB",
    "coalesced": "BLOB",
}

SAMPLE_COLUMNS = {"at_ns": "BIGINT", "name": "VARCHAR", "labels": "VARCHAR", "value": "DOUBLE"}


def record_journal(folder: Path) -> Journal:
    """Where the records of a point go as they finish."""
    return Journal(folder, "records", RECORD_COLUMNS)


def sample_journal(folder: Path) -> Journal:
    """Where its samples go."""
    return Journal(folder, "samples", SAMPLE_COLUMNS)


def seal_records(folder: Path) -> None:
    """The journal of a load that has ended becomes `records.parquet`. Raises StoreError."""
    seal(folder, "records", RECORD_COLUMNS)


def record_row(record: Record) -> dict[str, Any]:
    """A record as a row of the journal: blobs in base64."""
    return record_rows([record])[0]


def record_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """`record_row` of each, for much less than each by itself."""
    kept = [_within_cap(record.exchange.arrivals) for record in records]
    blobs = varint.encode_many([arrivals.at_ns for arrivals in kept])
    return [
        _row(record, blob, arrivals)
        for record, blob, arrivals in zip(records, blobs, kept, strict=True)
    ]


def _row(record: Record, blob: bytes, kept: Arrivals) -> dict[str, Any]:
    exchange = record.exchange
    return {
        "request_id": record.request_id,
        "phase": record.phase.value,
        "status": exchange.status.value,
        "error": exchange.error,
        "http_status": exchange.http_status,
        "session": record.session,
        "lane": record.lane,
        "play": record.play,
        "turn": record.turn,
        "agent": record.agent,
        "parent_agent": record.parent_agent,
        "ready_ns": record.ready_ns,
        "scheduled_ns": record.scheduled_ns,
        "dequeued_ns": record.dequeued_ns,
        "connected_ns": exchange.connected_ns,
        "sent_ns": exchange.sent_ns,
        "body_sent_ns": exchange.body_sent_ns,
        "first_byte_ns": exchange.first_byte_ns,
        "first_token_ns": record.first_token_ns,
        "first_visible_ns": exchange.first_visible_ns,
        "last_token_ns": record.last_token_ns,
        "end_ns": exchange.end_ns,
        "input_tokens": record.input_tokens,
        **_threading_row(record.threading),
        "max_tokens": record.max_tokens,
        "prompt_tokens": exchange.prompt_tokens,
        "cached_tokens": exchange.cached_tokens,
        "output_tokens": record.output_tokens,
        "completion_tokens": exchange.completion_tokens,
        "token_source": exchange.token_source,
        "stamp_source": exchange.stamp_source,
        "reused_connection": exchange.reused_connection,
        "events": len(exchange.arrivals),
        "arrivals": _text(blob),
        **_marks(kept),
    }


def sample_row(sample: Sample) -> dict[str, Any]:
    """A sample as a row."""
    return {
        "at_ns": sample.at_ns,
        "name": sample.name,
        "labels": sample.labels,
        "value": sample.value,
    }


def read_records(folder: Path) -> list[Record]:
    """Every record of a point, in the order in which the requests finished.

    All of them in memory: `read_table` is for an analysis.
    """
    rows = read_rows(folder, "records", RECORD_COLUMNS)
    return [_record(row) for row in sorted(rows, key=lambda row: int(row["end_ns"]))]


def read_samples(folder: Path) -> list[Sample]:
    """Every sample of a point."""
    return [Sample(**row) for row in read_rows(folder, "samples", SAMPLE_COLUMNS)]


def _threading_row(threading: Threading | None) -> dict[str, int | None]:
    if threading is None:
        return {"recorded_tokens": None, "live_replies": None, "canned_replies": None}
    return {
        "recorded_tokens": threading.recorded_tokens,
        "live_replies": threading.live,
        "canned_replies": threading.canned,
    }


def _threading(row: dict[str, Any]) -> Threading | None:
    """None too in files from before there was any."""
    recorded = row.get("recorded_tokens")
    if recorded is None:
        return None
    return Threading(recorded, row["live_replies"], row["canned_replies"])


def _marks(arrivals: Arrivals) -> dict[str, str | None]:
    """What stands beside the arrival times, of those that are kept."""
    blobs: dict[str, str | None] = {"arrival_tokens": None, "coalesced": None}
    if arrivals.tokens is not None:
        blobs["arrival_tokens"] = _text(varint.encode(arrivals.tokens.astype(np.int64)))
    if arrivals.coalesced is not None:
        blobs["coalesced"] = _text(np.packbits(arrivals.coalesced).tobytes())
    return blobs


def _within_cap(arrivals: Arrivals) -> Arrivals:
    """At most MAX_EVENTS of them; see there."""
    if len(arrivals) <= MAX_EVENTS:
        return arrivals
    kept = np.append(np.arange(MAX_EVENTS - 1), len(arrivals) - 1)
    tokens, coalesced = arrivals.tokens, arrivals.coalesced
    if tokens is not None:
        tokens = np.append(tokens[: MAX_EVENTS - 1], tokens[MAX_EVENTS - 1 :].sum(dtype=np.int32))
    return Arrivals(arrivals.at_ns[kept], tokens, None if coalesced is None else coalesced[kept])


def _text(blob: bytes) -> str:
    return base64.b64encode(blob).decode("ascii")


def _blob(value: bytes | str | None) -> bytes | None:
    """A blob as parquet holds it, or as base64 text where it comes from a journal."""
    return base64.b64decode(value) if isinstance(value, str) else value


def _arrivals(row: dict[str, Any]) -> Arrivals:
    at_ns = varint.decode(_blob(row["arrivals"]) or b"")
    tokens, flags = _blob(row["arrival_tokens"]), _blob(row["coalesced"])
    return Arrivals(
        at_ns=at_ns,
        tokens=None if tokens is None else varint.decode(tokens).astype(np.int32),
        coalesced=None
        if flags is None
        else np.unpackbits(np.frombuffer(flags, np.uint8), count=len(at_ns)).astype(np.bool_),
    )


def _record(row: dict[str, Any]) -> Record:
    same = ("connected_ns", "sent_ns", "body_sent_ns", "first_byte_ns", "first_visible_ns")
    counts = ("prompt_tokens", "cached_tokens", "completion_tokens")
    rest = ("end_ns", "error", "http_status", "token_source", "stamp_source", "reused_connection")
    exchange = Exchange(
        **{name: row[name] for name in same + counts + rest},
        arrivals=_arrivals(row),
        status=Status(row["status"]),
    )
    who = ("request_id", "lane", "play", "turn", "session", "agent", "parent_agent")
    when = ("ready_ns", "scheduled_ns", "dequeued_ns", "input_tokens", "max_tokens")
    return Record(
        **{name: row[name] for name in who + when},
        phase=Phase(row["phase"]),
        exchange=exchange,
        threading=_threading(row),
    )
