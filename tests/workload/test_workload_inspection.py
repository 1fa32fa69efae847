"""Caches of any size against one played block by block, timelines, and samples of sessions."""

from __future__ import annotations

from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.core import Session, Turn
from inferometer.workload import (
    Filter,
    chosen,
    inspect_sessions,
    named,
    prefix_hit,
    read_corpus,
    sample,
    synthesize,
)
from inferometer.workload.inspection import spread
from inferometer.workload.prefixcache import PrefixCache
from inferometer.workload.timeline import starts, timeline


def turn(index: int, after: tuple[int, ...], gap_s: float, took_s: float | None, *ids: int) -> Turn:
    took = None if took_s is None else round(took_s * 1e9)
    tokens = len(ids) * 10 + 5
    return Turn(
        index, "root", None, after, round(gap_s * 1e9), np.array(ids, np.int64), tokens, 3, took
    )


def played(requests: list[list[int]], size: int) -> list[int]:
    """Leading hits of every request in a cache of `size` blocks, one block at a time."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = []
    for ids in requests:
        count = next((n for n, each in enumerate(ids) if each not in cache), len(ids))
        hits.append(count)
        for each in reversed(ids):  # the first block is the one used last
            cache.pop(each, None)
            cache[each] = None
        while len(cache) > size:
            cache.popitem(last=False)
    return hits


@st.composite
def trees(draw: st.DrawFn) -> list[list[int]]:
    """Prompts whose ids stand for all before them, as hashes do: paths in a tree."""
    names: dict[tuple[int, ...], int] = {}
    paths = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=25))
    return [
        [names.setdefault(tuple(path[: n + 1]), len(names)) for n in range(len(path))]
        for path in paths
    ]


@given(trees())
def test_one_pass_gives_the_hits_of_caches_of_every_size(requests: list[list[int]]) -> None:
    cache = PrefixCache()
    sizes = [cache.send([("all", np.array(ids, np.int64))]) for ids in requests]
    distinct = len({each for ids in requests for each in ids})
    for size in range(1, distinct + 2):
        found = [int(np.searchsorted(own, size, side="right")) for own in sizes]
        assert found == played(requests, size)
    assert cache.used_since(0) == distinct


def test_a_cache_that_drops_another_block_is_seen() -> None:
    requests = [[0, 1], [2], [0, 1]]
    assert played(requests, 2) == [0, 0, 1]
    assert played([list(reversed(ids)) for ids in requests], 2) != [0, 0, 1] or played(
        requests, 3
    ) == [0, 0, 2]


def test_spaces_are_apart_and_large_ids_are_kept() -> None:
    cache, large = PrefixCache(), np.array([2**62, 5], np.int64)
    assert len(cache.send([("a", large)])) == 0
    assert len(cache.send([("b", large)])) == 0
    assert len(cache.send([("a", large[:1]), ("b", large[1:])])) == 2
    cache.drop("a")
    assert len(cache.send([("a", large)])) == 0


def test_turns_start_as_recorded() -> None:
    turns = (turn(0, (), 1, 4), turn(1, (0,), 400, None), turn(2, (0, 1), 2, 1))
    session = Session("s", 10, turns)
    assert starts(session, 0, None) == [10**9, 405 * 10**9, 407 * 10**9]
    assert starts(session, 0, 300 * 10**9) == [10**9, 305 * 10**9, 307 * 10**9]


def test_lanes_play_one_session_after_the_other() -> None:
    sessions = [Session(str(n), 10, (turn(0, (), 0, 5), turn(1, (0,), 1, 1))) for n in range(3)]
    order = [(sent.at_ns / 1e9, sent.session, sent.turn) for sent in timeline(sessions, 2)]
    assert order == [(0, 0, 0), (0, 1, 0), (6, 0, 1), (6, 1, 1), (7, 2, 0), (13, 2, 1)]


def test_recorded_arrivals_are_kept() -> None:
    sessions = [
        Session("late", 10, (turn(0, (), 0, 1),), 9 * 10**9),
        Session("early", 10, (turn(0, (), 0, 1),), 2 * 10**9),
    ]
    assert [sent.session for sent in timeline(sessions, 5)] == [1, 0]


def test_an_inspection_by_hand() -> None:
    first = Session("a", 10, (turn(0, (), 0, 1, 1, 2), turn(1, (0,), 3, 1, 1, 2, 3)), None, 0)
    second = Session("b", 10, (turn(0, (), 0, 1, 1),), None, 0)
    found = inspect_sessions([first, second], 1)
    assert (found.sessions, found.turns, found.input_tokens) == (2, 3, 25 + 35 + 15)
    assert found.reuse.distinct_tokens == 40
    assert [(hit.tokens, hit.hit) for hit in found.reuse.hits] == [(None, 20 / 75)]
    assert found.reuse.in_use_tokens == [20, 30, 40]
    assert found.reuse.at_s == [0, 4, 5]
    gaps = next(one for one in found.spreads if one.name == "gap before a turn")
    assert (gaps.count, gaps.mean, sum(gaps.counts)) == (1, 3.0, 1)


def test_a_spread_counts_every_value() -> None:
    made = spread("x", "s", [0, 0, 1, 10, 100])
    assert (made.quantiles[0], made.quantiles[-1], sum(made.counts)) == (0, 100, 5)
    assert made.counts[0] == 3
    assert spread("x", "s", [0, 0]).counts == (2,)


def test_the_recorded_sessions(shared_data: Path) -> None:
    sessions = read_corpus(shared_data / "agentic").sessions
    found = inspect_sessions(sessions, 8)
    assert found.agents == {"explore": 36, "general-purpose": 6, "fan": 3, "plan": 2}
    assert found.reuse.hits[-1].hit == pytest.approx(prefix_hit(sessions), abs=1e-12)
    hits = [hit.hit for hit in found.reuse.hits]
    assert hits == sorted(hits)
    assert 0.1 < hits[0] < 0.3 < hits[3] < 0.9


def test_a_sample_is_seeded_ordered_and_even() -> None:
    sessions = synthesize(named("quickstart"), 20, 1)
    first, again = sample(sessions, 5, 7), sample(iter(sessions), 5, 7)
    assert [s.id for s in first] == [s.id for s in again] == sorted(s.id for s in first)
    assert [s.id for s in sample(sessions, 5, 8)] != [s.id for s in first]
    assert len(sample(sessions, 50, 7)) == 20
    counts = Counter(s.id for seed in range(400) for s in sample(sessions, 5, seed))
    # 400 samples of a quarter: 100 each, with a standard deviation below 9.
    assert min(counts.values()) > 60
    assert len(counts) == 20


def test_filters() -> None:
    sessions = synthesize(named("quickstart"), 30, 1)
    some = list(chosen(sessions, Filter(subagents=True)))
    assert 0 < len(some) < 30
    assert len(some) + len(list(chosen(sessions, Filter(subagents=False)))) == 30
    most = max(turn.input_tokens + turn.output_tokens for turn in sessions[3].turns)
    assert sessions[3] in list(chosen(sessions, Filter(max_context=most)))
    assert sessions[3] not in list(chosen(sessions, Filter(max_context=most - 1)))
    turns = len(sessions[3].turns)
    assert sessions[3] in list(chosen(sessions, Filter(min_turns=turns, max_turns=turns)))
    assert sessions[3] not in list(chosen(sessions, Filter(min_turns=turns + 1)))
    assert sessions[3] not in list(chosen(sessions, Filter(max_turns=turns - 1)))
