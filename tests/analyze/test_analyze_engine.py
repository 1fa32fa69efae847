"""Counters, gauges and histograms over a window, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from analyze_factory import MS, window
from hypothesis import given
from hypothesis import strategies as st

from inferometer.analyze.acceptance import Target
from inferometer.analyze.engine import engine_figures
from inferometer.analyze.series import (
    Histogram,
    Series,
    difference,
    edges_note,
    highest,
    histogram,
    quantile,
    time_mean,
)
from inferometer.core import MetricsReport, Sample
from inferometer.metrics import Figure

REPORT = MetricsReport("/metrics", ("vllm",), 30, 0, None)
SPAN = window(1_000, 9_000)


def points(*pairs: tuple[float, float]) -> Series:
    """(ms, value) pairs."""
    return Series(
        np.array([round(at * MS) for at, _ in pairs], np.int64),
        np.array([value for _, value in pairs], np.float64),
    )


def samples(
    name: str, pairs: Iterable[tuple[float, float]], labels: str = "engine=vllm"
) -> list[Sample]:
    return [Sample(round(at * MS), f"engine.{name}", labels, value) for at, value in pairs]


def figures(
    found: list[Sample], report: MetricsReport | None = REPORT, target: Target | None = None
) -> dict[str, Figure]:
    return engine_figures(found, report, SPAN, target)


# Series


def test_a_difference_is_linear_between_the_scrapes_of_each_edge() -> None:
    # 10 a second, scraped at 0.5, 1.5, 8.5 and 9.5 s: 80 between 1 and 9 s.
    line = points((500, 5), (1_500, 15), (8_500, 85), (9_500, 95))
    assert difference(line, SPAN).value == pytest.approx(80)
    # It jumps only between the edge's scrapes: half of the jump is inside.
    assert difference(points((0, 0), (2_000, 10), (9_000, 10)), SPAN).value == pytest.approx(5)


def test_a_difference_is_never_taken_outside_of_the_scrapes() -> None:
    for line in (points((1_001, 0), (9_500, 9)), points((0, 0), (8_999, 9)), points()):
        assert difference(line, SPAN) == (None, "no scrapes before and after the window")


def test_a_counter_that_falls_is_a_reset_and_none_outside_matters() -> None:
    line = points((0, 50), (500, 5), (4_000, 20), (4_500, 1), (9_500, 30), (10_000, 0))
    assert difference(line, SPAN) == (None, "the counter fell 3.5 s into the window: reset")
    before_and_after = points((0, 50), (500, 5), (9_500, 95), (10_000, 0))
    assert difference(before_and_after, SPAN).value == pytest.approx(80)


def test_a_jump_at_an_edge_is_told_and_steady_growth_is_not() -> None:
    steady = points(*((at, at) for at in range(0, 10_001, 400)))
    assert edges_note(steady, SPAN) is None
    # A prompt of 122,180 tokens in the 0.33 s around the opening, as live replies had it.
    jump = points((0, 0), (900, 0), (1_230, 122_180), (5_000, 500_000), (9_500, 950_000))
    assert edges_note(jump, SPAN) == "up to 10% off: it jumped between the scrapes around an edge"
    at = [(0, 0.0), (900, 0.0), (1_230, 122_180.0), (5_000, 500_000.0), (9_500, 950_000.0)]
    assert "jumped" in (figures(samples("prompt_tokens", at))["engine_input_tok_s"].why or "")


def test_histograms_read_by_their_timetable_are_not_told_as_far_apart() -> None:
    late = [(0, 0.0), (3_004, 3.0), (6_008, 6.0), (9_012, 9.0)]
    missed = [late[0], late[2], late[3]]
    for at, told in ((late, False), (missed, True)):
        found = [s for le in ("1", "+Inf") for s in samples("ttft_s", at, f"engine=vllm,le={le}")]
        found += samples("ttft_s_sum", at)
        for name in ("engine_ttft_p50_s", "engine_ttft_mean_s"):
            assert ("apart" in (figures(found)[name].why or "")) is told, name


def test_edges_far_apart_are_told() -> None:
    assert difference(points((0, 0), (9_500, 95)), SPAN).why == (
        "scrapes around an edge are 9.5 s apart"
    )


@given(
    st.lists(st.integers(0, 10_000), min_size=2, max_size=20, unique=True),
    st.lists(st.integers(0, 1_000), min_size=20, max_size=20),
)
def test_adjoining_windows_share_out_a_counter(stamps: list[int], steps: list[int]) -> None:
    at = sorted({0, *stamps, 10_000})
    values = np.cumsum(steps * 2)[: len(at)]
    line = points(*zip(at, values.tolist(), strict=True))
    parts = [difference(line, window(a, b)).value for a, b in ((0, 3_333), (3_333, 10_000))]
    assert None not in parts
    total = sum(part for part in parts if part is not None)
    assert total == pytest.approx(values[-1] - values[0])


def test_a_gauge_is_weighted_by_time() -> None:
    # 0 until 3 s, then up to 8 within a second, and 8 to the end: (0.5 * 8 + 5 * 8) / 8.
    line = points((1_000, 0), (3_000, 0), (4_000, 8), (6_500, 8), (9_000, 8))
    assert time_mean(line, SPAN).value == pytest.approx(44 / 8)
    assert highest(line, window(1_000, 3_500)).value == 0


def test_a_gauge_is_not_believed_across_a_gap() -> None:
    line = points((1_000, 2), (3_000, 2), (5_000, 2), (8_500, 100), (9_000, 100))
    mean = time_mean(line, SPAN)
    assert mean.value == pytest.approx((4 * 2 + 0.5 * 100) / 4.5)
    assert mean.why == "over the 56% of the window that scrapes cover"
    assert time_mean(points((1_000, 2), (3_000, 2), (8_900, 2)), SPAN).value is None
    assert time_mean(points((2_000, 2)), SPAN) == (None, "fewer than two scrapes")
    assert highest(points((0, 3), (10_000, 4)), SPAN) == (None, "no scrape in the window")


def test_a_quantile_is_linear_inside_its_bucket() -> None:
    found = Histogram(np.array([0.1, 0.5, 1.0, np.inf]), np.array([40.0, 80.0, 90.0, 100.0]))
    assert quantile(found, 50).value == pytest.approx(0.2)  # 10 of the 40 between 0.1 and 0.5
    assert quantile(found, 90).value == pytest.approx(1.0)
    assert quantile(found, 99) == (None, "above the last bucket, 1")
    assert quantile(found, 50).why == "estimate: inside the bucket from 0.1 to 0.5"
    # The first bucket begins at 0.
    low = Histogram(np.array([0.4, np.inf]), np.array([8.0, 8.0]))
    assert quantile(low, 50).value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("bounds", "counts", "total", "p50", "p90"),
    [
        # vLLM's waits with eight lanes on an H200: all in the first bucket, 8.7 us in the mean.
        ((0.3, 0.5), (279, 279), 279 * 8.708e-6, 2 * 8.708e-6, 10 * 8.708e-6),
        # and its first tokens of 8,192 tokens with one: all between 0.1 and 0.25, 216 ms.
        ((0.04, 0.1, 0.25), (0, 0, 41), 41 * 0.21623, 0.18246, 0.235),
    ],
)
def test_a_quantile_leaves_room_for_the_sum(
    bounds: tuple[float, ...], counts: tuple[int, ...], total: float, p50: float, p90: float
) -> None:
    found = Histogram(np.array([*bounds, np.inf]), np.array([*counts, counts[-1]], np.float64))
    assert quantile(found, 50, total).value == pytest.approx(p50, rel=1e-3)
    assert quantile(found, 90, total).value == pytest.approx(p90, rel=1e-3)
    assert type(quantile(found, 50, total).value) is float  # numpy's own is not written as JSON
    assert "by the sum of all" in (quantile(found, 50, total).why or "")
    assert "by the sum of all" not in (quantile(found, 50).why or "")


@given(st.lists(st.floats(0, 99), min_size=100, max_size=200), st.sampled_from((50, 90, 99)))
def test_what_the_sum_rules_out_is_never_the_true_quantile(
    values: list[float], percent: int
) -> None:
    bounds = np.array([1, 10, 100, np.inf], np.float64)
    counts = np.array([sum(v <= bound for v in values) for bound in bounds], np.float64)
    found = Histogram(bounds, counts)
    plain, room = quantile(found, percent).value, quantile(found, percent, sum(values)).value
    assert plain is not None
    assert room is not None
    true = sorted(values)[int(np.ceil(percent / 100 * len(values))) - 1]
    if room < plain:
        assert true <= room + 1e-6
    if room > plain:
        assert true >= room - 1e-6


def test_a_quantile_needs_its_number_of_observations() -> None:
    few = Histogram(np.array([0.1, np.inf]), np.array([99.0, 99.0]))
    assert quantile(few, 99) == (None, "99 observations in the window")
    assert quantile(few, 90).value is not None
    assert quantile(Histogram(np.array([0.1, np.inf]), np.zeros(2)), 50).value is None


@given(st.lists(st.floats(0, 99), min_size=100, max_size=200), st.sampled_from((50, 90, 99)))
def test_a_quantile_is_in_the_bucket_of_the_true_one(values: list[float], percent: int) -> None:
    bounds = np.array([*range(1, 101), np.inf], np.float64)
    counts = np.array([sum(v <= bound for v in values) for bound in bounds], np.float64)
    estimate = quantile(Histogram(bounds, counts), percent).value
    assert estimate is not None
    rank = int(np.ceil(percent / 100 * len(values)))
    assert abs(estimate - sorted(values)[rank - 1]) <= 1


def test_buckets_that_fell_or_have_no_end_are_no_histogram() -> None:
    up, down = points((0, 0), (10_000, 9)), points((0, 5), (10_000, 1))
    assert histogram({"0.1": down, "+Inf": up}, SPAN)[1] == (
        "the counter fell 9.0 s into the window: reset"
    )
    assert histogram({"0.1": up}, SPAN) == (None, "the histogram has no last bucket")


# Figures


def load() -> list[Sample]:
    """An engine at 10 requests and 1,000 tokens a second, scraped every half second."""
    at = range(0, 10_001, 500)
    found = samples("scrape_s", [(t, 0.01) for t in at], "with=histograms")
    for name, labels, rate in (
        ("generation_tokens", "engine=vllm", 1_000),
        ("prompt_tokens", "engine=vllm", 4_000),
        ("requests", "engine=vllm", 10),
        ("prefix_queries", "engine=vllm,tier=device", 4_000),
        ("prefix_hits", "engine=vllm,tier=device", 1_000),
        ("prefix_queries", "engine=vllm,tier=external", 3_000),
        ("prefix_hits", "engine=vllm,tier=external", 600),
        ("drafts", "engine=vllm", 400),
        ("accepted_tokens", "engine=vllm", 600),
        ("queue_time_s", "engine=vllm,le=0.1", 5),
        ("queue_time_s", "engine=vllm,le=0.3", 10),
        ("queue_time_s", "engine=vllm,le=+Inf", 10),
        ("queue_time_s_sum", "engine=vllm", 1.2),
    ):
        found += samples(name, [(t, 7 + rate * t / 1_000) for t in at], labels)
    found += samples("running", [(t, 8 if t < 5_000 else 16) for t in at])
    found += samples("kv_use", [(t, t / 10_000) for t in at])
    return found


def test_figures_of_an_engine() -> None:
    found = {name: figure.value for name, figure in figures(load()).items()}
    expected = {
        "engine_running": (3.5 * 8 + 0.5 * 12 + 4 * 16) / 8,
        "engine_running_max": 16,
        "engine_kv_use": 0.5,
        "engine_kv_use_max": 0.9,
        "engine_output_tok_s": 1_000,
        "engine_input_tok_s": 4_000,
        "engine_prefix_hit": 0.4,
        "engine_prefix_hit_device": 0.25,
        "engine_prefix_hit_external": 0.15,
        "engine_queue_time_mean_s": 0.12,
        "engine_queue_time_p50_s": 0.1,
        "engine_queue_time_p90_s": 0.26,
        "acceptance_length": 2.5,
        "engine_drafts": 3_200,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["engine_queue_time_p99_s"] is None  # 80 requests ended in the window


def test_what_held_while_requests_waited() -> None:
    """Eight run alone; from 5 s on sixteen run and some wait: means of those scrapes alone."""
    waiting = samples("waiting", [(t, 0 if t < 5_000 else 3) for t in range(0, 10_001, 500)])
    found = figures([*load(), *waiting])
    assert found["engine_running_while_waiting"] == Figure(16.0, "of 9 scrapes in the window")
    assert found["engine_kv_use_while_waiting"].value == pytest.approx(0.7)
    idle = figures([*load(), *(replace(each, value=0.0) for each in waiting)])
    assert idle["engine_running_while_waiting"] == Figure(None, "in no scrape of the window")
    assert figures(load())["engine_running_while_waiting"].why == (
        "vLLM: no vllm:num_requests_waiting on /metrics"
    )


def test_cached_tokens_of_all_tiers_together_are_no_tiers() -> None:
    """As of TensorRT-LLM without iteration statistics: one count, and none by level."""
    whole = samples("prompt_tokens_cached", [(t, 2 * t) for t in range(0, 10_001, 500)])
    rest = [each for each in load() if each.name != "engine.prefix_hits"]
    found = figures([*rest, *whole])
    assert found["engine_prefix_hit"].value == pytest.approx(0.5)
    assert found["engine_prefix_hit_device"].value is None
    still = samples(
        "prefix_hits", [(t, 7) for t in range(0, 10_001, 500)], "engine=vllm,tier=device"
    )
    stuck = figures([*rest, *whole, *still])
    assert stuck["engine_prefix_hit"].value == pytest.approx(0.5)
    assert stuck["engine_prefix_hit_device"].why == "of 16000 cached tokens no tier counted any"


def test_what_is_missing_is_named() -> None:
    found = figures(load())
    assert found["engine_preemptions"] == (None, "vLLM: no vllm:num_preemptions on /metrics")
    assert found["engine_kv_use"].why is None
    assert found["engine_prefix_hit_host"] == (
        None,
        "vLLM: no vllm:prompt_tokens_cached_by_source on /metrics",
    )
    llama = figures(load(), replace(REPORT, engines=("llamacpp",)))
    assert llama["engine_prefix_hit_host"].why == "llama.cpp does not publish prefix_hits.host"
    why = found["engine_itl_p50_s"].why
    assert why is not None
    assert "vllm:inter_token_latency_seconds or vllm:time_per_output_token_seconds" in why


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (None, "the engine's metrics were not watched"),
        (
            MetricsReport(None, (), 0, 1, "/metrics: HTML instead of metrics"),
            "no metrics page: /metrics: HTML instead of metrics",
        ),
        (
            MetricsReport("/metrics", (), 9, 0, None),
            "/metrics has no family of an engine that is known",
        ),
    ],
)
def test_without_a_page_every_figure_says_so(report: MetricsReport | None, why: str) -> None:
    found = figures([], report)
    said = {name: figure for name, figure in found.items() if name != "acceptance_target"}
    assert set(said.values()) == {Figure(None, why)}


def test_a_restart_leaves_no_count() -> None:
    at = range(0, 10_001, 500)
    found = figures(samples("preemptions", [(t, t if t < 6_000 else 0) for t in at]))
    assert found["engine_preemptions"] == (None, "the counter fell 5.0 s into the window: reset")


def test_a_counter_that_comes_later_began_at_zero() -> None:
    pages = samples("scrape_s", [(t, 0.01) for t in range(0, 10_001, 500)], "")
    late = samples("preemptions", [(t, 4) for t in range(5_000, 10_001, 500)])
    assert figures(pages + late)["engine_preemptions"].value == 4
    assert figures(late)["engine_preemptions"].value is None


def test_what_an_engine_means_is_in_the_note() -> None:
    report = replace(REPORT, engines=("sglang",))
    at = [(t, 100.0 * t) for t in range(0, 10_001, 500)]
    found = figures(samples("generation_tokens", at, "engine=sglang"), report)
    assert found["engine_output_tok_s"] == (100_000, "counted as a request ends")


def test_a_page_that_is_renewed_by_a_clock_is_told() -> None:
    report = replace(REPORT, engines=("atom",))
    at = [(float(t), 4.0) for t in range(0, 10_001, 500)]
    found = figures(samples("running", at, "engine=atom"), report)
    assert found["engine_running"] == (4, "renewed every 5 s")


def test_acceptance_of_an_engine_that_counts_no_accepted_tokens() -> None:
    report = replace(REPORT, engines=("sglang",))
    found = []
    for name, rate in (("drafts", 40), ("generation_tokens", 110), ("requests", 10)):
        found += samples(
            name, [(t, rate * t / 1e3) for t in range(0, 10_001, 500)], "engine=sglang"
        )
    # 10 first tokens a second, and 100 from 40 verifications.
    assert figures(found, report)["acceptance_length"].value == pytest.approx(2.5)


def test_acceptance_by_the_gauge_where_nothing_is_counted() -> None:
    recent = samples("acceptance_recent", [(t, 2.25) for t in range(0, 10_001, 500)])
    assert figures(recent)["acceptance_length"] == (2.25, "mean of the engine's own gauge")


def test_without_a_draft_there_is_no_acceptance() -> None:
    at = [(float(t), 3.0) for t in range(0, 10_001, 500)]
    found = figures(samples("drafts", at) + samples("accepted_tokens", at))
    assert found["acceptance_length"] == (None, "nothing was drafted in the window")
    assert found["acceptance_target"] == (None, "the plan does not speculate")
