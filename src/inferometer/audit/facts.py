"""The differences point by point, as change entries are held against them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferometer.audit.difference import Comparison, Difference, Subject
from inferometer.audit.entries import Entry
from inferometer.audit.flatten import text_of, values_of
from inferometer.audit.names import Vocabulary
from inferometer.audit.prose import numbers_of, same_value
from inferometer.core import Point
from inferometer.errors import InputError
from inferometer.plan import evaluate
from inferometer.plan.names import point_names
from inferometer.plan.templates import render


@dataclass(frozen=True, slots=True)
class Value:
    """One key at one point: what it was and what it is. `moved` is None where it did not change."""

    old: str | None
    new: str | None
    moved: Difference | None


@dataclass(slots=True)
class Facts:
    """Every point that changes, comes or goes, with its values by key."""

    comparison: Comparison
    moved: dict[str, dict[str, Value]] = field(default_factory=dict)
    """Point to key to value, of what changed."""
    came: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    _values: dict[str, dict[str, str]] = field(default_factory=dict)
    _words: dict[tuple[str, ...], tuple[Vocabulary, Vocabulary]] = field(default_factory=dict)

    def subject(self, name: str) -> Subject:
        """What is known of a point."""
        return self.comparison.subjects[name]

    def scope(self, entry: Entry) -> list[str]:
        """The points that an entry means, of those that differ at all."""
        comparison = self.comparison
        named = dict.fromkeys([*self.moved, *comparison.added, *comparison.removed])
        return [
            name
            for name in named
            if entry.means(comparison.subjects[name].config, comparison.subjects[name].scenario)
        ]

    def values(self, name: str) -> dict[str, str]:
        """Every value of a point at head, or at base where it is gone."""
        if name not in self._values:
            state = self.subject(name).state
            self._values[name] = {".".join(path): text for path, text in values_of(state.tree)}
        return self._values[name]

    def value(self, name: str, key: str) -> Value | None:
        """One key of a point: what moved, else what stands; None where it has no such key."""
        if (found := self.moved.get(name, {}).get(key)) is not None:
            return found
        held = self.values(name).get(key)
        if held is None:
            return None
        came = name in self.came
        return Value(None if came else held, None if name in self.gone else held, None)

    def vocabularies(self, scope: Sequence[str]) -> tuple[Vocabulary, Vocabulary]:
        """The keys that change at these points, and those that none changes: of one point an arm,
        the values of which differ little.
        """
        asked = tuple(scope)
        if asked not in self._words:
            moved = self.keys(asked)
            arms = {self.subject(name).arm: name for name in reversed(asked)}
            standing = {key: None for name in arms.values() for key in self.values(name)}
            others = (key for key in standing if key not in moved)
            self._words[asked] = (Vocabulary(moved), Vocabulary(others))
        return self._words[asked]

    def keys(self, names: Iterable[str]) -> dict[str, None]:
        """The keys that moved at any of these points, or came with them."""
        found: dict[str, None] = {}
        for name in names:
            found |= dict.fromkeys(self.moved.get(name, ()))
            if name in self.came:
                found |= dict.fromkeys(self.values(name))
        return found


def facts_of(comparison: Comparison) -> Facts:
    """Index the differences by point."""
    came, gone = frozenset(comparison.added), frozenset(comparison.removed)
    facts = Facts(comparison, came=came, gone=gone)
    for difference in comparison.differences:
        if difference.kind != "value":
            continue
        for case in difference.cases:
            for name in case.points:
                held = facts.moved.setdefault(name, {})
                value = Value(case.old, case.new, difference)
                held |= dict.fromkeys((difference.key, *difference.also), value)
    return facts


def claimed_text(claimed: Any) -> str | None:
    """A claimed value as a person reads it."""
    return text_of(claimed)


def holds(claimed: Any, resolved: str | None, point: Point) -> bool:
    """Whether a value of an entry is the resolved one. Text with `{...}` is worked out at the point
    first, as in a recipe.
    """
    if claimed is None or resolved is None:
        return claimed is None and resolved is None
    text = text_of(claimed)
    assert text is not None
    if isinstance(claimed, str) and "{" in claimed:
        try:
            text = text_of(render(claimed, point_names(point)))
        except InputError:
            text = claimed
    if text == resolved:
        return True
    one, other = numbers_of(text or ""), numbers_of(resolved)
    return len(one) == 1 and one == other and (text or "")[-1:].isdigit()


def _is_share(text: str | None) -> bool:
    return any(0 <= number <= 1 for number in numbers_of(text or ""))


_TIMES = re.compile(r"[·×]")
_CONC = re.compile(r"\bconc(?:urrency)?\b", re.IGNORECASE)


def says(claimed: str, resolved: str | None, key: str, point: Point) -> bool:
    """Whether a value of a sentence is the resolved one; `2·CONC` is worked out at the point."""
    if same_value(claimed, resolved, key):
        return True
    if claimed.endswith("%") and not _is_share(resolved):
        # How much something else came to: no value of this key.
        return True
    if _CONC.search(claimed) is None:
        return False
    try:
        source = _CONC.sub("conc", _TIMES.sub("*", claimed))
        return text_of(evaluate(source, point_names(point))) == resolved
    except InputError:
        # A formula that is not of the language: nothing can be said against it.
        return True
