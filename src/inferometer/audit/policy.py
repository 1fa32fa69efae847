"""Policy as data: a short list of named checks on what the points of the head resolve to.

A check that an unchanged point breaks is told and stops nothing: the change did not break it. The
list is that of the base where it has one, so that a change cannot lift a rule for itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson

from inferometer.audit.difference import Comparison
from inferometer.audit.finding import Finding, Level
from inferometer.audit.flatten import bare, text_of, values_of
from inferometer.audit.outside import Outside, outside_of
from inferometer.audit.revision import Revision, State
from inferometer.audit.stale import Stored
from inferometer.core import LaunchPlan
from inferometer.errors import InputError
from inferometer.plan import evaluate, read_document, read_file
from inferometer.plan.expressions import check as check_expression
from inferometer.plan.fields import Fault, Items, Strict, Text, fit, one_of
from inferometer.plan.names import POINT_NAMES, point_names

PACKAGED = Path(__file__).parent / "policy.yaml"
MAX_CHECKS = 100
MAX_GLOBS = 1_000
"""Globs and texts of all checks: each is held against every point."""
_WILD = frozenset("*?[")
_WORDS = re.compile(r"[A-Za-z0-9_]+")
_KINDS = ("require", "forbid", "equal", "alike", "results")


class Check(Strict):
    """One named check. Exactly one of `require`, `forbid`, `equal`, `alike` and `results`."""

    name: Text
    what: Text = "must hold"
    level: Annotated[
        Literal["error", "warning", "note", "off"], one_of("error", "warning", "note", "off")
    ] = "error"
    keys: Items[Text] | None = None
    """Config keys that it is about; None: all."""
    where: Items[Text] | None = None
    """Points that have one of these keys are meant too, whatever their config key."""
    when: Text | None = None
    require: Items[Text] | None = None
    """One of these keys is there."""
    forbid: dict[str, Items[Text]] | None = None
    """Key to texts that its value must not match."""
    equal: Items[Text] | None = None
    """These keys, where they are there, have one value."""
    alike: Items[Text] | None = None
    """All points of a config and scenario have one of these keys, or none has."""
    results: Items[Text] | None = None
    """Metrics that a stored result must hold."""

    def faults(self) -> Iterator[Fault]:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            yield Fault(
                (), f"expected one of {', '.join(_KINDS)}, got {' and '.join(given) or 'none'}"
            )
        if self.when is not None:
            try:
                check_expression(self.when, POINT_NAMES)
            except InputError as error:
                yield from (Fault(("when",), problem.message) for problem in error.problems)

    def is_about(self, view: View) -> bool:
        """Whether a point is one that the check speaks of."""
        state = view.state
        named = (fnmatchcase(state.point.config, key) for key in self.keys or ())
        if self.keys is not None and not any(named) and not view.having(self.where or ()):
            return False
        return self.when is None or evaluate(self.when, point_names(state.point)) is True


@dataclass(frozen=True, slots=True)
class Policy:
    """The checks that hold, and what is to be told of where they come from."""

    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]


def read_policy(base: Revision, head: Revision) -> Policy:
    """The package's checks as the audited tree changes them. InputError for a faulty list."""
    told: list[Finding] = []
    side = base if base.found.policy else head
    if base.found.policy and base.found.policy != head.found.policy:
        message = "the policy of the base is gone at head; judged by that of the base"
        told.append(Finding("note", "policy", message, base.found.policy))
    elif base.found.policy and head.found.policy and _differs(base, head, base.found.policy):
        message = "the policy differs; judged by that of the base"
        told.append(Finding("note", "policy", message, head.found.policy, 1))
    packaged = {check.name: check for check in _packaged()}
    if head.found.policy:
        # That the next base has a list that can be read is this change's duty.
        _listed(head.found.policy, head, packaged)
    checks = _listed(side.found.policy, side, packaged) if side.found.policy else packaged
    return Policy(tuple(check for check in checks.values() if check.level != "off"), tuple(told))


def _differs(base: Revision, head: Revision, path: str) -> bool:
    return base.tree.blob(path) != head.tree.blob(path)


def check_policy(
    policy: Policy, comparison: Comparison, stored: Mapping[str, Stored] | None
) -> tuple[Finding, ...]:
    """Every check over the points of the head. `stored`: results by digest; None: no store."""
    files: dict[str, Outside] = {}
    views = {
        name: View(name, state, outside_of(state, files))
        for name, state in comparison.head.states.items()
    }
    touched = {*comparison.changed, *comparison.added}
    found: list[Finding] = [*policy.findings]
    for check in policy.checks:
        about = [view for view in views.values() if check.is_about(view)]
        found += _grouped(check, _broken(check, about, stored), touched, comparison)
        if check.equal is not None:
            found += _unread(check, about, comparison)
        unmeasured = check.results is not None and stored is None
        if unmeasured and any(view.name in touched for view in about):
            message = f"{check.name}: not checked, since no store is given (--store)"
            found.append(Finding("note", f"policy/{check.name}", message))
    return tuple(found)


