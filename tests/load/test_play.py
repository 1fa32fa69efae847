"""The graph of one session play, as tables of what is handed out when."""

from __future__ import annotations

import numpy as np

from inferometer.core import Session, Turn
from inferometer.load.play import Play, Ready


def turn(index: int, after: tuple[int, ...], gap_ns: int = 0, agent: str = "root") -> Turn:
    parent = agent.rpartition("/")[0] or None
    blocks = np.zeros(1, dtype=np.int64)
    return Turn(index, agent, parent, after, gap_ns, blocks, 64, 1)


def session(*turns: Turn) -> Session:
    return Session("s", 64, turns)


# root 0 spawns root/a (turns 1, 2); root 3 joins it; root/b (turn 4) runs in the background.
TREE = session(
    turn(0, ()),
    turn(1, (0,), 10, "root/a"),
    turn(2, (1,), 20, "root/a"),
    turn(3, (0, 2), 5),
    turn(4, (0,), 0, "root/b"),
)


def due(ready: list[Ready]) -> list[tuple[int, int, int]]:
    return [(item.turn.index, item.ready_ns, item.due_ns) for item in ready]


def test_turns_follow_the_last_of_their_predecessors() -> None:
    play = Play(TREE)
    assert due(play.start((), 100)) == [(0, 100, 100)]
    assert due(play.done(TREE.turns[0], 200)) == [(1, 200, 210), (4, 200, 200)]
    assert due(play.done(TREE.turns[1], 300)) == [(2, 300, 320)]
    assert due(play.done(TREE.turns[4], 310)) == []
    assert due(play.done(TREE.turns[2], 400)) == [(3, 400, 405)]
    assert not play.drained
    assert due(play.done(TREE.turns[3], 500)) == []
    assert play.drained


def test_ready_is_the_latest_end_also_when_ends_are_reported_out_of_order() -> None:
    both = session(turn(0, ()), turn(1, ()), turn(2, (0, 1), 7))
    play = Play(both)
    play.start((), 0)
    play.done(both.turns[0], 90)
    assert due(play.done(both.turns[1], 80)) == [(2, 90, 97)]


def test_a_turn_without_predecessors_waits_for_its_gap_from_the_start() -> None:
    both = session(turn(0, ()), turn(1, (), 40))
    assert due(Play(both).start((), 100)) == [(0, 100, 100), (1, 100, 140)]


def test_a_start_in_the_middle_takes_what_came_before_as_done() -> None:
    play = Play(TREE)
    assert due(play.start({0, 1}, 50)) == [(2, 50, 50), (4, 50, 50)]


def test_a_failed_child_releases_the_join() -> None:
    play = Play(TREE)
    play.start((), 0)
    play.done(TREE.turns[0], 100)
    # Turn 1 of root/a fails: turn 2 is never sent, and the parent's turn 3 goes on.
    assert due(play.failed(TREE.turns[1], 150)) == [(3, 150, 155)]
    play.done(TREE.turns[3], 200)
    assert not play.drained, "the background child is still open"
    play.done(TREE.turns[4], 210)
    assert play.drained


def test_a_failed_root_turn_ends_the_session_and_spawns_nothing() -> None:
    play = Play(TREE)
    play.start((), 0)
    assert due(play.failed(TREE.turns[0], 10)) == []
    assert play.drained


def test_a_failed_root_lets_children_on_their_way_drain() -> None:
    later = session(
        turn(0, ()), turn(1, (0,), 0, "root/a"), turn(2, (1,), 0, "root/a"), turn(3, (0,))
    )
    play = Play(later)
    play.start((), 0)
    play.done(later.turns[0], 10)
    assert due(play.failed(later.turns[3], 20)) == []
    assert due(play.done(later.turns[1], 30)) == [(2, 30, 30)]
    play.done(later.turns[2], 40)
    assert play.drained
