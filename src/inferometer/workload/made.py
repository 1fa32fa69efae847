"""Workloads drawn from a few numbers: single requests, requests that share prefixes, chats.

Named by a short text, `KIND:key=value,...` (docs/formats.md#made-workloads). A session is a
function of (seed, lane, play) alone, so there is no end to them and no lane plays another's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from inferometer.clock import NS
from inferometer.core import Session, Turn, WorkloadSettings
from inferometer.errors import InputError, nearest
from inferometer.workload.agentic import StartPlan, plan_start
from inferometer.workload.distributions import Distribution, distribution
from inferometer.workload.empirical import Pairs, read_pairs
from inferometer.workload.fixed import BLOCK_SIZE
from inferometer.workload.oneturn import single
from inferometer.workload.reading import MAX_TOKENS

_MADE = 3
"""Apart in the seeds from what else is drawn for a lane."""
MOST_TURNS = 10_000
MOST_GROUPS = 1_000_000
MOST_SECONDS = 1e6


class Recipe(Protocol):
    """How one session is drawn."""

    @property
    def one_turn(self) -> bool:
        """Whether every session is one request."""
        ...

    def draw(self, name: str, rng: np.random.Generator) -> Session:
        """A session of that id."""
        ...


@dataclass(frozen=True, slots=True)
class Lengths:
    """Single requests that share nothing; input and output are drawn apart."""

    isl: Distribution
    osl: Distribution
    one_turn = True

    def draw(self, name: str, rng: np.random.Generator) -> Session:
        """One request."""
        return _request(name, self.isl.whole(rng), self.osl.whole(rng))


@dataclass(frozen=True, slots=True)
class Empirical:
    """Single requests that share nothing, of pairs of lengths that somebody counted."""

    pairs: Pairs
    one_turn = True

    def draw(self, name: str, rng: np.random.Generator) -> Session:
        """One request."""
        return _request(name, *self.pairs.draw(rng))


@dataclass(frozen=True, slots=True)
class PrefixGroups:
    """Single requests, each of one of `groups` prefixes of `prefix` tokens and `isl` of its own.

    A prefix is shared in whole blocks of 64 tokens. Each group is as likely.
    """

    groups: int
    prefix: int
    isl: Distribution
    osl: Distribution
    one_turn = True

    def draw(self, name: str, rng: np.random.Generator) -> Session:
        """One request; the ids of all prefixes are common to all sessions."""
        shared = self.prefix // BLOCK_SIZE
        first = int(rng.integers(self.groups)) * shared
        tokens, output = self.prefix + self.isl.whole(rng), self.osl.whole(rng)
        own = self.groups * shared + np.arange(tokens // BLOCK_SIZE - shared, dtype=np.int64)
        ids = np.concatenate([first + np.arange(shared, dtype=np.int64), own])
        turn = single(ids, tokens, output)
        return Session(name, BLOCK_SIZE, (turn,), None, self.groups * shared)


@dataclass(frozen=True, slots=True)
class Chat:
    """Conversations: each turn sends all that was said before, its reply included, and `isl` more.

    The first `system` tokens are common to all sessions, in whole blocks of 64.
    """

    turns: Distribution
    system: int
    isl: Distribution
    osl: Distribution
    gap_s: Distribution
    one_turn = False

    def draw(self, name: str, rng: np.random.Generator) -> Session:
        """One conversation."""
        common = self.system // BLOCK_SIZE
        made: list[tuple[int, int, float]] = []
        tokens = self.system
        for _ in range(self.turns.whole(rng)):
            tokens = min(tokens + self.isl.whole(rng), MAX_TOKENS)
            output = self.osl.whole(rng)
            made.append((tokens, output, self.gap_s.draw(rng)))
            tokens += output
        ids = np.arange(made[-1][0] // BLOCK_SIZE, dtype=np.int64)
        turns: list[Turn] = []
        for index, (context, output, gap_s) in enumerate(made):
            turn = single(ids[: context // BLOCK_SIZE], context, output)
            after = (index - 1,) if index else ()
            gap_ns = round(gap_s * NS) if index else 0
            turns.append(replace(turn, index=index, after=after, gap_ns=gap_ns))
        return Session(name, BLOCK_SIZE, tuple(turns), None, common)


class Named(NamedTuple):
    """A made workload by its text: its kind, its recipe, and all that its digest covers."""

    kind: str
    recipe: Recipe
    identity: str


def drawn_session(named: Named, seed: int, lane: int, play: int) -> Session:
    """The session of a lane's play."""
    seeds = np.random.SeedSequence([seed, _MADE, lane, play])
    return named.recipe.draw(f"{named.kind}-{lane}-{play}", np.random.default_rng(seeds))


