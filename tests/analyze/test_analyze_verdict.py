"""Each reason code: what triggers it, and what stays just below its bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from analyze_factory import inputs, record, window, with_client

from inferometer import metrics
from inferometer.analyze import Code, analyze_point
from inferometer.analyze.selfcheck import Counter
from inferometer.analyze.verdict import Evidence, judge
from inferometer.core import EngineTotals, Status, Verdict

CLEAN = Evidence(
    ok=1_000,
    censored=0,
    failures={},
    context_overflows=0,
    arrivals_due=None,
    arrivals_unsent=0,
    window=window(),
    engine_died=None,
    ttft_p50_s=0.1,
    chunk_gap_p50_s=0.02,
    schedule_lag_ms=0.5,
    schedule_lag_percent=99,
    stamp_source="kernel",
    loop_lag_p99_ms=1.0,
    busiest_cpu_share=0.5,
    first_token_coalesced_share=0.0,
    little_residual=0.0,
    little_noise=0.01,
    input_mismatch=0.0,
    output_mismatch=0.0,
    engine_lateness_p99_ms=None,
    counters=(),
    labels=(),
)

SIMULATED = {"acceptance_target": 2.0, "drafts": 400.0}
CASES: tuple[tuple[Code, str, dict[str, Any]], ...] = (
    (Code.NO_SAMPLES, "invalid", {"ok": 0}),
    (Code.FEW_SAMPLES, "degraded", {"ok": 5}),
    (Code.FAILED_SHARE, "invalid", {"ok": 899, "failures": {"timeout": 60, "connect": 41}}),
    (Code.FAILED_SHARE, "degraded", {"ok": 989, "failures": {"timeout": 11}}),
    (Code.CENSORED_SHARE, "degraded", {"ok": 989, "censored": 11}),
    (Code.CENSORED_SHARE, "degraded", {"ok": 93, "censored": 2}),
    (Code.CONTEXT_OVERFLOW, "degraded", {"ok": 989, "context_overflows": 11}),
    (Code.SHORT_WINDOW, "invalid", {"window": window(complete=False, stop_reason="stopped")}),
    (Code.SHORT_WINDOW, "invalid", {"window": replace(window(), declared_s=10.002)}),
    (Code.ENGINE_DIED, "invalid", {"engine_died": "signal 9"}),
    # 20 % of a gap of 20 ms is 4 ms; of 50 ms it would be 10, so 5 ms binds
    (Code.ENGINE_LATE, "degraded", {"engine_lateness_p99_ms": 4.01}),
    (Code.ENGINE_LATE, "degraded", {"engine_lateness_p99_ms": 5.01, "chunk_gap_p50_s": 0.05}),
    (Code.ENGINE_LATE, "degraded", {"engine_lateness_p99_ms": 5.01, "chunk_gap_p50_s": None}),
    # 1 % of 100 ms is below the floor of 2 ms; of 1 s it is 10 ms
    (Code.SCHEDULE_LAG, "degraded", {"schedule_lag_ms": 2.01}),
    (Code.SCHEDULE_LAG, "invalid", {"schedule_lag_ms": 20.01}),
    (Code.SCHEDULE_LAG, "degraded", {"schedule_lag_ms": 10.01, "ttft_p50_s": 1.0}),
    (Code.SCHEDULE_LAG, "invalid", {"schedule_lag_ms": 100.01, "ttft_p50_s": 1.0}),
    (Code.CLIENT_LAG, "degraded", {"stamp_source": "read", "loop_lag_p99_ms": 20.01}),
    (Code.CLIENT_LAG, "invalid", {"stamp_source": "read", "loop_lag_p99_ms": 200.01}),
    (Code.CLIENT_LAG, "invalid", {"loop_lag_p99_ms": 200.01}),
    (Code.CLIENT_CPU, "degraded", {"busiest_cpu_share": 0.901}),
    (Code.ARRIVALS_UNSENT, "degraded", {"arrivals_due": 1000, "arrivals_unsent": 11}),
    (Code.ARRIVALS_UNSENT, "invalid", {"arrivals_due": 1000, "arrivals_unsent": 101}),
    (
        Code.COALESCED_FIRST_TOKENS,
        "degraded",
        {"stamp_source": "read", "first_token_coalesced_share": 0.501},
    ),
    (Code.LITTLE_RESIDUAL, "degraded", {"little_residual": -0.051}),
    (Code.LITTLE_RESIDUAL, "invalid", {"little_residual": 0.201}),
    (Code.LITTLE_RESIDUAL, "invalid", {"little_residual": 0.301, "little_noise": 0.3}),
    (Code.COUNTERS_DISAGREE, "degraded", {"counters": (Counter("requests", 999, 1000.0),)}),
    (Code.COUNTERS_DISAGREE, "invalid", {"counters": (Counter("requests", 989, 1000.0),)}),
    (Code.TOKEN_MISMATCH, "degraded", {"input_mismatch": 0.0201}),
    (Code.OUTPUT_MISMATCH, "degraded", {"output_mismatch": 0.0101}),
    (Code.POWER_INVALID, "invalid", {"power_missing": "no driver"}),
    (Code.GPU_SHARED, "degraded", {"gpu_shared_share": 0.001}),
    (Code.GPU_THROTTLED, "degraded", {"gpu_throttled_share": 0.0101}),
    (Code.HOST_SHARED, "degraded", {"other_cpu_share": 0.201}),
    (Code.CLOCK_STEP, "degraded", {"clock_step_s": 0.501}),
    (Code.ENGINE_VERSION, "invalid", {"version_problem": "another"}),
    (Code.GPU_MEMORY_HELD, "degraded", {"gpu_held_share": 0.0201}),
    (Code.GPU_MEMORY_HELD, "invalid", {"gpu_held_share": 0.101}),
    (Code.ACCEPTANCE_OFF, "degraded", {"acceptance_length": 1.89, **SIMULATED}),
    (Code.ACCEPTANCE_OFF, "degraded", {"acceptance_length": 2.11, **SIMULATED, "drafts": None}),
)

JUST_BELOW: tuple[dict[str, Any], ...] = (
    {"busiest_cpu_share": 0.9},
    {"arrivals_due": 1000, "arrivals_unsent": 10},
    {"ok": 6},
    {"ok": 990, "failures": {"timeout": 10}},
    {"ok": 990, "censored": 10},
    {"ok": 93, "censored": 1},
    {"ok": 6, "censored": 1},
    {"gpu_held_share": 0.02},
    {"gpu_shared_share": 0.0},
    {"gpu_throttled_share": 0.01},
    {"other_cpu_share": 0.2},
    {"clock_step_s": 0.5},
    {"acceptance_length": 1.91, **SIMULATED},
    {"acceptance_length": 4.0, **SIMULATED, "drafts": 399.0},
    {"acceptance_length": 4.0, **SIMULATED, "acceptance_target": None},
    {"ok": 990, "context_overflows": 10},
    {"window": replace(window(), declared_s=10.001)},
    {"engine_lateness_p99_ms": 4.0},
    {"engine_lateness_p99_ms": 5.0, "chunk_gap_p50_s": 0.05},
    {"schedule_lag_ms": 2.0},
    {"schedule_lag_ms": 10.0, "ttft_p50_s": 1.0},
    {"stamp_source": "read", "loop_lag_p99_ms": 20.0},
    {"loop_lag_p99_ms": 200.0},
    {"stamp_source": "read", "first_token_coalesced_share": 0.5},
    {"first_token_coalesced_share": 1.0},
    {"little_residual": 0.05},
    {"little_residual": 0.3, "little_noise": 0.3},
    {"counters": (Counter("requests", 1000, 1000.0),)},
    {"input_mismatch": 0.02},
    {"output_mismatch": 0.01},
)

DEGRADED_NOT_INVALID: tuple[dict[str, Any], ...] = (
    {"ok": 900, "failures": {"timeout": 100}},
    {"schedule_lag_ms": 20.0},
    {"stamp_source": "read", "loop_lag_p99_ms": 200.0},
    {"little_residual": 0.2},
    {"counters": (Counter("requests", 990, 1000.0),)},
)


def codes(verdict: Verdict) -> list[str]:
    return [reason.code for reason in verdict.reasons]


def test_a_clean_run_is_valid() -> None:
    verdict = judge(CLEAN)
    assert (verdict.level, verdict.reasons) == ("valid", ())


@pytest.mark.parametrize(("code", "level", "changes"), CASES)
def test_each_code_is_triggered(code: Code, level: str, changes: dict[str, Any]) -> None:
    verdict = judge(replace(CLEAN, **changes))
    assert codes(verdict) == [code]
    assert verdict.level == verdict.reasons[0].level == level


@pytest.mark.parametrize("changes", JUST_BELOW)
def test_just_below_its_bound_a_run_is_valid(changes: dict[str, Any]) -> None:
    assert judge(replace(CLEAN, **changes)).level == "valid"


@pytest.mark.parametrize("changes", DEGRADED_NOT_INVALID)
def test_just_below_the_higher_bound_a_run_is_degraded(changes: dict[str, Any]) -> None:
    assert judge(replace(CLEAN, **changes)).level == "degraded"


def test_every_code_has_a_case() -> None:
    assert {code for code, _, _ in CASES} == set(Code)


def test_the_worst_level_wins_and_every_reason_is_kept() -> None:
    verdict = judge(replace(CLEAN, ok=5, engine_died="oom", labels=("short",)))
    assert verdict.level == "invalid"
    assert codes(verdict) == ["engine_died", "few_samples"]
    assert verdict.labels == ("short",)


def test_a_reason_carries_what_was_seen_and_the_bound() -> None:
    (reason,) = judge(replace(CLEAN, ok=989, failures={"timeout": 11})).reasons
    assert (reason.value, reason.bound) == (0.011, 0.01)
    assert reason.message == "11 of 1000 requests failed: timeout"


def test_every_failure_class_above_its_bound_is_named() -> None:
    failures = {"timeout": 30, "connect": 20, "empty": 5}
    verdict = judge(replace(CLEAN, ok=945, failures=failures))
    assert [reason.message.rsplit(" ", 1)[-1] for reason in verdict.reasons] == [
        "connect",
        "timeout",
    ]


def test_what_is_unknown_is_not_held_against_a_run() -> None:
    unknown = replace(
        CLEAN,
        schedule_lag_ms=None,
        schedule_lag_percent=None,
        loop_lag_p99_ms=None,
        first_token_coalesced_share=None,
        little_residual=None,
        little_noise=None,
        input_mismatch=None,
        output_mismatch=None,
        stamp_source="read",
    )
    assert judge(unknown).level == "valid"


# From records to reasons


def run(count: int, **changes: Any) -> Sequence[Any]:
    return [
        record(1_000 + at, (1_100 + at, 1_200 + at), completion=2, **changes) for at in range(count)
    ]


def test_a_late_client_is_seen_in_the_records() -> None:
    late = [
        record(1_003 + at, (1_100 + at,), scheduled=1_000 + at, completion=1) for at in range(20)
    ]
    (reason,) = analyze_point(inputs(late)).verdict.reasons
    assert reason.code == Code.SCHEDULE_LAG
    # twenty requests support a p95, not a p99
    assert reason.message == "requests left 3.00 ms late at p95"
    assert reason.value == pytest.approx(3.0)


def test_engine_counters_are_held_against_the_records() -> None:
    given = replace(inputs(run(10)), totals=EngineTotals(10.0, 1000.0, 21.0, None))
    (reason,) = analyze_point(given).verdict.reasons
    assert (reason.code, reason.level) == (Code.COUNTERS_DISAGREE, "invalid")
    assert reason.message == "generation_tokens: 20 by the client, 21 by the engine"


def test_a_late_built_in_engine_is_seen() -> None:
    given = replace(inputs(run(10)), totals=EngineTotals(None, None, None, 5.5))
    assert codes(analyze_point(given).verdict) == [Code.ENGINE_LATE]


def test_prompts_of_another_length_are_seen() -> None:
    assert codes(analyze_point(inputs(run(10, intended=100, prompt=103))).verdict) == [
        Code.TOKEN_MISMATCH
    ]
    assert analyze_point(inputs(run(10, intended=100, prompt=102))).verdict.level == "valid"


def test_cancelled_requests_are_in_no_share() -> None:
    records = [*run(10), *(record(2_000, status=Status.CANCELLED) for _ in range(10))]
    result = analyze_point(inputs(records))
    assert result.counts["cancelled"] == 10
    assert result.verdict.level == "valid"


def test_a_run_without_requests_is_invalid() -> None:
    assert codes(analyze_point(inputs([])).verdict) == [Code.NO_SAMPLES]


def test_context_overflows_come_from_the_client() -> None:
    given = with_client(inputs(run(10)), context_overflows=1)
    assert codes(analyze_point(given).verdict) == [Code.CONTEXT_OVERFLOW]


def test_labels_say_what_is_no_fault() -> None:
    given = inputs(run(10), agentic=True, span=window(0, 899_999))
    simulated = replace(given, provenance="simulated", clock="virtual")
    result = analyze_point(simulated)
    assert result.verdict.labels == ("simulated", "virtual", "short")
    assert result.verdict.level == "valid"
    long = inputs(run(10), agentic=True, span=window(0, 900_000))
    assert analyze_point(long).verdict.labels == ()


def test_one_censored_request_is_beyond_every_percentile_that_is_given() -> None:
    for ok in range(1, 300):
        percent = metrics.highest_supported(ok, (50, 75, 90, 95, 99))
        # Its share of all is below what the highest percentile leaves above itself.
        assert percent is None or (100 - percent) * (ok + 1) > 100
