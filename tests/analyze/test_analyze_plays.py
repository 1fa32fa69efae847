"""What decided how long plays took: by hand, and against the graph of turns in whole loads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from analyze_factory import inputs, record, window, with_client

from inferometer.analyze import analyze_point
from inferometer.analyze.columns import columns
from inferometer.analyze.plays import Plays, drained_plays
from inferometer.analyze.playtable import PlayRow, play_rows
from inferometer.core import Phase, Record, Status
from inferometer.store import RequestWords, table_of


def tree(play: int = 0, lane: int = 0) -> list[Record]:
    """Root 0..1 s; child a 2..5 s and 6..9 s; root beside it 2..4 s; joined after 9 s by 10..11 s.

    A child in the background runs 2..3 s.
    """

    def turn(sent: float, end: float, ready: float, child: str | None = None) -> Record:
        agent, parent = ("root", None) if child is None else (f"root/{child}", "root")
        return record(
            sent,
            (end,),
            ready=ready,
            agent=agent,
            parent=parent,
            play=play,
            lane=lane,
            completion=1,
        )

    return [
        turn(0, 1_000, 0),
        turn(2_000, 5_000, 1_000, "a"),
        turn(2_000, 4_000, 1_000),
        turn(2_000, 3_000, 1_000, "b"),
        turn(6_000, 9_000, 5_000, "a"),
        turn(10_000, 11_000, 9_000),
    ]


def plays_of(records: list[Record]) -> Plays:
    return drained_plays(columns(records))


def later(play: int, lane: int = 0) -> Record:
    return record(20_000, (20_100,), play=play, lane=lane, completion=1)


def test_critical_path_and_join_wait_by_hand() -> None:
    plays = plays_of([*tree(), later(1)])
    assert plays.makespan.tolist() == [11.0]
    # root 1 s, the child 3 + 3 s, the join 1 s; the rest are gaps
    assert plays.critical.tolist() == [8.0]
    # the parent's own last turn had ended at 4 s, the child at 9 s
    assert plays.join_wait.tolist() == [5.0]


def test_a_child_that_ends_first_is_not_waited_for() -> None:
    records = tree()
    late = record(2_000, (9_500,), ready=1_000, completion=1)
    join = record(10_000, (11_000,), ready=9_500, completion=1)
    plays = plays_of([*records[:2], late, *records[3:5], join, later(1)])
    assert plays.join_wait.tolist() == [0.0]
    assert plays.critical.tolist() == [1.0 + 7.5 + 1.0]


def test_plays_of_one_request_and_of_several() -> None:
    single = [record(at, (at + 500,), play=at // 1_000, completion=1) for at in (0, 1_000)]
    plays = plays_of([*single, later(2), *tree(lane=1), later(1, lane=1)])
    assert plays.makespan.tolist() == [0.5, 0.5, 11.0]
    assert plays.critical.tolist() == [0.5, 0.5, 8.0]
    assert plays.join_wait.tolist() == [0.0, 0.0, 5.0]


def test_only_drained_plays_without_warm_up_count() -> None:
    warm = record(0, (1_000,), phase=Phase.WARMUP, lane=1, completion=1)
    rest = record(1_000, (2_000,), ready=1_000, lane=1, completion=1)
    plays = plays_of([*tree(), later(1), warm, rest, later(1, lane=1), later(0, lane=2)])
    assert plays.makespan.tolist() == [11.0]
    assert plays_of([]).makespan.tolist() == []


def test_failed_requests_release_who_waits() -> None:
    failed = record(
        6_000,
        end=9_000,
        status=Status.IN_BAND,
        ready=5_000,
        agent="root/a",
        parent="root",
    )
    records = tree()
    plays = plays_of([*records[:4], failed, records[5], later(1)])
    assert plays.join_wait.tolist() == [5.0]
    assert plays.critical.tolist() == [8.0]


def test_figures_of_a_point_and_their_reasons() -> None:
    records = [*tree(), later(1), *tree(lane=1), later(1, lane=1)]
    given = inputs(records, span=window(0, 30_000), lanes=2, agentic=True)
    notes = {"theoretical_prefix_hit_1m": 0.5}
    found = analyze_point(with_client(given, workload_notes=notes))
    assert found.metrics["session_critical_path_p50_s"] == 8.0
    assert found.metrics["session_join_wait_mean_s"] == 5.0
    assert found.metrics["session_engine_bound"] == 8 / 11
    assert found.metrics["theoretical_prefix_hit_1m"] == 0.5
    assert found.metrics["theoretical_prefix_hit_4m"] is None
    assert found.notes["theoretical_prefix_hit_4m"] == "the workload does not report it"
    none = analyze_point(inputs(tree(), span=window(0, 30_000), agentic=True))
    assert none.metrics["session_engine_bound"] is None
    assert none.notes["session_engine_bound"] == "no session drained inside the window"
    assert none.metrics["session_join_wait_mean_s"] is None


def words_of(records: list[Record]) -> RequestWords:
    """Ids as the lanes make them."""
    ids = [f"tag-{r.lane:04d}-{r.play:04d}-{n:05d}" for n, r in enumerate(records)]
    return RequestWords(
        np.arange(len(records)),
        {"request_id": ids, "session": [r.session for r in records]},
    )


def rows_of(records: list[Record], *, open_loop: bool = False) -> list[PlayRow]:
    return play_rows(table_of(records), words_of(records), 1_000_000_000, open_loop=open_loop)


def test_a_row_a_play_names_its_records_and_says_what_took_long() -> None:
    failed = record(30_000, end=30_500, play=1, lane=3, status=Status.TIMEOUT, prompt=None)
    warm = replace(record(100, (200,), play=0, lane=3, completion=1), phase=Phase.WARMUP)
    first, second, other = rows_of([*tree(lane=3), warm, failed, later(0, lane=4)])
    assert (first.records, first.session, first.lane, first.play) == ("tag-0003-0000", "s", 3, 0)
    assert (first.requests, first.ok, first.failed, first.warmup, first.agents) == (7, 7, 0, 1, 3)
    assert (first.start_s, first.makespan_s, first.critical_path_s) == (-1.0, 11.0, 8.0)
    assert (first.join_wait_s, first.drained) == (5.0, True)
    # Everything was due when it was sent: the recorded gaps are those between ready and sent.
    assert first.recorded_gap_s == first.achieved_gap_s == 5.0
    assert (first.input_tokens, first.output_tokens, first.cached_tokens) == (700, 7, None)
    assert (second.play, second.failed, second.drained) == (1, 1, None)
    assert (other.lane, other.live_replies) == (4, None)


def test_in_an_open_loop_nothing_says_whether_a_session_drained() -> None:
    rows = rows_of([*tree(), later(1)], open_loop=True)
    assert [row.drained for row in rows] == [None, None]


def test_late_sends_show_as_longer_gaps() -> None:
    (row,) = rows_of([record(5_000, (6_000,), ready=1_000, scheduled=3_000, completion=1)])
    assert (row.recorded_gap_s, row.achieved_gap_s) == (2.0, 4.0)


def test_nothing_sent_is_no_play() -> None:
    assert rows_of([record(None, status=Status.CONNECT)]) == []
