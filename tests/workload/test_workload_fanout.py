"""Agents that nobody declared: cases worked by hand, invariants, and the recorded sessions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.clock import NS
from inferometer.core import Turn
from inferometer.workload import ReadOptions, fanout, read_corpus
from inferometer.workload.fanout import NEAR_NS, Call, FanOut, _Sharing, recover
from inferometer.workload.hashes import Ids, shared_prefix


def call(start: float, end: float, *runs: tuple[int, int]) -> Call:
    """A request open from `start` to `end` seconds; runs are (first id, count)."""
    ids = [first + n for first, count in runs for n in range(count)]
    return Call(round(start * NS), round(end * NS), np.array(ids, np.int64))


def chains(*calls: Call) -> list[int]:
    return list(recover(calls).chains)


def test_one_agent_whose_context_grows() -> None:
    assert recover([call(n, n + 1, (0, 10 + n)) for n in range(5)]) == FanOut((0,) * 5, 0, 0, 0)


def test_workers_side_by_side_and_the_agent_that_goes_on() -> None:
    """Three workers with instructions of their own (1000 on) run at once; then the root goes on."""
    workers = [
        call(2, 4, (1000, 20), (2000, 4)),
        call(2.1, 5, (1000, 20), (3000, 4)),
        call(2.2, 6, (1000, 20), (4000, 4)),
        call(5, 8, (1000, 20), (2000, 9)),
        call(6, 9, (1000, 20), (3000, 9)),
        call(7, 9, (1000, 20), (4000, 9)),
    ]
    found = recover([call(0, 1, (0, 30)), *workers, call(10, 12, (0, 40))])
    assert found == FanOut((0, 1, 2, 3, 1, 2, 3, 0), 3, 3, 0)


def test_forks_of_one_context_the_one_that_goes_on_is_the_agent() -> None:
    root = [call(0, 1, (0, 30)), call(9, 10, (0, 30), (200, 9))]
    one, two = call(2, 6, (0, 30), (100, 3)), call(2.5, 7, (0, 30), (200, 3))
    assert chains(root[0], one, two, root[1]) == [0, 1, 0, 0]


def test_one_that_begins_while_another_is_under_way_shares_instructions_only() -> None:
    """The second worker starts when the first one's first request is over, not the first one."""
    first = [call(1, 3, (0, 20), (100, 2)), call(3.5, 9, (0, 20), (100, 8))]
    second = [call(4, 8, (0, 20), (200, 2)), call(8.5, 9.5, (0, 20), (200, 5))]
    assert chains(first[0], first[1], second[0], second[1]) == [0, 0, 1, 1]


def test_a_conversation_between_two_turns_of_another_is_an_agent() -> None:
    side = [call(2, 3, (500, 20)), call(4, 5, (500, 25))]
    found = recover([call(0, 1, (0, 30)), *side, call(6, 7, (0, 40))])
    assert found == FanOut((0, 1, 1, 0), 1, 0, 0)


def test_a_context_that_starts_over_for_good_is_the_same_agent() -> None:
    compacted = [call(2, 3, (0, 5), (300, 8)), call(4, 5, (0, 5), (300, 20))]
    assert recover([call(0, 1, (0, 60)), *compacted]) == FanOut((0, 0, 0), 0, 0, 1)


def test_a_context_that_is_cut_back_is_the_same_agent() -> None:
    """It goes on from its third request, then for good: nobody else was at work."""
    grown = [call(n, n + 0.5, (0, 20 + 10 * n)) for n in range(5)]
    back = [call(6, 7, (0, 25), (400, 9)), call(8, 9, (0, 25), (400, 15))]
    assert chains(*grown, *back) == [0] * 7
    heavy = [call(10 + n, 10.5 + n, (0, 25), (400, 20 + n)) for n in range(5)]
    assert chains(*grown, *back, *heavy) == [0] * 12


def test_an_overlap_within_the_resolution_of_the_clock_is_none() -> None:
    near = [call(0, 2.3, (0, 10)), call(2, 4, (0, 12)), call(5, 6, (0, 15))]
    assert chains(*near) == [0, 0, 0]
    far = [call(0, 3.3, (0, 10)), call(2, 4, (0, 12)), call(5, 6, (0, 15))]
    assert chains(*far) == [0, 1, 1] or chains(*far) == [1, 0, 0]
    # Siblings that part after what they share do overlap, however short.
    apart = [call(0, 1, (0, 9)), call(2, 2.6, (0, 9), (50, 2)), call(2.1, 4, (0, 9), (60, 2))]
    assert len(set(chains(*apart))) == 2


def test_a_request_that_takes_no_time_is_beside_what_is_open_at_its_instant() -> None:
    shared = (0, 3)
    assert chains(call(0, 0, shared), call(0, 1, shared), call(0, 0, shared)) == [0, 0, 1]


def test_requests_without_blocks_are_told_apart_by_time_alone() -> None:
    assert chains(call(0, 1), call(2, 3), call(2.5, 4)) == [0, 0, 1]
    # One between two turns of an agent is no other agent; one with blocks of its own is.
    root = call(0, 1, (0, 30)), call(4, 5, (0, 40))
    assert chains(root[0], call(2, 3), root[1]) == [0, 0, 0]
    assert chains(root[0], call(2, 3, (500, 20)), root[1]) == [0, 1, 0]
    assert chains(root[0], call(2, 4.5), root[1]) == [0, 1, 0]
    assert recover([]) == FanOut((), 0, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.lists(st.integers(0, 2)))))
