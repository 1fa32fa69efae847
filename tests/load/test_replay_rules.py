"""The invariants of `agentx-1` on whole loads in virtual time: recorded sessions and made trees.

What was sent is recorded and held against the sessions. Each check is also shown to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from fakes import WORKLOAD
from hypothesis import given
from hypothesis import strategies as st
from rules import (
    SIZE,
    UNCUT,
    Load,
    apart,
    faults,
    left_out,
    lengths,
    load_of,
    made_loads,
    once,
    prefixes,
    sent_bytes,
    slow,
    starts,
    trees,
)

from inferometer.clock import NS
from inferometer.core import Prompt, Request, Session, Status, Turn
from inferometer.load.play import Play, Ready
from inferometer.run import binding
from inferometer.workload import (
    ReadOptions,
    prompt_of,
    read_corpus,
)


@slow
@given(made_loads, st.integers(0, 12))
def test_made_trees_keep_every_rule(made: tuple[list[Session], int], warmups: int) -> None:
    rules = replace(UNCUT, warmup_requests_per_lane=warmups)
    load = load_of(made[0], made[1], rules)
    assert faults(load) == []
    assert list(apart(load)) == []


@slow
@given(made_loads)
def test_two_loads_of_made_trees_send_the_same(made: tuple[list[Session], int]) -> None:
    assert sent_bytes(load_of(*made)) == sent_bytes(load_of(*made))


@slow
@given(made_loads, st.integers(0, 2**16))
def test_with_idle_caps_and_failures_the_order_stays(
    made: tuple[list[Session], int], seed: int
) -> None:
    rules = replace(UNCUT, tree_idle_cap_s=20.0, system_idle_cap_s=1.0)

    def status(request: Request) -> Status:
        failing = crc32(f"{request.id} {seed}".encode()) % 20 == 0
        return Status.IN_BAND if failing else Status.OK

    load = load_of(*made, rules, status=status)
    ended = {(r.lane, r.play, r.turn): r.exchange.end_ns for r in load.run.records}
    failed = {(r.lane, r.play, r.agent) for r in load.run.records if r.exchange.status.failed}
    for record in load.run.records:
        turn = load.workload.session(record.lane, record.play).turns[record.turn]
        for index in turn.after:
            end_ns = ended.get((record.lane, record.play, index))
            assert end_ns is None or end_ns <= (record.exchange.sent_ns or 0)
            if end_ns is None and index not in load.skipped((record.lane, record.play)):
                # Only what a failure has dropped may be missing.
                gone = load.workload.session(record.lane, record.play).turns[index].agent
                dropped = {gone, "root"}
                assert any((record.lane, record.play, agent) in failed for agent in dropped)
    assert [*trees(load), *once(load), *lengths(load), *prefixes(load)] == []


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> tuple[Session, ...]:
    return read_corpus(shared_data / "agentic", ReadOptions()).sessions


@pytest.mark.parametrize(("lanes", "seconds"), [(1, 3e4), (7, 1e4), (60, 3e3)])
def test_the_recorded_sessions_keep_every_rule(
    recorded: tuple[Session, ...], lanes: int, seconds: float
) -> None:
    rules = replace(UNCUT, duration_s=seconds, warmup_requests_per_lane=10)
    load = load_of(recorded, lanes, rules)
    assert len(load.run.records) > 100
    checks = (starts, trees, left_out, once, lengths)
    assert [fault for check in checks for fault in check(load)] == []
    assert list(prefixes(load, pairs=50, text=False)) == []
    assert list(apart(load)) == []
    assert load.run.report.wrapped_lanes == max(0, lanes - 48)


def test_the_recorded_sessions_share_tokens_as_their_ids_do(
    recorded: tuple[Session, ...],
) -> None:
    load = load_of(recorded, 48, replace(UNCUT, duration_s=600.0))
    assert len({r.session for r in load.run.records}) == 48
    assert list(prefixes(load, pairs=3)) == []


def test_two_loads_of_the_recorded_sessions_send_the_same(
    recorded: tuple[Session, ...],
) -> None:
    rules = replace(WORKLOAD, duration_s=3600.0, warmup_requests_per_lane=10)
    first, second = (sent_bytes(load_of(recorded, 16, rules)) for _ in range(2))
    assert first == second
    assert len(first) > 1000
    other = sent_bytes(load_of(recorded, 16, replace(rules, seed=43)))
    assert other != first


def forked() -> Session:
    """A root that forks two children with gaps, joins them and goes on."""
    ids = np.arange(1, 20, dtype=np.int64)

    def turn(index: int, after: tuple[int, ...], agent: str, blocks: int) -> Turn:
        parent = None if agent == "root" else "root"
        size = blocks * SIZE + 2
        return Turn(index, agent, parent, after, NS, ids[:blocks], size, 2)

    return Session(
        "fork",
        SIZE,
        (
            turn(0, (), "root", 3),
            turn(1, (0,), "root/a", 4),
            turn(2, (0,), "root/b", 5),
            turn(3, (1, 2), "root", 6),
            turn(4, (3,), "root", 8),
        ),
    )


def test_a_sound_load_has_no_fault() -> None:
    assert faults(load_of([forked()], 2)) == []


class _NoGap(Play):
    def _hand(self, turns: list[Turn], at_ns: int) -> list[Ready]:
        return [r._replace(due_ns=r.ready_ns) for r in super()._hand(turns, at_ns)]


class _Late(Play):
    def _hand(self, turns: list[Turn], at_ns: int) -> list[Ready]:
        return [r._replace(due_ns=r.due_ns + 1) for r in super()._hand(turns, at_ns)]


class _NoJoin(Play):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._waits = [min(1, count) for count in self._waits]


class _Twice(Play):
    def _hand(self, turns: list[Turn], at_ns: int) -> list[Ready]:
        return super()._hand(turns, at_ns) * 2


class _Forgets(Play):
    def _hand(self, turns: list[Turn], at_ns: int) -> list[Ready]:
        return [r for r in super()._hand(turns, at_ns) if r.turn.index != 2]


class _Impatient(Play):
    @property
    def drained(self) -> bool:
        return self._left <= 1


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (_NoGap, starts),
        (_Late, starts),
        (_NoJoin, starts),
        (_Forgets, left_out),
        (_Twice, once),
        (_Impatient, trees),
    ],
)
def test_a_broken_replay_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    broken: type[Play],
    check: Callable[[Load], Iterator[str]],
) -> None:
    monkeypatch.setattr("inferometer.load.lanes.Play", broken)
    assert list(check(load_of([forked()], 2)))


def test_broken_prompts_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_prompt(change: Callable[[Prompt, Turn], Prompt]) -> Load:
        def broken(session: Session, turn: Turn, *keys: int) -> Prompt:
            return change(prompt_of(session, turn, *keys), turn)

        monkeypatch.setattr(binding, "prompt_of", broken)
        return load_of([forked()], 2)

    longer = with_prompt(lambda p, _: replace(p, tail_tokens=p.tail_tokens + 1))
    assert list(lengths(longer))
    moved = with_prompt(lambda p, t: replace(p, blocks=p.blocks + np.int64(t.index % 2)))
    assert list(prefixes(moved))
    alike = with_prompt(lambda p, _: replace(p, tail_id=7))
    assert list(prefixes(alike)) == [], "the text of other blocks differs all the same"
    shared = with_prompt(lambda p, _: replace(p, blocks=p.blocks & np.int64(0xFFFFF)))
    assert list(apart(shared))
