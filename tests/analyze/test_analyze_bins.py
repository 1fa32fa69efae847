"""Time in bins: every figure by hand or by another way, and what must not get lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer import metrics
from inferometer.analyze.bins import (
    Bins,
    GapBins,
    bins_over,
    growth_by_bin,
    spread_by_bin,
    steps,
    thinned,
    tokens_by_bin,
)
from inferometer.analyze.lanes import rows_of, whole_lanes
from inferometer.analyze.series import Series
from inferometer.store import EventBatch

S = 1_000_000_000
TEN = Bins(0, 10, 3)
nan = float("nan")


def ints(*values: int) -> metrics.Ints:
    return np.array(values, dtype=np.int64)


def batch(*requests: list[int], tokens: list[list[int]] | None = None) -> EventBatch:
    """Requests by the stamps of their events; without `tokens` the server counts no chunk."""
    lengths = [len(each) for each in requests]
    flat = [count for each in tokens or [] for count in each]
    return EventBatch(
        0,
        np.concatenate(([0], np.cumsum(lengths))),
        ints(*(at for each in requests for at in each)),
        np.array(flat or [1] * sum(lengths), dtype=np.int32),
        np.zeros(sum(lengths), np.bool_),
        np.full(len(requests), tokens is not None),
    )


def test_a_bin_is_open_at_its_start_and_closed_at_its_end() -> None:
    assert TEN.of(ints(0, 1, 10, 11, 30, 31)).tolist() == [-1, 0, 0, 1, 2, -1]
    assert TEN.edges_ns.tolist() == [0, 10, 20, 30]


@given(
    st.integers(-(10**13), 10**13),
    st.integers(0, 10**13),
    st.integers(0, 10**13),
    st.integers(3, 1000),
)
def test_bins_cover_all_are_few_and_have_zero_as_an_edge(
    first: int, before: int, after: int, most: int
) -> None:
    zero, last = first + before, first + before + after
    bins = bins_over(first, last, zero, most, 1000)
    assert bins.count <= most
    assert bins.edges_ns[0] <= first
    assert bins.edges_ns[-1] >= last
    assert (zero - bins.start_ns) % bins.width_ns == 0
    assert str(bins.width_ns).rstrip("0") in ("1", "2", "5")


def test_tokens_go_to_the_bin_in_which_they_arrive() -> None:
    counted = batch([5, 10, 11], [30], tokens=[[1, 2, 4], [8]])
    every = np.ones(2, np.bool_)
    assert tokens_by_bin(counted, ints(7, 8), every, TEN).tolist() == [3, 4, 8]
    first = np.array([True, False])
    assert tokens_by_bin(counted, ints(7, 8), first, TEN).tolist() == [3, 4, 0]


def test_without_counts_a_request_is_spread_over_its_events() -> None:
    uncounted = batch([5, 15, 25, 99], [])
    found = tokens_by_bin(uncounted, ints(10, 3), np.ones(2, np.bool_), TEN)
    assert found.tolist() == [2.5, 2.5, 2.5]


@given(st.lists(st.tuples(st.integers(-50, 150), st.integers(0, 9)), max_size=40))
def test_the_bins_of_a_window_sum_to_its_tokens(events: list[tuple[int, int]]) -> None:
    events = sorted(events)
    made = batch([at for at, _ in events], tokens=[[count for _, count in events]])
    found = tokens_by_bin(made, ints(0), np.ones(1, np.bool_), Bins(0, 7, 14))
    inside = metrics.tokens_inside(made.at_ns, made.tokens, made.offsets, 0, 98)
    assert found.sum() == inside.sum()


def test_gaps_end_in_their_bin_and_stay_inside_their_request() -> None:
    gaps = GapBins(Bins(0, S, 2))
    gaps.add(batch([0, 4_000_000, 8_000_000, S + 8_000_000], [5, 7], []))
    p50 = gaps.percentile_s(50)
    assert p50[0] == pytest.approx(0.004, rel=0.006)
    assert np.isnan(p50[1])  # one gap has no median
    assert np.isnan(gaps.percentile_s(99)).all()


@given(st.lists(st.integers(1, 10**10), min_size=100, max_size=300))
def test_a_percentile_of_gaps_is_that_of_the_gaps(lengths: list[int]) -> None:
    at_ns = np.cumsum([0, *lengths])
    gaps = GapBins(Bins(-1, int(at_ns[-1]) + 1, 1))
    gaps.add(batch(at_ns.tolist()))
    for percent in (50, 99):
        exact = np.percentile(lengths, percent, method="inverted_cdf") / S
        assert gaps.percentile_s(percent)[0] == pytest.approx(exact, rel=0.006)


def test_a_counter_grows_by_bin_and_is_not_guessed() -> None:
    scrapes = Series(ints(5, 15, 35), np.array([0.0, 10.0, 50.0]))
    found = growth_by_bin(scrapes, Bins(0, 10, 4))
    np.testing.assert_allclose(found, [nan, 15, 20, nan])


def test_a_counter_that_fell_or_was_not_read_has_no_growth_there() -> None:
    fell = Series(ints(0, 10, 20, 30), np.array([5.0, 9.0, 1.0, 4.0]))
    np.testing.assert_allclose(growth_by_bin(fell, TEN), [4, nan, 3])
    at_ns = ints(0, 1, 2, 3, 13, 14, 15, 16) * S
    silent = growth_by_bin(Series(at_ns, np.arange(8.0)), Bins(0, 2 * S, 8))
    assert np.isnan(silent).tolist() == [False, *[True] * 6, False]
    assert np.isnan(growth_by_bin(Series(ints(), np.array([])), TEN)).all()


def test_steps_count_what_is_open() -> None:
    found = steps(ints(0, 2, 5), ints(5, 9, 5))
    assert found.at_ns.tolist() == [0, 2, 5, 9]
    assert found.values.tolist() == [1, 2, 1, 0]


def test_many_cards_are_their_lowest_mean_and_highest() -> None:
    low, mean, high = spread_by_bin(ints(1, 2, 25, 99), np.array([4.0, 8.0, 3.0, 7.0]), TEN)
    np.testing.assert_allclose([low, mean, high], [[4, nan, 3], [6, nan, 3], [8, nan, 3]])


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(-5, 5)), min_size=1, max_size=500),
    st.integers(4, 60),
)
def test_thinning_keeps_every_peak_and_both_ends(pairs: list[tuple[int, int]], most: int) -> None:
    pairs = sorted(pairs)
    at_ns, values = ints(*(at for at, _ in pairs)), np.array([float(v) for _, v in pairs])
    kept = thinned(Series(at_ns, values), most)
    assert len(kept) <= max(most, 4)
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert values[kept].max() == values.max()
    assert values[kept].min() == values.min()
    assert kept[0] == 0
    assert kept[-1] == len(values) - 1


def test_one_spike_among_a_million_survives() -> None:
    values = np.zeros(1_000_000)
    values[777_777] = 9.0
    kept = thinned(Series(np.arange(1_000_000), values), 2000)
    assert 777_777 in kept
    assert len(kept) <= 2000


requests = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 20), st.booleans()),
    max_size=60,
)


@given(requests)
def test_in_a_row_nothing_overlaps_and_nothing_is_lost(
    made: list[tuple[int, int, int, bool]],
) -> None:
    lane, opened, length = (ints(*(each[i] for each in made)) for i in range(3))
    sub = np.array([each[3] for each in made], dtype=np.bool_)
    rows = rows_of(lane, opened, opened + length, sub)
    assert sorted(rows.order.tolist()) == list(range(len(made)))
    assert rows.counts.sum() == len(made)
    assert len(set(zip(rows.lane.tolist(), rows.track.tolist(), strict=True))) == len(rows.lane)
    for row in np.split(rows.order, np.cumsum(rows.counts))[: len(rows.counts)]:
        assert len(set(lane[row].tolist())) == 1
        assert (opened[row][1:] >= (opened + length)[row][:-1]).all()


def test_sub_agents_stand_under_the_main_agent() -> None:
    lane, opened, closed = ints(0, 0, 0, 0), ints(0, 0, 1, 9), ints(8, 9, 4, 12)
    rows = rows_of(lane, opened, closed, np.array([False, True, True, False]))
    assert rows.track.tolist() == [0, 1, 2]
    assert rows.order.tolist() == [0, 3, 1, 2]


def test_of_too_many_requests_whole_lanes_are_drawn() -> None:
    lane = ints(2, 2, 0, 1, 1, 0)
    assert whole_lanes(lane, 4).tolist() == [False, False, True, True, True, True]
    assert whole_lanes(lane, 1).tolist() == [False, False, True, False, False, True]
