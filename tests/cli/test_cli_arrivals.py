"""Arrivals and objectives on the command line: what they come to, and what is refused."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest
from command_line import call

from inferometer.core import Result, WorkloadSettings
from inferometer.store import RunDir

DEPLOYMENT = (
    *("--model", "Qwen/Qwen3-8B", "--gpu", "h200", "--tp", "1", "--isl", "64", "--osl", "8"),
    *("--warmup", "0"),
)


def predicted(out: Path, *words: str) -> tuple[Result, WorkloadSettings]:
    """The one point of a prediction."""
    said = call("predict", *DEPLOYMENT, *words, "--out", out)
    assert said.code == 0, said.err
    (folder,) = RunDir(out).finished()
    return folder.result(), folder.launch().plan.workload


def test_a_rate_is_an_open_loop_and_is_kept(tmp_path: Path) -> None:
    words = ("--rate", "50", "--duration", "40", "--slo", "ttft:1s", "--slo", "tpot:1us")
    result, workload = predicted(tmp_path / "run", *words)
    assert (workload.arrival, workload.rate, workload.cap_in_flight) == ("poisson", 50, False)
    assert result.metrics["offered_s"] == pytest.approx(50, rel=0.1)
    assert result.metrics["slo_met_share"] == 0
    assert [slo.metric for slo in result.slos] == ["ttft", "tpot"]
    assert result.metrics["lane_occupancy"] is None
    assert "open_loop" in result.verdict.labels
    again, _ = predicted(tmp_path / "again", *words)
    assert again.metrics == result.metrics


def test_objectives_are_on_the_screen_and_on_both_pages(tmp_path: Path) -> None:
    out, words = tmp_path / "run", ("--slo", "request_latency:9e3 tps_user:>=1")
    several = ("--slo", "itl_p99:1s", "--slo", "chunk_gap_max:1s", "--slo", "input_speed:1")
    fixed = ("--requests", "6", "--concurrency", "1")
    said = call("predict", *DEPLOYMENT, *fixed, *words, *several, "--out", out)
    held = "e2el <= 9 s, intvty >= 1 tok/s, itl_p99 <= 1 s, chunk_gap_max <= 1 s, "
    held += "input_speed >= 1 tok/s"
    assert f"objectives: {held}\n" in said.out
    (folder,) = RunDir(out).finished()
    assert folder.result().metrics["slo_met_share"] == 1
    page = unescape((out / "report.html").read_text(encoding="utf-8"))
    assert "intvty >= 1 tok/s" in page.replace("\\u003e", ">").replace("\\u003c", "<")
    assert call("report", out, "--point", folder.path.name, "-o", tmp_path / "p.html").code == 0
    point = unescape((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert f"<dt>Objectives</dt><dd>{held}</dd>" in point
    assert "<dt>Objectives met</dt><dd>100 %</dd>" in point


def test_a_rate_and_a_concurrency_are_a_cap(tmp_path: Path) -> None:
    words = ("--rate", "1000", "--concurrency", "2", "--duration", "5")
    said = call("predict", *DEPLOYMENT, *words, "--out", tmp_path / "run")
    assert said.code == 5, "arrivals that found no place make it invalid"
    (folder,) = RunDir(tmp_path / "run").finished()
    result = folder.result()
    assert [reason.code for reason in result.verdict.reasons] == ["arrivals_unsent"]
    assert result.metrics["in_flight"] == pytest.approx(2, rel=0.01)
    scheduled, sent = result.metrics["ttft_scheduled_p50_s"], result.metrics["ttft_p50_s"]
    assert scheduled is not None
    assert sent is not None
    assert scheduled > 10 * sent, "the wait counts"
    assert result.metrics["schedule_lag_p99_ms"] == 0, "and is not the client's own"


@pytest.mark.parametrize(
    ("words", "arrival", "field", "value"),
    [
        (("--rate", "40", "--arrival", "constant"), "constant", "rate", 40),
        (("--rate", "40", "--burstiness", "0.5"), "gamma", "burstiness", 0.5),
        (("--ramp-rate", "5:40:10:3"), "poisson", "rate_ramp_steps", 3),
        (("--arrival", "burst"), "burst", "rate", None),
        (("--ramp-concurrency", "1:8:0.5"), "closed", "conc_from", 1),
    ],
)
def test_options_come_to_settings(
    tmp_path: Path, words: tuple[str, ...], arrival: str, field: str, value: object
) -> None:
    result, workload = predicted(tmp_path / "run", *words, "--requests", "200")
    assert workload.arrival == arrival
    assert getattr(workload, field) == value
    assert result.counts["ok"] >= 200


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rate", "0"), "is not in the range x>0"),
        (("--rate", "5", "--ramp-rate", "1:5:9"), "--ramp-rate says the rate; leave out --rate"),
        (("--arrival", "gamma"), "--arrival gamma needs --rate or --ramp-rate"),
        (("--arrival", "burst", "--rate", "5"), "--arrival burst and a rate exclude each other"),
        (("--timestamps", "--rate", "5"), "--timestamps and a rate exclude each other"),
        (("--burstiness", "2"), "--burstiness goes only with gamma arrivals at a rate"),
        (
            ("--burstiness", "2", "--rate", "5", "--arrival", "poisson"),
            "--burstiness goes only with gamma arrivals at a rate",
        ),
        (("--ramp-rate", "1:5"), "'1:5' is no ramp such as 1:20:60"),
        (("--ramp-rate", "a:b:c"), "is no ramp such as"),
        (("--ramp-rate", "nan:5:9"), "is no ramp such as"),
        (("--ramp-rate", "1:0:9"), "only FROM may be 0"),
        (("--ramp-rate", "1:5:9:1"), "a ramp has 2 levels or more"),
        (("--ramp-concurrency", "1.5:5:9"), "lanes are positive integers"),
        (("--ramp-concurrency", "8:4:9"), "lanes only join"),
        (("--ramp-concurrency", "1:4:9", "--concurrency", "4"), "leave it out"),
        (("--ramp-concurrency", "1:4:9", "--rate", "4"), "only with a closed loop"),
        (("--timestamps",), "fixed lengths have no timestamps"),
        (("--timestamps", "--workload", "synthetic:quickstart"), "do not say when they began"),
        (("--arrival", "burst", "--duration", "5"), "it needs a number of requests"),
        (("--slo", "tpto:5ms"), "did you mean 'tpot'?"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    deployment = DEPLOYMENT[:6] if "--workload" in words else DEPLOYMENT
    said = call("predict", *deployment, *words, "--out", tmp_path / "run")
    assert said.code == 2
    assert message in " ".join(said.err.split())
    assert not (tmp_path / "run").exists()
