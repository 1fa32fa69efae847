"""Shapes of agentic sessions: the numbers `synthetic` draws from, by name or from a file.

A profile is a YAML file, as `workload calibrate` writes it from recorded sessions: tables of
quantiles and shares. `corpus` is such a file, `quickstart` was made by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import numpy as np
import orjson
import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from inferometer.errors import InputError, Problem, nearest
from inferometer.workload.distributions import LogNormal, Quantiles

Spread = LogNormal | Quantiles
_CONFIG = ConfigDict(extra="forbid", strict=True, defer_build=True)


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """The shape of one agent: counts of turns and tokens, gaps in seconds from end to start."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    turns: Spread
    first_tokens: Spread
    growth_tokens: Spread
    """Added to the context by each turn, what is kept of the reply to the last included."""
    output_tokens: Spread
    short_gap_s: Spread
    """Tools at work."""
    long_gap_s: Spread
    """A person at work."""
    long_gap_share: float
    shared_tokens: int
    """Instructions and tools at the start of every context of this kind of agent in a session."""
    compact_share: float
    """Share of turns that start over from a smaller context."""
    compacted_tokens: Spread
    """That context, and at most what it would have been."""
    rewrite_share: float
    """Share of turns that keep their size but share only the instructions with the last one."""
    most_tokens: Spread | int
    """A context that would exceed this is compacted; drawn once an agent."""
    keeps_replies: bool = True
    """Whether all of a reply is kept, so that a context grows by it at least."""
    api_s: Spread | None = None
    """How long requests took where they were recorded; moves nothing in a replay."""

    def limit_tokens(self, rng: np.random.Generator) -> int:
        """The context limit of one agent."""
        limit = self.most_tokens
        return limit if isinstance(limit, int) else limit.whole(rng)

    def gap_s(self, rng: np.random.Generator) -> float:
        """One gap, in seconds."""
        long = rng.random() < self.long_gap_share
        return (self.long_gap_s if long else self.short_gap_s).draw(rng)


@dataclass(frozen=True, slots=True)
class Profile:
    """The shape of a set of sessions."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    name: str
    sessions: int
    """How many there are when a workload names the profile."""
    block_size: int
    root: AgentProfile
    subagent: AgentProfile
    subagent_session_share: float
    """Share of sessions that launch sub-agents at all."""
    launch_share: float
    """In those, share of root turns that do."""
    fan_out_weights: tuple[float, ...]
    """Probabilities of launching 1, 2, … at once; they add up to 1."""
    launch_gap_s: Spread
    background_share: float
    """Share of sub-agents that nobody waits for."""
    launches: Spread | None = None
    """In place of `launch_share`: how many root turns of such a session launch some."""


QUICKSTART = Profile(
    name="quickstart",
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
"""Small and fast, to try things out: a session plays in seconds on the built-in engine."""

MOST_SESSIONS = 100_000
NAMES = ("quickstart", "corpus")
_READ = TypeAdapter(Profile)


def named(name: str) -> Profile:
    """The profile of that name, or in that .yaml file.

    Raises InputError, with the nearest name, when there is none; with every fault of a file.
    """
    if name.endswith((".yaml", ".yml")):
        return read_profile(Path(name))
    if name not in NAMES:
        known = ", ".join(sorted(NAMES))
        hint = nearest(name, NAMES)
        raise InputError(f"no synthetic profile {name!r}{hint} (there are: {known})")
    return QUICKSTART if name == "quickstart" else _packaged(name)


@cache
def _packaged(name: str) -> Profile:
    text = files("inferometer.workload").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return _parsed(text, f"{name}.yaml")


def read_profile(file: Path) -> Profile:
    """The profile of a file. Raises InputError with all that is wrong with it."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Problem(f"cannot be read: {error}", str(file))) from error
    return _parsed(text, str(file))


def profile_text(profile: Profile, comment: str) -> str:
    """A profile as a file, with a comment of one or more lines at its head."""
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return head + yaml.safe_dump(
        _plain(asdict(profile)), sort_keys=False, width=100, default_flow_style=None
    )


def _plain(value: object) -> object:
    """Tuples as lists, whole floats as integers, and no nulls: what a person would write."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        short = round(value, 6)
        return int(short) if short.is_integer() else short
    return value


def _parsed(text: str, file: str) -> Profile:
    try:
        values = orjson.dumps(yaml.safe_load(text))
    except (yaml.YAMLError, orjson.JSONEncodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        raise InputError(Problem("not a YAML file of plain values", file, line)) from error
    try:
        # As JSON, in which a list is how a tuple is written.
        profile = _READ.validate_json(values)
    except ValidationError as error:
        raise InputError(*_invalid(error, file)) from error
    problems = [Problem(message, file, None, key) for key, message in _faults(profile)]
    if problems:
        raise InputError(*problems)
    return profile


def _invalid(error: ValidationError, file: str) -> Iterator[Problem]:
    kinds = {LogNormal.__name__, Quantiles.__name__}
    for fault in error.errors(include_url=False):
        # A field may be one of two kinds: what is wrong for each is told under its own path.
        path = ".".join(str(part) for part in fault["loc"] if part not in kinds)
        yield Problem(fault["msg"], file, None, path or None)


def _faults(profile: Profile) -> Iterator[tuple[str, str]]:
    """What no type can say; each with its key."""
    shares = {"subagent_session_share", "launch_share", "background_share"}
    for name in sorted(shares):
        yield from _share(name, getattr(profile, name))
    if not 1 <= profile.sessions <= MOST_SESSIONS:
        yield "sessions", f"expected an integer from 1 to {MOST_SESSIONS}"
    if profile.block_size < 1:
        yield "block_size", "expected an integer >= 1 (tokens)"
    weights = profile.fan_out_weights
    if not weights or min(weights) < 0 or abs(sum(weights) - 1) > 1e-3:
        yield "fan_out_weights", "expected shares that add up to 1"
    for kind in ("root", "subagent"):
        agent: AgentProfile = getattr(profile, kind)
        for name in ("long_gap_share", "compact_share", "rewrite_share"):
            yield from _share(f"{kind}.{name}", getattr(agent, name))
        if agent.shared_tokens < 0:
            yield f"{kind}.shared_tokens", "expected an integer >= 0 (tokens)"


def _share(key: str, value: float) -> Iterator[tuple[str, str]]:
    if not 0 <= value <= 1:
        yield key, f"expected a share from 0 to 1, got {value}"