@dataclass(slots=True)
class View:
    """A point with its values by key, worked out when a check asks."""

    name: str
    state: State
    outside: Outside
    _values: dict[str, str] | None = None
    _text: bytes | None = None
    _having: dict[tuple[str, ...], dict[str, str]] = field(default_factory=dict)

    def first(self, globs: Sequence[str]) -> str | None:
        """One key that matches, where any does; names without a wildcard are asked for first."""
        for glob in globs:
            if not _WILD & set(glob) and self._may_have(glob) and self._holds(glob):
                return glob
        return next(iter(self.having(globs)), None)

    def _holds(self, key: str) -> bool:
        """Whether there is a single value just here. What stands in a launch is not looked for."""
        node: Any = self.state.tree
        section, _, rest = key.partition(".")
        for part in (section, *rest.split(".")) if rest else (section,):
            if not isinstance(node, dict) or part not in node:
                return False
            node = node[part]
        return node is not None and not (isinstance(node, dict) and node)

    def having(self, globs: Sequence[str]) -> dict[str, str]:
        """The values whose key matches."""
        asked = tuple(globs)
        if asked not in self._having:
            self._having[asked] = self._matching(asked)
        return self._having[asked]

    def _matching(self, globs: tuple[str, ...]) -> dict[str, str]:
        known = {glob: self._field(glob) for glob in globs if self._is_field(glob)}
        simple = {glob: value for glob, value in known.items() if value is not None}
        wanted = [glob for glob in globs if glob not in known and self._may_have(glob)]
        if not wanted:
            return simple
        if self._values is None:
            held = {**self.state.tree, "external": self._external()}
            self._values = {".".join(path): text for path, text in values_of(held)}
        plain = [glob for glob in wanted if not _WILD & set(glob)]
        found = simple | {key: self._values[key] for key in plain if key in self._values}
        if self.state.plan is not None and self.state.plan.launches:
            # A flag of a launch is a flag, whichever launch it is of.
            found |= {key: text for key, text in self._values.items() if bare(key) in plain}
        wild = [glob for glob in wanted if glob not in plain]
        for key, text in self._values.items() if wild else ():
            if any(fnmatchcase(key, glob) for glob in wild):
                found[key] = text
        return found

    def _external(self) -> dict[str, Any]:
        """What the tree says of the file elsewhere, and what the file itself says."""
        said = self.state.tree.get("external")
        return {**(said if isinstance(said, dict) else {}), **self.outside.data}

    def _field(self, name: str) -> str | None:
        """A value that plan or point has under a plain name, as text."""
        whole = self.state.plan or self.state.point
        return text_of(getattr(whole, name, None))

    def _is_field(self, name: str) -> bool:
        """Whether a plain name is that of a single value, or of one that is not there."""
        whole = self.state.plan or self.state.point
        if not hasattr(whole, name):
            return False
        return isinstance(getattr(whole, name), bool | int | float | str | None)

    def _may_have(self, glob: str) -> bool:
        """Whether the last word of a glob stands anywhere in the launch: few points need a tree."""
        if self._text is None:
            plan = self.state.plan
            launch = plan and [getattr(plan, name) for name in _LAUNCH]
            self._text = orjson.dumps((self.state.point, launch)) + (self.outside.raw or b"")
        words = _WORDS.findall(glob)
        return not words or words[-1].encode() in self._text


_LAUNCH = tuple(each.name for each in fields(LaunchPlan) if each.name != "origins")

Broken = tuple[str, str, str | None, str | None]
"""Point, message, key, value."""


def _broken(
    check: Check, about: Sequence[View], stored: Mapping[str, Stored] | None
) -> Iterator[Broken]:
    if check.alike is not None:
        yield from _unlike(check.alike, about)
        return
    for view in about:
        if check.require is not None:
            yield from _lacking(check.require, view)
        if check.forbid is not None:
            yield from _forbidden(check.forbid, view)
        if check.equal is not None:
            yield from _unequal(check.equal, view)
        if check.results is not None and stored is not None:
            yield from _unmeasured(check.results, view, stored)


def _lacking(globs: Sequence[str], view: View) -> Iterator[Broken]:
    if view.state.plan is not None and view.first(globs) is None:
        yield view.name, f"none of {', '.join(globs[:3])} is set", None, None


def _unequal(globs: Sequence[str], view: View) -> Iterator[Broken]:
    held = view.having(globs)
    if len(set(held.values())) > 1:
        key, value = next(iter(held.items()))
        other = next((k, v) for k, v in held.items() if v != value)
        yield view.name, f"{key} is {value}, {other[0]} is {other[1]}", key, value


def _forbidden(forbid: Mapping[str, Sequence[str]], view: View) -> Iterator[Broken]:
    for glob, texts in forbid.items():
        for key, value in view.having([glob]).items():
            for text in texts:
                if fnmatchcase(value.lower(), text.lower()):
                    yield view.name, f"{key} is {value}, like {text}", key, value


