"""A point and its recipe layers into the exact launch plan, each value with the rule that set it.

Pure: no file, no process, no randomness. Flags are not checked against the engine here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferometer.core import LaunchPlan, Origin, Point, RouterPlan
from inferometer.errors import InputError, Problem
from inferometer.plan.expressions import Names, Value, evaluate
from inferometer.plan.layers import Layer, Rule, Setting, Target
from inferometer.plan.names import point_names
from inferometer.plan.recipes import Recipes
from inferometer.plan.settings import check_settings
from inferometer.plan.templates import as_text, render, with_values


def resolve(point: Point, recipes: Recipes) -> LaunchPlan:
    """Apply the layers that hold for the point. InputError holds every problem, each with the
    layer file and line of the rule at fault.
    """
    draft = _drafted(point, recipes)
    checked = check_settings(draft.section("client"), draft.section("workload"))
    draft.problems += [draft.problem(path, message) for path, message in checked.faults]
    draft.problems += [
        Problem("no recipe rule sets it", key=name)
        for name in ("image", "command")
        if draft.tree.get(name) is None
    ]
    if draft.problems or checked.client is None or checked.workload is None:
        raise InputError(*(_of_point(problem, point) for problem in draft.problems))
    return LaunchPlan(
        image=as_text(draft.tree["image"]),
        argv=tuple(_argv(draft.tree["command"], _spelled(draft, "argv"))),
        env=_texts(draft.section("env")),
        files=_texts(_spelled(draft, "files")),
        router=_router(draft.tree.get("router")),
        client=checked.client,
        workload=checked.workload,
        origins=draft.kept_origins(),
    )


@dataclass(frozen=True, slots=True)
class Explanation:
    """One value of a plan, as text, and the rule that set it."""

    target: Target
    value: str
    origin: Origin
    filled: str | None
    """The expression with the point's values in place of its names."""


def explain(point: Point, recipes: Recipes) -> tuple[Explanation, ...]:
    """The names that layers agree on, then every value of the point's plan by section. InputError
    where the point does not resolve.
    """
    plan = resolve(point, recipes)
    draft = _drafted(point, recipes)
    shown = {*plan.origins, *(f"let.{name}" for name in draft.section("let"))}
    kept = [target for target in draft.origins if ".".join(target) in shown]
    kept.sort(key=lambda target: _SECTIONS.index(target[0]))
    return tuple(draft.explanation(target) for target in kept)


_SECTIONS = ("let", "image", "command", "argv", "env", "files", "router", "client", "workload")


def _drafted(point: Point, recipes: Recipes) -> _Draft:
    """All rules applied: first what layers agree on, then the values that may name it."""
    draft = _Draft(dict(point_names(point)))
    rules = [(layer, rule) for layer in recipes.layers(point) for rule in layer.rules]
    for layer, rule in rules:
        draft.agree(layer, rule)
    for layer, rule in rules:
        draft.apply(layer, rule)
    return draft


