"""Our own format: whatever can be replayed is written and read without loss."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.core import Session, Turn
from inferometer.errors import InputError
from inferometer.workload import (
    Reading,
    ReadOptions,
    SessionWriter,
    named,
    read_corpus,
    stream,
    synthesize,
)
from inferometer.workload.sessionfile import FORMAT, VERSION

HEADER = {"format": FORMAT, "version": VERSION, "block_size": 64}
TURN = {"agent": "root", "after": [], "gap_ns": 0, "in": 130, "out": 2, "runs": [[5, 2]]}


def equal(left: Session, right: Session) -> bool:
    """Whether two sessions are the same to a replay, and in what was recorded of them."""

    def plain(turn: Turn) -> tuple[object, ...]:
        names = [name for name in Turn.__slots__ if name != "block_ids"]
        return (*(getattr(turn, name) for name in names), tuple(turn.block_ids.tolist()))

    names = [name for name in Session.__slots__ if name != "turns"]
    return all(getattr(left, name) == getattr(right, name) for name in names) and [
        plain(turn) for turn in left.turns
    ] == [plain(turn) for turn in right.turns]


def written(sessions: list[Session], folder: Path) -> Path:
    path = folder / "a.jsonl"
    stream = io.BytesIO()
    writer = SessionWriter(stream)
    for session in sessions:
        writer.write(session)
    path.write_bytes(stream.getvalue())
    return path


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    turns: list[Turn] = []
    for index in range(draw(st.integers(1, 7))):
        ids = draw(st.lists(st.integers(0, 40), max_size=9))
        agent = "root" if index == 0 else draw(st.sampled_from(["root", "root/a-1", "root/b-2"]))
        after = draw(st.lists(st.integers(0, index - 1), unique=True)) if index else []
        turns.append(
            Turn(
                index=index,
                agent=agent,
                parent_agent=None if agent == "root" else "root",
                after=tuple(after),
                gap_ns=draw(st.integers(0, 2**62)),
                block_ids=np.array(ids, np.int64),
                input_tokens=max(1, len(ids) * 64 + draw(st.integers(0, 63))),
                output_tokens=draw(st.integers(1, 500)),
                duration_ns=draw(st.none() | st.integers(0, 10**12)),
            )
        )
    start = draw(st.none() | st.integers(0, 2**62))
    return Session("x", 64, tuple(turns), start, draw(st.integers(0, 60)))


@given(sessions())
def test_any_session_comes_back(tmp_path_factory: pytest.TempPathFactory, session: Session) -> None:
    path = written([session], tmp_path_factory.mktemp("own"))
    (again,) = read_corpus(path).sessions
    assert equal(again, session)


def test_made_sessions_come_back(tmp_path: Path) -> None:
    made = list(synthesize(named("quickstart"), 5, 1))
    found = read_corpus(written(made, tmp_path))
    assert all(equal(a, b) for a, b in zip(found.sessions, made, strict=True))
    assert not equal(found.sessions[0], found.sessions[1])


@pytest.mark.parametrize("folder", ["agentic", "azure", "mooncake"])
def test_recorded_sessions_come_back(shared_data: Path, tmp_path: Path, folder: str) -> None:
    recorded = read_corpus(shared_data / folder).sessions[:200]
    again = read_corpus(written(list(recorded), tmp_path)).sessions
    assert all(equal(a, b) for a, b in zip(again, recorded, strict=True))


def test_a_session_is_far_smaller_than_its_ids(shared_data: Path, tmp_path: Path) -> None:
    recorded = read_corpus(shared_data / "agentic")
    size = written(list(recorded.sessions), tmp_path).stat().st_size
    assert size < sum(f.stat().st_size for f in (shared_data / "agentic").iterdir()) / 40


def test_one_file_has_one_block_size(tmp_path: Path) -> None:
    turn = Turn(0, "root", None, (), 0, np.empty(0, np.int64), 5, 1)
    with pytest.raises(InputError, match="one file has one block size"):
        written([Session("a", 64, (turn,)), Session("b", 32, (turn,))], tmp_path)


def given_lines(folder: Path, *turns: object, header: object = None, **more: Any) -> Path:
    path = folder / "a.jsonl"
    session = {"id": "x", "turns": list(turns), **more}
    path.write_text(f"{json.dumps(header or HEADER)}\n{json.dumps(session)}\n")
    return path


def problems_of(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_corpus(path)
    return [str(problem).replace(f"{path}:", "") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"in": 0}, "turns[1].in: expected an integer from 1 to 100000000 (tokens), got 0"),
        ({"in": 200}, "turns[1].runs: expected ids of 3 whole blocks of 64, got 2"),
        ({"in": 100}, "turns[1].runs: expected ids of 1 whole blocks of 64, got 2"),
        ({"out": None}, "turns[1].out: expected an integer from 1 to 100000000 (tokens), got None"),
        ({"gap_ns": -5}, "turns[1].gap_ns: expected nanoseconds in [0, 2^62], got -5"),
        ({"after": [7]}, "turns[1].after: turn 7 is none of the 2 turns"),
        ({"same": [1, 1]}, "turns[1].same: expected at most 0 blocks of an earlier turn"),
        ({"same": [0, 3]}, "turns[1].same: expected at most 2 blocks of an earlier turn"),
        ({"runs": [[2**63 - 1, 2]]}, "turns[1].runs: expected ids in [0, 2^63)"),
        ({"runs": [[0, 10**18]]}, "turns[1].runs: expected ids of 2 whole blocks of 64, got 1000"),
        ({"parent": "boss"}, "turns[1].parent: no other agent 'boss' in the session"),
        ({"agent": ""}, "turns[1].agent: expected a non-empty string, got ''"),
    ],
)
def test_a_wrong_field_names_its_path(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    (problem,) = problems_of(given_lines(tmp_path, TURN, {**TURN, **changes}))
    assert problem.startswith(f"2: {told}")


def test_a_cycle_is_told_as_one(tmp_path: Path) -> None:
    first, second = {**TURN, "after": [2]}, {**TURN, "after": [0]}
    third = {**TURN, "after": [1]}
    assert problems_of(given_lines(tmp_path, first, second, third)) == [
        "2: turns[0].after: a cycle: turns wait in a circle, 0 -> 2 -> 1 -> 0"
    ]
    assert problems_of(given_lines(tmp_path, first, second, TURN)) == [
        "2: turns[0].after: turn 2 comes later: list predecessors first"
    ]
    assert problems_of(given_lines(tmp_path, {**TURN, "after": [0]})) == [
        "2: turns[0].after: a cycle: turns wait in a circle, 0 -> 0"
    ]


def test_all_problems_of_a_line_are_told(tmp_path: Path) -> None:
    told = problems_of(given_lines(tmp_path, {"agent": 3}, 7, id=""))
    assert [line.partition(":")[2].partition(":")[0].strip() for line in told] == [
        "id",
        *("turns[0].agent", "turns[0].after", "turns[0].gap_ns"),
        *("turns[0].in", "turns[0].out", "turns[0].runs", "turns[1]"),
    ]


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ({**HEADER, "version": 2}, "1: version: expected 1, got 2; it was written by a newer"),
        ({**HEADER, "block_size": 0}, "1: block_size: expected an integer >= 1"),
        ({"format": f"{FORMAT}-x"}, "1: format: expected a first line with the format"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path: Path, header: dict[str, Any], told: str) -> None:
    assert problems_of(given_lines(tmp_path, TURN, header=header))[0].startswith(told)


def test_unknown_fields_are_counted(tmp_path: Path) -> None:
    path = given_lines(tmp_path, {**TURN, "mood": 1}, header={**HEADER, "by": "me"}, colour=2)
    unknown = read_corpus(path, ReadOptions()).report.unknown_fields
    assert unknown == {"header.by": 1, "colour": 1, "turns[].mood": 1}


def test_large_ids_are_numbered_anew(tmp_path: Path) -> None:
    turn = {**TURN, "runs": [[2**60, 1], [3, 1]]}
    found = read_corpus(given_lines(tmp_path, turn, {**turn, "same": [0, 1], "runs": [[4, 1]]}))
    assert found.report.renumbered == 1
    assert [t.block_ids.tolist() for t in found.sessions[0].turns] == [[2, 0], [2, 1]]


def test_fields_that_nobody_knows_are_kept_through_formats(tmp_path: Path) -> None:
    request = {"t": 1.0, "type": "n", "in": 70, "out": 2, "hash_ids": [1], "api_time": 1.0}
    below = {**request, "t": 0.0, "cost": 0.5}
    agent = {"t": 3.0, "type": "subagent", "requests": [below], "status": "completed"}
    trace = {
        **{"id": "one", "block_size": 64, "hash_id_scope": "local", "captured": {"by": "proxy"}},
        "requests": [{**request, "stop": 7, "tier": "x"}, {**agent, "color": "red"}],
    }
    path = tmp_path / "weka.json"
    path.write_bytes(orjson.dumps(trace))
    for number in range(2):  # from weka, then from our own format
        reading = Reading(ReadOptions(), keeps=True)
        (session,) = stream(path, reading)
        assert session.extra == {"captured": {"by": "proxy"}}
        first, second = session.turns
        assert first.extra == {"stop": 7, "tier": "x"}
        assert second.extra == {"cost": 0.5, "subagent": {"color": "red"}}
        assert bool(reading.unknown) is (number == 0)
        (bare,) = read_corpus(path).sessions
        assert [bare.extra, *(turn.extra for turn in bare.turns)] == [None, None, None]
        path = tmp_path / "own.jsonl"
        with path.open("wb") as out:
            SessionWriter(out).write(session)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.jsonl", '{"timestamp": 0, "input_length": 5, "output_length": 1, "tier": "x"}\n'),
        ("a.csv", "TIMESTAMP,tier,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,x,5,1\n"),
    ],
)
def test_fields_of_single_requests_are_kept(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    (session,) = stream(path, Reading(ReadOptions(), keeps=True))
    assert session.turns[0].extra == {"tier": "x"}
    (bare,) = stream(path, Reading(ReadOptions()))
    assert bare.turns[0].extra is None
