"""Shapes of agentic sessions: the numbers `synthetic` draws from, by name or from a file.

A profile is a YAML file, as `workload calibrate` writes it from recorded sessions: tables of
quantiles and shares. `corpus` is such a file, `quickstart` the same on a small scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import orjson
import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from inferometer.errors import InputError, Problem, nearest
from inferometer.workload.distributions import ByContext, LogNormal, Quantiles

Spread = LogNormal | Quantiles
REDRAWN = 32
"""Most draws of a limit for one that an agent's first context is below."""
NORMAL = NormalDist()
_CONFIG = ConfigDict(extra="forbid", strict=True, defer_build=True)


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """The shape of one agent: counts of turns and tokens, gaps in seconds from end to start."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    turns: Spread
    first_tokens: Spread
    growth_tokens: Spread | ByContext
    """Added to the context by each turn, what is kept of the reply to the last included; by the
    context before, where agents read much at first and little later."""
    output_tokens: Spread
    short_gap_s: Spread
    """Tools at work."""
    long_gap_s: Spread
    """A person at work."""
    long_gap_share: float
    shared_tokens: Spread | int
    """Instructions and tools at the start of every context of this kind of agent in a session;
    drawn once a session."""
    compact_share: float
    """Share of turns that start over from a smaller context."""
    compacted_tokens: Spread
    """That context, and at most what it would have been."""
    rewrite_share: float
    """Share of turns that keep their size but share only the instructions with the last one."""
    most_tokens: Spread | int
    """A context that would exceed this is compacted; drawn once an agent, above its first one."""
    keeps_replies: bool = True
    """Whether all of a reply is kept, so that a context grows by it at least."""
    api_s: Spread | None = None
    """How long requests took where they were recorded; moves nothing in a replay."""
    first_with_turns: float = 0.0
    """Correlation of an agent's first context with its number of turns, as normal scores."""
    most_with_turns: float = 0.0
    """The same of its limit: who has more room need not have more turns."""
    growth_likeness: float = 0.0
    """How alike the growths of one agent are: the correlation of two of them, as normal scores."""
    growth_with_turns: float = 0.0
    """Correlation of a growth with its agent's number of turns: who adds much at a time is soon
    done, so that contexts end nearer to each other than chance would have them."""

    def kind(self, score: float, rng: np.random.Generator) -> float:
        """What growths of one agent have in common, a score; `score` is that of its turns."""
        own = max(0.0, self.growth_likeness - self.growth_with_turns**2)
        return self.growth_with_turns * score + math.sqrt(own) * float(rng.standard_normal())

    def start(self, score: float, rng: np.random.Generator) -> tuple[int, int]:
        """(tokens of the first context, context limit) of one agent; `score` is the normal score of
        its turns."""
        first = round(self.first_tokens.at(_tied(score, self.first_with_turns, rng)))
        return max(1, first), self._limit(score, first, rng)

    def output(self, rng: np.random.Generator) -> int:
        """Tokens of one answer, at least one."""
        return max(1, self.output_tokens.whole(rng))

    def growth(self, context: int, kind: float, rng: np.random.Generator) -> int:
        """What a turn adds to a context; `kind` is that of its agent."""
        table = self.growth_tokens
        spread = table.of(context) if isinstance(table, ByContext) else table
        shared = max(self.growth_likeness, self.growth_with_turns**2)
        return round(spread.at(kind + math.sqrt(1 - shared) * float(rng.standard_normal())))

    def _limit(self, score: float, first: int, rng: np.random.Generator) -> int:
        """Above the first context, where there are such limits."""
        limit = self.most_tokens
        if isinstance(limit, int):
            return limit
        drawn = 0
        for _ in range(REDRAWN):
            drawn = round(limit.at(_tied(score, self.most_with_turns, rng)))
            if drawn > first:
                break
        return drawn

    def instructions(self, rng: np.random.Generator) -> int:
        """Tokens that the contexts of a session's agents of this kind begin with."""
        shared = self.shared_tokens
        return shared if isinstance(shared, int) else shared.whole(rng)

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
    launches_with_turns: float = 0.0
    """Correlation of that number, 0 where none does, with the root's turns, as normal scores."""

    def launching(self, score: float, rng: np.random.Generator) -> int | None:
        """How many root turns of a session launch sub-agents; `score` is that of its turns. None
        where each of them draws for itself."""
        share = self.subagent_session_share
        above = NORMAL.cdf(_tied(score, self.launches_with_turns, rng)) - (1 - share)
        if above <= 0:
            return 0
        if self.launches is None:
            return None
        within = NORMAL.inv_cdf(min(above / share, 1 - 1e-9))
        return max(1, round(self.launches.at(within)))


