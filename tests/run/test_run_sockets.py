"""A sweep over real sockets against the built-in engine: one that works, and every way to fail."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import pytest
from marked import NAME, marked, new_mark, until
from sweep_setup import Files, Seen, make_sweep, write_files

from inferometer.core import Result
from inferometer.engine.process import Command, EngineProcess
from inferometer.errors import InferometerError, Interrupted
from inferometer.plan import Selection
from inferometer.run import engines
from inferometer.run.jobs import NO_OVERRIDES, AdHoc, Overrides, jobs_of_flags, scenario_of
from inferometer.run.site import Site
from inferometer.run.sweep import Outcome, run_sweep
from inferometer.store import PointDir, RunDir
from referee import free_port

pytestmark = pytest.mark.sockets

WORKS, ENDS, DIES, REFUSES = (f"fixed_256_16_tp1_c{conc}" for conc in (2, 3, 4, 5))
FAULTS = """\
- when: conc == 3
  argv:
    --no-such-flag: 1
- when: conc == 4
  argv:
    --fail-after-requests: 40
- when: conc == 5
  argv:
    --fail-status: 500
"""


@dataclass(frozen=True)
class Swept:
    """A sweep that is over."""

    files: Files
    run: RunDir
    seen: Seen
    outcome: Outcome
    left: dict[int, str]
    """Processes that it started and that are still there."""

    def point(self, name: str) -> PointDir:
        return self.run.point(name)

    def result(self, name: str) -> Result:
        return self.seen.results[name]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """One point that works and three that fail, each in its way."""
    folder = tmp_path_factory.mktemp("sweep")
    files = write_files(folder / "config", seconds=1.5, conc=(2, 3, 4, 5))
    files.add_rule(FAULTS)
    mark, seen, run = new_mark(), Seen(), RunDir(folder / "run")
    during: set[str] = set()

    def look() -> None:
        during.update(line for line in marked(mark).values())

    seen.on_progress = look
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NAME, mark)
        outcome = run_sweep(make_sweep(files, "real"), run, seen)
    assert any("engine simulated" in line for line in during), "the mark finds nothing"
    assert any("inferometer.run.loadserve" in line for line in during), "the mark finds nothing"
    return Swept(files, run, seen, outcome, marked(mark))


def codes(result: Result) -> set[str]:
    return {reason.code for reason in result.verdict.reasons}


def test_nothing_is_left_running(swept: Swept) -> None:
    assert swept.left == {}
    assert multiprocessing.active_children() == []


def test_a_point_is_measured(swept: Swept) -> None:
    result = swept.result(WORKS)
    assert result == swept.point(WORKS).result()
    assert result.counts["ok"] == result.counts["sent"] > 10
    assert (result.clock, result.provenance) == ("real", "simulated")
    assert result.window.complete
    assert result.window.seconds >= 1.499
    for family in ("requests", "prompt_tokens", "generation_tokens"):
        assert result.counts[f"client_{family}"] == result.counts[f"engine_{family}"] > 0
    assert not codes(result) & {"counters_disagree", "engine_died", "failed_share", "no_samples"}


def test_a_point_in_real_time_leaves_every_file(swept: Swept) -> None:
    point = swept.point(WORKS)
    assert {path.name for path in point.path.iterdir()} == {
        "launch.json",
        "records.parquet",
        "samples.parquet",
        "server.log",
        "metrics.first.txt",
        "metrics.last.txt",
        "client.json",
        "verdict.json",
        "result.json",
    }
    assert "simulated engine ready" in point.server_log.read_text()
    client = point.client()
    assert client.engine_died is None
    assert client.totals is not None
    assert client.totals.lateness_p99_ms is not None
    assert client.client.cpu_share is not None
    samples = point.samples()
    names = {sample.name for sample in samples}
    assert {"client.in_flight", "engine.running", "engine.queue_time_s"} <= names
    assert client.metrics is not None
    assert (client.metrics.engines, client.metrics.failed) == (("simulated",), 0)
    assert client.metrics.pages > 3
    figures = point.result().metrics
    for metric in ("engine_running", "engine_kv_use_max", "engine_output_tok_s"):
        assert (figures[metric] or 0) > 0
    assert figures["engine_preemptions"] == 0
    times = [sample.at_ns for sample in samples]
    assert times == sorted(times)


def test_the_observer_hears_of_every_phase(swept: Swept) -> None:
    assert swept.seen.points == [WORKS, ENDS, DIES, REFUSES]
    assert swept.seen.phases[0] == "starting the engine"
    assert swept.seen.phases.count("judging") == 3
    assert "window" in {told.phase for told in swept.seen.told}
    assert swept.seen.ended


def test_an_engine_that_ends_at_once_says_why(swept: Swept) -> None:
    assert swept.outcome.failed == (ENDS,)
    failure = orjson.loads((swept.point(ENDS).path / "failure.json").read_bytes())
    message = failure["error"]
    assert message == swept.seen.failures[ENDS]
    assert message.startswith("the engine ended with exit code 2; its log ends: ")
    assert "--no-such-flag: unknown flag" in message
    assert not swept.point(ENDS).done


def test_an_engine_that_dies_makes_the_point_invalid_and_keeps_its_records(swept: Swept) -> None:
    result = swept.result(DIES)
    assert result.verdict.level == "invalid"
    assert {"engine_died", "short_window"} <= codes(result)
    (reason,) = (reason for reason in result.verdict.reasons if reason.code == "engine_died")
    assert "ended with exit code 7" in reason.message
    records = swept.point(DIES).records()
    assert sum(record.exchange.status == "ok" for record in records) >= 30
    died = swept.point(DIES).client().engine_died
    assert died is not None
    assert "exit code 7" in died


def test_an_engine_that_refuses_everything_stops_the_point(swept: Swept) -> None:
    result = swept.result(REFUSES)
    assert result.verdict.level == "invalid"
    assert {"short_window", "no_samples"} <= codes(result)
    assert result.window.stop_reason is not None
    assert "requests failed; the last: http_status: HTTP 500" in result.window.stop_reason
    records = swept.point(REFUSES).records()
    # What was open when it stopped is cancelled.
    failed = [record for record in records if record.exchange.status != "cancelled"]
    assert {record.exchange.http_status for record in failed} == {500}
    assert len(records) < 50, "it did not go on"


def test_a_failed_point_alone_is_tried_again(swept: Swept) -> None:
    seen = Seen()
    outcome = run_sweep(make_sweep(swept.files, "real"), swept.run, seen)
    assert (seen.done, seen.points, outcome.failed) == (3, [ENDS], (ENDS,))
    assert len(outcome.results) == 3
    attempt = swept.run.point(f"{ENDS}.attempt-1")
    assert (attempt.path / "failure.json").exists()
    assert "--no-such-flag" in attempt.server_log.read_text()


def test_an_engine_that_is_never_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_files(tmp_path / "config", seconds=1, conc=(1,))
    files.add_rule("- argv:\n    --never-ready: true\n")
    mark, seen = new_mark(), Seen()
    monkeypatch.setenv(NAME, mark)
    sweep = replace(make_sweep(files, "real"), site=Site(ready_timeout_s=1.0))
    outcome = run_sweep(sweep, RunDir(tmp_path / "run"), seen)
    (message,) = seen.failures.values()
    assert message.startswith("the engine was not ready in 1 s; its log ")
    assert len(outcome.failed) == 1
    assert any(phase.startswith("starting the engine (") for phase in seen.phases)
    assert marked(mark) == {}


def test_a_stop_is_heard_while_the_engine_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(tmp_path / "config", seconds=1, conc=(1,))
    files.add_rule("- argv:\n    --never-ready: true\n")
    mark = new_mark()
    monkeypatch.setenv(NAME, mark)

    class Impatient(Seen):
        def phase(self, text: str) -> None:
            super().phase(text)
            if text.endswith("s)"):
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="before its engine was ready"):
        run_sweep(make_sweep(files, "real"), RunDir(tmp_path / "run"), Impatient())
    assert marked(mark) == {}


def test_a_load_process_that_is_killed_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system does where memory runs out."""
    files = write_files(tmp_path / "config", seconds=60, conc=(1,))
    mark, seen = new_mark(), Seen()
    monkeypatch.setenv(NAME, mark)

    def kill() -> None:
        (pid,) = (pid for pid, line in marked(mark).items() if "inferometer.run.loadserve" in line)
        os.kill(pid, signal.SIGKILL)

    seen.on_progress = kill
    with pytest.raises(InferometerError, match=r"carries the load .* \(exit code -9\)"):
        run_sweep(make_sweep(files, "real"), RunDir(tmp_path / "run"), seen)
    assert seen.ended
    until(lambda: marked(mark) == {}, "every process ends")


