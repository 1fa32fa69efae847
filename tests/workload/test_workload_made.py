"""Workloads drawn from a few numbers, by the texts that name them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import AGENTIC
from inferometer.core import Session
from inferometer.errors import InputError
from inferometer.workload import (
    StartPlan,
    open_workload,
    play_key,
    prefix_hit,
    prompt_of,
    sessions_digest,
)
from inferometer.workload.distributions import distribution


def drawn(source: str, count: int = 400, seed: int = 42) -> list[Session]:
    workload = open_workload(replace(AGENTIC, sessions=source, seed=seed), 4)
    return [workload.session(n % 4, n // 4) for n in range(count)]


def inputs(source: str, count: int = 400) -> list[int]:
    return [session.turns[0].input_tokens for session in drawn(source, count)]


def test_the_four_forms_of_a_length() -> None:
    assert set(inputs("lengths:isl=700,osl=5")) == {700}
    assert set(inputs("lengths:isl=10-12,osl=5")) == {10, 11, 12}
    normal = inputs("lengths:isl=1000+-100,osl=5", 2000)
    assert np.mean(normal) == pytest.approx(1000, abs=10)
    assert np.std(normal) == pytest.approx(100, abs=8)
    spread = np.log(inputs("lengths:isl=1000~0.5,osl=5", 2000))
    assert np.median(spread) == pytest.approx(np.log(1000), abs=0.05)
    assert np.std(spread) == pytest.approx(0.5, abs=0.04)


@given(st.sampled_from(["7", "3-9", "5+-4", "5~2"]), st.integers(0, 1000))
def test_every_length_stays_within_its_bounds(text: str, seed: int) -> None:
    made = distribution(text, 2, 9)
    rng = np.random.default_rng(seed)
    assert all(2 <= made.whole(rng) <= 9 for _ in range(20))
    assert 2 <= made.draw(rng) <= 9


def test_input_and_output_are_drawn_apart_and_nothing_is_shared() -> None:
    workload = open_workload(replace(AGENTIC, sessions="lengths:isl=100-900,osl=1-9"), 4)
    assert (workload.wrapped_lanes, workload.one_turn, workload.notes()) == (0, True, {})
    assert workload.start(3) == StartPlan(0, frozenset(), ())
    first = workload.session(2, 7)
    again = open_workload(replace(AGENTIC, sessions="lengths:isl=100-900,osl=1-9"), 9).session(2, 7)
    assert (first.id, first.turns[0].input_tokens) == (again.id, again.turns[0].input_tokens)
    assert len({s.turns[0].input_tokens for s in drawn("lengths:isl=100-900,osl=1-9")}) > 100
    assert prefix_hit([first]) == 0


def test_prefix_groups_share_their_prefix_and_no_more() -> None:
    made = drawn("prefix-groups:groups=3,prefix=640,isl=64-256,osl=7")
    seen = Counter(int(session.turns[0].block_ids[0]) for session in made)
    assert set(seen) == {0, 10, 20}
    assert min(seen.values()) > 100
    keys = [play_key(1, "digest", 0, lane, 0) for lane in range(len(made))]
    common = play_key(1, "digest", 0, -1, 0)
    prompts = [
        prompt_of(session, session.turns[0], key, common).blocks.tolist()
        for session, key in zip(made, keys, strict=True)
    ]
    for (left, one), (right, two) in pairwise(zip(made, prompts, strict=True)):
        same = left.turns[0].block_ids[0] == right.turns[0].block_ids[0]
        assert (one[:10] == two[:10]) == same
        assert not set(one[10:]) & set(two)
        assert len(one) == left.turns[0].input_tokens // 64


def test_a_chat_sends_all_that_was_said() -> None:
    made = drawn("chat:turns=2-5,system=128,isl=50-90,osl=30,gap_s=1-3", 50)
    assert {len(session.turns) for session in made} == {2, 3, 4, 5}
    for session in made:
        assert session.common_ids == 2
        for before, turn in pairwise(session.turns):
            assert 80 <= turn.input_tokens - before.input_tokens <= 120
            assert turn.block_ids[: len(before.block_ids)].tolist() == before.block_ids.tolist()
            assert turn.after == (before.index,)
            assert 1e9 <= turn.gap_ns <= 3e9
    workload = open_workload(replace(AGENTIC, sessions="chat:turns=8,isl=9,osl=9"), 2)
    assert not workload.one_turn
    assert workload.start(0).start > 0


def test_pairs_that_were_counted_are_drawn_by_weight(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("input_tokens,output_tokens,weight\n100,5,3\n200-210,0,1\n999,9,0\n")
    made = drawn(f"empirical:{path}", 2000)
    pairs = Counter((s.turns[0].input_tokens, s.turns[0].output_tokens) for s in made)
    assert pairs[100, 5] == pytest.approx(1500, abs=80)
    assert {tokens for tokens, _ in pairs} == {100, *range(200, 211)}
    assert {output for tokens, output in pairs if tokens > 100} == {1}
    digest = sessions_digest(f"empirical:{path}")
    path.write_text("input_tokens,output_tokens,weight\n100,5,3\n200-210,0,2\n")
    assert sessions_digest(f"empirical:{path}") != digest


def test_the_azure_trace_gives_pairs(shared_data: Path) -> None:
    path = shared_data / "azure" / "AzureLLMInferenceTrace_code.csv"
    assert np.median(inputs(f"empirical:{path}", 2000)) == pytest.approx(1469, rel=0.2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("input_tokens\n5\n", "p.csv:1: output_tokens: column is missing"),
        ("input_tokens,output_tokens\nx,5\n", "p.csv:2: input_tokens: expected an integer or"),
        (
            "input_tokens,output_tokens\n9-3,5\n",
            "p.csv:2: input_tokens: expected an integer or",
        ),
        ("input_tokens,output_tokens,weight\n9,5,-1\n", "p.csv:2: weight: expected a number, 0"),
        ("input_tokens,output_tokens\n", "p.csv: expected at least one row"),
        ("", "p.csv: expected rows, the file is empty"),
    ],
)
def test_wrong_pairs_name_line_and_column(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        sessions_digest(f"empirical:{path}")
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(told)


def test_the_digest_covers_every_number_and_no_spelling() -> None:
    digest = sessions_digest("chat:turns=4,isl=50,osl=30")
    assert digest == sessions_digest("chat:osl=30,turns=4,isl=50,gap_s=0,system=0")
    for other in ("turns=5,isl=50,osl=30", "turns=4,isl=50~0.1,osl=30", "turns=4,isl=50,osl=31"):
        assert sessions_digest(f"chat:{other}") != digest
    assert sessions_digest("lengths:isl=5,osl=5") != sessions_digest("lengths:isl=5,osl=6")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("lengths:isl=5", "lengths:isl=5: osl: missing; lengths needs isl, osl"),
        ("lengths:isl=a,osl=0", "isl: expected a number, LOW-HIGH, MEAN+-SD or MEDIAN~SIGMA, got"),
        ("lengths:isl=a,osl=0", "osl: expected values from 1 to 1e+08, ascending, got '0'"),
        ("lengths:isl=９,osl=1", "isl: expected a number, LOW-HIGH, MEAN+-SD or MEDIAN~SIGMA"),
        ("lengths:isl=9-5,osl=1", "isl: expected values from 1 to 1e+08, ascending, got '9-5'"),
        ("lengths:isl=9,osl=1~99", "osl: expected a sigma of at most 10, got '1~99'"),
        ("lengths:isl=9,osl=1,ils=2", "no key 'ils' of lengths; did you mean 'isl'?"),
        ("lengths:isl=9,isl=1", "'isl=1': comes twice"),
        ("lengths:isl", "'isl': expected key=value"),
        ("prefix-groups:groups=0,prefix=64,isl=1,osl=1", "groups: expected an integer from 1 to"),
        ("prefix-groups:groups=2,prefix=1.5,isl=1,osl=1", "prefix: expected an integer, got '1.5'"),
        ("length:isl=9,osl=1", "no workload of the kind 'length'; did you mean 'lengths'?"),
        ("empirical:no.csv", "no.csv: no such file"),
        ("synthetic:corpus?session=3", "no option 'session'; did you mean 'sessions'?"),
        ("synthetic:corpus?sessions=0", "sessions: expected an integer from 1 to 100000, got '0'"),
        ("traces?rows=both", "traces?rows=both: rows: expected one of auto, cumulative, delta"),
        ("traces?skip_bad=1", "skip_bad: expected yes or no, got '1'"),
        ("traces?row=delta", "no option 'row' of a path; did you mean 'rows'?"),
        ("mooncake:traces?block_size=0", "block_size: expected an integer >= 1, got '0'"),
    ],
)
def test_a_text_that_names_nothing_says_why(source: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        sessions_digest(source)
    assert told in str(caught.value)


def test_a_path_takes_a_format_and_options(tmp_path: Path) -> None:
    rows = [
        '{"timestamp": 0, "input_length": 40, "output_length": 1, "session_id": 1}',
        '{"timestamp": 9, "input_length": 60, "output_length": 1, "session_id": 1}',
        '{"timestamp": 10, "input_length": -1, "output_length": 1}',
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(rows) + "\n")
    source = f"mooncake:{tmp_path}?rows=delta,skip_bad=yes,block_size=16"
    workload = open_workload(replace(AGENTIC, sessions=source), 1)
    assert [turn.input_tokens for turn in workload.session(0, 0).turns] == [40, 101]
    assert workload.session(0, 0).block_size == 16
    assert workload.notes()["skipped"] == 1
    plain = sessions_digest(str(tmp_path))
    assert plain != sessions_digest(source) != sessions_digest(f"{tmp_path}?rows=delta")
    assert plain == sessions_digest(f"{tmp_path}?rows=auto")


def test_synthetic_sessions_in_the_number_asked() -> None:
    workload = open_workload(replace(AGENTIC, sessions="synthetic:quickstart?sessions=5"), 7)
    assert workload.wrapped_lanes == 2
    assert sessions_digest("synthetic:quickstart?sessions=64") == sessions_digest(
        "synthetic:quickstart"
    )


def test_blocks_in_common_are_apart_from_pass_to_pass(tmp_path: Path) -> None:
    row = '{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [3]}\n'
    (tmp_path / "t.jsonl").write_text(row * 2)
    workload = open_workload(replace(AGENTIC, sessions=str(tmp_path)), 1)
    assert workload.one_turn
    assert [workload.session(0, play).scope for play in range(4)] == [0, 0, 1, 1]
