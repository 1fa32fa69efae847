"""Shapes that recordings may have and the given ones do not: each is covered by a rule."""

from __future__ import annotations

import json
from pathlib import Path

from test_workload_sessionfile import written
from test_workload_weka import lost, problems_of, request, trace, write

from inferometer.clock import NS
from inferometer.workload import read_corpus, read_weka


def test_a_json_file_with_a_session_a_line_is_read_by_lines(tmp_path: Path) -> None:
    lines = [json.dumps(trace(request(0), id=name)) for name in ("x", "y")]
    path = write(tmp_path, "\n".join(lines))
    assert [session.id for session in read_weka(path)] == ["x", "y"]
    path = write(tmp_path, "\n".join([*lines, json.dumps(trace(request(0, -1), id="z"))]))
    (problem,) = problems_of(path)
    assert problem.startswith("a.json:3: requests[0].in: expected ")
    whole = write(tmp_path, json.dumps(trace(request(0)), indent=1) + "\n")
    assert [session.id for session in read_weka(whole)] == ["one"]


def test_a_parent_that_went_on_joins_its_subagent_where_that_had_ended(tmp_path: Path) -> None:
    """Times of the trace, `t` the launch: it ran from 2 to 11 s, beside a turn of its parent."""
    row = lost(2, request(2), request(10), status="completed", duration_ms=9000)
    corpus = read_corpus(write(tmp_path, trace(request(0), row, request(6), request(14))))
    (session,) = corpus.sessions
    assert [(t.agent, t.after, t.gap_ns // NS) for t in session.turns] == [
        ("root", (), 0),
        ("root/agent-1", (0,), 1),
        ("root", (0,), 5),
        ("root/agent-1", (1,), 7),
        ("root", (2, 3), 3),
    ]
    report = corpus.report
    assert (report.stamped_at_start, report.nested_absolute, report.early_starts) == (1, 1, 0)


def test_a_list_without_ids_says_nothing_of_whole_blocks(tmp_path: Path) -> None:
    silent = request(5, 200, hash_ids=[])
    rows = trace(
        request(0), silent, request(9, 200, hash_ids=[1, 2, 3]), request(12, 9, hash_ids=[])
    )
    corpus = read_corpus(write(tmp_path, rows))
    (session,) = corpus.sessions
    assert [len(turn.block_ids) for turn in session.turns] == [2, 0, 3, 0]
    assert (corpus.report.hash_none, corpus.report.hash_floor) == (1, 3)
    assert {turn.agent for turn in session.turns} == {"root"}, "nothing tells of another agent"
    (again,) = read_corpus(written([session], tmp_path)).sessions
    assert [len(turn.block_ids) for turn in again.turns] == [2, 0, 3, 0]


def test_a_whole_number_with_a_point_is_an_integer(tmp_path: Path) -> None:
    """Tables with gaps write their columns so."""
    nested = lost(8, request(0), status="completed", duration_ms=3000.0, total_tokens=7.0)
    rows = trace({**request(0, out=5.0), "in": 130.0}, nested, request(9), block_size=64.0)
    corpus = read_corpus(write(tmp_path, rows))
    (session,) = corpus.sessions
    turn = session.turns[0]
    assert repr((session.block_size, turn.input_tokens, turn.output_tokens)) == "(64, 130, 5)"
    assert corpus.report.unknown_fields == {}
