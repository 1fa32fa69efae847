"""Records are written in their order by a thread, and a full disk is told once."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inferometer.core import Arrivals, Exchange, Phase, Record, Status
from inferometer.run import recordwriter
from inferometer.run.recordwriter import RecordWriter
from inferometer.store import Journal, PointDir
from inferometer.store.records import RECORD_COLUMNS


def record(request_id: str) -> Record:
    """One that never got a connection: what is in it is not the matter here."""
    at_ns = np.zeros(0, dtype=np.int64)
    exchange = Exchange(
        connected_ns=None,
        sent_ns=None,
        body_sent_ns=None,
        first_byte_ns=None,
        first_visible_ns=None,
        end_ns=9,
        arrivals=Arrivals(at_ns, None, None),
        status=Status.CONNECT,
        error="refused",
        http_status=None,
        prompt_tokens=None,
        cached_tokens=None,
        completion_tokens=None,
        token_source="assumed",
        stamp_source="read",
        reused_connection=False,
    )
    return Record(
        request_id=request_id,
        phase=Phase.MEASURED,
        lane=0,
        play=0,
        turn=0,
        session="s",
        agent="root",
        parent_agent=None,
        ready_ns=1,
        scheduled_ns=2,
        dequeued_ns=3,
        input_tokens=4,
        max_tokens=5,
        exchange=exchange,
    )


def test_records_are_kept_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    failures: list[str] = []
    with Journal(tmp_path, "records", RECORD_COLUMNS) as journal:
        writer = RecordWriter(journal, failures.append)
        for number in range(700):
            writer.put(record(f"r{number}"))
        writer.close()
        journal.seal()
    ids = [kept.request_id for kept in PointDir(tmp_path).records()]
    assert ids == [f"r{number}" for number in range(700)]
    assert failures == []


def test_events_that_are_encoded_together_are_each_request_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordwriter, "AT_ONCE", 100)
    times = [np.cumsum(np.arange(count) * 1_000_003 % 30_000_000) for count in range(0, 60, 3)]
    with Journal(tmp_path, "records", RECORD_COLUMNS) as journal:
        writer = RecordWriter(journal, lambda _: None)
        for number, at_ns in enumerate(times):
            bare = record(f"r{number}")
            exchange = replace(bare.exchange, arrivals=Arrivals(at_ns, None, None))
            writer.put(replace(bare, exchange=exchange))
        writer.close()
        journal.seal()
    found = {kept.request_id: kept.exchange.arrivals.at_ns for kept in PointDir(tmp_path).records()}
    assert [found[f"r{number}"].tolist() for number in range(len(times))] == [
        at_ns.tolist() for at_ns in times
    ]


class Full(Journal):
    """A disk without room."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_without_room_is_told_once(tmp_path: Path) -> None:
    failures: list[str] = []
    journal = Full(tmp_path, "records", RECORD_COLUMNS)
    writer = RecordWriter(journal, failures.append)
    while not failures:
        writer.put(record("r"))
    writer.put(record("s"))
    writer.close()
    journal._file.close()
    assert failures == ["records cannot be written: No space left on device"]
