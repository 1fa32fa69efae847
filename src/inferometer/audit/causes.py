"""What moved at one point with the rules behind it, and which of these facts have one cause.

A cause is a rule of a recipe, or a field of a config, and a key that it sets. A value that only
repeats another is told with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inferometer.audit.flatten import LAUNCH_NAME, Change, text_of
from inferometer.audit.revision import Revision, State
from inferometer.core import LaunchPlan, Origin
from inferometer.plan.names import point_names

_PASSED_ON = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Fact:
    """One value at one point."""

    point: str
    change: Change
    old: Origin | None
    new: Origin | None
    derived: bool
    source: str | None
    """The point's field that the value only repeats."""


def fact_of(name: str, change: Change, was: State, now: State) -> Fact:
    """A change at the point of this name, with the rule that set the value on each side."""
    old, new = _origin(was.plan, change.key), _origin(now.plan, change.key)
    same = old is not None and new is not None and _rule(old) == _rule(new)
    expression = new.expression if new is not None else None
    source = None
    if same and expression and (passed := _PASSED_ON.fullmatch(expression)):
        before, after = (dict(point_names(state.point)) for state in (was, now))
        field = passed[1]
        if (text_of(before.get(field)), text_of(after.get(field))) == (change.old, change.new):
            source = field
    if change.path[0] == "settings" and len(change.path) == 2:
        source = change.path[1]
    derived = bool(same and expression and source is None)
    return Fact(name, change, old, new, derived, source)


def _origin(plan: LaunchPlan | None, key: str) -> Origin | None:
    """The rule that set a key, one of its members, or what it is a member of."""
    if plan is None:
        return None
    parts = key
    while parts:
        if parts in plan.origins:
            return plan.origins[parts]
        parts = parts.rpartition(".")[0]
    return next((o for name, o in plan.origins.items() if name.startswith(f"{key}.")), None)


_Rule = tuple[str, str | None, str | None]


def _rule(origin: Origin) -> _Rule:
    """A rule wherever it stands in its file: lines move when something above is edited."""
    return origin.layer, origin.when, origin.expression


def folded(facts: Sequence[Fact]) -> tuple[list[Fact], dict[tuple[str, str], list[str]]]:
    """Without values that only repeat a field of the point that is told by itself, or what the same
    rule does to an earlier launch of the point; those by (point, key that tells it).
    """
    told = {
        (fact.point, fact.change.old, fact.change.new): fact
        for fact in facts[::-1]
        if fact.old is None and fact.new is None
    }
    kept: list[Fact] = []
    also: dict[tuple[str, str], list[str]] = {}
    launches: dict[object, Fact] = {}
    for fact in facts:
        teller = told.get((fact.point, fact.change.old, fact.change.new))
        if fact.change.path[0] == "settings" and teller and not _names_alike(fact, teller):
            teller = None
        if fact.source is None or teller is None:
            teller = launches.setdefault(_in_launch(fact), fact)
        if teller is fact:
            kept.append(fact)
        else:
            also.setdefault((fact.point, teller.change.key), []).append(fact.change.key)
    return kept, also


def _names_alike(one: Fact, other: Fact) -> bool:
    """A setting of a deployment stands at the point as written, and in the plan as read."""
    return one.change.path[-1].lower() == other.change.path[-1].lower()


def _in_launch(fact: Fact) -> object:
    """What one rule does at several launches of a point has in common; else this fact alone."""
    name = fact.change.path[0]
    if len(fact.change.path) == 1 or not LAUNCH_NAME.fullmatch(name):
        return fact.point, fact.change.key
    rules = tuple(_rule(origin) if origin else None for origin in (fact.old, fact.new))
    return fact.point, fact.change.path[1:], fact.change.old, fact.change.new, rules, fact.derived


class Causes:
    """What facts of one cause have in common. A rule that only one side has is the cause of all
    that it does, whatever it takes the place of, or leaves to.
    """

    def __init__(self, base: Revision, head: Revision) -> None:
        self._sides = (base, head)
        self._rules: dict[tuple[int, str], frozenset[_Rule]] = {}

    def of(self, fact: Fact) -> object:
        """Equal for facts of one cause."""
        change = fact.change
        if fact.source is not None or (fact.old is None and fact.new is None):
            return change
        old, new = (_rule(origin) if origin else None for origin in (fact.old, fact.new))
        if old != new:
            if new is not None and new not in self._at(0, change.key):
                return change.key, "came", new
            if old is not None and old not in self._at(1, change.key):
                return change.key, "went", old
        return change.key, fact.derived, old, new

    def _at(self, side: int, key: str) -> frozenset[_Rule]:
        """The rules that set a key at any point of a side."""
        if (side, key) not in self._rules:
            plans = (state.plan for state in self._sides[side].states.values())
            origins = (plan.origins.get(key) for plan in plans if plan is not None)
            found = frozenset(_rule(origin) for origin in origins if origin is not None)
            self._rules[side, key] = found
        return self._rules[side, key]
