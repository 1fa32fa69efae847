"""A point and its recipe layers into the exact launch plan, each value with the rule that set it.

Pure: no file, no process, no randomness. Flags are not checked against the engine here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferometer.core import LaunchPlan, Origin, Point, RouterPlan
from inferometer.errors import InputError, Problem
from inferometer.plan.expressions import Names, evaluate
from inferometer.plan.layers import Layer, Rule, Setting, Target, texts
from inferometer.plan.names import point_names
from inferometer.plan.recipes import Recipes
from inferometer.plan.settings import check_settings
from inferometer.plan.templates import as_text, expressions, render


def resolve(point: Point, recipes: Recipes) -> LaunchPlan:
    """Apply the layers that hold for the point. InputError holds every problem, each with the
    layer file and line of the rule at fault.
    """
    draft = _Draft(point_names(point))
    for layer in recipes.layers(point):
        for rule in layer.rules:
            draft.apply(layer, rule)
    checked = check_settings(draft.section("client"), draft.section("workload"))
    draft.problems += [draft.problem(path, message) for path, message in checked.faults]
    draft.problems += [
        Problem("no recipe rule sets it", key=name)
        for name in ("image", "command")
        if draft.values.get((name,)) is None
    ]
    if draft.problems or checked.client is None or checked.workload is None:
        raise InputError(*(_of_point(problem, point) for problem in draft.problems))
    return LaunchPlan(
        image=as_text(draft.values[("image",)]),
        argv=tuple(_argv(draft.values[("command",)], draft.section("argv"))),
        env=_texts(draft.section("env")),
        files=_texts(draft.section("files")),
        router=_router(draft.values.get(("router",))),
        client=checked.client,
        workload=checked.workload,
        origins=draft.kept_origins(),
    )


@dataclass(slots=True)
class _Draft:
    """The values set so far. A later rule replaces a value in place and keeps its position."""

    names: Names
    values: dict[Target, Any] = field(default_factory=dict)
    origins: dict[Target, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def apply(self, layer: Layer, rule: Rule) -> None:
        """Set what the rule sets, if its condition holds."""
        try:
            if not _holds(rule, self.names):
                return
        except InputError as error:
            self.problems += _placed(error, layer, rule.line, "when")
            return
        for setting in rule.settings:
            try:
                value = _rendered(setting.value, self.names)
            except InputError as error:
                key = ".".join(setting.target)
                self.problems += _placed(error, layer, setting.line, key)
                continue
            self.values[setting.target] = value
            written = _expression(setting)
            self.origins[setting.target] = Origin(layer.file, setting.line, rule.when, written)

    def section(self, name: str) -> dict[str, Any]:
        """The values of one section by key, null ones included."""
        found = (item for item in self.values.items() if len(item[0]) == 2)
        return {target[1]: value for target, value in found if target[0] == name}

    def problem(self, path: tuple[str | int, ...], message: str) -> Problem:
        """A fault of a setting, at the rule that set it."""
        target = tuple(str(part) for part in path)
        origin = self.origins.get(target)
        key = ".".join(target)
        if origin is None:
            return Problem("no recipe rule sets it", key=key)
        return Problem(message, origin.layer, origin.line, key)

    def kept_origins(self) -> dict[str, Origin]:
        """Origins of what is in the plan: not of what a null or a false dropped."""
        dropped = {
            target
            for target, value in self.values.items()
            if target[0] not in ("client", "workload") and (value is None or value is False)
        }
        kept = ((target, origin) for target, origin in self.origins.items())
        return {".".join(target): origin for target, origin in kept if target not in dropped}


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
            return [_rendered(part, names) for part in value]
        case _:
            return value


def _expression(setting: Setting) -> str | None:
    """The templates of a setting as written, where they have expressions."""
    written = [text for text in texts(setting.value) if any(expressions(text))]
    return " ".join(written) or None


def _argv(command: list[Any], flags: Mapping[str, Any]) -> Iterator[str]:
    """The command's tokens, then each flag: alone where true, left out where false or null."""
    yield from (as_text(token) for token in command)
    for flag, value in flags.items():
        if value is None or value is False:
            continue
        yield flag
        if value is not True:
            yield as_text(value)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: as_text(value) for key, value in values.items() if value is not None}


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
