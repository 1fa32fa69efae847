"""Records at scale: segments, what a kill leaves, and tables that hold no event."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_rundir import record, same

from inferometer.core import Arrivals, Phase, Record, Status
from inferometer.errors import StoreError
from inferometer.store import EventBatch, Journal, events, record_row, table_of
from inferometer.store import journal as journal_module
from inferometer.store.journal import read_rows
from inferometer.store.parquet import to_parquet
from inferometer.store.records import RECORD_COLUMNS, read_records
from inferometer.store.table import RequestTable, read_table

COLUMNS = {"n": "BIGINT", "blob": "BLOB"}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def numbers(folder: Path) -> list[int]:
    return [row["n"] for row in read_rows(folder, "counts", COLUMNS)]


def fill(journal: Journal, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        journal.append({"n": n, "blob": "AAAA"})
        journal.flush()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine: who converts steps back for everybody."""
    monkeypatch.setattr(journal_module, "PATIENCE_S", 600.0)


def test_full_segments_become_parquet_while_the_next_fills(tmp_path: Path) -> None:
    with Journal(tmp_path, "counts", COLUMNS, segment_bytes=100) as journal:
        fill(journal, 17)
        assert numbers(tmp_path) == list(range(17)), "whatever is parquet by now"
        journal.seal()
        assert files(tmp_path) == ["counts.parquet"]
    assert numbers(tmp_path) == list(range(17))
    rows = read_rows(tmp_path, "counts", COLUMNS)
    assert {bytes(row["blob"]) for row in rows} == {b"\0\0\0"}


def test_what_is_not_converted_in_time_is_converted_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "PATIENCE_S", 0.0)
    with Journal(tmp_path, "counts", COLUMNS, segment_bytes=100) as journal:
        fill(journal, 17)
        journal.seal()
    assert files(tmp_path) == ["counts.parquet"]
    assert numbers(tmp_path) == list(range(17))


def test_a_run_cut_short_leaves_segments_that_are_read_in_order(tmp_path: Path) -> None:
    with Journal(tmp_path, "counts", COLUMNS, segment_bytes=100) as journal:
        fill(journal, 12)
    assert files(tmp_path)[0] == "counts.0000.parquet"
    assert "counts.jsonl" in files(tmp_path)
    assert numbers(tmp_path) == list(range(12))


def test_every_moment_of_a_conversion_leaves_each_row_once(tmp_path: Path) -> None:
    with Journal(tmp_path, "counts", COLUMNS, segment_bytes=100) as journal:
        fill(journal, 12)
    assert numbers(tmp_path) == list(range(12))
    segment = tmp_path / "counts.0001.jsonl"
    # Not converted yet; half converted; converted and not yet removed.
    segment.write_text('{"n": 100, "blob": "AAAA"}\n')
    (tmp_path / "counts.0001.parquet").rename(tmp_path / "aside")
    assert 100 in numbers(tmp_path)
    (tmp_path / "counts.0001.parquet.partial").write_bytes(b"PAR1 half")
    assert 100 in numbers(tmp_path)
    to_parquet(segment, tmp_path / "counts.0001.parquet", COLUMNS)
    assert numbers(tmp_path).count(100) == 1
    # Merged, and the parts not yet removed.
    to_parquet(segment, tmp_path / "counts.parquet", COLUMNS)
    assert numbers(tmp_path) == [100]


def test_what_was_measured_is_not_overwritten(tmp_path: Path) -> None:
    with Journal(tmp_path, "counts", COLUMNS, segment_bytes=100) as journal:
        fill(journal, 6)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StoreError, match="already there; not overwritten"):
        Journal(tmp_path, "counts", COLUMNS)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_segment_that_is_no_parquet_is_kept_and_named(tmp_path: Path) -> None:
    with Journal(tmp_path, "counts", {"n": "INTEGER"}, segment_bytes=100) as journal:
        for n in (1, 2**40):
            journal.append({"n": n, "text": "x" * 120})
            journal.flush()
        with pytest.raises(StoreError, match=r"counts\.0001\.jsonl: kept, not written as parquet"):
            journal.seal()
    assert files(tmp_path) == ["counts.0000.parquet", "counts.0001.jsonl"]


def test_a_batch_of_several_workers_is_in_order_of_time(tmp_path: Path) -> None:
    with Journal(tmp_path, "counts", COLUMNS) as journal:
        journal.extend([{"n": n, "blob": "AAAA"} for n in (5, 1, 3)], by="n")
        journal.extend([{"n": n, "blob": "AAAA"} for n in (4, 2)], by="n")
        journal.seal()
    assert numbers(tmp_path) == [1, 3, 5, 2, 4]


def ended(name: str, at_ns: int) -> Record:
    whole = record(name)
    return replace(whole, exchange=replace(whole.exchange, end_ns=at_ns))


def test_records_are_read_in_order_of_their_end(tmp_path: Path) -> None:
    with Journal(tmp_path, "records", RECORD_COLUMNS) as journal:
        journal.extend([record_row(ended("b", 7)), record_row(ended("a", 5))], by="end_ns")
        journal.extend([record_row(ended("c", 6))], by="end_ns")
        journal.seal()
    assert [r.request_id for r in read_records(tmp_path)] == ["a", "c", "b"]


