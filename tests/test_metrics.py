"""Every formula against numbers worked out by hand, and the properties that hold for any input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer import metrics
from inferometer.metrics import Figure, PowerSeries

S = 1_000_000_000


def ints(*values: int) -> metrics.Ints:
    return np.array(values, dtype=np.int64)


def floats(*values: float) -> metrics.Floats:
    return np.array(values, dtype=np.float64)


# Latency


def test_latencies_are_differences_of_stamps_in_seconds() -> None:
    # sent at 2 s, due at 1.5 s, first token at 2.25 s, visible at 3 s, last at 6 s
    assert metrics.ttft(ints(2_250_000_000), ints(2 * S)).tolist() == [0.25]
    assert metrics.ttft_scheduled(ints(2_250_000_000), ints(1_500_000_000)).tolist() == [0.75]
    assert metrics.ttfv(ints(3 * S), ints(2 * S)).tolist() == [1.0]
    assert metrics.e2el(ints(6 * S), ints(2 * S)).tolist() == [4.0]


def test_tokens_at_first_are_those_of_every_event_with_the_first_stamp() -> None:
    # request 0: events at 5, 5, 7 with 2, 3, 4 tokens -> 2 + 3 = 5 at first
    # request 1: none. request 2: one event of 6. request 3: 7, 7 assumed one each -> 2
    at = ints(5, 5, 7, 9, 7, 7)
    tokens = ints(2, 3, 4, 6, 1, 1)
    assert metrics.tokens_at_first(at, tokens, ints(0, 3, 3, 4, 6)).tolist() == [5, 0, 6, 2]


def test_tpot_leaves_out_the_tokens_of_the_first_stamp() -> None:
    # 100 tokens, 10 of them at the first stamp, 9 s between first and last: 9 / 90 = 0.1 s
    found = metrics.tpot(ints(S), ints(10 * S), ints(100), ints(10))
    assert found.tolist() == [0.1]


def test_tpot_is_unknown_when_everything_came_at_once_or_counts_contradict() -> None:
    first, last = ints(S, S, S), ints(S, 2 * S, 2 * S)
    # all at one stamp although only 1 of 50 tokens is assumed there; divisor 0; divisor below 0
    found = metrics.tpot(first, last, ints(50, 4, 3), ints(1, 4, 4))
    assert np.isnan(found).all()


def test_chunk_gaps_do_not_cross_requests() -> None:
    # [1, 2, 4] -> 1, 2; [] -> none; [10] -> none; [11, 14] -> 3; [] -> none
    at = ints(S, 2 * S, 4 * S, 10 * S, 11 * S, 14 * S)
    assert metrics.chunk_gap(at, ints(0, 3, 3, 4, 6, 6)).tolist() == [1.0, 2.0, 3.0]
    assert metrics.chunk_gap(ints(), ints(0)).tolist() == []
    assert metrics.chunk_gap(ints(), ints(0, 0, 0)).tolist() == []


def test_itl_has_one_sample_a_token_of_the_later_chunk() -> None:
    # gaps 2 s with 4 tokens -> 0.5 four times; 3 s with 1 token -> 3.0
    at, tokens = ints(0, 2 * S, 5 * S), ints(1, 4, 1)
    assert metrics.itl(at, tokens, ints(0, 3)).tolist() == [0.5, 0.5, 0.5, 0.5, 3.0]


def test_itl_gives_the_time_of_an_event_counted_zero_to_the_next_counted_one() -> None:
    # request 0: 0 s (1), 2 s (0), 6 s (3): 6 s over 3 tokens. request 1: 7 s (0), 9 s (1): no gap
    at, tokens = ints(0, 2 * S, 6 * S, 7 * S, 9 * S), ints(1, 0, 3, 0, 1)
    assert metrics.itl(at, tokens, ints(0, 3, 5)).tolist() == [2.0, 2.0, 2.0]


# Statistics


def test_percentiles_are_linear_between_order_statistics() -> None:
    # rank of p75 in five values is 4 * 0.75 = 3 -> the fourth; in four 3 * 0.75 = 2.25
    assert metrics.percentile(floats(50, 10, 40, 20, 30), 75) == Figure(40.0)
    assert metrics.percentile(floats(10, 20, 30, 40), 75) == Figure(32.5)


@pytest.mark.parametrize(("percent", "needed"), [(50, 2), (75, 4), (90, 10), (95, 20), (99, 100)])
def test_a_percentile_needs_one_value_beyond_it(percent: int, needed: int) -> None:
    values = np.arange(float(needed))
    assert metrics.percentile(values, percent).value is not None
    short = metrics.percentile(values[1:], percent)
    assert short.value is None
    assert short.why == f"p{percent} needs {needed} values, there are {needed - 1}"


def test_percentiles_of_mixed_support_keep_their_order() -> None:
    found = metrics.percentiles(floats(1, 2, 3, 4), (99, 50, 90, 75))
    assert [figure.value for figure in found] == [None, 2.5, None, 3.25]
    assert metrics.highest_supported(4, (50, 75, 90)) == 75
    assert metrics.highest_supported(1, (50, 75, 90)) is None


def test_mean() -> None:
    assert metrics.mean(floats(1, 2, 6)) == Figure(3.0)
    assert metrics.mean(floats()) == Figure(None, "no values")


def test_errors_count_as_infinite() -> None:
    values = floats(1, 2, 3)
    # one error: ranks over (1, 2, 3, inf); p50 is rank 1.5 -> 2.5; p75 is rank 2.25 -> beyond 3
    assert metrics.percentile_with_errors(values, 1, 50) == Figure(2.5)
    assert metrics.percentile_with_errors(values, 1, 75) == Figure(math.inf)
    # two errors: p50 of five is rank 2 exactly -> 3, the last finite one
    assert metrics.percentile_with_errors(values, 2, 50) == Figure(3.0)
    assert metrics.percentile_with_errors(values, 0, 90).value is None


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e3), min_size=10, max_size=50), st.sampled_from((50, 75, 90)))
def test_without_errors_the_error_variant_is_the_percentile(
    numbers: list[float], percent: int
) -> None:
    values = floats(*numbers)
    plain = metrics.percentile(values, percent).value
    assert metrics.percentile_with_errors(values, 0, percent).value == pytest.approx(plain)


def test_the_interval_of_a_median_by_order_statistics() -> None:
    # n = 10, p = 1/2: P(B <= 1) = 11/1024 <= 0.025 < P(B <= 2) = 56/1024, so l = 2, u = 9
    found = metrics.percentile_interval(np.arange(1.0, 11.0), 50)
    assert found == (2.0, 9.0, None)


def test_an_interval_is_open_where_n_is_too_small() -> None:
    # n = 6: P(B = 0) = 1/64 <= 0.025: closed at the extremes; n = 5: 1/32 > 0.025
    assert metrics.percentile_interval(np.arange(1.0, 7.0), 50) == (1.0, 6.0, None)
    five = metrics.percentile_interval(np.arange(1.0, 6.0), 50)
    assert (five.lo, five.hi) == (None, None)
    assert five.why == "open: 5 values cannot bound p50 at 95%"
    # n = 30, p = 0.9: P(B = 30) = 0.9^30 = 0.042 > 0.025: open above, closed below
    ninety = metrics.percentile_interval(np.arange(1.0, 31.0), 90)
    assert ninety.lo is not None
    assert ninety.hi is None
    assert metrics.percentile_interval(floats(), 50).why == "no values"


def test_the_interval_stands_at_a_hundred_thousand_values() -> None:
    # 0.01^n underflows here; the normal limit is n p -+ 1.96 sqrt(n p q) = 99000 -+ 61.7
    found = metrics.percentile_interval(np.arange(1.0, 100_001.0), 99)
    assert found.lo == pytest.approx(99_000 - 61.7, abs=2)
    assert found.hi == pytest.approx(99_000 + 61.7, abs=2)


def test_the_session_interval_is_seeded_and_wider_than_turns_alone_would_have_it() -> None:
    random = np.random.default_rng(7)
    level = np.repeat(random.normal(10, 3, 12), 50)  # twelve sessions that differ, 50 turns each
    values = level + random.normal(0, 0.1, 600)
    session = np.repeat(np.arange(12), 50)
    found = metrics.session_intervals(values, session, (50,), seed=1)[0]
    assert found == metrics.session_intervals(values, session, (50,), seed=1)[0]
    shuffled = random.permutation(600)
    again = metrics.session_intervals(values[shuffled], session[shuffled], (50,), seed=1)[0]
    assert again == found
    turns = metrics.percentile_interval(values, 50)
    assert found.lo is not None
    assert found.hi is not None
    assert turns.lo is not None
    assert turns.hi is not None
    assert found.hi - found.lo > turns.hi - turns.lo


def test_a_session_interval_equals_resampling_written_out() -> None:
    # The weighted ranks must be those of the multiset that the draw stands for.
    values, session = np.arange(14.0), np.repeat(np.arange(7), 2)
    random = np.random.default_rng(3)
    medians = []
    for _ in range(40):
        times = random.multinomial(7, np.full(7, 1 / 7))
        medians.append(np.percentile(np.repeat(values, times[session]), 50))
    lo, hi = np.percentile(medians, (2.5, 97.5))
    found = metrics.session_intervals(values, session, (50,), resamples=40, seed=3)[0]
    assert (found.lo, found.hi) == (lo, hi)


def test_a_session_interval_is_open_where_the_percentile_has_no_value() -> None:
    median, p99 = metrics.session_intervals(np.arange(99.0), np.arange(99) % 9, (50, 99))
    assert median.lo is not None
    assert p99 == (None, None, "open: p99 needs 100 values, there are 99")


def test_a_session_interval_is_open_below_six_sessions() -> None:
    found = metrics.session_intervals(np.arange(50.0), np.arange(50) % 5, (50,))[0]
    assert found == (None, None, "open: 5 sessions, 6 needed")


def test_interactivity_is_the_inverse_of_the_percentile() -> None:
    assert metrics.intvty(Figure(0.02)) == Figure(50.0)
    assert metrics.intvty(Figure(None, "few")) == Figure(None, "few")
    assert metrics.intvty(Figure(0.0)).value is None
    # e2el 4 s over 200 tokens is 0.02 s a token
    assert metrics.seconds_per_token(floats(4.0), ints(200)).tolist() == [0.02]


# Rates and open requests


def test_tokens_inside_are_those_after_the_start_up_to_the_end() -> None:
    at, tokens = ints(1, 2, 3, 4, 5), ints(10, 20, 30, 40, 50)
    # (2, 4] holds 3 and 4; request 0 has events 1..3, request 1 has 4 and 5
    assert metrics.tokens_inside(at, tokens, ints(0, 3, 5), 2, 4).tolist() == [30, 40]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 9)), max_size=40),
    st.integers(0, 100),
    st.integers(0, 40),
)
def test_two_halves_of_a_window_hold_the_tokens_of_the_whole(
    events: list[tuple[int, int]], cut: int, edge: int
) -> None:
    at = np.array([at for at, _ in events], dtype=np.int64)
    tokens = np.array([count for _, count in events], dtype=np.int64)
    offsets = ints(0, min(edge, len(at)), len(at))
    halves = [
        metrics.tokens_inside(at, tokens, offsets, start, end)
        for start, end in ((-1, cut), (cut, 100))
    ]
    assert (halves[0] + halves[1]).tolist() == [
        int(tokens[: offsets[1]].sum()),
        int(tokens[offsets[1] :].sum()),
    ]


def test_a_rate_over_an_empty_window_is_unknown() -> None:
    assert metrics.per_second(30, 2.0) == Figure(15.0)
    assert metrics.per_second(30, 0.0) == Figure(None, "the window is empty")


def test_in_flight_is_open_time_inside_over_the_window() -> None:
    # window 10..20: [5, 12] gives 2, [14, 18] gives 4, [19, 30] gives 1, [30, 40] gives 0
    opened, closed = ints(5, 14, 19, 30), ints(12, 18, 30, 40)
    assert metrics.in_flight(opened, closed, 10, 20) == Figure(0.7)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=30))
def test_in_flight_is_littles_law_when_all_requests_are_inside(
    pairs: list[tuple[int, int]],
) -> None:
    opened = np.array([min(pair) for pair in pairs], dtype=np.int64)
    closed = np.array([max(pair) for pair in pairs], dtype=np.int64)
    found = metrics.in_flight(opened, closed, 0, 1000).value
    assert found == pytest.approx(float((closed - opened).sum()) / 1000)


def test_covered_time_is_the_union_of_each_lane() -> None:
    # window 0..100. lane 7: [0, 30] and [20, 40] -> 40, [30, 35] inside; lane 2: [90, 200] -> 10
    lane = ints(7, 2, 7, 7)
    opened, closed = ints(20, 90, 0, 30), ints(40, 200, 30, 35)
    assert metrics.covered_ns(lane, opened, closed, 0, 100) == 50
    assert metrics.covered_ns(ints(), ints(), ints(), 0, 100) == 0


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-20, 60), st.integers(0, 50)), max_size=25)
)
def test_covered_time_agrees_with_counting_instants(spans: list[tuple[int, int, int]]) -> None:
    lane = np.array([lane for lane, _, _ in spans], dtype=np.int64)
    opened = np.array([start for _, start, _ in spans], dtype=np.int64)
    closed = np.array([start + length for _, start, length in spans], dtype=np.int64)
    ticks = {
        (number, tick)
        for number, start, length in spans
        for tick in range(start, start + length)
        if 5 <= tick < 45
    }
    assert metrics.covered_ns(lane, opened, closed, 5, 45) == len(ticks)


def test_lane_shares() -> None:
    # two lanes, 100 ns: 50 open of 200; 80 open or in a gap -> 30 of 200 wait for the trace
    assert metrics.lane_occupancy(50, 2, 100) == Figure(0.25)
    assert metrics.harness_bound(50, 80, 2, 100) == Figure(0.15)


def test_little_residual_is_signed_and_relative() -> None:
    assert metrics.little_residual(5.0, 4.0) == Figure(0.25)
    assert metrics.little_residual(3.0, 4.0) == Figure(-0.25)
    assert metrics.little_residual(3.0, 0.0).value is None


# Cost, energy, speed of light


def test_cost_of_a_million_tokens() -> None:
    # 1000 tok/s is 3.6 Mtok an hour; at $3.60 an hour that is $1
    assert metrics.usd_per_mtok(3.6, 1000.0).value == pytest.approx(1.0)
    assert metrics.usd_per_mtok(3.6, 0.0) == Figure(None, "no tokens")


def power(*points: tuple[float, float], counter: tuple[float, ...] | None = None) -> PowerSeries:
    at = np.array([round(at * S) for at, _ in points], dtype=np.int64)
    watts = floats(*(watts for _, watts in points))
    return PowerSeries(at, watts, None if counter is None else floats(*counter))


def test_energy_is_a_trapezoid_with_interpolated_edges() -> None:
    # 100 W at 0 s rising to 300 W at 2 s, then flat to 4 s; window 1..3 s:
    # 200 -> 300 W over 1 s = 250 J, 300 W over 1 s = 300 J
    series = power((0, 100), (2, 300), (4, 300))
    assert metrics.gpu_energy(series, S, 3 * S) == Figure(550.0)


def test_energy_needs_samples_on_both_sides() -> None:
    series = power((1, 100), (2, 100), (3, 100))
    assert metrics.gpu_energy(series, S, 3 * S).value == pytest.approx(200.0)
    for start, end in ((S - 1, 3 * S), (S, 3 * S + 1), (2 * S, 2 * S)):
        found = metrics.gpu_energy(series, start, end)
        assert found == Figure(None, "the samples do not bracket the window")


def test_energy_allows_no_gap_above_three_seconds_that_touches_the_window() -> None:
    series = power((0, 100), (4, 100), (7, 100), (11, 100))
    assert metrics.gpu_energy(series, 4 * S, 7 * S) == Figure(300.0)
    found = metrics.gpu_energy(series, 4 * S - 1, 7 * S)
    assert found == Figure(None, "a gap of 4.0 s between samples")


def test_an_energy_counter_must_agree_within_five_percent() -> None:
    near = power((0, 100), (2, 100), counter=(1000, 1209))
    far = power((0, 100), (2, 100), counter=(1000, 1211))
    assert metrics.gpu_energy(near, 0, 2 * S) == Figure(200.0, "its energy counter agrees")
    assert metrics.gpu_energy(far, 0, 2 * S).why == "its energy counter says 211 J, not 200 J"


def test_a_load_of_bursts_may_miss_its_energy_counter_by_chance() -> None:
    # 60 s at 2 Hz, 200 W or 700 W by turns of unequal length: +-240 W a reading, 4 % of the mean
    # of 120. Seven percent more by the counter is within three standard errors; of a steady load
    # of the same mean it is not.
    watts = [200.0 if i * 7 % 10 < 5 else 700.0 for i in range(121)]
    mean = float(np.trapezoid(watts)) / 120
    counted = tuple(1.07 * mean * i / 2 for i in range(121))
    bursts = power(*((i / 2, watt) for i, watt in enumerate(watts)), counter=counted)
    steady = power(*((i / 2, mean) for i in range(121)), counter=counted)
    assert metrics.gpu_energy(bursts, 0, 60 * S).why == "its energy counter agrees"
    assert metrics.gpu_energy(steady, 0, 60 * S).value is None
    whole = metrics.energy({"a": bursts}, ("a",), 0, 60 * S, 60.0)
    assert whole.why == "its energy counter agrees (+7.0%)"


def test_an_energy_counter_that_fell_invalidates_and_one_half_read_checks_nothing() -> None:
    fell = power((0, 100), (1, 100), (2, 100), counter=(1000, 1100, 3))
    half = power((0, 100), (1, 100), (2, 100), counter=(math.nan, 1100, 1300))
    inside = metrics.gpu_energy(half, S, 2 * S)
    assert metrics.gpu_energy(fell, 0, 2 * S).why == (
        "its energy counter fell: it was reset, or the card was"
    )
    assert metrics.gpu_energy(half, 0, 2 * S) == Figure(
        200.0, "its energy counter was not read on both sides of the window"
    )
    assert inside.why == "its energy counter says 200 J, not 100 J"
    one_of_two = {"a": half, "b": power((0, 100), (2, 100))}
    assert metrics.energy(one_of_two, ("a", "b"), 0, 2 * S, 2.0) == Figure(400.0)


def test_energy_of_a_deployment_counts_its_own_gpus_only() -> None:
    series = {
        "GPU-a": power((0, 100), (2, 100)),
        "GPU-b": power((0, 50), (2, 50)),
        "GPU-other": power((0, 700), (2, 700)),
    }
    assert metrics.energy(series, ("GPU-a", "GPU-b"), 0, 2 * S, 2.0) == Figure(300.0)
    assert metrics.energy(series, ("GPU-a", "GPU-c"), 0, 2 * S, 2.0).why == (
        "GPU-c: it told no power"
    )
    late = metrics.energy(series, ("GPU-a",), 0, 3 * S, 3.0)
    assert late.why == "GPU-a: the samples do not bracket the window"
    assert metrics.energy(series, (), 0, 2 * S, 2.0).why == "no GPU is named"


def test_reported_and_window_duration_must_agree() -> None:
    series = {"GPU-a": power(*((at, 100) for at in range(201)))}
    # a window of 100 s allows max(0.5, 1) s
    assert metrics.energy(series, ("GPU-a",), 0, 100 * S, 101.0) == Figure(10_000.0)
    assert metrics.energy(series, ("GPU-a",), 0, 100 * S, 101.1).why == (
        "reported 101.1 s, the window is 100.0 s"
    )


def test_joules_per_token() -> None:
    assert metrics.joules_per_token(Figure(300.0), 600) == Figure(0.5)
    assert metrics.joules_per_token(Figure(None, "gap"), 600) == Figure(None, "gap")
    assert metrics.joules_per_token(Figure(300.0), 0) == Figure(None, "no tokens")


def test_speed_of_light() -> None:
    assert metrics.speed_of_light(50.0, 200.0) == Figure(0.25)
    assert metrics.speed_of_light(50.0, 0.0).value is None
