"""A fixed and an agentic point on the real llama.cpp, by the recipes and `inferometer run`.

Runs where INFEROMETER_LLAMA_SERVER names a llama-server, or the PATH has one (`make test-engines`).
The model is random and the machine is small: no assertion is about how fast anything is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_gguf
from real_run import Measured, Ran, blamed, run_sweep

from inferometer.core import Status

SERVER = "INFEROMETER_LLAMA_SERVER"
HERE = Path(__file__).parent
FILES = ("llama/master.yaml", "runners.yaml", "sessions.jsonl", "llama/recipes")
POINTS = ("fixed_128_32_tp1_c2", "agentic_sessions_tp1_c2")


def server() -> Path | None:
    """The program, where there is one. Without the variable only where engines are asked for."""
    if given := os.environ.get(SERVER):
        return Path(given).absolute()
    found = shutil.which("llama-server") if os.environ.get("INFEROMETER_ENGINES_ENV") else None
    return None if found is None else Path(found)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of both points."""
    if (program := server()) is None:
        pytest.skip(f"{SERVER} names no llama-server, and the PATH has none")
    folder = tmp_path_factory.mktemp("llama")
    tiny_gguf.write(folder / "tiny-model")
    return run_sweep(
        folder, [HERE / name for name in FILES], "tiny-model/model.gguf", program.parent
    )


@pytest.fixture(params=POINTS)
def measured(request: pytest.FixtureRequest, ran: Ran) -> Measured:
    """Each point."""
    name: str = request.param
    return ran.points[name]


def test_both_points_are_there_and_say_what_was_measured(ran: Ran) -> None:
    assert set(ran.points) == set(POINTS)
    for point in ran.points.values():
        assert point.result.provenance == "measured"
        assert point.result.point.framework == "llamacpp"
        version = point.client.engine_version
        assert version is not None
        assert version.startswith("b")


def test_every_request_ended_ok_with_the_tokens_it_asked_for(measured: Measured) -> None:
    exchanges = [record.exchange for record in measured.records]
    assert {exchange.status for exchange in exchanges} == {Status.OK}
    assert [record.exchange.completion_tokens for record in measured.records] == [
        record.max_tokens for record in measured.records
    ]


def test_totals_are_equal_to_the_engines_to_the_last_token(measured: Measured) -> None:
    totals = measured.client.totals
    assert totals is not None
    exchanges = [record.exchange for record in measured.records]
    assert totals.generation_tokens == sum(e.completion_tokens or 0 for e in exchanges)
    assert totals.prompt_tokens == sum(e.prompt_tokens or 0 for e in exchanges)
    # It publishes no count of requests.
    assert totals.requests is None


def test_prompts_are_exact_in_the_models_own_tokens(measured: Measured) -> None:
    off = [
        (record.input_tokens, record.exchange.prompt_tokens)
        for record in measured.records
        if record.exchange.prompt_tokens != record.input_tokens
    ]
    assert off == []


def test_what_was_cached_is_known(measured: Measured) -> None:
    shares = [record.exchange.cached_tokens for record in measured.records]
    assert None not in shares
    fixed = measured.result.point.config == "fixed"
    assert (measured.result.metrics["cached_share"] == 0) == fixed


def test_the_engines_own_figures_are_there(measured: Measured) -> None:
    metrics = measured.client.metrics
    assert metrics is not None
    assert metrics.engines == ("llamacpp",)
    assert metrics.failed == 0, metrics.problem
    for name in ("engine_running", "engine_waiting", "engine_prefix_hit"):
        assert measured.result.metrics[name] is not None, measured.result.notes.get(name)


def test_the_verdict_blames_only_the_small_machine(measured: Measured) -> None:
    assert blamed(measured.result) == {}


def test_the_log_is_kept_and_the_doctor_finds_its_phases(ran: Ran) -> None:
    words = [sys.executable, "-m", "inferometer", "doctor", str(ran.run)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout
    for phase in ("loading weights", "serving"):
        assert said.count(f"{phase} after 0 s") == len(POINTS), said
    assert said.count("max running: 4") == len(POINTS)
    assert "failure:" not in said
    assert "flood:" not in said


def test_nothing_of_the_engine_is_left(ran: Ran) -> None:
    assert ran.left == []
