"""The change entry that a difference asks for, complete but for the why.

Values that vary with the concurrency are written as the rule's own expression where it says all of
them with nothing but the point's fields, else one line a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from typing import Any

import yaml

from inferometer.audit.claims import signed
from inferometer.audit.difference import EXTERNAL, Comparison, Difference
from inferometer.audit.facts import Facts, facts_of, holds

WHY = "TODO: say why"
LINK = "TODO: link to the discussion"
_MOST_GLOBS = 20
_MOST_CASES = 8
_SCENARIOS = {"fixed": "fixed-seq-len", "agentic": "agentic-coding"}


def draft(comparison: Comparison) -> str:
    """YAML of one entry; empty where nothing differs."""
    if not comparison.differences:
        return ""
    facts = facts_of(comparison)
    subjects = comparison.subjects
    touched = dict.fromkeys(name for d in comparison.differences for name in d.points)
    entry: dict[str, Any] = {
        "config-keys": list(dict.fromkeys(subjects[name].config for name in touched)),
        "scenarios": sorted({_SCENARIOS[subjects[name].scenario] for name in touched}),
        "description": [WHY, *_files(comparison)],
        "link": LINK,
        "changes": [
            change
            for difference in comparison.differences
            for change in _changes(difference, facts, list(touched))
        ],
    }
    return yaml.dump(
        entry,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=96,
        default_flow_style=None,
    )


def _files(comparison: Comparison) -> Iterator[str]:
    """The files outside of the configs whose content differs, in words."""
    for difference in comparison.differences:
        if difference.key == EXTERNAL:
            plan = comparison.subjects[difference.points[0]].state.plan
            if plan is not None and plan.external is not None:
                yield f"The engine settings in {plan.external.file} differ."


class _Dumper(yaml.SafeDumper):
    """Lists of entries in blocks, small ones inline; no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Every value is written where it stands."""
        return True


def _changes(difference: Difference, facts: Facts, scope: Sequence[str]) -> Iterator[Any]:
    if difference.kind != "value":
        yield from _arms(difference, facts)
        return
    formulas = _formulas(difference, facts)
    if formulas is not None:
        narrow = _narrowed(difference.points, difference, facts, scope)
        yield _change(difference.key, *formulas, narrow)
        return
    if len(difference.cases) > _MOST_CASES and (new := _formula(difference, facts, True)):
        # What one rule took the place of may be many: what holds now is one thing.
        narrow = _narrowed(difference.points, difference, facts, scope)
        yield {"key": difference.key, "new": new[0], **narrow}
        return
    for case in difference.cases:
        narrow = _narrowed(case.points, difference, facts, scope)
        yield _change(difference.key, _scalar(case.old), _scalar(case.new), narrow)


def _arms(difference: Difference, facts: Facts) -> Iterator[Any]:
    """`ladder +64`, `added`, `removed`; narrowed to their points where there are other intents."""
    intent = difference.kind
    text = f"ladder {signed(difference.delta)}" if intent == "ladder" else intent
    others = (d for d in facts.comparison.differences if d.kind != "value" and d is not difference)
    strangers = {name for other in others for name in other.points}
    narrow = _telling(difference.points, strangers, facts)
    yield {"intent": text, **narrow} if narrow else text


def _change(key: str, old: Any, new: Any, narrow: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": key, "old": old, "new": new, **narrow}


def _scalar(value: str | None) -> Any:
    """A value as YAML would write it: numbers as numbers where that is exactly the text."""
    if value is None:
        return None
    for kind in (int, float):
        try:
            if str(kind(value)) == value and abs(kind(value)) < 1e15:
                return kind(value)
        except ValueError:
            continue
    # Braces would be read as an expression.
    return value.replace("{", "{{").replace("}", "}}") if "{" in value else value


def _formulas(difference: Difference, facts: Facts) -> tuple[Any, Any] | None:
    """Old and new as one value each, if both say the value at every point; None if not."""
    if len(difference.cases) < 2:
        return None
    sides = [_formula(difference, facts, new) for new in (False, True)]
    if any(side is None for side in sides):
        return None
    old, new = (side[0] for side in sides if side is not None)
    return old, new


def _formula(difference: Difference, facts: Facts, new: bool) -> tuple[Any] | None:
    """In a tuple, since None is a value: what says one side's value at every point."""
    values = {case.new if new else case.old for case in difference.cases}
    if len(values) == 1:
        (value,) = values
        return (_scalar(value),)
    subject = facts.subject(difference.points[0])
    state = subject.state if new else subject.base
    origin = state.plan.origins.get(difference.key) if state and state.plan else None
    if origin is None or origin.expression is None:
        return None
    says = _says_all(origin.expression, difference, facts, new)
    return (origin.expression,) if says else None


def _says_all(expression: str, difference: Difference, facts: Facts, new: bool) -> bool:
    for case in difference.cases:
        for name in case.points:
            subject = facts.subject(name)
            state = subject.state if new else subject.base
            if state is None or not holds(expression, case.new if new else case.old, state.point):
                return False
    return True


def _narrowed(
    names: Sequence[str], difference: Difference, facts: Facts, scope: Sequence[str]
) -> dict[str, Any]:
    """What tells these points from others that have the key with other values; nothing where the
    entry's own scope does.
    """
    mine = set(names)
    others = [
        name
        for name in scope
        if name not in mine
        and (value := facts.value(name, difference.key)) is not None
        and (value.moved is not None or name in facts.came)
    ]
    strangers = {name for name in others if not _alike(name, names[0], difference, facts)}
    return _telling(names, strangers, facts)


def _telling(names: Sequence[str], strangers: Set[str], facts: Facts) -> dict[str, Any]:
    """The shortest that means these points and none of the strangers: their configs, their arms,
    their concurrencies, else each of them. Where a whole ladder is meant no rung is named.
    """
    if not strangers:
        return {}
    subjects = [facts.subject(name) for name in names]
    for globs in (
        [f"{subject.config}_*" for subject in subjects],
        [f"{subject.arm}_c*" for subject in subjects],
    ):
        distinct = list(dict.fromkeys(globs))
        if len(distinct) <= _MOST_GLOBS and _tell(distinct, names, strangers):
            return {"points": distinct}
    concs = {subject.conc for subject in subjects}
    if not any(facts.subject(name).conc in concs for name in strangers):
        return {"conc": sorted(concs)}
    return {"points": list(names)}


def _tell(globs: Sequence[str], names: Iterable[str], strangers: Iterable[str]) -> bool:
    """Whether globs match all of one and none of the other."""

    def meant(name: str) -> bool:
        return any(fnmatchcase(name, glob) for glob in globs)

    return all(map(meant, names)) and not any(map(meant, strangers))


def _alike(name: str, other: str, difference: Difference, facts: Facts) -> bool:
    """Whether a claim that holds at one point holds at the other."""
    one, two = facts.value(name, difference.key), facts.value(other, difference.key)
    if one is None or two is None:
        return False
    return one.new == two.new and (name in facts.came or one.old == two.old)
