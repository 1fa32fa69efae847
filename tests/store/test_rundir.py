"""A run's directory: what survives a kill, what is refused, what is never overwritten."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from inferometer.core import (
    AgenticCoding,
    Arrivals,
    ClientSettings,
    DeploymentSettings,
    Exchange,
    ExternalFile,
    FixedSeqLen,
    KvOffload,
    LaunchPlan,
    MultiNode,
    Origin,
    Parallelism,
    Phase,
    Point,
    Pool,
    Record,
    RoleLaunch,
    Sample,
    Scenario,
    SideProcess,
    Status,
    WorkloadSettings,
)
from inferometer.errors import StoreError
from inferometer.store import (
    FORMAT,
    Journal,
    Manifest,
    PlannedPoint,
    RunDir,
    Versions,
    record_row,
    records,
    sample_row,
)
from inferometer.store.journal import read_rows

CLIENT = ClientSettings("chat", 1.0, 2.0, 3.0, 4.0, True, True, 0.0, "X-Session-ID", 0.1, 5.0)
WORKLOAD = WorkloadSettings(
    "fixed", 6.0, None, 0, 1024, 64, 0.8, None, None, "none", 1, 60.0, 0.0, 0.0, 0.0, 0.0
)
PLAN = LaunchPlan(
    image="image:1",
    argv=("serve", "--port", "{port}"),
    env={"A": "1"},
    files={},
    router=None,
    client=CLIENT,
    workload=WORKLOAD,
    origins={"argv.--port": Origin("layer.yaml", 3, "conc > 1", "{port}")},
)
MANIFEST = Manifest(
    format=FORMAT,
    id="run",
    title="test",
    created_at="2026-01-01T00:00:00+00:00",
    command="inferometer run",
    clock="real",
    base_url=None,
    seed=0,
    versions=Versions("0.1.0", 1, "3.11", None, {"numpy": "2"}),
    machine={"cpu": "x"},
    sources={},
    points=(PlannedPoint("p1", "d1"), PlannedPoint("p2", "d2")),
)


def point(scenario: Scenario) -> Point:
    return Point(
        config="c",
        image="image:1",
        model="org/model",
        model_prefix="model",
        precision="fp8",
        framework="simulated",
        runner="sim-h200",
        hardware="h200",
        scenario=scenario,
        parallelism=Parallelism(2, 1, 1, 1, 1, dp_attn=False),
        spec_decoding="none",
        kv_offload=KvOffload("none", None, None, 0),
        router=None,
        conc=4,
        max_model_len=None,
        repeat=0,
    )


def record(name: str, status: Status = Status.OK) -> Record:
    at = np.array([10_000_000_007, 10_020_000_123, 10_020_000_123], dtype=np.int64)
    return Record(
        request_id=name,
        phase=Phase.MEASURED,
        lane=1,
        play=2,
        turn=3,
        session="s",
        agent="root",
        parent_agent=None,
        ready_ns=1,
        scheduled_ns=2,
        dequeued_ns=3,
        input_tokens=100,
        max_tokens=3,
        exchange=Exchange(
            connected_ns=4,
            sent_ns=5,
            body_sent_ns=6,
            first_byte_ns=7,
            first_visible_ns=None,
            end_ns=10_020_000_200,
            arrivals=Arrivals(at, np.array([1, 2, 1], np.int32), np.array([False, True, False])),
            status=status,
            error=None if status is Status.OK else "why",
            http_status=200,
            prompt_tokens=101,
            cached_tokens=None,
            completion_tokens=4,
            token_source="usage_per_chunk",
            stamp_source="kernel",
            reused_connection=True,
        ),
    )


def same(left: Record, right: Record) -> bool:
    return record_row(left) == record_row(right)


def test_records_come_back_from_parquet_and_from_a_journal_cut_short(tmp_path: Path) -> None:
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(point(FixedSeqLen(1024, 64)), "d1", PLAN)
    written = [record("a"), record("b", Status.TRUNCATED)]
    with folder.record_journal() as journal:
        for item in written:
            journal.append(record_row(item))
        journal.flush()
        # A kill in the middle of a write leaves half a line.
        path = folder.path / "records.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole + b'{"request_id": "c", "pha')
        assert [r.request_id for r in folder.records()] == ["a", "b"]
        path.write_bytes(whole)
        journal.seal()
    assert not path.exists()
    read = folder.records()
    assert all(same(a, b) for a, b in zip(read, written, strict=True))
    assert read[0].exchange.cached_tokens is None, "null is not zero"
    assert read[0].exchange.arrivals.coalesced is not None
    assert read[0].exchange.arrivals.coalesced.tolist() == [False, True, False]


@pytest.mark.parametrize("counted", [True, False])
def test_of_more_events_than_are_kept_the_last_stands_for_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    monkeypatch.setattr(records, "MAX_EVENTS", 3)
    at = np.array([10, 20, 30, 40, 50], dtype=np.int64)
    tokens = np.array([1, 2, 3, 4, 5], dtype=np.int32) if counted else None
    flags = np.array([True, False, True, False, False])
    whole = record("a")
    many = replace(whole, exchange=replace(whole.exchange, arrivals=Arrivals(at, tokens, flags)))
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(point(FixedSeqLen(1024, 64)), "d1", PLAN)
    with folder.record_journal() as journal:
        journal.append(record_row(many))
        journal.seal()
    (read,) = folder.records()
    kept = read.exchange.arrivals
    assert kept.at_ns.tolist() == [10, 20, 50]
    assert read.last_token_ns == many.last_token_ns == 50
    assert kept.coalesced is not None
    assert kept.coalesced.tolist() == [True, False, False]
    if counted:
        assert kept.tokens is not None
        assert kept.tokens.tolist() == [1, 2, 12], "none is lost"
    else:
        assert kept.tokens is None
    assert record_row(many)["events"] == 5


def test_large_counts_are_kept(tmp_path: Path) -> None:
    large = 2**40
    whole = record("a")
    exchange = replace(whole.exchange, prompt_tokens=large, cached_tokens=large)
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(point(FixedSeqLen(1024, 64)), "d1", PLAN)
    with folder.record_journal() as journal:
        journal.append(record_row(replace(whole, exchange=exchange)))
        journal.seal()
    (read,) = folder.records()
    assert (read.exchange.prompt_tokens, read.exchange.cached_tokens) == (large, large)


def test_a_journal_that_is_no_parquet_is_kept_and_named(tmp_path: Path) -> None:
    path = tmp_path / "counts.jsonl"
    with Journal(tmp_path, "counts", {"n": "INTEGER"}) as journal:
        journal.append({"n": 1})
        journal.append({"n": 2**40})
        with pytest.raises(StoreError, match=r"counts\.jsonl: kept, not written as parquet: "):
            journal.seal()
    assert [file.name for file in tmp_path.iterdir()] == ["counts.jsonl"]
    assert path.read_bytes() == b'{"n":1}\n{"n":1099511627776}\n'


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "counts.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(StoreError, match=r"counts\.parquet: not readable: "):
        read_rows(tmp_path, "counts", {"n": "INTEGER"})


def test_samples_come_back(tmp_path: Path) -> None:
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(point(AgenticCoding()), "d1", PLAN)
    samples = [Sample(5, "client.in_flight", "", 3.0), Sample(6, "x", "gpu=1", 0.5)]
    with folder.sample_journal() as journal:
        for sample in samples:
            journal.append(sample_row(sample))
        journal.seal()
    assert folder.samples() == samples


@pytest.mark.parametrize("scenario", [FixedSeqLen(8192, 1024), AgenticCoding()])
def test_the_launch_file_comes_back_whole(tmp_path: Path, scenario: Scenario) -> None:
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(point(scenario), "d1", PLAN)
    read = folder.launch()
    assert read.point == point(scenario)
    assert read.plan == PLAN


def test_a_point_of_pools_comes_back_whole(tmp_path: Path) -> None:
    pool = Pool(2, Parallelism(8, 1, 1, 1, 8, dp_attn=True), "h100", (("A", "1=2"), ("B", "")))
    pools = MultiNode(pool, replace(pool, hardware="h200"), disagg=True, p2p_transfer="nixl")
    several = replace(point(AgenticCoding()), multi_node=pools)
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(several, "d1", PLAN)
    assert folder.launch().point == several


def test_the_launches_of_a_deployment_come_back_whole(tmp_path: Path) -> None:
    launch = RoleLaunch(
        role="prefill",
        index=0,
        nodes=2,
        node_rank=1,
        gpus=8,
        hardware="h200",
        parallelism=point(AgenticCoding()).parallelism,
        kv_transfer="nixl",
        image="image:1",
        argv=("serve",),
        env={"A": "1"},
        files={"f": "x"},
    )
    unset: dict[str, Any] = dict.fromkeys([field.name for field in fields(DeploymentSettings)])
    plan = replace(
        PLAN,
        side=(SideProcess("etcd", ("etcd",), {}, "router_0"),),
        launches=(launch,),
        external=ExternalFile("a.yaml", None),
        settings=DeploymentSettings(**{**unset, "gpus_per_node": 8, "other": {"A": "1"}}),
        require_power="native",
    )
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(point(AgenticCoding()), "d", plan)
    assert folder.launch().plan == plan


def test_a_launch_file_from_before_there_were_pools_is_read(tmp_path: Path) -> None:
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(point(AgenticCoding()), "d1", PLAN)
    path = folder.path / "launch.json"
    content = orjson.loads(path.read_bytes())
    del content["point"]["multi_node"]
    for later in ("side", "launches", "external", "settings", "require_power"):
        del content["plan"][later]
    del content["plan"]["client"]["keep_alive_s"]
    del content["point"]["require_power"]
    path.write_bytes(orjson.dumps(content))
    assert folder.launch().point == point(AgenticCoding())


def test_an_attempt_cut_short_is_moved_aside_and_kept(tmp_path: Path) -> None:
    folder = RunDir(tmp_path / "run").point("p1")
    for _ in range(3):
        folder.begin(point(AgenticCoding()), "d1", PLAN)
    names = sorted(path.name for path in folder.path.parent.iterdir())
    assert names == ["p1", "p1.attempt-1", "p1.attempt-2"]


def test_a_finished_point_is_never_overwritten(tmp_path: Path) -> None:
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(point(AgenticCoding()), "d1", PLAN)
    (folder.path / "result.json").write_text("{}")
    with pytest.raises(StoreError, match="not overwritten"):
        folder.begin(point(AgenticCoding()), "d1", PLAN)


def test_a_run_begins_only_in_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="not empty"), RunDir(tmp_path).lock():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"], "and it is left as it was"


def test_one_process_writes_a_run(tmp_path: Path) -> None:
    with (
        RunDir(tmp_path).lock(),
        pytest.raises(StoreError, match="another process"),
        RunDir(tmp_path).lock(),
    ):
        pass


def test_a_journal_without_a_row_comes_back_empty(tmp_path: Path) -> None:
    folder = RunDir(tmp_path / "run").point("p1")
    folder.begin(point(AgenticCoding()), "d1", PLAN)
    with folder.record_journal() as journal:
        journal.seal()
    assert folder.records() == []


def edited(path: Path, **changes: object) -> None:
    data = orjson.loads(path.read_bytes())
    data.update(changes)
    path.write_bytes(orjson.dumps(data))


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    run.begin(MANIFEST)
    assert run.manifest() == MANIFEST
    edited(run.path / "run.json", format=FORMAT + 1)
    with pytest.raises(StoreError, match="newer than this version"):
        run.manifest()


def test_an_unknown_field_is_refused_by_name(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    run.begin(MANIFEST)
    edited(run.path / "run.json", versions={"surprise": 1} | _plain(MANIFEST.versions))
    with pytest.raises(StoreError, match=r"versions\.surprise: unknown"):
        run.manifest()


def test_a_missing_field_and_broken_json_are_refused(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    run.begin(MANIFEST)
    data = orjson.loads((run.path / "run.json").read_bytes())
    del data["title"]
    (run.path / "run.json").write_bytes(orjson.dumps(data))
    with pytest.raises(StoreError, match="title"):
        run.manifest()
    (run.path / "run.json").write_text("{")
    with pytest.raises(StoreError, match="not readable as JSON"):
        run.manifest()
    with pytest.raises(StoreError, match=r"no run\.json"):
        RunDir(tmp_path / "nowhere").manifest()


def test_a_record_that_differs_is_told_apart() -> None:
    changed = replace(record("a"), lane=7)
    assert not same(changed, record("a"))


def _plain(versions: Versions) -> dict[str, object]:
    plain: dict[str, object] = orjson.loads(orjson.dumps(versions))
    return plain
