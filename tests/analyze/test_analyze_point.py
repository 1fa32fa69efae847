"""A whole point by hand: its rates, its population, its counts, and why a value is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from analyze_factory import MS, inputs, record, window, with_client

from inferometer.analyze import PointInputs, analyze_point
from inferometer.core import (
    EngineTotals,
    MultiNode,
    Parallelism,
    Phase,
    Pool,
    Record,
    Result,
    Sample,
    Status,
)

WINDOW = window(1_000, 11_000)


def hand_made() -> list[Record]:
    """Two lanes, a window of 1..11 s, one request of every kind."""
    return [
        # 6 tokens over 3 events: 2 each; two events fall inside, the first token does not.
        record(500, (900, 1_100, 1_300), phase=Phase.WARMUP, completion=6),
        record(
            2_000,
            (2_200, 2_300, 2_500),
            ready=1_500,
            scheduled=1_999,
            end=2_600,
            tokens=(1, 2, 2),
            completion=5,
            cached=60,
        ),
        record(
            3_000,
            (3_400, 3_400, 3_800),
            lane=1,
            ready=2_998,
            scheduled=2_998,
            completion=10,
            cached=20,
        ),
        record(5_000, (5_100,), end=6_000, status=Status.TIMEOUT, prompt=None),
        record(
            10_500,
            (10_900, 11_100),
            lane=1,
            end=12_000,
            status=Status.CENSORED,
            intended=50,
            prompt=None,
        ),
    ]


@pytest.fixture
def result() -> Result:
    given = inputs(hand_made(), span=WINDOW, lanes=2, gpus=2)
    # Lane 0 waits in a recorded gap from 9 s to the end of the window.
    return analyze_point(with_client(given, pending_gaps=((0, 9_000 * MS),)))


def test_latencies_are_of_ok_requests_sent_in_the_window(result: Result) -> None:
    # ttft 0.2 and 0.4; e2el 0.5 and 0.8; ttft from when they were due 0.201 and 0.402
    assert result.metrics["ttft_mean_s"] == pytest.approx(0.3)
    assert result.metrics["ttft_p50_s"] == pytest.approx(0.3)
    assert result.metrics["ttft_scheduled_mean_s"] == pytest.approx(0.3015)
    assert result.metrics["e2el_mean_s"] == pytest.approx(0.65)


def test_time_per_token_and_its_inverse(result: Result) -> None:
    # 0.3 s / (5 - 1) = 0.075; 0.4 s / (10 - 2 assumed at the first stamp) = 0.05
    assert result.metrics["tpot_mean_s"] == pytest.approx(0.0625)
    assert result.metrics["intvty_p50"] == pytest.approx(16.0)
    # 0.5 / 5 = 0.1 and 0.8 / 10 = 0.08: median 0.09
    assert result.metrics["e2e_intvty_p50"] == pytest.approx(1 / 0.09)


def test_chunk_gaps_are_pooled_and_itl_needs_counts(result: Result) -> None:
    # gaps 0.1, 0.2 and 0, 0.4; itl of the first request only: 0.05, 0.05, 0.1, 0.1
    assert result.metrics["chunk_gap_mean_s"] == pytest.approx(0.175)
    assert result.metrics["chunk_gap_p50_s"] == pytest.approx(0.15)
    assert result.metrics["itl_mean_s"] == pytest.approx(0.075)
    assert result.metrics["itl_p75_s"] == pytest.approx(0.1)


def test_rates_split_at_the_edges_and_leave_failures_out(result: Result) -> None:
    # output 4 + 5 + 10 + 1 = 20 tokens, input 100 + 100 + 50 = 250, over 10 s and 2 GPUs
    assert result.metrics["output_tok_s"] == pytest.approx(2.0)
    assert result.metrics["output_tok_s_per_gpu"] == pytest.approx(1.0)
    assert result.metrics["input_tok_s"] == pytest.approx(25.0)
    assert result.metrics["total_tok_s"] == pytest.approx(27.0)
    assert result.metrics["total_tok_s_per_gpu"] == pytest.approx(13.5)
    # the warm-up request and the two OK ones ended inside
    assert result.metrics["requests_s"] == pytest.approx(0.3)


def test_computed_input_is_unknown_while_a_fifth_of_it_is(result: Result) -> None:
    assert result.metrics["input_computed_tok_s"] is None
    why = "1 of 3 requests do not say what was cached"
    assert result.notes["input_computed_tok_s"] == why
    assert result.notes["input_computed_tok_s_per_gpu"] == why
    # the population's OK requests both say: (60 + 20) / 200
    assert result.metrics["cached_share"] == pytest.approx(0.4)


def test_open_time_counts_warmup_and_failures(result: Result) -> None:
    # lane 0: 0.3 + 0.6 + 1.0, lane 1: 0.8 + 0.5; together 3.2 of 10 s, of 20 lane-seconds
    assert result.metrics["in_flight"] == pytest.approx(0.32)
    assert result.metrics["in_flight_per_lane"] == pytest.approx(0.16)
    assert result.metrics["lane_occupancy"] == pytest.approx(0.16)
    # gaps 1.5..1.999 and 9..11 on lane 0, nothing open meanwhile: 2.499 of 20
    assert result.metrics["harness_bound"] == pytest.approx(0.12495)


def test_counts_keep_every_class_apart(result: Result) -> None:
    assert dict(result.counts) == {
        "sent": 4,
        "ok": 2,
        "failed": 1,
        "censored": 1,
        "cancelled": 0,
        "warmup": 1,
        "warmup_failed": 0,
        "outside_window": 0,
        "context_overflows": 0,
        "wrapped_lanes": 0,
        "failed_timeout": 1,
    }


def test_errors_have_their_own_variant(result: Result) -> None:
    # 0.2, 0.4 and two infinite ones: rank 1.5 reaches beyond 0.4
    assert result.metrics["ttft_err_p50_s"] is None
    assert result.notes["ttft_err_p50_s"].startswith("infinite: 2 of 4 requests")


def test_assumed_counts_are_marked(result: Result) -> None:
    assert "assumed_tokens" in result.verdict.labels
    assert result.notes["tpot_mean_s"].startswith("assumed: 1 of 2 requests")
    assert result.notes["output_tok_s"].startswith("assumed: 3 of 4 requests")


def test_rates_of_pools_are_per_gpu_of_all_workers_of_both_roles(result: Result) -> None:
    given = inputs(hand_made(), span=WINDOW, lanes=2, gpus=2)
    pool = Pool(1, Parallelism(2, 1, 1, 1, 1, dp_attn=False), None, ())
    pools = MultiNode(pool, replace(pool, workers=3), disagg=True, p2p_transfer=None)
    several = analyze_point(replace(given, point=replace(given.point, multi_node=pools)))
    assert several.gpus == 8
    for name in ("output_tok_s_per_gpu", "total_tok_s_per_gpu"):
        one = result.metrics[name]
        assert one is not None
        assert several.metrics[name] == pytest.approx(one * 2 / 8)


def test_the_row_names_its_time_and_its_versions(result: Result) -> None:
    # the anchor is 2027-01-15T08:00:00Z at 0 s of the monotonic clock, the window starts at 1 s
    assert result.measured_at == "2027-01-15T08:00:01.000+00:00"
    assert (result.format, result.inferometer, result.measurement_version) == (1, "0.1.0", 1)
    assert result.gpus == 2
    assert result.window == WINDOW


def test_one_event_a_token_by_usage_is_no_assumption() -> None:
    records = [record(at, (at + 10, at + 20), completion=2) for at in range(1_000, 9_000, 1_000)]
    result = analyze_point(inputs(records))
    assert "assumed_tokens" not in result.verdict.labels
    assert "tpot_mean_s" not in result.notes
    assert result.verdict.level == "valid", result.verdict.reasons


def test_a_missing_value_always_has_its_reason() -> None:
    for given in (
        inputs([]),
        inputs([], agentic=True),
        inputs(hand_made(), span=WINDOW, lanes=2),
        inputs([record(None, status=Status.CONNECT, dequeued=2_000)]),
        inputs([], span=window(0, 0)),
    ):
        result = analyze_point(given)
        missing = {name for name, value in result.metrics.items() if value is None}
        assert missing <= result.notes.keys()


def test_the_names_do_not_depend_on_what_happened() -> None:
    empty = analyze_point(inputs([], span=WINDOW, lanes=2))
    full = analyze_point(inputs(hand_made(), span=WINDOW, lanes=2))
    assert list(empty.metrics) == list(full.metrics)


def test_a_request_that_never_got_to_send_counts_where_it_was_tried() -> None:
    records = [
        record(None, status=Status.CONNECT, dequeued=2_000),
        record(None, status=Status.CONNECT, dequeued=10_000),
        record(1_000, (1_100,), completion=1),
    ]
    result = analyze_point(inputs(records))
    assert result.counts["sent"] == 2
    assert result.counts["failed_connect"] == 1
    assert result.counts["outside_window"] == 1


def test_failures_of_warmup_are_counted_apart() -> None:
    failed = record(100, status=Status.HTTP_STATUS, phase=Phase.WARMUP)
    result = analyze_point(inputs([failed, record(1_000, (1_100,), completion=1)]))
    assert (result.counts["warmup_failed"], result.counts["failed"]) == (1, 0)


def test_visible_tokens_have_their_own_first() -> None:
    records = [
        record(0, (100, 300), visible=300, completion=2),
        record(1_000, (1_200, 1_700), visible=1_700, completion=2),
        record(2_000, (2_100,), completion=1),  # reasoning only
    ]
    result = analyze_point(inputs(records))
    # 0.3 and 0.7; the third has none
    assert result.metrics["ttfv_mean_s"] == pytest.approx(0.5)
    silent = analyze_point(inputs([record(0, (100,), completion=1)]))
    assert silent.notes["ttfv_p50_s"] == "no request had a visible token"


def test_coalesced_events_are_shares_of_events_and_of_first_events() -> None:
    records = [
        record(0, (100, 100, 200, 300), coalesced=(True, False, False, False), completion=4),
        record(1_000, (1_100, 1_200, 1_300, 1_400), completion=4),
    ]
    result = analyze_point(inputs(records))
    assert result.metrics["coalesced_share"] == pytest.approx(1 / 8)
    assert result.metrics["first_token_coalesced_share"] == pytest.approx(1 / 2)


def test_the_few_requests_without_cached_counts_are_taken_like_the_rest() -> None:
    records = [record(at, (at + 1,), completion=1, prompt=100, cached=40) for at in range(200)]
    records.append(record(300, (301,), completion=1, prompt=100, cached=None))
    result = analyze_point(inputs(records))
    # 201 requests of 100 tokens, 60 of each computed, over 10 s
    assert result.metrics["input_computed_tok_s"] == pytest.approx(201 * 60 / 10)
    assert result.metrics["cached_share"] == pytest.approx(0.4)
    assert "1 of 201 requests do not say" in result.notes["cached_share"]


def with_gauge(given: PointInputs, values: list[float]) -> PointInputs:
    samples = [
        Sample((at + 1) * 100 * MS, "client.in_flight", "", v) for at, v in enumerate(values)
    ]
    return replace(given, samples=samples)


def test_the_gauge_is_held_against_the_records() -> None:
    # one request open all the time; the gauge sees 1 and 2 in turn: 0.5 more
    given = inputs([record(0, (100, 10_000), completion=2)])
    result = analyze_point(with_gauge(given, [1.0, 2.0] * 20))
    assert result.metrics["little_residual"] == pytest.approx(0.5)
    # sample deviation sqrt(40 / 39) / 2, error of the mean / sqrt(40), three of them
    assert result.metrics["little_noise"] == pytest.approx(3 * (40 / 39) ** 0.5 / 2 / 40**0.5)


def test_a_gauge_of_few_samples_is_not_held_against_anything() -> None:
    given = inputs([record(0, (100, 10_000), completion=2)])
    assert analyze_point(with_gauge(given, [2.0] * 30)).metrics["little_residual"] == 1.0
    short = analyze_point(with_gauge(given, [2.0] * 29))
    assert short.metrics["little_residual"] is None
    assert short.notes["little_residual"] == "29 gauge samples, 30 needed"


def test_counters_are_compared_over_the_whole_run() -> None:
    records = [
        record(0, (100,), phase=Phase.WARMUP, completion=1, prompt=10),
        record(1_000, (1_100, 1_200), completion=2, prompt=20),
    ]
    given = replace(inputs(records), totals=EngineTotals(2.0, 30.0, None, None))
    result = analyze_point(given)
    assert result.counts["client_requests"] == result.counts["engine_requests"] == 2
    assert result.counts["client_prompt_tokens"] == result.counts["engine_prompt_tokens"] == 30
    assert "engine_generation_tokens" not in result.counts
    assert result.notes["counters"] == "not known to both sides: generation_tokens"
    assert "counters_disagree" not in [reason.code for reason in result.verdict.reasons]


def test_counters_are_not_compared_when_a_request_did_not_end_ok() -> None:
    records = [record(0, (1,), completion=1), record(5, status=Status.CENSORED)]
    given = replace(inputs(records), totals=EngineTotals(7.0, 7.0, 7.0, None))
    result = analyze_point(given)
    assert result.notes["counters"] == "not compared: requests ended censored"
    assert "engine_requests" not in result.counts


def agentic_records() -> list[Record]:
    """Lane 0: play 0 begun in warm-up, play 1 inside, play 2 still open. Lane 1: one play."""
    return [
        record(100, (200,), phase=Phase.WARMUP, play=0, completion=1),
        record(1_100, (1_200,), play=0, completion=1),
        record(2_000, (2_100,), ready=2_000, scheduled=2_000, play=1, completion=1),
        record(4_010, (5_000,), ready=2_100, scheduled=4_000, play=1, end=5_500, completion=1),
        record(6_000, (6_100,), ready=6_000, scheduled=6_000, play=2, completion=1),
        record(3_000, (3_100,), ready=3_000, scheduled=3_000, lane=1, completion=1),
    ]


def test_sessions_of_an_agentic_run() -> None:
    records = [*agentic_records(), record(7_000, (8_000,), play=3, completion=1)]
    given = inputs(records, span=window(1_000, 11_000), lanes=2, agentic=True)
    result = analyze_point(with_client(given, workload_notes={"theoretical_prefix_hit": 0.9}))
    # play 1 took 2.0..5.5 s, play 2 6.0..6.1 s; play 0 began in warm-up, the rest may go on
    assert result.metrics["session_makespan_p50_s"] == pytest.approx((3.5 + 0.1) / 2)
    # six requests sent in the window, one of which had a gap: 1.9 s, kept in 1.91 s
    assert result.metrics["recorded_gap_mean_s"] == pytest.approx(1.9 / 6)
    assert result.metrics["achieved_gap_mean_s"] == pytest.approx(1.91 / 6)
    assert result.metrics["theoretical_prefix_hit"] == 0.9
    assert result.notes["ttft_p50_lo_s"] == "open: 1 sessions, 6 needed"


def test_fixed_lengths_have_no_session_metrics() -> None:
    assert "session_makespan_p50_s" not in analyze_point(inputs([])).metrics


def test_an_agentic_interval_resamples_sessions() -> None:
    records = [
        record(at, (at + 100 + number,), session=f"s{number}", completion=1)
        for number in range(6)
        for at in range(1_000, 5_000, 1_000)
    ]
    result = analyze_point(inputs(records, agentic=True))
    low, high = result.metrics["ttft_p50_lo_s"], result.metrics["ttft_p50_hi_s"]
    assert low is not None
    assert high is not None
    assert 0.100 <= low < high <= 0.105


def test_what_the_client_says_of_itself_is_passed_on() -> None:
    result = analyze_point(inputs([]))
    assert result.metrics["client_cpu_share"] == 0.25
    assert result.metrics["loop_lag_p99_ms"] == 0.5
    assert result.notes["engine_lateness_p99_ms"] == "only the built-in engine reports it"


def test_answers_of_another_length_than_asked_are_seen() -> None:
    records = [record(at, (at + 5,), completion=1) for at in range(1_000, 2_000, 100)]
    assert analyze_point(inputs(records)).metrics["output_mismatch"] == 0.0
    # The last of ten was asked for two tokens and gave one.
    records[-1] = replace(records[-1], max_tokens=2)
    result = analyze_point(inputs(records))
    assert result.metrics["output_mismatch"] == 0.1
    assert "output_mismatch" in [reason.code for reason in result.verdict.reasons]
