"""Sessions from a profile, and the opening of a workload from settings."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from examples import AGENTIC
from inferometer.core import Session, Turn, WorkloadSettings
from inferometer.errors import InputError
from inferometer.workload import (
    FixedLengths,
    LogNormal,
    Profile,
    named,
    open_workload,
    prefix_hit,
    sessions_digest,
    synthesize,
)
from inferometer.workload.profiles import AgentProfile
from inferometer.workload.shape import measure

HAND = Profile(
    name="hand",
    sessions=32,
    block_size=64,
    root=AgentProfile(
        turns=LogNormal(28, 0.2, 20, 40),
        first_tokens=LogNormal(2800, 0.25, 2000, 4000),
        growth_tokens=LogNormal(300, 0.5, 60, 1500),
        output_tokens=LogNormal(35, 0.35, 20, 60),
        short_gap_s=LogNormal(0.12, 0.5, 0.05, 0.3),
        long_gap_s=LogNormal(0.4, 0.2, 0.3, 0.5),
        long_gap_share=0.15,
        shared_tokens=1536,
        compact_share=0.01,
        compacted_tokens=LogNormal(3000, 0.25, 2000, 4000),
        rewrite_share=0.01,
        most_tokens=16_000,
    ),
    subagent=AgentProfile(
        turns=LogNormal(4, 0.3, 2, 6),
        first_tokens=LogNormal(1500, 0.2, 1200, 2200),
        growth_tokens=LogNormal(400, 0.5, 80, 1500),
        output_tokens=LogNormal(30, 0.3, 20, 60),
        short_gap_s=LogNormal(0.1, 0.4, 0.05, 0.3),
        long_gap_s=LogNormal(0.4, 0.2, 0.3, 0.5),
        long_gap_share=0.0,
        shared_tokens=1024,
        compact_share=0.0,
        compacted_tokens=LogNormal(1500, 0.2, 1200, 2200),
        rewrite_share=0.0,
        most_tokens=16_000,
    ),
    subagent_session_share=0.4,
    launch_share=0.06,
    fan_out_weights=(0.5, 0.3, 0.2),
    launch_gap_s=LogNormal(0.05, 0.2, 0.02, 0.1),
    background_share=0.1,
)
"""As a person would write one: whole replies are kept, and each root turn may launch."""


def made(profile: Profile = HAND, count: int = 32) -> tuple[Session, ...]:
    return synthesize(profile, count, 42)


def by_agent(session: Session) -> dict[str, list[Turn]]:
    agents: dict[str, list[Turn]] = {}
    for turn in session.turns:
        agents.setdefault(turn.agent, []).append(turn)
    return agents


def shared_blocks(left: Turn, right: Turn) -> int:
    least = min(len(left.block_ids), len(right.block_ids))
    same = left.block_ids[:least] == right.block_ids[:least]
    return least if same.all() else int(same.argmin())


@pytest.mark.parametrize("name", ["quickstart", "corpus"])
def test_turns_are_ordered_and_whole(name: str) -> None:
    profile = named(name)
    for session in made(profile, 12):
        for index, turn in enumerate(session.turns):
            assert turn.index == index
            assert all(before < index for before in turn.after)
            assert len(turn.after) == len(set(turn.after))
            assert turn.gap_ns >= 0
            assert turn.output_tokens >= 1
            assert len(turn.block_ids) == turn.input_tokens // session.block_size
            assert len(np.unique(turn.block_ids)) == len(turn.block_ids)


def test_sessions_are_as_declared() -> None:
    sessions = made()
    root = [turn for session in sessions for turn in session.root_turns]
    assert all(20 <= len(session.root_turns) <= 40 for session in sessions)
    assert all(2000 <= session.turns[0].input_tokens <= 4000 for session in sessions)
    assert all(20 <= turn.output_tokens <= 60 for turn in root)
    gaps = [turn.gap_ns / 1e9 for turn in root if turn.after]
    assert min(gaps) >= 0.05
    assert max(gaps) <= 0.5
    assert 5 <= sum(len(by_agent(session)) > 1 for session in sessions) <= 25
    assert 0.85 < prefix_hit(sessions) < 0.98


def test_quickstart_is_the_corpus_on_a_small_scale() -> None:
    """The same sessions turn by turn, but for rounding: what is calibrated is what is played."""
    small, large = (measure(synthesize(named(name), 24, 42)) for name in ("quickstart", "corpus"))
    assert small.turns == large.turns
    assert small.fan_out == large.fan_out
    assert np.median(small.root.input_tokens) == pytest.approx(
        np.median(large.root.input_tokens) / 16, rel=0.03
    )
    assert np.median(small.root.gap_s) == pytest.approx(np.median(large.root.gap_s) / 100)
    assert max(small.root.output_tokens) < 1000
    assert prefix_hit(synthesize(named("quickstart"), 24, 42)) == pytest.approx(
        prefix_hit(synthesize(named("corpus"), 24, 42)), abs=0.005
    )


def test_a_limit_is_above_the_first_context() -> None:
    """Who begins beyond the usual limit has a model with more room."""
    roots = [session.root_turns for session in made(named("corpus"), 100)]
    large = [turns for turns in roots if turns[0].input_tokens > 170_000 and len(turns) > 2]
    assert len(large) > 2
    assert all(turns[1].input_tokens > turns[0].input_tokens for turns in large)


def test_a_context_grows_by_whole_blocks_or_falls_back_to_the_instructions() -> None:
    assert isinstance(HAND.root.shared_tokens, int)
    kept = HAND.root.shared_tokens // HAND.block_size
    breaks = 0
    for session in made():
        for before, after in pairwise(session.root_turns):
            shared = shared_blocks(before, after)
            breaks += shared < len(before.block_ids)
            assert shared in (len(before.block_ids), kept)
            if shared > kept:
                assert after.input_tokens >= before.input_tokens + before.output_tokens
    assert breaks > 0


def test_subagents_share_their_instructions_and_nothing_with_the_root() -> None:
    assert isinstance(HAND.subagent.shared_tokens, int)
    kept = HAND.subagent.shared_tokens // HAND.block_size
    pairs = 0
    for session in made():
        agents = by_agent(session)
        root_ids = set(np.concatenate([turn.block_ids for turn in agents.pop("root")]).tolist())
        for left, right in pairwise(agents.values()):
            pairs += 1
            assert shared_blocks(left[0], right[0]) == kept
        for turns in agents.values():
            assert not root_ids & set(turns[-1].block_ids.tolist())
    assert pairs > 0


def test_subagents_join_unless_in_the_background() -> None:
    joined = background = 0
    for session in made():
        waited = {before for turn in session.turns for before in turn.after}
        for agent, turns in by_agent(session).items():
            if agent != "root":
                assert session.turns[turns[0].after[0]].agent == "root"
                launched_last = turns[0].after[0] == session.root_turns[-1].index
                joined += turns[-1].index in waited
                background += turns[-1].index not in waited and not launched_last
    assert joined > background > 0


def test_a_session_depends_on_profile_seed_and_number_alone() -> None:
    few, many = made(count=2), made(count=5)
    for left, right in zip(few, many, strict=False):
        assert [(t.after, t.gap_ns, t.input_tokens) for t in left.turns] == [
            (t.after, t.gap_ns, t.input_tokens) for t in right.turns
        ]
        assert all(
            np.array_equal(a.block_ids, b.block_ids)
            for a, b in zip(left.turns, right.turns, strict=True)
        )
    other = synthesize(HAND, 2, 43)
    assert [t.input_tokens for t in other[0].turns] != [t.input_tokens for t in few[0].turns]


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'quikstart'; did you mean 'quickstart'\? \(there are: "):
        named("quikstart")


def test_open_synthetic() -> None:
    sessions = named("quickstart").sessions
    workload = open_workload(AGENTIC, sessions + 8)
    assert workload.wrapped_lanes == 8
    assert workload.session(0, 0).id.startswith("quickstart-")
    assert workload.start(0).start > 0
    assert workload.notes()["sessions"] == sessions


def test_sessions_that_changed_since_the_plan_are_refused() -> None:
    digest = sessions_digest("synthetic:quickstart")
    assert open_workload(replace(AGENTIC, sessions_digest=digest), 1).wrapped_lanes == 0
    with pytest.raises(InputError, match="have changed since the plan was made"):
        open_workload(replace(AGENTIC, sessions_digest="0" * 64), 1)


def test_open_fixed() -> None:
    workload = open_workload(replace(AGENTIC, kind="fixed", isl=100, osl=10), 4)
    assert isinstance(workload, FixedLengths)
    assert (workload.session(0, 0).turns[0].input_tokens, workload.wrapped_lanes) == (100, 0)
    assert workload.notes() == {}


def test_open_recorded(tmp_path: Path) -> None:
    row = {"t": 0, "type": "n", "in": 70, "out": 0, "hash_ids": [0], "new": 1}
    trace = {"id": "x", "block_size": 64, "hash_id_scope": "local", "requests": [row]}
    (tmp_path / "x.json").write_text(json.dumps(trace))
    notes = open_workload(replace(AGENTIC, sessions=str(tmp_path)), 1).notes()
    assert (notes["turns"], notes["zero_output"], notes["api_time_unknown"]) == (1.0, 1.0, 1.0)
    assert notes["unknown_fields"] == 1.0


def test_points_share_what_was_read_until_it_changes(tmp_path: Path) -> None:
    def write(tokens: int) -> None:
        ids = list(range(tokens // 64))
        row = {"t": 0, "type": "n", "in": tokens, "out": 1, "hash_ids": ids}
        trace = {"id": "x", "block_size": 64, "hash_id_scope": "local", "requests": [row]}
        (tmp_path / "x.json").write_text(json.dumps(trace))

    write(70)
    settings = replace(AGENTIC, sessions=str(tmp_path))
    first = open_workload(settings, 1).session(0, 0)
    assert open_workload(settings, 4).session(0, 0) is first
    (turn,) = first.turns
    with pytest.raises(ValueError, match="read-only"):
        turn.block_ids[0] = 5
    digest = sessions_digest(str(tmp_path))
    write(1000)
    assert open_workload(settings, 1).session(0, 0).turns[0].input_tokens == 1000
    assert sessions_digest(str(tmp_path)) != digest


def test_points_share_what_was_made() -> None:
    first, again = (open_workload(AGENTIC, 1).session(0, 0) for _ in range(2))
    assert again is first
    assert open_workload(replace(AGENTIC, seed=1), 1).session(0, 0) is not first


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (replace(AGENTIC, seed=-1), "seed: expected an integer >= 0, got -1"),
        (replace(AGENTIC, sessions=None), "needs sessions"),
        (replace(AGENTIC, kind="fixed"), "needs isl and osl"),
        (replace(AGENTIC, sessions="synthetic:corpse"), "did you mean 'corpus'"),
        (replace(AGENTIC, sessions="no/such/folder"), "no/such/folder: no such file"),
    ],
)
def test_settings_that_cannot_be_opened(settings: WorkloadSettings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_workload(settings, 1)


def test_digest_covers_names_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_bytes(b"{}")
    (tmp_path / "a.json").write_bytes(b"123")
    expected = hashlib.sha256(b"a.json\n3\n123b.json\n2\n{}").hexdigest()
    assert sessions_digest(str(tmp_path)) == expected
    (tmp_path / "b.json").rename(tmp_path / "c.json")
    assert sessions_digest(str(tmp_path)) != expected


def test_digest_of_a_profile_is_of_its_values() -> None:
    quick = sessions_digest("synthetic:quickstart")
    assert len(quick) == 64
    assert quick == sessions_digest("synthetic:quickstart")
    assert quick != sessions_digest("synthetic:corpus")
    with pytest.raises(InputError, match="no synthetic profile 'nothing'"):
        sessions_digest("synthetic:nothing")
