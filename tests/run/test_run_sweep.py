"""A sweep in virtual time: what it leaves on disk, that it resumes, and that it repeats nothing."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from sweep_setup import Files, Seen, contents, make_sweep, write_files

from inferometer.errors import InputError, Interrupted, StoreError
from inferometer.plan import Selection
from inferometer.run.job import Sweep
from inferometer.run.jobs import Overrides
from inferometer.run.sweep import Outcome, StopFlag, run_sweep
from inferometer.store import RunDir

AGENTIC, ONE, THREE = "agentic_agentic_tp1_c2", "fixed_256_16_tp1_c1", "fixed_256_16_tp1_c3"
FILES_OF_A_POINT = {
    "launch.json",
    "records.parquet",
    "samples.parquet",
    "client.json",
    "verdict.json",
    "result.json",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_files(tmp_path_factory.mktemp("config"), seconds=5, agentic=True)


@pytest.fixture
def small(tmp_path: Path) -> Files:
    """Two points of a second each."""
    return write_files(tmp_path / "config", seconds=1)


def predict(sweep: Sweep, out: Path, seen: Seen | None = None) -> Outcome:
    return run_sweep(sweep, RunDir(out), seen or Seen())


def test_every_file_is_there_and_reads_back(files: Files, tmp_path: Path) -> None:
    sweep, run, seen = make_sweep(files), RunDir(tmp_path / "run"), Seen()
    outcome = run_sweep(sweep, run, seen)
    assert outcome.failed == ()
    assert [result.point.id for result in outcome.results] == [ONE, THREE, AGENTIC]
    assert {path.name for path in run.path.iterdir()} == {"run.json", "run.lock", "points"}
    manifest = run.manifest()
    assert [(p.id, p.digest) for p in manifest.points] == [
        (job.point.id, job.digest) for job in sweep.jobs
    ]
    assert (manifest.clock, manifest.seed) == ("virtual", 42)
    layers = {Path(name).name for name in manifest.sources}
    assert layers == {"master.yaml", "runners.yaml", "test.yaml"}
    assert set(manifest.versions.packages) >= {"numpy", "duckdb"}
    for job, result in zip(sweep.jobs, outcome.results, strict=True):
        point = run.point(job.point.id)
        assert {path.name for path in point.path.iterdir()} == FILES_OF_A_POINT
        assert point.result() == result == seen.results[job.point.id]
        assert result.digest == job.digest
        launch = point.launch()
        assert (launch.point, launch.plan, launch.digest) == (job.point, job.plan, job.digest)
        verdict = orjson.loads((point.path / "verdict.json").read_bytes())["verdict"]
        assert verdict == orjson.loads(orjson.dumps(result.verdict))
        assert point.client().engine_died is None
        assert (
            len(point.records())
            == result.counts["sent"] + result.counts["warmup"] + (result.counts["outside_window"])
        )
        assert {sample.name for sample in point.samples()} == {"client.in_flight"}


def test_the_numbers_are_those_of_an_engine_that_works(files: Files, tmp_path: Path) -> None:
    results = {r.point.id: r for r in predict(make_sweep(files), tmp_path).results}
    for name, result in results.items():
        assert result.verdict.level == "valid", (name, result.verdict.reasons)
        assert {"simulated", "virtual"} <= set(result.verdict.labels)
        assert result.counts["ok"] == result.counts["sent"] > 0
        assert result.window.seconds == pytest.approx(5, abs=1e-6)
        for family in ("requests", "prompt_tokens", "generation_tokens"):
            assert result.counts[f"client_{family}"] == result.counts[f"engine_{family}"] > 0
    assert results[AGENTIC].metrics["cached_share"] > 0.5  # type: ignore[operator]
    assert results[ONE].metrics["in_flight"] == pytest.approx(1, abs=0.05)
    assert results[THREE].metrics["in_flight"] == pytest.approx(3, abs=0.1)


def result_of(point: Path) -> dict[str, Any]:
    """`result.json` without the wall clock."""
    data: dict[str, Any] = orjson.loads((point / "result.json").read_bytes())
    assert data.pop("measured_at").endswith("+00:00")
    return data


def test_two_runs_of_one_sweep_are_identical(files: Files, tmp_path: Path) -> None:
    for name in ("a", "b"):
        predict(make_sweep(files), tmp_path / name)
    for point in (ONE, THREE, AGENTIC):
        first, second = (tmp_path / name / "points" / point for name in ("a", "b"))
        for file in ("records.parquet", "samples.parquet", "launch.json", "verdict.json"):
            assert (first / file).read_bytes() == (second / file).read_bytes(), (point, file)
        assert result_of(first) == result_of(second)


def test_another_seed_is_another_run(small: Files, tmp_path: Path) -> None:
    predict(make_sweep(small), tmp_path / "a")
    predict(make_sweep(small, overrides=Overrides({"seed": 7}, {})), tmp_path / "b")
    first, second = (tmp_path / name / "points" / ONE for name in ("a", "b"))
    assert (first / "records.parquet").read_bytes() != (second / "records.parquet").read_bytes()


def test_a_finished_run_does_nothing_again(small: Files, tmp_path: Path) -> None:
    first = predict(make_sweep(small), tmp_path / "run")
    before, seen = contents(tmp_path / "run"), Seen()
    again = predict(make_sweep(small), tmp_path / "run", seen)
    assert (seen.done, seen.points, seen.ended) == (2, [], True)
    assert again == first
    assert contents(tmp_path / "run") == before


def test_only_the_point_without_a_result_is_measured_again(small: Files, tmp_path: Path) -> None:
    out = tmp_path / "run"
    predict(make_sweep(small), out)
    (out / "points" / THREE / "result.json").unlink()
    before, seen = contents(out), Seen()
    outcome = predict(make_sweep(small), out, seen)
    assert (seen.done, seen.points) == (1, [THREE])
    assert len(outcome.results) == 2
    after = contents(out)
    for name, file in before.items():
        kept = name.replace(f"{THREE}/", f"{THREE}.attempt-1/")
        assert after[kept] == file, f"{name} was touched"
    assert set(after) == {
        *before,
        *(name.replace(THREE, f"{THREE}.attempt-1") for name in before if THREE in name),
        f"points/{THREE}/result.json",
    }


def test_a_point_without_a_result_may_be_planned_otherwise(small: Files, tmp_path: Path) -> None:
    out, sweep = tmp_path / "run", make_sweep(small)
    mended = make_sweep(small, overrides=Overrides({"seed": 7}, {}))
    predict(sweep, out)
    (out / "points" / THREE / "result.json").unlink()
    first, second = sweep.jobs[0], mended.jobs[1]
    predict(replace(sweep, jobs=(first, second)), out)
    planned = RunDir(out).manifest().points
    assert [point.digest for point in planned] == [first.digest, second.digest]
    # The point that has its result keeps its plan.
    with pytest.raises(StoreError, match=f"{ONE} resolved otherwise"):
        predict(mended, out)


def test_the_same_bench_of_another_engine_is_another_sweep(small: Files, tmp_path: Path) -> None:
    sweep = make_sweep(small)
    predict(sweep, tmp_path / "run")
    with pytest.raises(StoreError, match="of engines of its own"):
        predict(replace(sweep, base_url="http://127.0.0.1:1"), tmp_path / "run")


def test_unusable_data_is_refused_before_anything_is_written(small: Files, tmp_path: Path) -> None:
    sweep = make_sweep(small)
    gone = replace(sweep.jobs[0].plan.workload, kind="agentic", sessions=str(tmp_path / "gone"))
    job = replace(sweep.jobs[0], plan=replace(sweep.jobs[0].plan, workload=gone))
    with pytest.raises(InputError, match="gone"):
        predict(replace(sweep, jobs=(job,)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_stop_keeps_the_records_and_the_next_run_goes_on(small: Files, tmp_path: Path) -> None:
    out, seen = tmp_path / "run", Seen()
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def ctrl_c() -> None:
        if seen.points == [ONE, THREE] and seen.told[-1].phase == "window":
            os.kill(os.getpid(), signal.SIGINT)
            seen.on_progress = lambda: None

    seen.on_progress = ctrl_c
    with pytest.raises(Interrupted, match=f"{THREE}: stopped by the user; its records are kept"):
        predict(make_sweep(small), out, seen)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert seen.ended
    cut = RunDir(out).point(THREE)
    records = cut.records()
    assert records
    assert not cut.done
    assert cut.client().client.window.stop_reason == "stopped by the user"
    again = Seen()
    outcome = predict(make_sweep(small), out, again)
    assert (again.done, again.points, len(outcome.results)) == (1, [THREE], 2)
    attempt = RunDir(out).point(f"{THREE}.attempt-1")
    assert [r.request_id for r in attempt.records()] == [r.request_id for r in records]


def test_a_stop_between_two_points_is_heard(small: Files, tmp_path: Path) -> None:
    class StopsAfterOne(Seen):
        def result(self, *args: Any) -> None:
            super().result(*args)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        predict(make_sweep(small), tmp_path / "run", StopsAfterOne())
    assert [point.path.name for point in RunDir(tmp_path / "run").finished()] == [ONE]


def test_the_second_stop_is_a_keyboard_interrupt() -> None:
    flag = StopFlag()
    flag.handle(signal.SIGINT, None)
    assert flag.asked
    with pytest.raises(KeyboardInterrupt):
        flag.handle(signal.SIGINT, None)


def only(sweep: Sweep, *indices: int) -> Sweep:
    return replace(sweep, jobs=tuple(sweep.jobs[index] for index in indices))


@pytest.mark.parametrize(
    ("held", "asked", "difference"),
    [
        ((0, 1), (0,), f"2 points, with {THREE}"),
        ((0,), (0, 1), f"1 points, without {THREE}"),
        ((0, 1), (1, 0), "2 points, in another order"),
    ],
)
def test_another_sweep_is_refused_by_its_points(
    small: Files, tmp_path: Path, held: tuple[int, ...], asked: tuple[int, ...], difference: str
) -> None:
    sweep = make_sweep(small)
    predict(only(sweep, *held), tmp_path / "run")
    before = contents(tmp_path / "run")
    with pytest.raises(StoreError, match=difference) as error:
        predict(only(sweep, *asked), tmp_path / "run")
    assert "choose another --out" in str(error.value)
    assert contents(tmp_path / "run") == before


def test_another_plan_or_clock_is_refused(small: Files, tmp_path: Path) -> None:
    predict(make_sweep(small), tmp_path / "run")
    with pytest.raises(StoreError, match=f"{ONE} resolved otherwise"):
        predict(make_sweep(small, overrides=Overrides({"seed": 7}, {})), tmp_path / "run")
    with pytest.raises(StoreError, match="in virtual time"):
        run_sweep(make_sweep(small, clock="real"), RunDir(tmp_path / "run"), Seen())


def test_a_foreign_directory_is_refused(small: Files, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="not empty, and not a run"):
        predict(make_sweep(small), tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"


def test_two_processes_do_not_write_one_run(small: Files, tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run")
    with run.lock(), pytest.raises(StoreError, match="another process"):
        predict(make_sweep(small), run.path)
    assert not run.exists


def test_a_point_whose_engine_cannot_be_fails_and_the_others_go_on(
    small: Files, tmp_path: Path
) -> None:
    small.add_rule("- when: conc == 1\n  argv:\n    --gpu-memory-utilization: 0.01\n")
    out, seen = tmp_path / "run", Seen()
    outcome = predict(make_sweep(small), out, seen)
    assert outcome.failed == (ONE,)
    assert [result.point.id for result in outcome.results] == [THREE]
    failure = orjson.loads((out / "points" / ONE / "failure.json").read_bytes())
    assert failure["error"] == seen.failures[ONE]
    assert "the engine would not start" in failure["error"]
    again = Seen()
    assert predict(make_sweep(small), out, again).failed == (ONE,)
    assert again.points == [ONE], "a failed point is tried again, a done one is not"
    assert (out / "points" / f"{ONE}.attempt-1" / "failure.json").exists()


def test_only_the_built_in_engine_runs_in_virtual_time(tmp_path: Path) -> None:
    files = write_files(tmp_path / "config", seconds=1)
    files.add_rule("- command: [vllm, serve]\n")
    with pytest.raises(InputError, match="only the built-in engine runs in virtual time"):
        predict(make_sweep(files), tmp_path / "run")


def test_a_window_far_shorter_than_its_warm_up_ends(small: Files, tmp_path: Path) -> None:
    overrides = Overrides({"duration_s": 1e-9}, {})
    seen = Seen()
    sweep = make_sweep(small, overrides=overrides, selection=Selection(conc=(1,)))
    outcome = predict(sweep, tmp_path / "run", seen)
    assert len(outcome.results) == 1
    assert len(seen.told) < 1_000


def test_progress_is_told(small: Files, tmp_path: Path) -> None:
    seen = Seen()
    predict(only(make_sweep(small), 0), tmp_path / "run", seen)
    window = [told for told in seen.told if told.phase == "window"]
    assert 40 <= len(window) <= 50
    assert {told.of_s for told in window} == {1}
    tokens = [told.tokens for told in window]
    assert tokens == sorted(tokens)
    assert tokens[-1] > tokens[0] > 0
    assert seen.phases == ["judging"]
