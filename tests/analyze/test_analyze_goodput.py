"""Goodput: what meets, what counts as not meeting, and what is not decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from analyze_factory import inputs, record, with_client
from hypothesis import given
from hypothesis import strategies as st

from inferometer import metrics
from inferometer.analyze import analyze_point
from inferometer.analyze.events import Events
from inferometer.analyze.objectives import AT_LEAST, SLO_METRICS
from inferometer.core import Record, Slo, Status
from inferometer.store.events import batch


def figures(records: Sequence[Record], *slos: Slo, unsent: int = 0) -> dict[str, float | None]:
    """Metrics over the window of 10 s, 2 GPUs."""
    point = replace(inputs(records, gpus=2), slos=slos)
    point = with_client(point, arrivals_due=len(records) + unsent, arrivals_unsent=unsent)
    return dict(analyze_point(point).metrics)


QUICK = record(0, (100, 110, 120), completion=3)
SLOW = record(0, (300, 310, 320), completion=3)
UNEVEN = record(0, (100, 200, 300), completion=3)
FAILED = record(0, (), status=Status.TIMEOUT, end=5)
OPEN = record(0, (50,), status=Status.CENSORED, end=9_000)


def test_a_request_is_good_that_meets_every_objective() -> None:
    found = figures([QUICK, SLOW, UNEVEN], Slo("ttft", 0.2), Slo("tpot", 0.02))
    assert found["slo_met_share"] == pytest.approx(1 / 3)
    assert found["goodput_requests_s"] == pytest.approx(0.1)
    assert found["goodput_output_tok_s"] == pytest.approx(0.3)
    assert found["goodput_output_tok_s_per_gpu"] == pytest.approx(0.15)


def test_the_bound_itself_is_met() -> None:
    assert figures([QUICK], Slo("ttft", 0.1))["slo_met_share"] == 1
    assert figures([QUICK], Slo("ttft", 0.0999999))["slo_met_share"] == 0


def test_what_failed_is_open_or_was_never_sent_is_in_the_denominator() -> None:
    assert figures([QUICK, FAILED, OPEN], Slo("ttft", 1), unsent=1)["slo_met_share"] == 1 / 4


def test_what_the_client_cancelled_is_not() -> None:
    gone = record(0, (), status=Status.CANCELLED, end=5)
    assert figures([QUICK, gone], Slo("ttft", 1))["slo_met_share"] == 1


def test_the_wait_for_a_place_counts_from_schedule_only() -> None:
    late = record(2_000, (2_100,), scheduled=0, ready=2_000, completion=1)
    assert figures([late], Slo("ttft", 0.2))["slo_met_share"] == 1
    assert figures([late], Slo("ttft_scheduled", 0.2))["slo_met_share"] == 0
    assert figures([late], Slo("e2el_scheduled", 2.1))["slo_met_share"] == 1


def test_a_speed_is_a_least_one() -> None:
    # 10 ms a token: 100 tok/s.
    assert figures([QUICK], Slo("intvty", 99))["slo_met_share"] == 1
    assert figures([QUICK], Slo("intvty", 101))["slo_met_share"] == 0
    # Three tokens in 120 ms: 25 tok/s.
    assert figures([QUICK], Slo("e2e_intvty", 24))["slo_met_share"] == 1
    assert figures([QUICK], Slo("e2e_intvty", 26))["slo_met_share"] == 0


def test_one_token_has_no_time_per_token_and_no_visible_token_is_no_answer() -> None:
    single = record(0, (100,), completion=1)
    assert figures([single], Slo("tpot", 0.001), Slo("intvty", 1e6))["slo_met_share"] == 1
    assert figures([single], Slo("ttfv", 10))["slo_met_share"] == 0
    seen = record(0, (100,), completion=1, visible=100)
    assert figures([seen], Slo("ttfv", 10))["slo_met_share"] == 1


def test_without_objectives_there_is_no_goodput() -> None:
    assert not any(name.startswith(("goodput", "slo")) for name in figures([QUICK]))


def test_the_result_keeps_its_objectives() -> None:
    slos = (Slo("ttft", 0.5),)
    assert analyze_point(replace(inputs([QUICK]), slos=slos)).slos == slos


def test_errors_as_infinity_hold_what_was_never_sent() -> None:
    found = figures([QUICK] * 4, unsent=0)
    assert found["ttft_scheduled_err_p75_s"] == pytest.approx(0.1)
    found = figures([QUICK] * 4, unsent=2)
    assert found["ttft_scheduled_err_p50_s"] == pytest.approx(0.1)
    assert found["ttft_scheduled_err_p75_s"] is None


# Gaps of 10, 20 and 100 ms; a token every 10, twice 10 and four times 25 ms. TTFT 100 ms.
COUNTED = record(
    0, (100, 110, 130, 230), tokens=(1, 1, 2, 4), completion=8, prompt=50, cached=40, visible=130
)
LATE = record(40, (100,), scheduled=10, ready=25, completion=1)
VALUES = [
    (COUNTED, "ttft", 0.1),
    (COUNTED, "ttfv", 0.13),
    (COUNTED, "e2el", 0.23),
    (COUNTED, "tpot", 0.13 / 7),
    (COUNTED, "chunk_gap_mean", 0.13 / 3),
    (COUNTED, "chunk_gap_p50", 0.02),
    (COUNTED, "chunk_gap_p75", 0.06),
    (COUNTED, "chunk_gap_p90", 0.084),
    (COUNTED, "chunk_gap_p95", 0.092),
    (COUNTED, "chunk_gap_p99", 0.0984),
    (COUNTED, "chunk_gap_max", 0.1),
    (COUNTED, "itl_mean", 0.13 / 7),
    (COUNTED, "itl_p50", 0.025),
    (COUNTED, "itl_p75", 0.025),
    (COUNTED, "itl_p90", 0.025),
    (COUNTED, "itl_p95", 0.025),
    (COUNTED, "itl_p99", 0.025),
    (COUNTED, "itl_max", 0.025),
    (COUNTED, "intvty", 7 / 0.13),
    (COUNTED, "e2e_intvty", 8 / 0.23),
    (COUNTED, "input_speed", 500),
    (COUNTED, "output_tokens", 8),
    (COUNTED, "cached_share", 0.8),
    (LATE, "ttft_scheduled", 0.09),
    (LATE, "e2el_scheduled", 0.09),
    (LATE, "schedule_lag", 0.015),
    (LATE, "cap_wait", 0.015),
]


@pytest.mark.parametrize(("one", "metric", "value"), VALUES)
def test_every_metric_of_a_request_has_a_bound_just_met_and_just_missed(
    one: Record, metric: str, value: float
) -> None:
    wider, closer = (1 - 1e-9, 1 + 1e-9) if metric in AT_LEAST else (1 + 1e-9, 1 - 1e-9)
    assert figures([one], Slo(metric, value * wider))["slo_met_share"] == 1
    assert figures([one], Slo(metric, value * closer))["slo_met_share"] == 0


def test_every_metric_is_in_the_table() -> None:
    assert {metric for _, metric, _ in VALUES} == set(SLO_METRICS)


@pytest.mark.parametrize("metric", sorted(SLO_METRICS))
def test_failed_requests_stay_in_the_denominator_of_every_metric(metric: str) -> None:
    bound = Slo(metric, 1e-9 if metric in AT_LEAST else 1e9)
    assert figures([COUNTED], bound)["slo_met_share"] == 1
    found = figures([COUNTED, FAILED, FAILED, OPEN], bound, unsent=4)
    assert found["slo_met_share"] == 1 / 8
    assert found["goodput_requests_s"] == pytest.approx(0.1)
    assert figures([FAILED], bound)["slo_met_share"] == 0


@pytest.mark.parametrize(
    "metric",
    [m for m in SLO_METRICS if m.startswith(("tpot", "chunk_gap", "itl")) or m == "intvty"],
)
def test_what_has_nothing_to_wait_for_meets_any_bound_and_is_told(metric: str) -> None:
    single = record(0, (100,), tokens=(1,), completion=1)
    bound = Slo(metric, 1e9 if metric in AT_LEAST else 1e-12)
    result = analyze_point(replace(inputs([single, FAILED]), slos=(bound,)))
    assert result.metrics["slo_met_share"] == 0.5
    assert (
        result.notes["slo_met_share"]
        == f"1 of 1 requests have no {metric}, and meet any bound on it"
    )


def test_all_at_one_stamp_has_gaps_of_nothing() -> None:
    burst = record(
        0, (100, 100, 100), tokens=(1, 1, 1), coalesced=(True, True, False), completion=3
    )
    slos = [Slo(name, 1e-12) for name in ("tpot", "chunk_gap_max", "itl_p99")]
    assert figures([burst], *slos)["slo_met_share"] == 1
    # A late stamp makes the gap before it longer: the longest is never taken for a shorter one.
    merged = record(0, (100, 120, 120), coalesced=(False, True, False), completion=3)
    assert figures([merged], Slo("chunk_gap_max", 0.019))["slo_met_share"] == 0


UNCOUNTED = record(0, (100, 110, 120), completion=5)


@pytest.mark.parametrize(
    ("slo", "one"), [(Slo("itl_p99", 1), COUNTED), (Slo("cached_share", 0.5), COUNTED)]
)
def test_what_nobody_told_is_neither_met_nor_missed(slo: Slo, one: Record) -> None:
    result = analyze_point(replace(inputs([one, UNCOUNTED]), slos=(slo,)))
    for name in ("slo_met_share", "goodput_requests_s", "goodput_output_tok_s"):
        assert result.metrics[name] is None
        assert result.notes[name].startswith("1 of 2 requests may have met all objectives or not: ")
        assert f"do not tell {slo.metric}" in result.notes[name]


def test_what_missed_another_bound_is_not_good_whatever_nobody_told() -> None:
    slow = Slo("ttft", 0.1), Slo("itl_p99", 1)
    assert figures([COUNTED, SLOW], *slow)["slo_met_share"] == 0.5


def test_few_untold_requests_withhold_nothing_and_are_not_good() -> None:
    result = analyze_point(replace(inputs([COUNTED] * 99 + [UNCOUNTED]), slos=(Slo("itl_max", 1),)))
    assert result.metrics["slo_met_share"] == 0.99
    assert "1 of 100 requests do not tell itl_max" in result.notes["slo_met_share"]
    more = figures([COUNTED] * 97 + [UNCOUNTED] * 2, Slo("itl_max", 1))
    assert more["slo_met_share"] is None


def test_an_assumed_count_is_told_where_it_matters() -> None:
    result = analyze_point(replace(inputs([UNCOUNTED]), slos=(Slo("intvty", 1),)))
    assert result.notes["slo_met_share"].startswith("assumed: 1 of 1 requests")
    unread = record(0, (100,), prompt=None, intended=50, completion=1)
    result = analyze_point(replace(inputs([unread]), slos=(Slo("input_speed", 500),)))
    assert result.metrics["slo_met_share"] == 1
    assert "1 of 1 prompts have no server count" in result.notes["slo_met_share"]


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=8), max_size=6))
def test_statistics_of_each_are_those_of_its_values_alone(groups: list[list[float]]) -> None:
    values = np.array([value for group in groups for value in group], dtype=np.float64)
    counts = np.array([len(group) for group in groups], dtype=np.int64)
    for how, alone in (
        ("mean", np.mean),
        ("max", np.max),
        ("p50", lambda group: np.percentile(group, 50)),
        ("p99", lambda group: np.percentile(group, 99)),
    ):
        expected = [float(alone(group)) if group else math.nan for group in groups]
        found = metrics.of_each(values, counts, how)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        assert len(found) == len(groups)


def test_statistics_of_requests_know_no_batch() -> None:
    exchanges = [one.exchange.arrivals for one in (COUNTED, FAILED, UNCOUNTED, COUNTED, UNEVEN)]
    wanted = (("chunk_gap", "max"), ("itl", "mean"))
    mask = np.array([True, True, True, True, False])
    for cut in range(6):
        parts = (batch(0, exchanges[:cut]), batch(cut, exchanges[cut:]))
        found = Events(5, parts.__iter__).statistics(wanted, mask)
        assert found["chunk_gap_max"] == pytest.approx(
            [0.1, math.nan, 0.01, 0.1, math.nan], nan_ok=True
        )
        assert found["itl_mean"] == pytest.approx(
            [0.13 / 7, math.nan, math.nan, 0.13 / 7, math.nan], nan_ok=True
        )
