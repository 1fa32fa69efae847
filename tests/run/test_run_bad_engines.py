"""Engines with one thing wrong with them: what a point then says is missing, what that means for
it, and that the load goes on undisturbed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from fake_engine import DIES_AT, LAST_WORDS, VERSION, Faults
from sweep_setup import RUNNERS, Files, Seen, make_sweep

from inferometer.core import Result
from inferometer.run.sweep import run_sweep
from inferometer.store import PointDir, RunDir

pytestmark = pytest.mark.sockets

REQUESTS = 8
ORDER = (
    Faults.NO_PAGE,
    Faults.HTML,
    Faults.HANGS,
    Faults.FLOODS,
    Faults.DIES,
    Faults.REFUSES,
    Faults.STALLS,
    Faults.OTHER_VERSION,
    Faults.PORT_TAKEN,
    Faults.NO_GPU,
    Faults.NO_PERMISSION,
)
"""The concurrency of a point is 1 + the place of its fault: a recipe may ask for the one only."""
MISSING = len(ORDER) + 1
"""And one whose program is not there."""
MASTER = """\
bad:
  image: acme/fake:v0.25.1
  model: fake
  model-prefix: fake
  precision: fp8
  framework: fake
  runner: sim-h200
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 32
      osl: 4
      search-space:
      - { tp: 1, conc-list: [LADDER] }
"""
ENGINE = """\
- command: [PYTHON, FAKE]
  argv:
    --port: "{port}"
  client:
    usage_every_chunk: true
    grace_s: 2
  workload:
    requests: REQUESTS
    warmup_requests_per_lane: 0
    length_ratio: 1
- when: conc == MISSING
  command: [no-such-engine, serve]
