"""Goodput: what meets, what counts as not meeting, and what was typed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from analyze_factory import inputs, record, with_client
from hypothesis import given
from hypothesis import strategies as st

from inferometer.analyze import analyze_point
from inferometer.analyze.goodput import SLO_METRICS, parse_slos
from inferometer.core import Record, Slo, Status
from inferometer.errors import InputError


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


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("ttft:500ms", Slo("ttft", 0.5)),
        ("tpot: 20 ms", Slo("tpot", 0.02)),
        ("e2el:1.5s", Slo("e2el", 1.5)),
        ("ttfv:2min", Slo("ttfv", 120)),
        ("ttft_scheduled:250us", Slo("ttft_scheduled", 250e-6)),
        ("intvty:30tok/s", Slo("intvty", 30)),
    ],
)
def test_what_can_be_typed(text: str, slo: Slo) -> None:
    (found,) = parse_slos([text])
    assert found.metric == slo.metric
    assert found.bound == pytest.approx(slo.bound)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ttft", "an objective is METRIC:BOUND"),
        ("e2e:1s", "no metric of a request is called 'e2e'; did you mean 'e2el'?"),
        ("speed:1s", f"there are {', '.join(SLO_METRICS)}"),
        ("ttft:500", "has a unit of s, ms, us, µs, min; got none"),
        ("ttft:5parsecs", "got 'parsecs'"),
        ("intvty:20ms", "has a unit of tok/s, tok/s/user; got 'ms'"),
        ("ttft:fast", "'fast' is no bound"),
        ("ttft:-1s", "is no bound"),
        ("ttft:0s", "a bound is above 0"),
        ("ttft:1e999s", "a bound is above 0"),
    ],
)
def test_what_cannot(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_slos([text])
    assert message in str(caught.value)


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_slos(["ttft:1s", "ttft:2s", "x:1s", "tpot"])
    assert [problem.key for problem in caught.value.problems] == ["ttft:2s", "x:1s", "tpot"]


@given(st.text(max_size=30))
def test_no_text_is_a_traceback(text: str) -> None:
    slos: tuple[Slo, ...] = ()
    with contextlib.suppress(InputError):
        slos = parse_slos([text])
    assert all(slo.metric in SLO_METRICS and 0 < slo.bound < math.inf for slo in slos)
