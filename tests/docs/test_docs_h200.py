"""docs/h200.md says what the run directories in bench/results say: every figure of its tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from docs_pages import DOCS, ROOT

from inferometer.cli.main import cli

RESULTS = ROOT / "bench/results/h200-qwen3-8b"
PAGE = (DOCS / "h200.md").read_text(encoding="utf-8")
FIXED, LONG = "1,024 / 256", "8,192 / 256"
POINTS = {
    ("start", 8): f"{FIXED}, started here",
    ("1k-a", 1): FIXED,
    ("1k-a", 32): FIXED,
    ("1k-b", 128): FIXED,
    ("8k", 1): LONG,
    ("8k", 4): LONG,
    ("8k", 16): LONG,
    ("agentic", 8): "agentic",
    ("live", 4): "agentic, live replies",
}
FIGURES = (
    ("output_tok_s", 1),
    ("ttft_p50_s", 1e3),
    ("tpot_p50_s", 1e3),
    ("engine_queue_time_mean_s", 1e3),
    ("engine_kv_use_max", 100),
    ("power_w", 1),
    ("gpu_sm_clock_mhz", 1),
    ("j_per_output_token", 1),
)
BESIDE = {1: ("1k-a", 1), 32: ("1k-a", 32), 128: ("1k-b", 128)}
Result = dict[str, Any]


def result(run: str, lanes: int) -> Result:
    found = sorted(RESULTS.glob(f"{run}/points/*_c{lanes}/result.json"))
    assert len(found) == 1, (run, lanes)
    read: Result = json.loads(found[0].read_text())
    return read


def told(value: float) -> str:
    """Three digits, and no fewer than are before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def row(run: str, lanes: int) -> str:
    """What the first table has to say of a point."""
    found = result(run, lanes)
    figures = [told(found["metrics"][name] * scale) for name, scale in FIGURES]
    codes = [reason["code"] for reason in found["verdict"]["reasons"]]
    verdict = f"{found['verdict']['level']}" + (f": `{'`, `'.join(codes)}`" if codes else "")
    cells = [POINTS[run, lanes], f"`{run}`", str(lanes), *figures]
    return "| " + " | ".join([*cells, f"{found['counts']['ok']:,}", verdict]) + " |"


def row_beside(lanes: int) -> str:
    """And the second one, of vLLM's own client and ours."""
    theirs = json.loads((RESULTS / f"vllm-bench-{lanes}.json").read_text())
    ours = result(*BESIDE[lanes])["metrics"]
    cells = [
        str(lanes),
        *(told(theirs["output_throughput"]), told(ours["output_tok_s"])),
        *(told(theirs["mean_ttft_ms"]), told(ours["ttft_mean_s"] * 1e3)),
        *(told(theirs["mean_tpot_ms"]), told(ours["tpot_mean_s"] * 1e3)),
    ]
    return "| " + " | ".join(cells) + " |"


@pytest.mark.parametrize(("run", "lanes"), POINTS)
def test_every_point_is_told_as_it_was_measured(run: str, lanes: int) -> None:
    assert row(run, lanes) in PAGE.splitlines(), row(run, lanes)


@pytest.mark.parametrize("lanes", BESIDE)
def test_both_clients_are_told_as_they_were_measured(lanes: int) -> None:
    assert row_beside(lanes) in PAGE.splitlines(), row_beside(lanes)


def test_no_point_is_left_out() -> None:
    assert len(list(RESULTS.glob("*/points/*/result.json"))) == len(POINTS)


@pytest.mark.parametrize(("run", "lanes"), POINTS)
def test_client_and_engine_counted_alike(run: str, lanes: int) -> None:
    found = result(run, lanes)
    if found["counts"]["censored"]:
        assert "counters" in found["notes"]
        return
    for name in ("requests", "prompt_tokens", "generation_tokens"):
        assert found["counts"][f"client_{name}"] == found["counts"][f"engine_{name}"] > 0


# Predictions of the same points, docs/simulated-engine.md.

PREDICTED = ("output_tok_s", "tpot_p50_s", "ttft_p50_s", "e2el_p50_s")


def off(predicted: float, measured: float) -> str:
    """Predicted less measured, in percent of the measured."""
    percent = 100 * (predicted / measured - 1)
    return f"{percent:+.1f}" if abs(percent) < 9.95 else f"{percent:+.0f}"


def row_predicted(lengths: str, lanes: int, predicted: Result, measured: Result) -> str:
    """How the row of a point begins; behind that stands what the fit had seen of it."""
    pairs = ((predicted["metrics"][name], measured["metrics"][name]) for name in PREDICTED)
    return "| " + " | ".join([lengths, str(lanes), *(off(*pair) for pair in pairs)]) + " | "


def test_a_prediction_is_as_far_off_as_the_page_says(tmp_path: Path) -> None:
    words = "predict --model Qwen/Qwen3-8B --gpu h200 --tp 1 --precision bf16 --warmup 2"
    given = "--duration 60 --isl 8192 --osl 256 --seed 3 --concurrency 1 --format csv --out"
    cli.main([*words.split(), *given.split(), str(tmp_path / "run")], standalone_mode=False)
    found = next((tmp_path / "run").glob("points/*/result.json"))
    wanted = row_predicted(LONG, 1, json.loads(found.read_text()), result("8k", 1))
    page = (DOCS / "simulated-engine.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith(wanted)], wanted
