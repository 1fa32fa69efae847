"""The generator against the recordings that it was calibrated on, within stated bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inferometer.core import Session
from inferometer.errors import InputError
from inferometer.workload import (
    LogNormal,
    Profile,
    Quantiles,
    ReadOptions,
    named,
    prefix_hit,
    profile_text,
    read_corpus,
    synthesize,
)
from inferometer.workload.calibrate import calibrate
from inferometer.workload.profiles import read_profile
from inferometer.workload.shape import Shape, measure

QUARTILES = (0.25, 0.5, 0.75)
GENERATED = 384
"""Sessions that are made: eight times as many as were recorded, so that chance moves little."""
BOUNDS: dict[str, tuple[Callable[[Shape], Sequence[float]], float]] = {
    # What a number is of, and by how much each quartile may differ, as a share of the recorded one.
    "turns": (lambda shape: shape.root.turns, 0.25),
    "first input": (lambda shape: shape.root.first_tokens, 0.25),
    "growth": (lambda shape: shape.root.growth_tokens, 0.1),
    "input": (lambda shape: shape.root.input_tokens, 0.3),
    "output": (lambda shape: shape.root.output_tokens, 0.1),
    "gap": (lambda shape: shape.root.gap_s, 0.1),
    "duration": (lambda shape: shape.root.api_s, 0.1),
    "turns of a sub-agent": (lambda shape: shape.sub.turns, 0.25),
    "first input of a sub-agent": (lambda shape: shape.sub.first_tokens, 0.1),
    "growth of a sub-agent": (lambda shape: shape.sub.growth_tokens, 0.25),
    "output of a sub-agent": (lambda shape: shape.sub.output_tokens, 0.15),
    "gap of a sub-agent": (lambda shape: shape.sub.gap_s, 0.15),
}
HIT_BOUND = 0.015
AGENTS_BOUND = 0.3
SHARE_BOUND = 0.06


def differences(recorded: Sequence[Session], made: Sequence[Session]) -> Iterator[str]:
    """Every statistic of the made sessions that is out of its bound."""
    left, right = measure(recorded), measure(made)
    for name, (values, bound) in BOUNDS.items():
        expected, found = (np.quantile(values(shape), QUARTILES) for shape in (left, right))
        if not np.all(np.abs(found / expected - 1) <= bound):
            yield f"{name}: {found} for {expected}"
    if abs(prefix_hit(made) - prefix_hit(recorded)) > HIT_BOUND:
        yield "prefix hit"
    agents, made_agents = np.mean(left.agents), np.mean(right.agents)
    if abs(made_agents / agents - 1) > AGENTS_BOUND:
        yield f"sub-agents a session: {made_agents} for {agents}"
    share, made_share = (np.mean(np.array(shape.agents) > 0) for shape in (left, right))
    if abs(made_share - share) > SHARE_BOUND:
        yield f"sessions with sub-agents: {made_share} for {share}"
    breaks, made_breaks = (
        len(shape.root.broken_prefix_tokens) / shape.root.followers for shape in (left, right)
    )
    if not 0.5 < made_breaks / breaks < 2:
        yield f"broken prefixes: {made_breaks} for {breaks}"


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> tuple[Session, ...]:
    return read_corpus(shared_data / "agentic", ReadOptions(fan_out=False)).sessions


def test_made_sessions_have_the_statistics_of_the_recorded_ones(
    recorded: tuple[Session, ...],
) -> None:
    made = synthesize(named("corpus"), GENERATED, 42)
    assert list(differences(recorded, made)) == []


def off(profile: Profile, **changes: object) -> Profile:
    return replace(profile, root=replace(profile.root, **changes))  # type: ignore[arg-type]


def slower(table: object, factor: float) -> Quantiles:
    assert isinstance(table, Quantiles)
    return Quantiles(tuple(value * factor for value in table.quantiles))


def test_a_generator_that_is_off_is_seen(recorded: tuple[Session, ...]) -> None:
    """Each change to the profile trips a statistic of its own."""
    corpus = named("corpus")
    root = corpus.root
    wrong = {
        "turns": off(corpus, turns=slower(root.turns, 1.5)),
        "growth": off(corpus, growth_tokens=slower(root.growth_tokens, 1.25)),
        "output": off(corpus, output_tokens=slower(root.output_tokens, 0.8)),
        "gap": off(corpus, short_gap_s=slower(root.short_gap_s, 1.25)),
        "duration": off(corpus, api_s=slower(root.api_s, 1.25)),
        "broken prefixes": off(corpus, rewrite_share=0.1),
        "prefix hit": off(corpus, compact_share=0.1),
        "sub-agents a session": replace(corpus, fan_out_weights=(0.0, 0.0, 0.0, 1.0)),
        "sessions with sub-agents": replace(corpus, subagent_session_share=0.4),
    }
    for name, profile in wrong.items():
        told = list(differences(recorded, synthesize(profile, 64, 42)))
        assert any(line.startswith(name) for line in told), name


def test_the_bundled_profile_is_what_calibration_gives(recorded: tuple[Session, ...]) -> None:
    assert profile_text(calibrate(recorded, "corpus"), "") == profile_text(named("corpus"), "")


def test_a_profile_is_written_and_read(tmp_path: Path) -> None:
    sessions = synthesize(named("quickstart"), 40, 3)
    profile = calibrate(sessions, "mine")
    path = tmp_path / "mine.yaml"
    path.write_text(profile_text(profile, "one\ntwo"))
    assert path.read_text().startswith("# one\n# two\nname: mine\n")
    again = read_profile(path)
    assert profile_text(again, "") == profile_text(profile, "")
    made = measure(synthesize(again, 40, 4))
    assert np.median(made.root.output_tokens) == pytest.approx(35, abs=3)
    assert named(str(path)).name == "mine"


def test_tables_give_back_what_they_hold() -> None:
    rng = np.random.default_rng(1)
    table = Quantiles((0.0, 10.0, 1000.0))
    drawn = [table.draw(rng) for _ in range(4000)]
    assert np.quantile(drawn, (0.25, 0.5, 0.75)) == pytest.approx([5, 10, 100], rel=0.15)
    assert 0 <= min(drawn) <= max(drawn) <= 1000
    with pytest.raises(ValueError, match="ascending"):
        Quantiles((2.0, 1.0))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("name: mine", "nmae: mine", "nmae: "),
        ("subagent_session_share:", "subagent_session_share: 3 #", "subagent_session_share: "),
        ("fan_out_weights: [", "fan_out_weights: [9, ", "fan_out_weights: expected shares that"),
        ("block_size: 64", "block_size: 0", "block_size: expected an integer >= 1"),
        ("block_size: 64", "block_size: [", "not a YAML file of plain values"),
        ("quantiles: [", "quantiles: [1.0e+9, ", "root.turns"),
    ],
)
def test_a_wrong_profile_names_what_is_wrong(tmp_path: Path, old: str, new: str, told: str) -> None:
    text = profile_text(calibrate(synthesize(named("quickstart"), 12, 3), "mine"), "")
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_profile(path)
    assert any(told in str(problem) for problem in caught.value.problems), str(caught.value)


def test_nothing_to_calibrate_is_said() -> None:
    single = replace(named("quickstart").root, turns=LogNormal(1, 0.01, 1, 1))
    sessions = synthesize(replace(named("quickstart"), root=single), 3, 1)
    with pytest.raises(InputError, match="no session has a turn that goes on from another"):
        calibrate(sessions, "x")
