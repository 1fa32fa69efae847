"""Objectives as they are typed: names, aliases, units, sides, and what is refused."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.analyze.objectives import ALIASES, AT_LEAST, SLO_METRICS, parse_slos, told
from inferometer.core import Slo
from inferometer.errors import InputError


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("ttft:500ms", Slo("ttft", 0.5)),
        ("tpot: 20 ms", Slo("tpot", 0.02)),
        ("e2el:1.5s", Slo("e2el", 1.5)),
        ("ttfv:2min", Slo("ttfv", 120)),
        ("ttft_scheduled:250us", Slo("ttft_scheduled", 250e-6)),
        ("intvty:30tok/s", Slo("intvty", 30)),
        ("intvty:30", Slo("intvty", 30)),
        ("intvty:>=30", Slo("intvty", 30)),
        ("tps_user:>=30", Slo("intvty", 30)),
        ("ttft:<=500ms", Slo("ttft", 0.5)),
        ("ttft:≤ 500 ms", Slo("ttft", 0.5)),
        ("itl_p99:50ms", Slo("itl_p99", 0.05)),
        ("itl_p99_ms:50", Slo("itl_p99", 0.05)),
        ("itl-p99-ms:50", Slo("itl_p99", 0.05)),
        ("TTFT_s:0.5", Slo("ttft", 0.5)),
        ("ttft_ms:1s", Slo("ttft", 1)),
        ("chunk_gap_max:200ms", Slo("chunk_gap_max", 0.2)),
        ("schedule_lag_ms:2", Slo("schedule_lag", 0.002)),
        ("cap_wait:1s", Slo("cap_wait", 1)),
        ("output_tokens:100", Slo("output_tokens", 100)),
        ("output_tokens:>=100 tokens", Slo("output_tokens", 100)),
        ("cached_share:80%", Slo("cached_share", 0.8)),
        ("cached_share:>=0.8", Slo("cached_share", 0.8)),
        ("time_to_first_token:100", Slo("ttft", 0.1)),
        ("time_to_first_token:100us", Slo("ttft", 1e-4)),
        ("inter_token_latency:3.40", Slo("tpot", 0.0034)),
        ("request_latency:250", Slo("e2el", 0.25)),
        ("output_token_throughput_per_user:30", Slo("intvty", 30)),
        ("prefill_throughput_per_user:1e3", Slo("input_speed", 1000)),
    ],
)
def test_what_can_be_typed(text: str, slo: Slo) -> None:
    (found,) = parse_slos([text])
    assert found.metric == slo.metric
    assert found.bound == pytest.approx(slo.bound)


@pytest.mark.parametrize(
    "text",
    [
        "ttft:500ms tpot:20ms",
        "ttft:500ms,tpot:20ms",
        "ttft: 500 ms,  tpot : 20 ms",
        "time_to_first_token:500 inter_token_latency:20",
    ],
)
def test_a_text_may_hold_several(text: str) -> None:
    assert parse_slos([text]) == parse_slos(["ttft:500ms", "tpot:20ms"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ttft", "an objective is METRIC:BOUND"),
        ("e2e:1s", "no metric of a request is called 'e2e'; did you mean 'e2el'?"),
        ("tpto:1s", "did you mean 'tpot'?"),
        ("time_to_first_tokens:1", "did you mean 'time_to_first_token'?"),
        ("itl_p98:1s", "did you mean 'itl_p9"),
        ("quality:1s", "there are ttft, ttft_scheduled, ttfv, e2el, e2el_scheduled, tpot, chunk_"),
        ("itl:1s", "a request has many; there are itl_mean, itl_p50"),
        ("inter_chunk_latency:1", "a request has many; there are chunk_gap_mean, chunk_gap_p50"),
        ("ttft_p99_s:1", "'ttft_p99_s', that is of many; did you mean 'ttft'?"),
        ("intvty_p90:1", "did you mean 'intvty'?"),
        ("ttft:500", "unit of s, ms, us, µs, min; got none; where others mean milliseconds, write"),
        ("ttft:500", "write ttft:500ms"),
        ("ttft:5parsecs", "got 'parsecs'"),
        ("intvty:20ms", "has a unit of tok/s, tok/s/user; got 'ms'"),
        ("output_tokens:20ms", "has a unit of tokens, tok; got 'ms'"),
        ("cached_share:80", "is a share, at most 1 or 100%; got '80'"),
        ("ttft:>=500ms", "ttft is better the smaller it is"),
        ("ttft:>=500ms", "write ttft:<=500ms"),
        ("ttft:<500ms", "write ttft:<=500ms"),
        ("ttft:=500ms", "write ttft:<=500ms"),
        ("tps_user:<=30", "intvty is better the larger it is"),
        ("tps_user:>30", "write intvty:>=30"),
        ("tps_user:", "put the objective in quotes"),
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
        parse_slos(["ttft:1s", "time_to_first_token:2s", "x:1s y:1s", "tpot"])
    keys = [problem.key for problem in caught.value.problems]
    assert keys == ["time_to_first_token:2s", "x:1s", "y:1s", "tpot"]


def test_no_alias_hides_a_metric() -> None:
    assert not ALIASES.keys() & set(SLO_METRICS)
    assert {alias.metric for alias in ALIASES.values()} <= set(SLO_METRICS)


@pytest.mark.parametrize("metric", SLO_METRICS)
def test_an_objective_in_words_can_be_typed_again(metric: str) -> None:
    slo = Slo(metric, 0.25)
    words = told(slo)
    assert (">=" in words) == (metric in AT_LEAST)
    name, rest = words.split(" ", 1)
    assert parse_slos([f"{name}:{rest}"]) == (slo,)


@given(st.text(max_size=30))
def test_no_text_is_a_traceback(text: str) -> None:
    slos: tuple[Slo, ...] = ()
    with contextlib.suppress(InputError):
        slos = parse_slos([text])
    assert all(slo.metric in SLO_METRICS and 0 < slo.bound < math.inf for slo in slos)
