"""Recordings bent at random: whatever comes of it, it is sessions that can be played or problems
that name a place, and never a fault of ours.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferometer.workload import Reading, ReadOptions, prompt_of, stream
from inferometer.workload.continuing import steps

Rows = list[Any]
ODD: tuple[Any, ...] = (
    *(None, 0, -1, 2.5, 1e300, -0.0, "", "x", "a/b", [], {}, True, 2**63, 10**30),
    *([None], "\x00", {"a": 1}),
)
HARMLESS = ("type", "model", "input_types", "output_types", "stop", "ttft", "think_time")
"""Fields of a request that a replay does not need."""


def tree(rows: Rows) -> list[tuple[Rows, dict[str, Any]]]:
    """Every row of a trace, with the list that it stands in."""
    found = []
    for row in rows:
        if isinstance(row, dict):
            found.append((rows, row))
            if isinstance(row.get("requests"), list):
                found += tree(row["requests"])
    return found


def dropped(_: Rows, row: dict[str, Any], rng: random.Random) -> None:
    row.pop(rng.choice(list(row)))


def nulled(_: Rows, row: dict[str, Any], rng: random.Random) -> None:
    row[rng.choice(list(row))] = None


def odd(_: Rows, row: dict[str, Any], rng: random.Random) -> None:
    row[rng.choice(list(row))] = rng.choice(ODD)


def renamed(_: Rows, row: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice(list(row))
    row[f"{name}_x"] = row.pop(name)


def shuffled(rows: Rows, _: dict[str, Any], rng: random.Random) -> None:
    rng.shuffle(rows)


def cut(rows: Rows, _: dict[str, Any], rng: random.Random) -> None:
    del rows[rng.randrange(len(rows)) :]


def inserted(rows: Rows, _: dict[str, Any], rng: random.Random) -> None:
    rows.insert(rng.randrange(len(rows) + 1), rng.choice(ODD))


def moved(_: Rows, row: dict[str, Any], rng: random.Random) -> None:
    if isinstance(row.get("t"), int | float):
        row["t"] += rng.choice([-5, -0.5, 0.5, 5, 1e6])


def nested(rows: Rows, _: dict[str, Any], rng: random.Random) -> None:
    inside = json.loads(json.dumps(rows[:3]))
    status, kind = rng.choice([None, "completed", "running", "async_launched"]), ["Explore", "a/b"]
    row = {"t": rng.random() * 100, "type": "subagent", "requests": inside, "status": status}
    row |= {"subagent_type": rng.choice([*kind, "fan", "", None, "../x", "名"])}
    rows.insert(rng.randrange(len(rows) + 1), row | {"duration_ms": rng.choice([None, 0, 5000])})


BENDS: tuple[Callable[[Rows, dict[str, Any], random.Random], None], ...] = (
    *(dropped, nulled, odd, renamed, shuffled, cut, inserted, moved, nested),
)


def read(path: Path, *, skip_bad: bool) -> Reading:
    """The reading of a file whose sessions are all such as can be played."""
    reading = Reading(ReadOptions(skip_bad=skip_bad))
    for session in stream(path, reading):
        assert steps(session)
        agents = {turn.agent for turn in session.turns}
        for index, turn in enumerate(session.turns):
            assert turn.index == index
            assert all(before < index for before in turn.after)
            assert turn.gap_ns >= 0
            assert turn.input_tokens >= 1
            assert turn.output_tokens >= 1
            assert turn.parent_agent is None or turn.parent_agent in agents
            assert prompt_of(session, turn, 1).tokens == turn.input_tokens
    return reading


@pytest.fixture(scope="module")
def texts(shared_data: Path) -> list[bytes]:
    files = sorted((shared_data / "agentic").glob("*.json"), key=lambda file: file.stat().st_size)
    return [file.read_bytes() for file in files[:6]]


def test_bent_recordings_give_sessions_or_problems(texts: list[bytes], tmp_path: Path) -> None:
    rng, path = random.Random(7), tmp_path / "a.json"
    sound = refused = 0
    for number in range(60):
        trace = json.loads(texts[number % len(texts)])
        trace["requests"] = trace["requests"][: rng.choice([3, 12])]
        for _ in range(rng.choice([1, 1, 2])):
            rows = trace.get("requests")
            places = tree(rows) if isinstance(rows, list) else []
            if places:
                rng.choice(BENDS)(*rng.choice([*places, (rows, trace)]), rng)
        text = json.dumps(trace).encode()
        path.write_bytes(text[: rng.randrange(len(text))] if number % 20 == 0 else text)
        first, again = read(path, skip_bad=False), read(path, skip_bad=True)
        assert first.found == again.found
        assert all(problem.file == str(path) and problem.message for problem in first.problems)
        sound, refused = sound + (not first.found), refused + bool(first.found)
    assert sound > 12
    assert refused > 12


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("value", [None, 5, "x", [], {"a": 1}])
def test_what_a_replay_does_not_need_refuses_nothing(
    texts: list[bytes], tmp_path: Path, name: str, value: object
) -> None:
    trace = json.loads(texts[0])
    for _, row in tree(trace["requests"]):
        row[name] = "subagent" if name == "type" and "requests" in row else value
    path = tmp_path / "a.json"
    path.write_text(json.dumps(trace))
    reading = read(path, skip_bad=False)
    assert reading.found == 0
    assert reading.tally["sessions"] == 1