def test_an_engine_that_is_up_is_not_ours_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = str(free_port())
    url = f"http://127.0.0.1:{port}"
    argv = ["inferometer", "engine", "simulated", "--port", port]
    argv += ["--model", "Qwen/Qwen3-8B", "--gpu", "h200"]
    with EngineProcess(Command("engine", argv), tmp_path / "log", url) as engine:
        engine.wait_ready(60, lambda: None)
        assert engines.is_simulated(url)
        point = AdHoc(
            config="bench",
            image="external",
            model="Qwen/Qwen3-8B",
            precision="bf16",
            framework="external",
            hardware="h200",
            gpus=1,
            scenario=scenario_of(None, 64, 8),
            max_model_len=None,
        )
        overrides = Overrides({"requests": 20}, {"grace_s": 2.0})
        sweep = replace(
            make_sweep(write_files(tmp_path / "config", 1), "real"),
            jobs=jobs_of_flags(point, (2,), overrides),
            base_url=url,
        )
        outcome = run_sweep(sweep, RunDir(tmp_path / "run"), Seen())
        assert engine.died() is None
    (result,) = outcome.results
    assert result.counts["sent"] == result.counts["ok"] == 20
    assert result.window.kind == "requests"
    assert not (tmp_path / "run" / "points" / result.point.id / "server.log").exists()
    assert not engines.is_simulated(url)


def test_an_engine_that_is_not_up_fails_the_point(tmp_path: Path) -> None:
    files = write_files(tmp_path / "config", seconds=1, conc=(1,))
    url = f"http://127.0.0.1:{free_port()}"
    seen = Seen()
    sweep = replace(make_sweep(files, "real"), base_url=url)
    outcome = run_sweep(sweep, RunDir(tmp_path / "run"), seen)
    assert len(outcome.failed) == 1
    assert list(seen.failures.values()) == [f"{url}/v1/models: no answer (Connection refused)"]


def test_a_plan_that_starts_nothing_needs_a_url(tmp_path: Path) -> None:
    files = write_files(tmp_path / "config", seconds=1, conc=(1,))
    files.master.write_text(files.master.read_text().replace("simulated\n", "external\n"))
    seen = Seen()
    selection = Selection(keys=("fixed",))
    sweep = make_sweep(files, "real", NO_OVERRIDES, selection)
    assert run_sweep(sweep, RunDir(tmp_path / "run"), seen).failed
    assert list(seen.failures.values()) == [
        "the plan starts no engine, and no URL of a running one was given"
    ]