QUICKSTART_TOKENS = 1 / 16
QUICKSTART_SECONDS = 1 / 100
QUICKSTART_BLOCK = 16
"""`quickstart` is `corpus` on a small scale, so that turns take a fraction of a second on the
built-in engine: of tokens, of seconds, and tokens a block, since contexts grow by less."""
QUICKSTART_SESSIONS = 64
_CALIBRATED = "made by the generator as calibrated on 48 recorded sessions"
_SAID = {
    "corpus": _CALIBRATED,
    "quickstart": f"{_CALIBRATED}, at 1/{round(1 / QUICKSTART_TOKENS)} of their tokens and "
    f"1/{round(1 / QUICKSTART_SECONDS)} of their seconds",
}
TOKENS = (
    *("first_tokens", "growth_tokens", "output_tokens", "shared_tokens"),
    *("compacted_tokens", "most_tokens"),
)
SECONDS = ("short_gap_s", "long_gap_s", "api_s")
"""Fields of an agent by their unit."""

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
    return _quickstart() if name == "quickstart" else _packaged(name)


def scaled(profile: Profile, tokens: float, seconds: float) -> Profile:
    """The same shape with so many times as many tokens and seconds; counts of turns stay."""
    return replace(
        profile,
        root=_scaled_agent(profile.root, tokens, seconds),
        subagent=_scaled_agent(profile.subagent, tokens, seconds),
        launch_gap_s=profile.launch_gap_s.scaled(seconds),
    )


def _scaled_agent(agent: AgentProfile, tokens: float, seconds: float) -> AgentProfile:
    changed: dict[str, Any] = {}
    for names, factor in ((TOKENS, tokens), (SECONDS, seconds)):
        for name in names:
            value = getattr(agent, name)
            if isinstance(value, int):
                changed[name] = round(value * factor)
            elif value is not None:
                changed[name] = value.scaled(factor)
    return replace(agent, **changed)


@cache
def _quickstart() -> Profile:
    small = scaled(_packaged("corpus"), QUICKSTART_TOKENS, QUICKSTART_SECONDS)
    return replace(
        small, name="quickstart", sessions=QUICKSTART_SESSIONS, block_size=QUICKSTART_BLOCK
    )


@cache
def _packaged(name: str) -> Profile:
    text = files("inferometer.workload").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return _parsed(text, f"{name}.yaml")


def description(source: str) -> str:
    """What a workload's text stands for, for people: of a packaged profile what it was made from,
    of anything else the text."""
    kind, _, name = source.partition(":")
    said = _SAID.get(name.partition("?")[0]) if kind == "synthetic" else None
    return f"{source} ({said})" if said else source


def read_profile(file: Path) -> Profile:
    """The profile of a file. Raises InputError with all that is wrong with it."""
    if file.exists() and not file.is_file():
        raise InputError(Problem("cannot be read: not a file", str(file)))
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
    yield from _correlation("launches_with_turns", profile.launches_with_turns)
    weights = profile.fan_out_weights
    if not weights or min(weights) < 0 or abs(sum(weights) - 1) > 1e-3:
        yield "fan_out_weights", "expected shares that add up to 1"
    for kind in ("root", "subagent"):
        agent: AgentProfile = getattr(profile, kind)
        for name in ("long_gap_share", "compact_share", "rewrite_share", "growth_likeness"):
            yield from _share(f"{kind}.{name}", getattr(agent, name))
        for name in ("first_with_turns", "most_with_turns"):
            yield from _correlation(f"{kind}.{name}", getattr(agent, name))
        if isinstance(agent.shared_tokens, int) and agent.shared_tokens < 0:
            yield f"{kind}.shared_tokens", "expected an integer >= 0 (tokens)"


def _tied(score: float, correlation: float, rng: np.random.Generator) -> float:
    """A standard normal score that is correlated with another."""
    return correlation * score + math.sqrt(1 - correlation**2) * float(rng.standard_normal())


def _correlation(key: str, value: float) -> Iterator[tuple[str, str]]:
    if not -1 <= value <= 1:
        yield key, f"expected a correlation from -1 to 1, got {value}"


def _share(key: str, value: float) -> Iterator[tuple[str, str]]:
    if not 0 <= value <= 1:
        yield key, f"expected a share from 0 to 1, got {value}"
