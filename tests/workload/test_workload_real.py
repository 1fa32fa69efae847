"""The reader and the prompts on the 48 recorded sessions, against the raw files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer.core import Session
from inferometer.workload import (
    Corpus,
    PromptText,
    ReadOptions,
    prefix_hit,
    prompt_of,
    read_corpus,
)

Raw = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def corpus(shared_data: Path) -> Corpus:
    """As recorded, so that agents are those declared; recovered ones have tests of their own."""
    return read_corpus(shared_data / "agentic", ReadOptions(fan_out=False))


@pytest.fixture(scope="module")
def raw(shared_data: Path) -> Raw:
    traces = [json.loads(file.read_bytes()) for file in (shared_data / "agentic").glob("*.json")]
    return {trace["id"]: trace for trace in traces}


def flat(trace: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for row in trace["requests"]:
        found += row["requests"] if row["type"] == "subagent" else [row]
    return found


def sinks(session: Session) -> dict[str, set[int]]:
    """For every agent, its turns that no other turn of it waits for."""
    own: dict[str, set[int]] = {}
    for turn in session.turns:
        own.setdefault(turn.agent, set()).add(turn.index)
    for turn in session.turns:
        own[turn.agent] -= set(turn.after)
    return own


def test_what_the_reader_found(corpus: Corpus) -> None:
    report = corpus.report
    assert (report.sessions, report.turns, report.subagents) == (48, 4775, 44)
    assert (report.background_subagents, report.stamped_at_end, report.stamped_at_start) == (
        4,
        40,
        0,
    )
    assert (report.nested_relative, report.nested_absolute) == (44, 0)
    assert (report.api_time_inferred, report.api_time_unknown) == (0, 173)
    assert (report.zero_output, report.hash_floor, report.hash_ceil) == (2, 4775, 0)
    assert (report.early_starts, report.near_overlaps) == (0, 5)
    assert report.unknown_fields == {}


def test_every_request_becomes_exactly_one_turn(corpus: Corpus, raw: Raw) -> None:
    for session in corpus.sessions:
        rows = flat(raw[session.id])
        expected = Counter(
            (row["in"], max(1, row["out"]), _packed(row["hash_ids"])) for row in rows
        )
        found = Counter(
            (t.input_tokens, t.output_tokens, t.block_ids.tobytes()) for t in session.turns
        )
        assert found == expected
        assert sum(turn.input_tokens for turn in session.turns) == sum(row["in"] for row in rows)


def test_graphs_are_ordered_without_negative_gaps(corpus: Corpus) -> None:
    for session in corpus.sessions:
        for index, turn in enumerate(session.turns):
            assert turn.index == index
            assert all(0 <= before < index for before in turn.after)
            assert turn.gap_ns >= 0


def test_no_edge_is_implied_by_others(corpus: Corpus) -> None:
    for session in corpus.sessions:
        reached: list[set[int]] = []
        for turn in session.turns:
            through = set().union(*(reached[before] for before in turn.after))
            assert not through & set(turn.after)
            reached.append(through | set(turn.after))


def test_joined_subagents_are_waited_for_and_background_ones_are_not(
    corpus: Corpus, raw: Raw
) -> None:
    joined = background = 0
    for session in corpus.sessions:
        last = sinks(session)
        roots, waited = 0, {before for turn in session.turns for before in turn.after}
        agents = iter(dict.fromkeys(t.agent for t in session.turns if t.agent != "root"))
        names = sorted(agents, key=lambda name: int(name.rsplit("-", 1)[1]))
        for row in raw[session.id]["requests"]:
            if row["type"] != "subagent":
                roots += 1
                continue
            mine = last[names.pop(0)]
            if row["status"] == "async_launched":
                background += 1
                assert not mine & waited
            elif roots < len(session.root_turns):
                joined += 1
                assert mine <= set(session.root_turns[roots].after)
        assert not names
    assert (joined, background) == (38, 4)


def test_subagents_start_within_seconds_of_the_turn_that_launched_them(corpus: Corpus) -> None:
    gaps = []
    for session in corpus.sessions:
        seen = {"root"}
        for turn in session.turns:
            if turn.agent not in seen:
                seen.add(turn.agent)
                assert [session.turns[before].agent for before in turn.after] == ["root"]
                gaps.append(turn.gap_ns / 1e9)
    assert len(gaps) == 44
    # Two were launched after the session had been left alone for a day and a half.
    assert sorted(gaps)[41] < 1.1


def test_prompts_and_text_share_what_the_hashes_share(corpus: Corpus) -> None:
    rng = np.random.default_rng(1)
    renderer = PromptText()
    small = [s for s in corpus.sessions if s.turns[-1].input_tokens < 120_000]
    for session in (small[int(n)] for n in rng.integers(len(small), size=12)):
        pair = [session.turns[int(n)] for n in rng.integers(len(session.turns), size=2)]
        prompts = [prompt_of(session, turn, 77) for turn in pair]
        words = [str(renderer.render(prompt)).split(" ") for prompt in prompts]
        assert [len(w) for w in words] == [turn.input_tokens for turn in pair]
        shared = _common(*(turn.block_ids.tolist() for turn in pair))
        assert _common(*(p.blocks.tolist() for p in prompts)) == shared
        blocks = [[tuple(w[i : i + 64]) for i in range(0, len(w) - 63, 64)] for w in words]
        assert _common(*blocks) == shared


def test_two_calls_give_identical_bytes(corpus: Corpus) -> None:
    session = corpus.sessions[5]
    texts = [str(PromptText().render(prompt_of(session, session.turns[-1], 9))) for _ in range(2)]
    assert texts[0] == texts[1]
    other = str(PromptText().render(prompt_of(session, session.turns[-1], 10)))
    assert _common(other.split(" "), texts[0].split(" ")) < 8


def test_an_endless_cache_would_hold_most_of_the_input(corpus: Corpus) -> None:
    assert prefix_hit(corpus.sessions) == pytest.approx(0.9574, abs=1e-4)


def _packed(ids: list[int]) -> bytes:
    return np.array(ids, np.int64).tobytes()


def _common(left: list[Any], right: list[Any]) -> int:
    pairs = zip(left, right, strict=False)
    least = min(len(left), len(right))
    return next((n for n, (a, b) in enumerate(pairs) if a != b), least)
