"""Which interval is measured, and which part of it rates are taken over."""

from __future__ import annotations

import pytest
from analyze_factory import MS, inputs, record, window
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.analyze import analyze_point
from inferometer.analyze.columns import columns
from inferometer.analyze.window import find_windows, output_inside, sent_inside
from inferometer.core import Phase, Record, Status

COUNTED = window(0, 99_000, kind="requests")


def two_lanes() -> list[Record]:
    """Lane 0 works from 1 to 9 s; lane 1, warm-up included, from 0.5 to 7 s, with a turnaround."""
    return [
        record(500, (600, 1_500), lane=1, phase=Phase.WARMUP, completion=2, end=1_500),
        record(1_000, (1_500, 9_000), lane=0, completion=2),
        record(1_600, (2_000, 4_000), lane=1, completion=2),
        record(4_100, (4_500, 7_000), lane=1, completion=2),
    ]


def test_a_duration_run_has_the_window_of_its_client() -> None:
    declared = window(1_000, 5_000)
    found = find_windows(columns(two_lanes()), declared, 2)
    assert (found.whole, found.rates, found.steady, found.note) == (declared, declared, None, None)


def test_a_counted_run_lasts_from_its_first_request_to_its_last_token() -> None:
    found = find_windows(columns(two_lanes()), COUNTED, 2)
    assert (found.whole.start_ns, found.whole.end_ns) == (1_000 * MS, 9_000 * MS)
    assert found.whole.kind == "requests"
    # the last lane began before the window, in warm-up; the first one to finish did so at 7 s
    assert (found.rates.start_ns, found.rates.end_ns) == (1_000 * MS, 7_000 * MS)
    assert found.steady is True


def test_the_last_token_of_a_counted_run_is_counted() -> None:
    result = analyze_point(inputs([record(0, (500, 1_000), completion=2)], span=COUNTED))
    # one lane, so all of it is steady: 2 tokens in 1 s
    assert result.metrics["output_tok_s"] == 2.0
    assert result.verdict.labels == ("steady",)
    assert result.notes["rate_window_s"] == "over the steady part, 1.000 of 1.000 s"


def tail(output: int) -> list[Record]:
    """Steady for 1 s with 2 + 8 tokens of output and 10 + 10 of input, then a tail of `output`."""
    return [
        record(0, (500, 1_000), lane=0, completion=2, prompt=10, intended=10),
        record(0, (500, 1_000), lane=1, completion=8, prompt=10, intended=10),
        record(1_100, (2_000,), lane=1, completion=output, prompt=0, intended=0),
    ]


@pytest.mark.parametrize(("output", "steady"), [(30, True), (31, False)])
def test_the_steady_part_must_hold_half_the_tokens(output: int, steady: bool) -> None:
    # the steady part has 30 tokens
    result = analyze_point(inputs(tail(output), span=COUNTED, lanes=2))
    assert result.metrics["rate_window_s"] == (1.0 if steady else 2.0)
    assert result.metrics["window_s"] == 2.0
    assert result.verdict.labels[-1] == ("steady" if steady else "whole_window")


def test_more_lanes_than_work_are_never_all_busy() -> None:
    found = find_windows(columns(two_lanes()), COUNTED, 3)
    assert found.rates == found.whole
    assert found.note == "over the whole window: at no time all lanes were busy"


def test_lanes_that_do_not_overlap_have_no_steady_part() -> None:
    records = [
        record(0, (1_000,), lane=0, completion=1),
        record(2_000, (3_000,), lane=1, completion=1),
    ]
    assert find_windows(columns(records), COUNTED, 2).steady is False


def test_tokens_that_never_showed_a_text_are_as_of_the_last_that_did() -> None:
    some = [
        record(0, [10, 20, 30], tokens=[1, 2, 1], completion=6),
        record(0, [10, 20, 30], tokens=[1, 2, 1], completion=4),
        record(0, [10, 20, 30], completion=6),
    ]
    cols = columns(some)
    assert output_inside(cols, window(0, 100)).tolist() == [6, 4, 6]
    assert output_inside(cols, window(0, 29)).tolist() == [3, 3, 4]
    assert output_inside(cols, window(29, 30)).tolist() == [3, 1, 2]
    assert output_inside(cols, window(30, 100)).tolist() == [0, 0, 0]


def test_a_counted_run_without_tokens_keeps_the_window_of_its_client() -> None:
    records = [record(0, status=Status.TIMEOUT, end=500)]
    assert find_windows(columns(records), COUNTED, 1).whole == COUNTED


def test_the_population_is_measured_and_sent_from_the_start_up_to_the_end() -> None:
    records = [
        record(999, (1_500,), completion=1),
        record(1_000, (1_500,), completion=1),
        record(1_999, (9_000,), completion=1),
        record(2_000, (2_100,), completion=1),
        record(1_500, (1_600,), completion=1, phase=Phase.WARMUP),
    ]
    found = sent_inside(columns(records), window(1_000, 2_000))
    assert found.tolist() == [False, True, True, False, False]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 1_000), min_size=1, max_size=8), min_size=1, max_size=8),
    st.integers(0, 1_000),
)
def test_adjoining_windows_share_out_every_token(events: list[list[int]], cut: int) -> None:
    cols = columns([record(0, sorted(at), completion=3 * len(at)) for at in events])
    halves = [output_inside(cols, window(0, cut)), output_inside(cols, window(cut, 1_000))]
    total = sum(float(half.sum()) for half in halves)
    assert total == pytest.approx(3 * sum(len(at) for at in events))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 5_000)), min_size=1, max_size=12))
def test_in_flight_is_the_sum_of_open_time_when_all_is_inside(spans: list[tuple[int, int]]) -> None:
    records = [record(at, (at + length,), completion=1) for at, length in spans]
    found = analyze_point(inputs(records)).metrics["in_flight"]
    assert found == pytest.approx(sum(length for _, length in spans) / 10_000)