"""


@dataclass(frozen=True)
class Bad:
    """What the sweep of all of them left."""

    run: RunDir
    seen: Seen

    def point(self, conc: int) -> PointDir:
        return self.run.point(f"bad_32_4_tp1_c{conc}")

    def result(self, fault: Faults) -> Result:
        return self.point(1 + ORDER.index(fault)).result()

    def failure(self, conc: int) -> str:
        return self.seen.failures[self.point(conc).path.name]


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Bad:
    """A point for each fault, in one sweep."""
    folder = tmp_path_factory.mktemp("bad")
    files = Files(folder / "master.yaml", folder / "runners.yaml")
    ladder = ", ".join(str(conc) for conc in range(1, MISSING + 1))
    files.master.write_text(MASTER.replace("LADDER", ladder))
    files.runners.write_text(RUNNERS)
    rules = ENGINE.replace("MISSING", str(MISSING)).replace("REQUESTS", str(REQUESTS))
    fake = Path(__file__).with_name("fake_engine.py")
    rules = rules.replace("PYTHON", sys.executable).replace("FAKE", str(fake))
    for place, fault in enumerate(ORDER):
        rules += f"- when: conc == {1 + place}\n  argv:\n    --fault: {fault}\n"
    (folder / "recipes" / "engines").mkdir(parents=True)
    (folder / "recipes" / "engines" / "fake.yaml").write_text(rules)
    seen, run = Seen(), RunDir(folder / "run")
    run_sweep(make_sweep(files, "real"), run, seen)
    return Bad(run, seen)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Faults.NO_PAGE, "/metrics: HTTP 404; /prometheus/metrics: HTTP 404"),
        (Faults.HTML, "/metrics: HTML instead of metrics; /prometheus/metrics: HTTP 404"),
        (Faults.HANGS, "/metrics: no answer within 2 s; /prometheus/metrics: HTTP 404"),
    ],
)
def test_without_a_metrics_page_the_point_says_what_is_not_known(
    bad: Bad, fault: Faults, why: str
) -> None:
    result = bad.result(fault)
    client = bad.point(1 + ORDER.index(fault)).client()
    assert client.metrics is not None
    assert (client.metrics.path, client.metrics.problem) == (None, why)
    assert client.totals is None
    assert result.metrics["engine_running"] is None
    assert result.notes["engine_running"] == f"no metrics page: {why}"
    assert result.notes["counters"] == "the engine publishes no counters"
    assert "engine_requests" not in result.counts
    # What the client saw stands, and is held against nothing.
    assert result.counts["ok"] == result.counts["sent"] == REQUESTS
    assert result.metrics["output_tok_s"]
    assert not {reason.code for reason in result.verdict.reasons} & {
        "counters_disagree",
        "failed_share",
        "engine_died",
    }


def test_a_page_that_hangs_does_not_hold_up_the_load(bad: Bad) -> None:
    records = bad.point(1 + ORDER.index(Faults.HANGS)).records()
    sent = [record.exchange.sent_ns or 0 for record in records]
    # Two scrapes would already take longer than this.
    assert (max(sent) - min(sent)) / 1e9 < 4
    assert len(records) == REQUESTS


def test_a_page_that_stalls_under_load_leaves_its_counters_unknown(bad: Bad) -> None:
    client = bad.point(1 + ORDER.index(Faults.STALLS)).client()
    result = bad.result(Faults.STALLS)
    assert client.metrics is not None
    assert client.metrics.pages == 1
    assert client.metrics.failed >= 1
    assert client.metrics.problem == "/metrics: no answer within 2 s"
    assert client.totals is None
    assert result.notes["counters"] == (
        "not compared: no metrics page before the load or after it (/metrics: no answer within 2 s)"
    )
    assert result.metrics["engine_running"] is None
    assert result.notes["engine_running"] == "fewer than two scrapes"
    assert result.counts["ok"] == REQUESTS


def test_a_flood_is_named_and_disturbs_nothing(bad: Bad) -> None:
    point = bad.point(1 + ORDER.index(Faults.FLOODS))
    assert point.result().counts["ok"] == REQUESTS
    assert point.server_log.read_text().count("was split") == 2000 * (REQUESTS + 1)
    assert point.client().log_problem is None


def test_counters_that_stand_still_are_held_against_the_point(bad: Bad) -> None:
    """That page answers, and counts nothing."""
    reasons = bad.result(Faults.FLOODS).verdict.reasons
    (reason,) = (reason for reason in reasons if reason.code == "counters_disagree")
    assert reason.level == "invalid"
    assert reason.message == f"requests: {REQUESTS} by the client, 0 by the engine"


def test_an_engine_that_dies_under_load_is_invalid_by_its_own_words(bad: Bad) -> None:
    result = bad.result(Faults.DIES)
    assert result.verdict.level == "invalid"
    (reason,) = (reason for reason in result.verdict.reasons if reason.code == "engine_died")
    assert "the engine ended with exit code 9; worker died (line 1: EngineDeadError" in (
        reason.message
    )
    assert 0 < result.counts["ok"] < DIES_AT
    assert result.notes["engine_output_tok_s"]


def test_a_refused_flag_is_named_before_anything_is_loaded(bad: Bad) -> None:
    conc = 1 + ORDER.index(Faults.REFUSES)
    said = bad.failure(conc)
    assert said.startswith("the engine ended with exit code 2; unsupported flag (line ")
    assert "unrecognized arguments: --no-such-flag 1" in said
    assert "inferometer launch" in said
    assert not (bad.point(conc).path / "records.parquet").exists()


def test_another_version_than_the_plans_makes_an_invalid_point_and_is_named(bad: Bad) -> None:
    point = bad.point(1 + ORDER.index(Faults.OTHER_VERSION))
    result = bad.result(Faults.OTHER_VERSION)
    assert point.client().engine_version == VERSION
    (reason,) = (r for r in result.verdict.reasons if r.code == "engine_version")
    assert reason.level == result.verdict.level == "invalid"
    assert reason.message == (
        f"the plan's image names fake 0.25.1, and the engine says it is {VERSION}: "
        "what was measured is another engine"
    )
    # The load went on, and what the client saw stands.
    assert result.counts["ok"] == result.counts["sent"] == REQUESTS
    # One that tells no version is not blamed for it.
    assert bad.point(1 + ORDER.index(Faults.FLOODS)).client().engine_version is None
    codes = {reason.code for reason in bad.result(Faults.FLOODS).verdict.reasons}
    assert "engine_version" not in codes


@pytest.mark.parametrize(
    ("fault", "name", "advice"),
    [
        (Faults.PORT_TAKEN, "port taken", "another process listens on the port"),
        (Faults.NO_GPU, "GPU missing", "compare CUDA_VISIBLE_DEVICES"),
        (Faults.NO_PERMISSION, "GPU missing", "or may not be used"),
    ],
)
def test_an_engine_that_cannot_have_what_it_needs_is_no_point_and_says_what(
    bad: Bad, fault: Faults, name: str, advice: str
) -> None:
    point = bad.point(1 + ORDER.index(fault))
    said = bad.failure(1 + ORDER.index(fault))
    assert said.startswith(f"the engine ended with exit code 1; {name} (line ")
    assert LAST_WORDS[fault] in said
    assert advice in said
    assert not point.done
    assert point.failure() == said
    assert not (point.path / "records.parquet").exists()


def test_a_missing_engine_is_named(bad: Bad) -> None:
    said = bad.failure(MISSING)
    assert said == "cannot start 'no-such-engine': No such file or directory"
    kept = orjson.loads((bad.point(MISSING).path / "failure.json").read_bytes())
    assert kept["error"] == said
