"""The weka reader: what it accepts, what it counts, and what it says about a bad file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer.clock import NS
from inferometer.errors import InputError
from inferometer.workload import read_corpus, read_weka
from inferometer.workload.caveats import caveats
from inferometer.workload.reading import MAX_PROBLEMS_PER_FILE


def request(t: float, tokens: int = 130, **more: Any) -> dict[str, Any]:
    """A request of two whole blocks and two tokens, one second long."""
    row = {"t": t, "type": "s", "in": tokens, "out": 5, "hash_ids": [1, 2], "api_time": 1.0}
    return {**row, **more}


def trace(*requests: object, **more: Any) -> dict[str, Any]:
    return {
        "id": "one",
        "block_size": 64,
        "hash_id_scope": "local",
        "requests": list(requests),
        **more,
    }


def write(folder: Path, content: object, name: str = "a.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def problems_of(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_weka(path)
    return [str(problem).replace(str(path), path.name) for problem in caught.value.problems]


def test_a_chain_of_turns(tmp_path: Path) -> None:
    path = write(tmp_path, trace(request(10), request(14.5, 200, hash_ids=[1, 2, 3])))
    (session,) = read_weka(path)
    assert (session.id, session.block_size) == ("one", 64)
    first, second = session.turns
    assert (first.after, first.gap_ns) == ((), 0)
    assert (second.after, second.gap_ns) == ((0,), 3_500_000_000)
    assert (second.input_tokens, second.output_tokens) == (200, 5)
    assert second.block_ids.tolist() == [1, 2, 3]


def test_decreasing_times_are_refused(tmp_path: Path) -> None:
    nested = {"t": 9, "type": "subagent", "duration_ms": 2, "requests": [request(1), request(0)]}
    assert problems_of(write(tmp_path, trace(request(5), nested, request(4)))) == [
        "a.json: requests[1].requests[1].t: 0 is before 1 of a request listed earlier",
        "a.json: requests[2].t: 4 is before 5 of a request listed earlier",
    ]


def test_a_subagent_that_never_returns_is_refused(tmp_path: Path) -> None:
    lost = {"t": 3, "type": "subagent", "status": "running", "requests": [request(0)]}
    (problem,) = problems_of(write(tmp_path, trace(request(0), lost, request(9))))
    wanted = "a.json: requests[1]: never returns: it has no duration_ms, and its status is "
    assert problem == wanted + "'running'"
    for back in ({"status": "async_launched"}, {"status": "completed"}, {"duration_ms": 3}):
        (session,) = read_weka(write(tmp_path, trace(request(0), {**lost, **back}, request(9))))
        assert len(session.turns) == 3


@pytest.mark.parametrize("duration_ms", [None, 2000])
@pytest.mark.parametrize("status", ["failed", "cancelled", "error", "interrupted", "max_turns"])
def test_a_subagent_that_failed_has_returned(
    tmp_path: Path, status: str, duration_ms: int | None
) -> None:
    ended = {"t": 4, "type": "subagent", "status": status, "duration_ms": duration_ms}
    row = {**ended, "requests": [request(0), request(1)]}
    corpus = read_corpus(write(tmp_path, trace(request(0), row, request(9))))
    (session,) = corpus.sessions
    # Its `t` is when it ended; with no duration it ran until its last request had ended.
    assert [turn.gap_ns for turn in session.turns] == [0, NS, 0, 5 * NS]
    assert session.turns[3].after == (2,)
    assert corpus.report.odd_status == 1
    assert caveats(corpus.report) == (
        "1 sub-agents have a status other than completed; they are taken to have returned",
    )


def test_nobody_joins_agents_of_another_machine_or_team(tmp_path: Path) -> None:
    for status in ("async_launched", "remote_launched", "teammate_spawned"):
        row = {"t": 1, "type": "subagent", "status": status, "requests": [request(0)]}
        corpus = read_corpus(write(tmp_path, trace(request(0), row, request(9))))
        assert corpus.report.background_subagents == 1
        assert corpus.report.odd_status == 0
        assert [turn.after for turn in corpus.sessions[0].turns] == [(), (0,), (0,)]


def test_times_that_decrease_by_less_than_a_second_are_put_in_order(tmp_path: Path) -> None:
    rows = trace(request(5), request(4.2, 200, hash_ids=[1, 2, 3]), request(9))
    corpus = read_corpus(write(tmp_path, rows))
    assert [turn.input_tokens for turn in corpus.sessions[0].turns] == [200, 130, 130]
    assert corpus.report.inversions == 1
    assert problems_of(write(tmp_path, trace(request(5), request(4.0)))) == [
        "a.json: requests[1].t: 4.0 is before 5 of a request listed earlier"
    ]


def test_missing_api_time_is_inferred_from_the_next_turn_or_counted(tmp_path: Path) -> None:
    requests = (
        request(0, api_time=None),  # the next one thought for 3 s: it ended at 7
        request(10, think_time=3.0, api_time=None),  # the next one's 25 s are more than there are
        request(20, think_time=25.0),
    )
    corpus = read_corpus(write(tmp_path, trace(*requests)))
    assert (corpus.report.api_time_inferred, corpus.report.api_time_unknown) == (1, 1)
    turns = corpus.sessions[0].turns
    assert [turn.gap_ns for turn in turns] == [0, 3_000_000_000, 10_000_000_000]


def test_what_had_to_be_decided_is_counted(tmp_path: Path) -> None:
    corpus = read_corpus(
        write(
            tmp_path,
            trace(
                request(0, out=0),
                request(0.5, hash_ids=[1, 2, 3], colour="red"),
                request(5),
                mood=1,
            ),
        )
    )
    report = corpus.report
    assert (report.sessions, report.turns, report.zero_output) == (1, 3, 1)
    assert (report.hash_floor, report.hash_ceil) == (2, 1)
    assert (report.near_overlaps, report.renumbered) == (1, 0)
    assert report.unknown_fields == {"requests[].colour": 1, "mood": 1}
    turns = corpus.sessions[0].turns
    assert turns[0].output_tokens == 1
    assert turns[1].block_ids.tolist() == [1, 2], "the id of the partial block is dropped"


def test_large_ids_are_numbered_anew_and_keep_their_sameness(tmp_path: Path) -> None:
    rows = (request(0, hash_ids=[2**40, 7]), request(5, 200, hash_ids=[2**40, 7, 2**50]))
    corpus = read_corpus(write(tmp_path, trace(*rows)))
    assert corpus.report.renumbered == 1
    assert [t.block_ids.tolist() for t in corpus.sessions[0].turns] == [[1, 0], [1, 0, 2]]


def test_jsonl_holds_a_session_a_line(tmp_path: Path) -> None:
    lines = [json.dumps(trace(request(0), id=name)) for name in ("x", "y")]
    path = write(tmp_path, lines[0] + "\n\n" + lines[1] + "\n", "a.jsonl")
    assert [session.id for session in read_weka(path)] == ["x", "y"]


def test_a_directory_is_read_in_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, trace(request(0), id="second"), "b.json")
    write(tmp_path, trace(request(0), id="first"), "a.json")
    write(tmp_path, "not a trace", "notes.txt")
    assert [session.id for session in read_weka(tmp_path)] == ["first", "second"]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"in": -4}, "requests[1].in: expected an integer from 0 to 100000000 (tokens), got -4"),
        (
            {"in": True},
            "requests[1].in: expected an integer from 0 to 100000000 (tokens), got True",
        ),
        (
            {"in": 130.5},
            "requests[1].in: expected an integer from 0 to 100000000 (tokens), got 130.5",
        ),
        (
            {"out": "5"},
            "requests[1].out: expected an integer from 0 to 100000000 (tokens) or null, got '5'",
        ),
        ({"t": None}, "requests[1].t: expected a number of seconds in [0, 2e9], got null"),
        ({"t": 1e300}, "requests[1].t: expected a number of seconds in [0, 2e9], got 1e+300"),
        (
            {"api_time": -1},
            "requests[1].api_time: expected a number of seconds in [0, 2e9] or null, got -1",
        ),
        ({"hash_ids": [1, 2.5]}, "requests[1].hash_ids: expected a list of integers in [0, 2^63)"),
        ({"hash_ids": [1, [2]]}, "requests[1].hash_ids: expected a list of integers in [0, 2^63)"),
        ({"hash_ids": [1, -2]}, "requests[1].hash_ids: expected a list of integers in [0, 2^63)"),
        (
            {"hash_ids": [1, 2, 3, 4]},
            "requests[1].hash_ids: expected 2 or 3 ids for 130 tokens in blocks of 64, got 4",
        ),
        (
            {"hash_ids": {}},
            "requests[1].hash_ids: expected a list of integers in [0, 2^63), got an object of 0",
        ),
    ],
)
def test_a_bad_value_names_its_path(tmp_path: Path, row: dict[str, Any], problem: str) -> None:
    path = write(tmp_path, trace(request(0), {**request(5), **row}))
    assert problems_of(path) == [f"a.json: {problem}"]


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    broken = request(0)
    del broken["in"], broken["hash_ids"]
    nested = {"t": 3, "type": "subagent", "duration_ms": 1, "requests": [request(0, out=-1)]}
    inner = {"t": 3, "type": "subagent", "status": "completed", "requests": [{**nested}]}
    path = write(tmp_path, trace(request(0), broken, nested, inner, 7, hash_id_scope="global"))
    tokens = "expected an integer from 0 to 100000000 (tokens)"
    assert problems_of(path) == [
        "a.json: hash_id_scope: expected \"local\" (ids are of this trace alone), got 'global'",
        f"a.json: requests[1].in: missing; {tokens}",
        "a.json: requests[1].hash_ids: missing; expected a list of integers",
        f"a.json: requests[2].requests[0].out: {tokens} or null, got -1",
        f"a.json: requests[3].requests[0].requests[0].out: {tokens} or null, got -1",
        "a.json: requests[4]: expected an object, got 7",
    ]


def test_problems_of_a_file_are_capped(tmp_path: Path) -> None:
    path = write(tmp_path, trace(*[request(n, out=-1) for n in range(30)]))
    found = problems_of(path)
    assert len(found) == MAX_PROBLEMS_PER_FILE + 1
    assert found[-1] == "a.json: and 10 more problems"


def test_every_bad_file_of_a_directory_is_told(tmp_path: Path) -> None:
    write(tmp_path, trace(requests=None), "a.json")
    write(tmp_path, trace(request(0), id=""), "b.json")
    with pytest.raises(InputError) as caught:
        read_weka(tmp_path)
    assert [(Path(p.file or "").name, p.key) for p in caught.value.problems] == [
        ("a.json", "requests"),
        ("b.json", "id"),
    ]


def test_truncated_json_names_file_and_line(tmp_path: Path) -> None:
    text = json.dumps(trace(request(0)), indent=1)
    cut = write(tmp_path, text[: text.index('"hash_ids"')])
    (problem,) = problems_of(cut)
    assert problem.startswith("a.json:11: not valid JSON at column ")
    lines = write(tmp_path, json.dumps(trace(request(0))) + '\n{"id": ', "b.jsonl")
    (problem,) = problems_of(lines)
    assert problem.startswith("b.jsonl:2: not valid JSON at column ")


def test_a_bad_line_names_its_number(tmp_path: Path) -> None:
    good, bad = json.dumps(trace(request(0))), json.dumps(trace(request(0, out=-1), id="two"))
    path = write(tmp_path, f"{good}\n{bad}\n", "a.jsonl")
    tokens = "an integer from 0 to 100000000 (tokens) or null"
    assert problems_of(path) == [f"a.jsonl:2: requests[0].out: expected {tokens}, got -1"]


def test_a_session_is_read_once_and_an_id_of_another_gets_a_number(tmp_path: Path) -> None:
    for name, t in (("a", 0), ("b", 0), ("c", 5)):
        write(tmp_path, trace(request(0), request(t + 9, 200, hash_ids=[1, 2, 3])), f"{name}.json")
    corpus = read_corpus(tmp_path)
    assert [session.id for session in corpus.sessions] == ["one", "one#2"]
    assert (corpus.report.duplicates, corpus.report.renamed) == (1, 1)
    assert caveats(corpus.report)[-2:] == (
        "1 sessions were read before, from another place; they are left out",
        "1 sessions have the id of another one; they got a number behind it",
    )


def lost(t: float, *requests: object, **more: Any) -> dict[str, Any]:
    return {"t": t, "type": "subagent", "requests": list(requests), **more}


@pytest.mark.parametrize(
    ("row", "gap_s", "joined"),
    [
        # Two requests from its launch on, over 3 s: it ended at its `t`, where that fits.
        (lost(8, request(0), request(2)), 4, True),
        # At 2 s it cannot have ended: the turn that launched it had just done so. It began then,
        # and the parent went on at 9 s, after it.
        (lost(2, request(0), request(2)), 1, True),
        (lost(2, request(0), request(2), status=None, duration_ms=None), 1, True),
        # The parent went on while it ran, so it waited for nobody.
        (lost(2, request(0), request(20)), 1, False),
        # Times of the trace itself.
        (lost(6, request(5), request(7)), 4, True),
    ],
)
def test_a_subagent_that_says_nothing_of_its_end_ended_with_its_last_request(
    tmp_path: Path, row: dict[str, Any], gap_s: float, joined: bool
) -> None:
    corpus = read_corpus(write(tmp_path, trace(request(0), row, request(9))))
    (session,) = corpus.sessions
    first, *_ = [turn for turn in session.turns if turn.agent != "root"]
    assert (first.after, first.gap_ns) == ((0,), gap_s * NS)
    last = session.root_turns[-1]
    waits = {session.turns[index].agent for index in last.after}
    assert waits == ({"root/agent-1"} if joined else {"root"})
    assert corpus.report.ends_inferred == 1
    assert corpus.report.odd_status == 0
    assert corpus.report.background_subagents == (not joined)


def test_agents_below_agents_are_read(tmp_path: Path) -> None:
    inner = lost(2, request(0), status="completed", duration_ms=1000, subagent_type="Plan/Web")
    outer = lost(
        8, request(0), inner, request(4), status="completed", duration_ms=5000, subagent_type="fan"
    )
    corpus = read_corpus(write(tmp_path, trace(request(0), outer, request(9))))
    (session,) = corpus.sessions
    assert corpus.report.subagents == 2
    assert [(t.agent, t.parent_agent, t.after) for t in session.turns] == [
        ("root", None, ()),
        ("root/fan_-1", "root", (0,)),
        ("root/fan_-1/plan_web-2", "root/fan_-1", (1,)),
        ("root/fan_-1", "root", (2,)),
        ("root", None, (3,)),
    ]
    assert [turn.gap_ns for turn in session.turns] == [0, 2 * NS, 0, 2 * NS, NS]


def test_what_a_request_does_not_say_is_a_rule_and_counted(tmp_path: Path) -> None:
    silent = request(3)
    del silent["type"]
    silent |= {"hash_ids": None, "out": None}
    rows = (
        request(0, 0, hash_ids=[]),
        silent,
        request(5, out=None, hash_ids=None, stop=7, think_time=-2.0, model=None),
    )
    whole = trace(*rows, lost(6), models=None, totals=[])
    del whole["id"], whole["hash_id_scope"]
    corpus = read_corpus(write(tmp_path, whole))
    (session,) = corpus.sessions
    report = corpus.report
    assert session.id == "a.json"
    assert [(t.input_tokens, t.output_tokens) for t in session.turns] == [
        (1, 5),
        (130, 1),
        (130, 1),
    ]
    assert [len(turn.block_ids) for turn in session.turns] == [0, 0, 0]
    assert (report.zero_input, report.output_unknown, report.hash_none) == (1, 2, 2)
    assert (report.unnamed, report.scope_assumed, report.empty_subagents) == (1, 1, 1)
    assert report.unknown_fields == {
        "totals (not an object)": 1,
        "requests[].stop (not a string)": 1,
        "requests[].think_time (not a number of seconds in [0, 2e9])": 1,
    }


def test_a_session_whose_root_sends_nothing_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, trace(), "a.json")
    write(tmp_path, trace(lost(3, request(0)), id="b"), "b.json")
    with pytest.raises(InputError, match="no session in it has a request to send"):
        read_weka(tmp_path)
    write(tmp_path, trace(request(0), id="c"), "c.json")
    corpus = read_corpus(tmp_path)
    assert [session.id for session in corpus.sessions] == ["c"]
    assert corpus.report.empty_sessions == 2


def test_agents_nested_without_end_are_refused(tmp_path: Path) -> None:
    row = lost(1, request(0))
    for _ in range(40):
        row = lost(1, request(0), row)
    (problem,) = problems_of(write(tmp_path, trace(request(0), row)))
    assert problem.endswith("agents are nested deeper than 32 levels")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.json", "", "a.json: expected a trace, the file is empty"),
        ("a.jsonl", "\n \n", "a.jsonl: expected a trace, the file is empty"),
        ("a.json", "[]", "a.json: expected a trace (an object), got a list of 0"),
    ],
)
def test_a_file_without_a_trace(tmp_path: Path, name: str, content: str, problem: str) -> None:
    assert problems_of(write(tmp_path, content, name)) == [problem]


def test_a_path_without_traces(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"or \.csv files \(also \.gz, \.zst\), found none",
    ):
        read_weka(tmp_path)
    with pytest.raises(InputError, match="no such file or directory"):
        read_weka(tmp_path / "absent")


@pytest.mark.parametrize("ids", ["1.5", "-1", "[1, 2]", "9223372036854775808", "1 2", "1e3", '"7"'])
def test_a_long_list_of_other_things_is_refused(tmp_path: Path, ids: str) -> None:
    """Long lists are read apart from the rest; what is in them is held to the same."""
    row = '{"t": 0, "type": "n", "in": 640000, "out": 1, "hash_ids": [%s]}'
    text = '{"id": "x", "block_size": 64, "hash_id_scope": "local", "requests": [%s]}'
    numbers = ", ".join(map(str, range(5_000)))
    for among in (", ".join([ids] * 10_000), f"{numbers}, {ids}, {numbers}"):
        path = write(tmp_path, text % (row % among))
        with pytest.raises(InputError, match=r"requests\[0\]\.hash_ids: expected|not valid JSON"):
            read_corpus(path)