WRITER = """
import sys
from pathlib import Path
from inferometer.store import Journal
journal = Journal(Path(sys.argv[1]), "counts", {"n": "BIGINT", "blob": "BLOB"}, 2000)
n = 0
while True:
    journal.append({"n": n, "blob": "AAAA" * 20})
    n += 1
    if n % 50 == 0:
        journal.flush()
        print(n, flush=True)
"""


def test_a_kill_loses_no_flushed_row(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, env=environment
    ) as writer:
        assert writer.stdout is not None
        flushed = 0
        while flushed < 2_000 or not any(tmp_path.glob("*.parquet")):
            flushed = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().split()
    flushed = int(rest[-1]) if rest and rest[-1].isdigit() else flushed
    found = numbers(tmp_path)
    assert len(found) >= flushed
    assert found == list(range(len(found))), "each once, in order"


# Tables: what an analysis reads.


@st.composite
def some_records(draw: st.DrawFn) -> list[Record]:
    found = []
    for number in range(draw(st.integers(0, 12))):
        gaps = draw(st.lists(st.integers(0, 10**9), max_size=9))
        at_ns = 10**10 + np.cumsum(np.array(gaps, dtype=np.int64))
        counted, flagged = draw(st.booleans()), draw(st.booleans())
        whole = record(f"r{number}", draw(st.sampled_from(list(Status))))
        exchange = replace(
            whole.exchange,
            sent_ns=draw(st.none() | st.integers(0, 2**60)),
            completion_tokens=draw(st.none() | st.integers(0, 2**40)),
            arrivals=Arrivals(
                at_ns,
                np.arange(len(at_ns), dtype=np.int32) if counted else None,
                at_ns % 2 == 0 if flagged else None,
            ),
        )
        session = f"s{draw(st.integers(0, 3))}"
        phase = draw(st.sampled_from(list(Phase)))
        found.append(replace(whole, exchange=exchange, session=session, phase=phase))
    return found


def whole(table: RequestTable) -> EventBatch:
    """All batches as one."""
    found = list(table.batches())
    assert [batch.first for batch in found] == [
        sum(len(other.counted) for other in found[:i]) for i in range(len(found))
    ]
    lengths = [np.zeros(0, np.int64), *(np.diff(batch.offsets) for batch in found)]
    return EventBatch(
        0,
        np.concatenate(([0], np.cumsum(np.concatenate(lengths)))),
        np.concatenate([np.zeros(0, np.int64), *(batch.at_ns for batch in found)]),
        np.concatenate([np.zeros(0, np.int32), *(batch.tokens for batch in found)]),
        np.concatenate([np.zeros(0, np.bool_), *(batch.coalesced for batch in found)]),
        np.concatenate([np.zeros(0, np.bool_), *(batch.counted for batch in found)]),
    )


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(written=some_records(), batch_events=st.sampled_from([1, 5, 1 << 20]))
def test_a_table_of_a_file_is_that_of_its_records(
    written: list[Record],
    batch_events: int,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "BATCH_EVENTS", batch_events)
    folder = tmp_path_factory.mktemp("table")
    with Journal(folder, "records", RECORD_COLUMNS, segment_bytes=3_000) as journal:
        for item in written:
            journal.append(record_row(item))
            journal.flush()
        journal.seal()
    expected, found = table_of(written), read_table(folder / "records.parquet", sessions=True)
    assert {name: values.tolist() for name, values in found.numbers.items()} == {
        name: values.tolist() for name, values in expected.numbers.items()
    }
    one, other = whole(found), whole(expected)
    for name in ("offsets", "at_ns", "tokens", "coalesced", "counted"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    read = {r.request_id: r for r in read_records(folder)}
    assert all(same(read[r.request_id], r) for r in written)


def test_sessions_are_not_read_where_nobody_asks(tmp_path: Path) -> None:
    with Journal(tmp_path, "records", RECORD_COLUMNS) as journal:
        for name in ("b", "a"):
            journal.append(record_row(replace(record(name), session=name)))
        journal.seal()
    path = tmp_path / "records.parquet"
    assert read_table(path, sessions=False).numbers["session"].tolist() == [0, 0]
    assert read_table(path, sessions=True).numbers["session"].tolist() == [1, 0]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    path.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(StoreError, match=r"records\.parquet: not readable"):
        read_table(path, sessions=True)


def test_row_groups_of_a_merged_file_are_bounded(tmp_path: Path) -> None:
    blob = "A" * 20_000
    with Journal(tmp_path, "counts", COLUMNS, segment_bytes=8 << 20) as journal:
        for n in range(5_000):
            journal.append({"n": n, "blob": os.urandom(10_000).hex()[: len(blob)]})
        journal.seal()
    query = "SELECT row_group_num_rows FROM parquet_metadata(?)"
    with duckdb.connect() as connection:
        metadata = connection.execute(query, [str(tmp_path / "counts.parquet")]).fetchall()
    # 15 kB a row: a group is of the least number of rows there is.
    assert max(rows for (rows,) in metadata) <= 4_096
    assert files(tmp_path) == ["counts.parquet"]
