"""A fixed and an agentic point on the real vLLM, by the recipes and `inferometer run`: what both
sides count is equal, prompts are exact, and nothing is left behind.

Runs where INFEROMETER_ENGINES_ENV names an environment that has vLLM (`make test-engines`). The
model is random and the machine is small: no assertion is about how fast anything is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from real_run import Measured, Ran, blamed, run_sweep

from inferometer.core import Sample, Status, Window
from inferometer.observe.engine_metrics import INTERVAL_S

ENV = "INFEROMETER_ENGINES_ENV"
HERE = Path(__file__).parent
FILES = ("master.yaml", "runners.yaml", "sessions.jsonl", "recipes")
POINTS = ("fixed_256_32_tp1_c2", "agentic_sessions_tp1_c2")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run of both points."""
    given = os.environ.get(ENV)
    if not given:
        pytest.skip(f"{ENV} names no environment with an engine (make test-engines)")
    folder, binaries = tmp_path_factory.mktemp("engines"), Path(given).absolute() / "bin"
    make = [str(binaries / "python"), str(HERE / "tiny_model.py"), str(folder / "tiny-model")]
    subprocess.run(make, check=True, timeout=600)
    return run_sweep(folder, [HERE / name for name in FILES], "tiny-model", binaries)


@pytest.fixture(params=POINTS)
def measured(request: pytest.FixtureRequest, ran: Ran) -> Measured:
    """Each point."""
    name: str = request.param
    return ran.points[name]


def test_both_points_are_there_and_say_that_they_were_measured(ran: Ran) -> None:
    assert set(ran.points) == set(POINTS)
    for point in ran.points.values():
        assert point.result.provenance == "measured"
        assert point.result.point.framework == "vllm"


def test_whole_run_totals_are_equal_to_the_last_token(measured: Measured) -> None:
    totals = measured.client.totals
    assert totals is not None
    exchanges = [record.exchange for record in measured.records]
    assert {exchange.status for exchange in exchanges} == {Status.OK}
    assert {record.phase.value for record in measured.records} == {"warmup", "measured"}
    assert totals.requests == len(exchanges)
    assert totals.prompt_tokens == sum(e.prompt_tokens or 0 for e in exchanges)
    assert totals.generation_tokens == sum(e.completion_tokens or 0 for e in exchanges)


def test_each_chunk_is_counted_and_all_but_half_characters_at_the_end_are_seen(
    measured: Measured,
) -> None:
    seen = asked = 0
    for record in measured.records:
        tokens, completion = record.exchange.arrivals.tokens, record.exchange.completion_tokens
        assert tokens is not None, "no counts on each chunk"
        assert completion == record.max_tokens
        assert tokens.sum() <= completion
        seen, asked = seen + int(tokens.sum()), asked + completion
    assert seen > 0.98 * asked


def test_window_differences_agree_within_a_scrape_at_each_edge(measured: Measured) -> None:
    window = measured.result.window
    arrivals = [record.exchange.arrivals for record in measured.records]
    at_ns = np.concatenate([each.at_ns for each in arrivals])
    tokens = np.concatenate([each.tokens for each in arrivals if each.tokens is not None])
    least, grown, most = _around(
        measured.samples, "engine.generation_tokens", window, at_ns, tokens
    )
    assert most > 0
    assert least <= grown <= most
    first_ns = np.array([record.first_token_ns for record in measured.records])
    prompts = np.array([record.exchange.prompt_tokens for record in measured.records])
    least, grown, most = _around(
        measured.samples, "engine.prompt_tokens", window, first_ns, prompts
    )
    assert most > 0
    assert least <= grown <= most


def _around(
    samples: list[Sample],
    name: str,
    window: Window,
    at_ns: np.ndarray,
    amounts: np.ndarray,
) -> tuple[int, float, int]:
    """The engine's difference over the window, between what the client counted in the window
    without, and with, the time to the next scrapes at both of its edges.
    """
    series = [sample for sample in samples if sample.name == name]
    scraped_ns = np.array([sample.at_ns for sample in series])
    values = np.array([sample.value for sample in series])
    edges = [window.start_ns, window.end_ns]
    start, end = np.interp(edges, scraped_ns, values)
    gaps_ns = np.diff(scraped_ns)
    near = [gaps_ns[max(int(np.searchsorted(scraped_ns, edge)) - 1, 0)] for edge in edges]
    slack = [int(max(gap, INTERVAL_S * 1e9)) for gap in near]

    def counted(from_ns: int, to_ns: int) -> int:
        return int(amounts[(at_ns > from_ns) & (at_ns <= to_ns)].sum())

    least = counted(window.start_ns + slack[0], window.end_ns - slack[1])
    most = counted(window.start_ns - slack[0], window.end_ns + slack[1])
    return least, float(end - start), most


def test_prompts_are_exact_in_the_models_own_tokens(measured: Measured) -> None:
    off = [
        (record.input_tokens, record.exchange.prompt_tokens)
        for record in measured.records
        if record.exchange.prompt_tokens != record.input_tokens
    ]
    assert off == []
    assert measured.result.metrics["input_mismatch"] == 0


def test_what_was_cached_is_known(measured: Measured) -> None:
    shares = [record.exchange.cached_tokens for record in measured.records]
    assert None not in shares
    fixed = measured.result.point.config == "fixed"
    assert (measured.result.metrics["cached_share"] == 0) == fixed


def test_latencies_are_finite(measured: Measured) -> None:
    for name in ("ttft_p50_s", "tpot_p50_s", "itl_p50_s", "e2el_p50_s", "output_tok_s"):
        value = measured.result.metrics[name]
        assert value is not None, (name, measured.result.notes.get(name))
        assert 0 < value < 600


def test_the_verdict_blames_only_the_small_machine(measured: Measured) -> None:
    assert blamed(measured.result) == {}


def test_the_engines_own_figures_are_there(measured: Measured) -> None:
    metrics = measured.client.metrics
    assert metrics is not None
    assert metrics.engines == ("vllm",)
    assert metrics.failed == 0, metrics.problem
    found = measured.result
    for name in ("engine_running", "engine_kv_use", "engine_ttft_p50_s", "engine_output_tok_s"):
        assert found.metrics[name] is not None, (name, found.notes.get(name))


def test_the_log_is_kept_and_the_doctor_finds_its_phases(ran: Ran) -> None:
    words = [sys.executable, "-m", "inferometer", "doctor", str(ran.run)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout
    for name, point in ran.points.items():
        assert (point.folder / "server.log").stat().st_size > 1000
        assert name in said
    for phase in ("loading weights", "serving"):
        assert said.count(f"{phase} after") == len(POINTS), said
    assert "kv pool tokens:" in said
    assert "failure:" not in said


def test_nothing_of_the_engine_is_left(ran: Ran) -> None:
    assert ran.left == []