def _unlike(globs: Sequence[str], about: Sequence[View]) -> Iterator[Broken]:
    """Points of a curve that differ from what its first point does."""
    curves: dict[tuple[str, str], list[View]] = {}
    for view in about:
        if view.state.plan is not None:
            curve = (view.state.point.config, view.state.point.scenario.label)
            curves.setdefault(curve, []).append(view)
    for views in curves.values():
        having = {view.name: view.first(globs) for view in views}
        without = [name for name, key in having.items() if key is None]
        if not 0 < len(without) < len(views):
            continue
        key = next(key for key in having.values() if key is not None)
        for name in without:
            message = f"{key} is set at {len(views) - len(without)} points of the curve, not here"
            yield name, message, key, None


def _unmeasured(globs: Sequence[str], view: View, stored: Mapping[str, Stored]) -> Iterator[Broken]:
    result = stored.get(view.state.digest)
    if result is None:
        return
    measured = [
        name
        for name, value in result.metrics.items()
        if value is not None and any(fnmatchcase(name, glob) for glob in globs)
    ]
    if not measured:
        yield view.name, f"its result in {result.place} holds no {', '.join(globs)}", None, None


def _unread(check: Check, about: Sequence[View], comparison: Comparison) -> Iterator[Finding]:
    """Files with an engine's settings that could not be looked into, each reason once; only where
    the change touches what would have been compared.
    """
    reasons: dict[str, list[str]] = {}
    for view in about:
        if view.outside.why is not None and _is_another(view, comparison):
            reasons.setdefault(view.outside.why, []).append(view.name)
    for why, names in reasons.items():
        file, line = comparison.head.place(comparison.head.states[names[0]].point.config)
        message = f"{check.name}: not checked: {why}"
        yield Finding("note", f"policy/{check.name}", message, file, line, tuple(names))


def _is_another(view: View, comparison: Comparison) -> bool:
    """Whether a point is new, or its image or its file is."""
    base = comparison.subjects[view.name].base
    if base is None or base.plan is None:
        return True
    plan = view.state.plan
    return plan is None or (plan.image, plan.external) != (base.plan.image, base.plan.external)


def _grouped(
    check: Check, broken: Iterable[Broken], touched: set[str], comparison: Comparison
) -> Iterator[Finding]:
    """One finding a message, by whether the change touches the points. `alike` is about a whole
    curve, so there any touched point of the config counts.
    """
    groups: dict[tuple[str, bool, str], list[Broken]] = {}
    configs = {comparison.subjects[name].config for name in touched}
    for each in broken:
        config = comparison.head.states[each[0]].point.config
        new = config in configs if check.alike is not None else each[0] in touched
        groups.setdefault((each[1], new, config if new else ""), []).append(each)
    for (message, new, _), found in groups.items():
        file, line = comparison.head.place(comparison.head.states[found[0][0]].point.config)
        level: Level = check.level if new and check.level != "off" else "note"
        told = f"{check.name}: {message}; {check.what}"
        yield Finding(
            level,
            f"policy/{check.name}",
            told if new else f"{told} (not of this change)",
            file,
            line,
            tuple(each[0] for each in found),
            found[0][2],
            new=found[0][3],
        )


def _globs_in(check: Check) -> int:
    lists = (check.keys, check.where, check.require, check.equal, check.alike, check.results)
    forbidden = sum(1 + len(texts) for texts in (check.forbid or {}).values())
    return forbidden + sum(len(each) for each in lists if each is not None)


def _packaged() -> Iterator[Check]:
    document = read_document(str(PACKAGED), read_file, "list")
    for item in document.data:
        yield Check.model_validate(item)


def _listed(path: str, side: Revision, packaged: Mapping[str, Check]) -> dict[str, Check]:
    """The checks of a file over those of the package: a known name changes fields, others add."""
    document = read_document(path, side.tree.read, "list")
    problems = list(document.problems)
    checks = dict(packaged)
    for index, item in enumerate(document.data[:MAX_CHECKS]):
        name = item.get("name") if isinstance(item, dict) else None
        known: dict[str, Any] = {}
        if isinstance(name, str) and name in checks:
            known = checks[name].model_dump(by_alias=True, exclude_unset=True)
            known = {key: list(v) if isinstance(v, tuple) else v for key, v in known.items()}
        check, faults = fit(Check, known | item if isinstance(item, dict) else item)
        problems += [document.problem((index, *fault.path), fault.message) for fault in faults]
        if check is not None:
            checks[check.name] = check
    if sum(map(_globs_in, checks.values())) > MAX_GLOBS:
        problems.append(document.problem((), f"more than {MAX_GLOBS} globs in all checks"))
    if len(document.data) > MAX_CHECKS:
        problems.append(document.problem((), f"more than {MAX_CHECKS} checks"))
    if problems:
        raise InputError(*problems)
    return checks
