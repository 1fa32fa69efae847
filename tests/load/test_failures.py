"""What a failed or unsent turn does to its session, on whole loads in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from fakes import WORKLOAD, FakeWorkload, Outcome, drive

from inferometer.core import Phase, Request, Session, Status, Turn

SETTINGS = replace(WORKLOAD, duration_s=100.0)
BLOCKS = np.zeros(1, dtype=np.int64)


def turn(index: int, after: tuple[int, ...], agent: str = "root", tokens: int = 64) -> Turn:
    parent = None if agent == "root" else "root"
    return Turn(index, agent, parent, after, 0, BLOCKS, tokens, 2)


JOINED = Session(
    "joined",
    64,
    (
        turn(0, ()),
        turn(1, (0,), "root/a"),
        turn(2, (0,), "root/b"),
        turn(3, (1,), "root/a"),
        turn(4, (2, 3)),
    ),
)


def play_of(
    session: Session,
    failing: frozenset[int] = frozenset(),
    limit: int | None = None,
    lasts: dict[int, float] | None = None,
) -> tuple[dict[int, tuple[float, float]], Outcome]:
    """(sent, end) in seconds of the first play's turns; each takes 1 s, but for `lasts`.

    Only of the first play do turns fail: the rest keeps the share of failures down.
    """
    run = drive(
        FakeWorkload(session),
        SETTINGS,
        lanes=1,
        seconds=lambda r: (lasts or {}).get(r.turn, 1.0),
        status=lambda r: Status.IN_BAND if r.play == 0 and r.turn in failing else Status.OK,
        max_model_len=limit,
    )
    return {
        r.turn: ((r.exchange.sent_ns or 0) / 1e9, r.exchange.end_ns / 1e9)
        for r in run.records
        if r.play == 0
    }, run


def begins(run: Outcome, play: int) -> float:
    return min(r.exchange.sent_ns or 0 for r in run.records if r.play == play) / 1e9


def test_a_failed_child_releases_the_join_and_its_own_turns_are_dropped() -> None:
    turns, run = play_of(JOINED, failing=frozenset({1}), lasts={2: 3.0})
    assert turns.keys() == {0, 1, 2, 4}
    assert turns[4][0] == 4.0, "the join waits for the other child alone"
    assert begins(run, 1) == 5.0
    assert run.report.window.complete


def test_a_failed_root_ends_the_session_once_its_children_drain() -> None:
    beside = Session(
        "beside", 64, (turn(0, ()), turn(1, (0,), "root/a"), turn(2, (0,)), turn(3, (1, 2)))
    )
    turns, run = play_of(beside, failing=frozenset({2}), lasts={1: 5.0})
    assert turns.keys() == {0, 1, 2}
    assert turns[1] == (1.0, 6.0), "what is under way is followed"
    assert begins(run, 1) == 6.0, "and the lane waits for it"


def test_nobody_waits_for_a_background_child_but_the_lane() -> None:
    background = Session(
        "background", 64, (turn(0, ()), turn(1, (0,), "root/a"), turn(2, (0,)), turn(3, (2,)))
    )
    turns, run = play_of(background, lasts={1: 7.0})
    assert turns[3] == (2.0, 3.0)
    assert begins(run, 1) == 8.0


def test_a_background_child_that_fails_ends_nobody_else() -> None:
    background = Session("background", 64, (turn(0, ()), turn(1, (0,), "root/a"), turn(2, (0,))))
    turns, run = play_of(background, failing=frozenset({1}))
    assert turns.keys() == {0, 1, 2}
    assert begins(run, 1) == 2.0


def test_a_child_beyond_the_context_is_counted_and_releases_its_join() -> None:
    large = replace_turn(JOINED, turn(3, (1,), "root/a", tokens=1000))
    turns, run = play_of(large, limit=500)
    assert turns.keys() == {0, 1, 2, 4}
    assert turns[4][0] == 2.0
    assert run.report.context_overflows == len({r.play for r in run.records if r.turn == 1})


def test_a_root_beyond_the_context_ends_the_session() -> None:
    large = replace_turn(JOINED, turn(4, (2, 3), tokens=1000))
    turns, run = play_of(large, limit=500)
    assert turns.keys() == {0, 1, 2, 3}
    assert begins(run, 1) == 3.0
    assert run.report.context_overflows > 0


def replace_turn(session: Session, changed: Turn) -> Session:
    turns = list(session.turns)
    turns[changed.index] = changed
    return Session(session.id, session.block_size, tuple(turns))


def test_requests_followed_in_the_grace_period_are_outside_of_the_window() -> None:
    run = drive(FakeWorkload(JOINED), SETTINGS, lanes=1, seconds=lambda r: 1.0 + 3 * (r.turn == 4))
    window = run.report.window
    assert window.seconds == 100.0
    late = [r for r in run.records if r.exchange.end_ns > window.end_ns]
    assert late, "one is open when the window ends"
    assert {r.exchange.status for r in late} == {Status.OK}
    assert all((r.exchange.sent_ns or 0) <= window.end_ns for r in run.records)


def test_failures_of_warm_up_count_in_the_live_share() -> None:
    def status(request: Request) -> Status:
        return Status.CONNECT

    run = drive(FakeWorkload(JOINED), SETTINGS, lanes=2, seconds=lambda _: 1.0, status=status)
    assert "requests failed" in (run.report.window.stop_reason or "")
    assert {r.phase for r in run.records} <= {Phase.WARMUP, Phase.MEASURED}
    assert not run.report.window.complete
