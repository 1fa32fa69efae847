"""The patterns of `data/log.yaml`, made ready to be tried on many lines.

Each alternative of a pattern has a literal text that a line must hold; it is looked for first, at a
twentieth of the cost of the expression, and most lines hold none. Lines are given in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

LEAST_HINT = 3
"""Letters of a literal text below which too many lines hold it."""
_OPTIONAL = "?*{"
_ESCAPED_CLASS = "AbBdDsSwWZ"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    name: str
    patterns: list[str]


class _Fact(_Strict):
    scale: int
    ranks: Literal["sum", "max"] = "max"
    lines: Literal["last", "greatest"] = "last"
    numbers: Literal["sum", "product"] = "sum"
    fallback: bool = False


class _Failure(_Strict):
    advice: str
    follows: int = 0
    starting: bool = False
    weaker: list[str] = []
    during: dict[str, list[str]] = {}


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    routine: list[_Strict]
    stops: list[str]
    phases: list[_Strict]
    facts: list[_Fact]
    failures: list[_Failure]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Alternatives, each with the text that a line must hold to match it."""

    alternatives: tuple[tuple[str, re.Pattern[str]], ...]

    def search(self, text: str) -> re.Match[str] | None:
        """The match of the first alternative that is in a line of lower case."""
        for hint, expression in self.alternatives:
            if hint in text and (found := expression.search(text)):
                return found
        return None


class FailureRule(NamedTuple):
    """One class of failure; `during` is the phase of a start that its patterns count in, if any.
    `follows` says how far it is a thing that others lead to, `starting` that it ends starts alone.
    """

    name: str
    advice: str
    pattern: Pattern
    weak: bool = False
    during: str | None = None
    follows: int = 0
    starting: bool = False


class FactRule(NamedTuple):
    """One number of a log; how its groups, its lines and its ranks come together."""

    name: str
    scale: int
    pattern: Pattern
    greatest: bool
    product: bool
    fallback: bool
    """Counts only where no other line told the number."""


class Hints:
    """The literal texts of many patterns, all looked for at once: most lines hold none."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        found = (hint for each in patterns for hint, _ in each.alternatives)
        self._texts = tuple(sorted(set(found), key=len))

    def may_be_in(self, text: str) -> bool:
        """Whether any of the patterns may match a line of lower case."""
        return any(map(text.__contains__, self._texts))


class FailureFinder:
    """All failures, by the texts that their lines hold: few of hundreds are tried on a line."""

    def __init__(self, rules: list[FailureRule]) -> None:
        tried: dict[str, list[tuple[int, re.Pattern[str]]]] = {}
        for number, rule in enumerate(rules):
            for hint, expression in rule.pattern.alternatives:
                tried.setdefault(hint, []).append((number, expression))
        self._rules = rules
        self._tried = list(tried.items())

    def find(self, text: str, phase: str | None, serving: bool) -> FailureRule | None:
        """The first rule, in their order, that a line of lower case fits in a phase of a start."""
        held = [each for hint, tried in self._tried if hint in text for each in tried]
        for number, expression in sorted(held, key=lambda each: each[0]):
            rule = self._rules[number]
            if (rule.starting and serving) or rule.during not in (None, phase):
                continue
            if expression.search(text):
                return rule
        return None


@dataclass(frozen=True, slots=True)
class Known:
    """The whole table."""

    routine: list[tuple[str, Pattern]]
    stops: Pattern
    phases: list[tuple[str, Pattern]]
    facts: list[FactRule]
    summed: frozenset[str]
    failures: list[FailureRule]
    """In the order of the table, the weak ones behind all others."""
    finder: FailureFinder
    routine_hints: Hints
    fact_hints: Hints
    """Of facts and phases."""


@cache
def known() -> Known:
    """The table of this installation, read once."""
    text = resources.files("inferometer.engine").joinpath("data", "log.yaml").read_text("utf-8")
    table = TypeAdapter(_Table).validate_python(yaml.safe_load(text))
    routine = [(entry.name, pattern(entry.patterns)) for entry in table.routine]
    phases = [(entry.name, pattern(entry.patterns)) for entry in table.phases]
    facts = [_fact(fact) for fact in table.facts]
    stops = pattern(table.stops)
    rules = [rule for failure in table.failures for rule in _rules(failure)]
    failures = sorted(rules, key=lambda rule: rule.weak)
    return Known(
        routine,
        stops,
        phases,
        facts,
        frozenset(fact.name for fact in table.facts if fact.ranks == "sum"),
        failures,
        FailureFinder(failures),
        Hints(each for _, each in routine),
        Hints([*(each for _, each in phases), *(fact.pattern for fact in facts)]),
    )


def _fact(fact: _Fact) -> FactRule:
    greatest, product = fact.lines == "greatest", fact.numbers == "product"
    return FactRule(fact.name, fact.scale, pattern(fact.patterns), greatest, product, fact.fallback)


def _rules(failure: _Failure) -> list[FailureRule]:
    first = FailureRule(
        failure.name,
        failure.advice,
        pattern(failure.patterns),
        follows=failure.follows,
        starting=failure.starting,
    )
    rules = [first]
    for phase, texts in failure.during.items():
        rules.append(first._replace(pattern=pattern(texts), during=phase))
    if failure.weaker:
        rules.append(first._replace(pattern=pattern(failure.weaker), weak=True))
    return rules


def pattern(texts: list[str]) -> Pattern:
    """Patterns as one. Raises ValueError where an alternative has no literal text to look for."""
    parts = [part for text in texts for part in alternatives(text)]
    return Pattern(tuple((_hint(part), re.compile(part)) for part in parts))


def alternatives(text: str) -> list[str]:
    """A pattern at its bars outside of brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == "[":
            at = text.index("]", at + 2)
        elif text[at] in "()":
            depth += 1 if text[at] == "(" else -1
        elif text[at] == "|" and not depth:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]


def _hint(part: str) -> str:
    """The longest literal text of an alternative, outside of all brackets."""
    best = max(_literals(part), key=len, default="")
    if len(best) < LEAST_HINT:
        raise ValueError(f"no literal text of {LEAST_HINT} letters in the pattern {part!r}")
    return best


def _literals(part: str) -> list[str]:
    """Every run of characters that a match must hold as they stand."""
    runs, run, depth, at = [], "", 0, 0
    while at < len(part):
        char, literal = part[at], ""
        if char == "\\":
            at += 1
            literal = "" if part[at] in _ESCAPED_CLASS else part[at]
        elif char == "[":
            at = part.index("]", at + 2)
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char not in ".^$+?*{}":
            literal = char
        at += 1
        optional = at < len(part) and part[at] in _OPTIONAL
        if literal and not depth and not optional:
            run += literal
            continue
        runs.append(run)
        run = ""
        if char == "{":
            at = part.index("}", at) + 1
    return [*runs, run]