@dataclass(slots=True)
class _Draft:
    """The values set so far, a tree of mappings. A later rule replaces a value in place and keeps
    its position.
    """

    names: dict[str, Value | None]
    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[Target, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def agree(self, layer: Layer, rule: Rule) -> None:
        """Set the names that the rule's `let` sets, if its condition holds."""
        settings = [setting for setting in rule.settings if setting.target[0] == "let"]
        for setting, value in self._values(layer, rule, settings):
            self.names[setting.target[1]] = value
            self._put(layer, rule, setting, value)

    def apply(self, layer: Layer, rule: Rule) -> None:
        """Set what else the rule sets, if its condition holds."""
        settings = [setting for setting in rule.settings if setting.target[0] != "let"]
        for setting, value in self._values(layer, rule, settings):
            if setting.target == ("refuse",):
                text = as_text(value)
                self.problems.append(Problem(text, layer.file, setting.line, "refuse"))
            else:
                self._put(layer, rule, setting, value)

    def _values(
        self, layer: Layer, rule: Rule, settings: list[Setting]
    ) -> Iterator[tuple[Setting, Any]]:
        """Each setting with its value; none where the condition does not hold."""
        try:
            if not settings or not _holds(rule, self.names):
                return
        except InputError as error:
            self.problems += _placed(error, layer, rule.line, "when")
            return
        for setting in settings:
            try:
                yield setting, _rendered(setting.value, self.names)
            except InputError as error:
                key = ".".join(setting.target)
                self.problems += _placed(error, layer, setting.line, key)

    def _put(self, layer: Layer, rule: Rule, setting: Setting, value: Any) -> None:
        """A mapping takes the place of a single value above it, and a value that of a mapping."""
        node = self.tree
        for part in setting.target[:-1]:
            if not isinstance(node.get(part), dict):
                node[part] = {}
            node = node[part]
        node[setting.target[-1]] = value
        origin = Origin(layer.file, setting.line, rule.when, setting.expression)
        self.origins[setting.target] = origin

    def section(self, name: str) -> dict[str, Any]:
        """The values of one section by key, null ones included."""
        section: dict[str, Any] = self.tree.get(name, {})
        return section

    def problem(self, path: tuple[str | int, ...], message: str) -> Problem:
        """A fault of a setting, at the rule that set it."""
        target = tuple(str(part) for part in path)
        origin = self.origins.get(target)
        key = ".".join(target)
        if origin is None:
            return Problem("no recipe rule sets it", key=key)
        return Problem(message, origin.layer, origin.line, key)

    def kept_origins(self) -> dict[str, Origin]:
        """Origins of what is in the plan: not of what a null, a false or another value dropped, nor
        of the names that expressions use.
        """
        return {
            ".".join(target): origin
            for target, origin in self.origins.items()
            if self._kept(target)
        }

    def explanation(self, target: Target) -> Explanation:
        """The value at a target that is in the plan."""
        origin = self.origins[target]
        filled = with_values(origin.expression, self.names) if origin.expression else None
        return Explanation(target, _written(_pruned(self._at(target))), origin, filled)

    def _at(self, target: Target) -> Any:
        """The value at a target; None where there is none."""
        node: Any = self.tree
        for part in target:
            node = node.get(part) if isinstance(node, dict) else None
        return node

    def _kept(self, target: Target) -> bool:
        node = self._at(target)
        if target[0] in ("client", "workload"):
            return True
        if target[0] in ("let", "spell"):
            return False
        if isinstance(node, dict) and node and target != ("router",):
            return False
        return not (node is None or (node is False and len(target) == 2))


def _holds(rule: Rule, names: Names) -> bool:
    if rule.when is None:
        return True
    value = evaluate(rule.when, names)
    if not isinstance(value, bool):
        raise InputError(f"expected a condition, got {value!r}")
    return value


def _rendered(value: Any, names: Names) -> Any:
    """Plain data with every text in it rendered."""
    match value:
        case str():
            return render(value, names)
        case dict():
            return {key: _rendered(part, names) for key, part in value.items()}
        case list():
            return list(_spliced(value, names))
        case dict():
            return {key: _rendered(part, names) for key, part in value.items()}
        case _:
            return value


def _spliced(parts: list[Any], names: Names) -> Iterator[Any]:
    """The parts of a list; one that is a list itself gives its parts."""
    for part in parts:
        value = _rendered(part, names)
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def _spelled(draft: _Draft, name: str) -> dict[str, Any]:
    """A section with its flags or files under the names that this launch has for them."""
    spelling = draft.section("spell")
    return {spelling.get(key) or key: value for key, value in draft.section(name).items()}


def _argv(command: list[Any], flags: Mapping[str, Any]) -> Iterator[str]:
    """The command's tokens, then each flag: alone where true, left out where false or null."""
    yield from (as_text(token) for token in command)
    for flag, value in flags.items():
        value = _pruned(value)
        if value is None or value is False or value == {}:
            continue
        yield flag
        if value is not True:
            yield _written(value)


def _pruned(value: Any) -> Any:
    """A mapping without its null keys, at any depth."""
    if not isinstance(value, dict):
        return value
    return {key: _pruned(part) for key, part in value.items() if part is not None}


def _written(value: Any) -> str:
    """Text as it is; a mapping or a list as compact JSON."""
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return as_text(value)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: _written(_pruned(value)) for key, value in values.items() if value is not None}


def _router(value: Mapping[str, Any] | None) -> RouterPlan | None:
    if value is None:
        return None
    argv = tuple(as_text(token) for token in value.get("argv", ()))
    return RouterPlan(as_text(value["name"]), as_text(value["version"]), argv)


def _placed(error: InputError, layer: Layer, line: int, key: str) -> list[Problem]:
    return [Problem(problem.message, layer.file, line, key) for problem in error.problems]


def _of_point(problem: Problem, point: Point) -> Problem:
    message = f"{problem.message} (point {point.id})"
    return Problem(message, problem.file, problem.line, problem.key)
