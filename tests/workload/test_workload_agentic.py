"""Which session a lane plays, where it starts, and fixed lengths."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import AGENTIC
from inferometer.clock import NS
from inferometer.core import Session, Turn
from inferometer.errors import InputError
from inferometer.workload import (
    AgenticWorkload,
    FixedLengths,
    StartPlan,
    plan_start,
    prefix_hit,
)
from inferometer.workload.cachehits import SIZES, hits_of_caches


def turn(
    index: int, agent: str = "root", after: tuple[int, ...] = (), ids: tuple[int, ...] = ()
) -> Turn:
    parent = None if agent == "root" else "root"
    return Turn(index, agent, parent, after, 0, np.array(ids, np.int64), 100, 10)


def chain(name: str, length: int) -> Session:
    turns = [turn(n, after=(n - 1,) if n else ()) for n in range(length)]
    return Session(name, 64, tuple(turns))


def workload(count: int, lanes: int, seed: int = 42) -> AgenticWorkload:
    sessions = [chain(str(n), 4) for n in range(count)]
    return AgenticWorkload(sessions, replace(AGENTIC, seed=seed), lanes, {"read": 1.0})


def test_lanes_of_a_play_differ_while_sessions_last() -> None:
    deal = workload(10, 5)
    for play in (0, 1):
        assert len({deal.session(lane, play).id for lane in range(5)}) == 5
    first_deal = [deal.session(lane, play).id for play in (0, 1) for lane in range(5)]
    assert len(set(first_deal)) == 10, "every session once before any comes again"
    assert deal.wrapped_lanes == 0


def test_lanes_beyond_the_sessions_are_counted() -> None:
    deal = workload(3, 5)
    assert deal.wrapped_lanes == 2
    assert len({deal.session(lane, 0).id for lane in range(5)}) == 3


def test_a_deal_depends_on_seed_lane_and_play_alone() -> None:
    forward, backward = workload(10, 4), workload(10, 4)
    places = [(lane, play) for play in range(9) for lane in range(4)]
    there = {place: forward.session(*place).id for place in places}
    back = {place: backward.session(*place).id for place in reversed(places)}
    assert there == back
    other = workload(10, 4, seed=43)
    assert there != {place: other.session(*place).id for place in places}


def test_the_deal_of_a_seed_is_fixed() -> None:
    deal = workload(6, 3)
    dealt = [deal.session(lane, play).id for play in (0, 1) for lane in range(3)]
    assert dealt == ["4", "0", "1", "2", "3", "5"]


def test_notes_tell_what_the_data_holds() -> None:
    notes = dict(workload(3, 1).notes())
    caches = {name: notes.pop(name) for name in list(notes) if name.endswith(("k", "m"))}
    assert notes == {
        "sessions": 3.0,
        "turns": 12.0,
        "theoretical_prefix_hit": 0.0,
        "read": 1.0,
    }
    assert set(caches) == {f"theoretical_prefix_hit_{size}" for size in SIZES}


def growing(name: str, turns: int, blocks: int) -> Session:
    """A chain whose turn i has i + 1 times as many blocks, each beginning with the one before."""
    return Session(
        name,
        64,
        tuple(
            Turn(
                i,
                "root",
                None,
                (i - 1,) if i else (),
                NS,
                np.arange(blocks * (i + 1)),
                blocks * (i + 1) * 64,
                8,
                NS,
            )
            for i in range(turns)
        ),
    )


def test_hits_of_caches_by_hand() -> None:
    # Two lanes in turn: between two requests of a session the other sends all it has.
    pair = [growing("a", 4, 1000), growing("b", 4, 1000)]
    total = 2 * (1 + 2 + 3 + 4)
    hits = hits_of_caches(pair, 2)
    # A million tokens hold everything of both.
    assert hits["theoretical_prefix_hit_1m"] == pytest.approx(2 * (1 + 2 + 3) / total)
    # 250,000 tokens are 3,906 blocks. A session's n thousand blocks come again after the other's
    # n or n + 1 thousand: all of the first turn's are kept, and of the second's what leaves room
    # for as many as that of the other.
    assert 0 < hits["theoretical_prefix_hit_250k"] < hits["theoretical_prefix_hit_1m"]
    alone = hits_of_caches(pair, 1)
    assert alone["theoretical_prefix_hit_250k"] == pytest.approx(2 * (1 + 2 + 3) / total)
    assert hits_of_caches([growing("c", 1, 10)], 1)["theoretical_prefix_hit_16m"] == 0.0


def test_a_workload_without_sessions_is_refused() -> None:
    with pytest.raises(InputError, match="at least one session"):
        AgenticWorkload((), AGENTIC, 1, {})


@given(st.integers(1, 60), st.integers(0, 500), st.integers(0, 30))
def test_start_of_a_chain(length: int, lane: int, warmups: int) -> None:
    settings = replace(AGENTIC, warmup_requests_per_lane=warmups)
    session = chain("s", length)
    plan = plan_start(session, lane, settings)
    assert min(length // 4, length - 1) <= plan.start <= min(math.floor(0.75 * length), length - 1)
    primers = 1 if plan.start else 0
    sent = min(warmups, length - plan.start - 1)
    assert plan.warmup == tuple(range(plan.start - primers, plan.start + sent))
    assert plan.skipped == frozenset(range(plan.start - primers))
    assert plan == plan_start(session, lane, settings)


def test_starts_cover_the_declared_part() -> None:
    session = chain("s", 40)
    starts = [plan_start(session, lane, AGENTIC).start for lane in range(2000)]
    assert (min(starts), max(starts)) == (10, 30)
    counts = np.bincount(starts)[10:31]
    # 2000 draws from 21 values: 95 each, with a standard deviation below 10.
    assert counts.min() > 55
    assert counts.max() < 140


def test_subagents_launched_before_the_start_are_done() -> None:
    turns = (
        turn(0),
        turn(1, "root/a-1", (0,)),  # joined by turn 3
        turn(2, "root/b-2", (0,)),  # in the background
        turn(3, after=(1,)),
        turn(4, "root/b-2", (2,)),
        turn(5, "root/c-3", (3,)),
        turn(6, after=(5,)),
    )
    session = Session("s", 64, turns)
    middle = replace(AGENTIC, start_min_share=0.34, start_max_share=0.34)
    assert plan_start(session, 0, replace(middle, warmup_requests_per_lane=1)) == StartPlan(
        start=3, skipped=frozenset({1, 2, 4}), warmup=(0, 3)
    )
    assert plan_start(session, 0, replace(middle, warmup_requests_per_lane=10)) == StartPlan(
        start=3, skipped=frozenset({1, 2, 4}), warmup=(0, 3, 5)
    )
    whole = replace(AGENTIC, start_min_share=0.0, start_max_share=0.0, warmup_requests_per_lane=0)
    assert plan_start(session, 0, whole) == StartPlan(0, frozenset(), ())


def test_what_a_seed_draws_is_fixed() -> None:
    """A library whose streams change would change every point; this tells."""
    session, fixed = chain("s", 40), FixedLengths(8192, 1024, 0.8, 42)
    turns = [fixed.session(lane, 3).turns[0] for lane in range(3)]
    assert [plan_start(session, lane, AGENTIC).start for lane in range(6)] == [
        14,
        10,
        17,
        15,
        12,
        23,
    ]
    assert [(one.input_tokens, one.output_tokens) for one in turns] == [
        (7667, 934),
        (7778, 920),
        (6971, 824),
    ]


def test_the_lane_starts_in_its_own_first_session() -> None:
    deal = workload(10, 5)
    assert deal.start(3) == plan_start(deal.session(3, 0), 3, AGENTIC)


def test_prefix_hit_by_hand() -> None:
    turns = (turn(0, ids=(1,)), turn(1, ids=(1, 2)), turn(2, ids=(3, 2)), turn(3, ids=(1, 2)))
    # Of 4 · 100 tokens in blocks of 32: none, block 1, none (2 stands behind a new 3), 1 and 2.
    assert prefix_hit([Session("s", 32, turns)]) == 96 / 400


def test_fixed_lengths_are_exact_at_ratio_one() -> None:
    session = FixedLengths(1000, 8, 1.0, 42).session(2, 7)
    (only,) = session.turns
    assert (only.input_tokens, only.output_tokens, only.after, only.agent) == (1000, 8, (), "root")
    assert only.block_ids.tolist() == list(range(1000 // 64))
    assert session.id == "fixed-2-7"


def test_fixed_lengths_are_drawn_from_the_whole_range() -> None:
    fixed = FixedLengths(10, 5, 0.8, 42)
    drawn = [fixed.session(lane, play).turns[0] for lane in range(10) for play in range(50)]
    assert {one.input_tokens for one in drawn} == {8, 9, 10}
    assert {one.output_tokens for one in drawn} == {4, 5}


def test_fixed_lengths_depend_on_seed_lane_and_play() -> None:
    def lengths(seed: int) -> list[tuple[int, int]]:
        fixed = FixedLengths(8192, 1024, 0.8, seed)
        turns = [fixed.session(lane, play).turns[0] for lane in (0, 1) for play in (0, 1)]
        return [(one.input_tokens, one.output_tokens) for one in turns]

    assert lengths(42) == lengths(42)
    assert lengths(42) != lengths(43)
    assert len(set(lengths(42))) == 4


def test_fixed_has_nothing_to_skip() -> None:
    assert FixedLengths(10, 5, 1.0, 0).start(0) == StartPlan(0, frozenset(), ())
