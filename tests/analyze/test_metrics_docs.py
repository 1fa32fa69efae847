"""docs/metrics.md names every metric, count, label and reason code that an analysis can produce."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from analyze_factory import inputs, record, window, with_client

from inferometer import metrics
from inferometer.analyze import Code, PointInputs, analyze_point
from inferometer.analyze.objectives import ALIASES, SLO_METRICS
from inferometer.core import EngineTotals, Result, Slo, Status

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
NAMED = set(re.findall(r"`([A-Za-z0-9_]+)`", PAGE.read_text(encoding="utf-8")))


def every_kind() -> list[Result]:
    """Results that between them hold every metric, count and label."""
    ok = [record(1_000, (1_100, 1_200), completion=5)]
    counted = window(kind="requests")
    failed = [record(5, status=status) for status in Status if status.failed]
    short = replace(inputs(ok, agentic=True), provenance="simulated", clock="virtual")
    return [
        analyze_point(short),
        analyze_point(inputs(failed)),
        analyze_point(inputs(ok, span=counted)),
        analyze_point(inputs(ok, span=counted, lanes=2)),
        analyze_point(replace(inputs(ok), totals=EngineTotals(1.0, 100.0, 5.0, 0.1))),
        analyze_point(replace(open_loop(inputs(ok)), slos=(Slo("ttft", 1.0),))),
    ]


def open_loop(given: PointInputs) -> PointInputs:
    """The same run with arrivals by a schedule."""
    workload = replace(given.plan.workload, arrival="poisson", rate=1.0)
    paced = replace(given, plan=replace(given.plan, workload=workload))
    return with_client(paced, arrivals_due=1)


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return every_kind()


def test_every_metric_is_on_the_page(results: list[Result]) -> None:
    names = {name for result in results for name in result.metrics}
    assert len(names) > 100
    assert names - NAMED == set()


def test_every_objective_and_alias_is_on_the_page() -> None:
    assert {*SLO_METRICS, *ALIASES} - NAMED == set()


def test_every_count_is_on_the_page(results: list[Result]) -> None:
    names = {name for result in results for name in result.counts}
    classes = {f"failed_{status.value}" for status in Status if status.failed}
    assert classes <= names
    assert (names - classes) - NAMED == set()
    assert {status.value for status in Status} <= NAMED


def test_every_code_and_label_is_on_the_page(results: list[Result]) -> None:
    labels = {label for result in results for label in result.verdict.labels}
    shown = {"simulated", "virtual", "short", "open_loop", "assumed_tokens"}
    assert labels == shown | {"steady", "whole_window"}
    assert (labels | {code.value for code in Code}) - NAMED == set()


def test_every_formula_that_is_no_column_is_on_the_page() -> None:
    for function in (
        metrics.usd_per_mtok,
        metrics.gpu_energy,
        metrics.energy,
        metrics.joules_per_token,
        metrics.speed_of_light,
    ):
        assert function.__name__ in NAMED


def test_the_page_names_no_metric_that_is_gone(results: list[Result]) -> None:
    known = {name for result in results for name in result.metrics}
    suffixes = ("_s", "_ms", "_per_gpu", "_p50", "_p99", "_mean")
    known |= set(SLO_METRICS)
    stale = {name for name in NAMED if name.endswith(suffixes) and name not in known}
    assert stale == {"_lo_s", "_hi_s", "_per_gpu"}