def test_what_requests_share_is_what_their_ids_say(raw: list[tuple[int, int, list[int]]]) -> None:
    contexts: list[list[int]] = []
    for back, kept, more in raw:
        before = contexts[-1 - back % len(contexts)] if contexts else []
        contexts.append(before[: len(before) - kept % (len(before) + 1)] + more)
    calls = [Call(n, n, np.array(ids, np.int64)) for n, ids in enumerate(contexts)]
    sharing = _Sharing(calls)
    for index, one in enumerate(calls):
        alone = sharing.advance(index)
        wanted = [shared_prefix(other.block_ids, one.block_ids) for other in calls[:index]]
        assert sharing.now[:index].tolist() == wanted
        if alone:
            assert wanted[-1] == len(calls[index - 1].block_ids)
            assert wanted[-1] > max(wanted[:-1], default=0)


def test_many_agents_in_turn_are_compared_along_one_path_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not with every request before, of which a session of 3,000 turns has many."""
    compared = 0

    def counted(left: Ids, right: Ids) -> int:
        nonlocal compared
        compared += 1
        return shared_prefix(left, right)

    monkeypatch.setattr(fanout, "shared_prefix", counted)
    calls = [
        call(
            n, n + 4.9, (0, 50), (1000 * (n % 5 + 1), 5 + n // 5 % 10), (10**5 * (n % 5 + 1) + n, 1)
        )
        for n in range(400)
    ]
    found = recover(calls)
    assert found.parallel >= 4
    assert compared < 20 * len(calls)


spans = st.tuples(st.integers(0, 40), st.integers(0, 8), st.integers(0, 3), st.integers(0, 6))


@given(st.lists(spans, max_size=14))
def test_an_agent_does_one_thing_at_a_time(raw: list[tuple[int, int, int, int]]) -> None:
    calls = sorted(
        (
            call(at, at + took, (100 * which, 3), (1000 * which, more))
            for at, took, which, more in raw
        ),
        key=lambda one: one.start_ns,
    )
    found = recover(calls)
    assert len(found.chains) == len(calls)
    assert set(found.chains) == set(range(found.agents + 1)) if calls else found.agents == 0
    assert not calls or found.chains[0] == 0
    for left, right in combinations(range(len(calls)), 2):
        if found.chains[left] == found.chains[right]:
            assert calls[left].end_ns - calls[right].start_ns < NEAR_NS


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_requests_one_after_the_other_that_keep_their_prefix_are_one_agent(
    steps: list[int],
) -> None:
    sizes = np.cumsum([5, *steps]).tolist()
    assert set(chains(*(call(2 * n, 2 * n + 1, (0, size)) for n, size in enumerate(sizes)))) == {0}


def test_the_recorded_sessions(shared_data: Path) -> None:
    found = read_corpus(shared_data / "agentic")
    report = found.report
    assert (report.fanned_agents, report.fanned_turns, report.fanned_parallel) == (3, 79, 0)
    fanned = {
        (session.id, turn.agent)
        for session in found.sessions
        for turn in session.turns
        if "/fan-" in turn.agent
    }
    assert fanned == {
        ("trace_0014", "root/fan-1"),
        ("trace_0020", "root/fan-1"),
        ("trace_0256", "root/fan-1"),
    }


def test_recovered_agents_move_no_edge_and_no_gap(shared_data: Path) -> None:
    corpora = [
        read_corpus(shared_data / "agentic", ReadOptions(fan_out=on)) for on in (True, False)
    ]
    renamed = 0
    for with_agents, without in zip(*(corpus.sessions for corpus in corpora), strict=True):
        for left, right in zip(with_agents.turns, without.turns, strict=True):
            assert (left.after, left.gap_ns, left.index) == (right.after, right.gap_ns, right.index)
            renamed += left.agent != right.agent
            assert left.parent_agent == (
                right.agent if left.agent != right.agent else right.parent_agent
            )
    assert renamed == 79


def _woven(one: Sequence[Turn], two: Sequence[Turn]) -> list[tuple[Call, int]]:
    """Both in turns of 10 s each, the second 5 s later and within the time of the first."""
    made = []
    for side, turns in enumerate((one, two[: len(one) - 1])):
        for number, turn in enumerate(turns):
            at = (10 * number + 5 * side) * NS
            made.append((Call(at, at + 8 * NS, turn.block_ids + 10**7 * side), side))
    return sorted(made, key=lambda item: item[0].start_ns)


def test_two_sessions_woven_into_one_are_told_apart(shared_data: Path) -> None:
    """Real requests whose agents are known: two recordings with ids of their own, side by side."""
    sessions = read_corpus(shared_data / "agentic", ReadOptions(fan_out=False)).sessions
    steady = [
        s for s in sessions if 10 <= len(s.turns) <= 120 and len({t.agent for t in s.turns}) == 1
    ]
    right = total = 0
    for one, two in pairwise(steady[:12]):
        woven = _woven(one.turns, two.turns)
        found = recover([made for made, _ in woven]).chains
        total += len(woven)
        right += sum(
            (number > 0) == (side > 0) for number, (_, side) in zip(found, woven, strict=True)
        )
    assert total > 300
    assert right / total > 0.95