class MadeWorkload:
    """Sessions of a recipe, without end."""

    wrapped_lanes = 0

    def __init__(self, named: Named, settings: WorkloadSettings) -> None:
        self._named = named
        self._settings = settings

    @property
    def one_turn(self) -> bool:
        """Whether every session is one request."""
        return self._named.recipe.one_turn

    def session(self, lane: int, play: int) -> Session:
        """The session of a lane's play."""
        return drawn_session(self._named, self._settings.seed, lane, play)

    def start(self, lane: int) -> StartPlan:
        """Where the lane's first play starts; every later one starts at turn 0."""
        if self.one_turn:
            return StartPlan(start=0, skipped=frozenset(), warmup=())
        return plan_start(self.session(lane, 0), lane, self._settings)

    def starts_ns(self) -> tuple[int, ...]:
        """Nothing was recorded."""
        return ()

    def notes(self, pool_tokens: int | None = None) -> Mapping[str, float]:  # noqa: ARG002
        """Nothing was decided on the way."""
        return {}


class _Key(NamedTuple):
    """One key of a kind: how its text is read, and its text where none is given."""

    read: Callable[[str], object]
    default: str | None = None


def _between(least: float, most: float) -> Callable[[str], Distribution]:
    return lambda text: distribution(text, least, most)


def _count(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            raise InputError(f"expected an integer, got {text!r}")
        if not least <= int(text) <= most:
            raise InputError(f"expected an integer from {least} to {most}, got {text}")
        return int(text)

    return read


_TOKENS = _Key(_between(1, MAX_TOKENS))
KINDS: Mapping[str, Mapping[str, _Key]] = {
    "lengths": {"isl": _TOKENS, "osl": _TOKENS},
    "prefix-groups": {
        "groups": _Key(_count(1, MOST_GROUPS)),
        "prefix": _Key(_count(BLOCK_SIZE, 10_000_000)),
        "isl": _TOKENS,
        "osl": _TOKENS,
    },
    "chat": {
        "turns": _Key(_between(1, MOST_TURNS)),
        "system": _Key(_count(0, 10_000_000), "0"),
        "isl": _TOKENS,
        "osl": _TOKENS,
        "gap_s": _Key(_between(0, MOST_SECONDS), "0"),
    },
}
_RECIPES: Mapping[str, Callable[..., Recipe]] = {
    "lengths": Lengths,
    "prefix-groups": PrefixGroups,
    "chat": Chat,
}
EMPIRICAL = "empirical"


def made(source: str) -> Named | None:
    """The recipe that a text names; None where it is of no kind that is made.

    Raises InputError with every key that is wrong, missing or unknown.
    """
    kind, colon, rest = source.partition(":")
    if not colon:
        return None
    if kind == EMPIRICAL:
        pairs = read_pairs(Path(rest))
        return Named(kind, Empirical(pairs), f"{kind}:{pairs.digest}")
    if kind not in KINDS:
        return None
    texts = key_values(rest, source)
    problems: list[str] = []
    values: dict[str, object] = {}
    for key in texts:
        if key not in KINDS[kind]:
            problems.append(f"{source}: no key {key!r} of {kind}{nearest(key, KINDS[kind])}")
    for key, (read, default) in KINDS[kind].items():
        text = texts.get(key, default)
        try:
            if text is None:
                raise InputError(f"missing; {kind} needs {', '.join(KINDS[kind])}")
            values[key] = read(text)
        except InputError as error:
            problems += [f"{source}: {key}: {problem.message}" for problem in error.problems]
    if problems:
        raise InputError(*problems)
    recipe = _RECIPES[kind](**values)
    return Named(kind, recipe, f"{kind}:{recipe!r}")


def key_values(text: str, source: str) -> dict[str, str]:
    """`a=1,b=2` as a mapping. Raises InputError where a part is no pair, or a key comes twice."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key in found:
            wrong = "comes twice" if equals else "expected key=value"
            raise InputError(f"{source}: {part!r}: {wrong}")
        found[key.strip()] = value.strip()
    return found


def _request(name: str, tokens: int, output: int) -> Session:
    ids = np.arange(tokens // BLOCK_SIZE, dtype=np.int64)
    return Session(name, BLOCK_SIZE, (single(ids, tokens, output),))
