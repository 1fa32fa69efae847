"""The values that rules have set so far for one launch, each with the rule that set it.

Applies rules in order and renders their templates; what becomes of the values is `resolve`'s part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from inferometer.catalog import Facts
from inferometer.core import Origin
from inferometer.errors import InputError, Problem
from inferometer.plan.expressions import FACTS, Names, Value, evaluate, names_in
from inferometer.plan.layers import LOAD, Layer, Rule, Setting, Target
from inferometer.plan.templates import as_text, expressions, render, with_values


def drafted(names: Names, layers: Iterable[Layer], *, load_only: bool = False) -> Draft:
    """All rules applied: first what layers agree on, then the values that may name it. `load_only`
    keeps to the sections of the load.
    """
    held = tuple(layers)
    if load_only:
        used = _used_by_load(held)
        return _loaded(held, used, *(names.get(name) for name in used))
    draft = Draft(dict(names))
    for layer in held:
        for rule in layer.agreeing:
            draft.agree(layer, rule)
    for layer in held:
        for rule in layer.setting:
            draft.apply(layer, rule, rule.sets)
    return draft


@lru_cache(maxsize=1024, typed=True)
def _loaded(
    layers: tuple[Layer, ...], used: tuple[str, ...], *given: Value | Facts | None
) -> Draft:
    """The load's part, worked out once for all points that agree on what its rules name: few name
    the concurrency. It is only read.
    """
    draft = Draft(dict(zip(used, given, strict=True)))
    for layer in layers:
        for rule in layer.agreeing:
            draft.agree(layer, rule)
    for layer in layers:
        for rule in layer.loading:
            draft.apply(layer, rule, rule.loads)
    return draft


@lru_cache(maxsize=1024)
def _used_by_load(layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """Every name that a rule of the load may ask for, and the tables."""
    found = {FACTS: None}
    for rule in (rule for layer in layers for rule in (*layer.agreeing, *layer.loading)):
        sources = [rule.when] if rule.when is not None else []
        for setting in (*rule.lets, *rule.loads):
            sources += expressions(setting.origin.expression or "")
        found |= {name: None for source in sources for name in names_in(source)}
    return tuple(found)


@dataclass(slots=True)
class Draft:
    """The values set so far, a tree of mappings. A later rule replaces a value in place and keeps
    its position.
    """

    names: dict[str, Value | Facts | None]
    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[Target, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def agree(self, layer: Layer, rule: Rule) -> None:
        """Set the names that the rule's `let` sets, if its condition holds."""
        for setting, value in self._values(layer, rule, rule.lets):
            self.names[setting.target[1]] = value
            self._put(setting, value)

    def apply(self, layer: Layer, rule: Rule, settings: Sequence[Setting]) -> None:
        """Set these of the rule's values, if its condition holds."""
        for setting, value in self._values(layer, rule, settings):
            if setting.target == ("refuse",):
                text = as_text(value)
                self.problems.append(Problem(text, layer.file, setting.line, "refuse"))
            else:
                self._put(setting, value)

    def _values(
        self, layer: Layer, rule: Rule, settings: Sequence[Setting]
    ) -> Iterator[tuple[Setting, Any]]:
        """Each setting with its value; none where the condition does not hold."""
        try:
            if rule.when is not None and not holds(rule, self.names):
                return
        except InputError as error:
            self.problems += _placed(error, layer, rule.line, "when")
            return
        for setting in settings:
            if setting.fixed:
                yield setting, setting.value
                continue
            try:
                yield setting, self._value(setting)
            except InputError as error:
                key = ".".join(setting.target)
                self.problems += _placed(error, layer, setting.line, key)

    def _value(self, setting: Setting) -> Any:
        if setting.target[0] == "side" and setting.value is not None:
            return _copies(setting.value, self.names)
        return _rendered(setting.value, self.names)

    def _put(self, setting: Setting, value: Any) -> None:
        """A mapping takes the place of a single value above it, and a value that of a mapping."""
        target = setting.target
        node = self.tree
        for part in target[:-1]:
            below = node.get(part)
            if below.__class__ is not dict:
                below = node[part] = {}
            node = below
        node[target[-1]] = value
        self.origins[target] = setting.origin

    def section(self, name: str) -> dict[str, Any]:
        """The values of one section by key, null ones included."""
        section: dict[str, Any] = self.tree.get(name, {})
        return section

    def spelled(self, name: str) -> dict[str, Any]:
        """A section with its flags or files under the names that this launch has for them."""
        spelling = self.section("spell")
        return {spelling.get(key) or key: value for key, value in self.section(name).items()}

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
        kept = self._kept
        return {".".join(t): origin for t, origin in self.origins.items() if kept(t)}

    def written(self, target: Target) -> str:
        """The value at a target, as text; `null` for none, as recipes and plans write it."""
        value = pruned(self._at(target))
        return "null" if value is None else written(value)

    def filled(self, target: Target) -> str | None:
        """The expression that a value came from, with the point's values for its names."""
        expression = self.origins[target].expression
        return with_values(expression, self.names) if expression else None

    def _at(self, target: Target) -> Any:
        """The value at a target; None where there is none."""
        node: Any = self.tree
        for part in target:
            if node.__class__ is not dict:
                return None
            node = node.get(part)
        return node

    def _kept(self, target: Target) -> bool:
        section = target[0]
        if section in LOAD:
            return True
        if section in _NOT_KEPT:
            return False
        node = self._at(target)
        if node is None:
            return False
        if node.__class__ is dict and node:
            return target == ("router",)
        return node is not False or len(target) != 2


_NOT_KEPT = ("let", "spell", "bases")


def holds(rule: Rule, names: Names) -> bool:
    """Whether the rule's condition does. InputError where it is none."""
    if rule.when is None:
        return True
    value = evaluate(rule.when, names)
    if not isinstance(value, bool):
        raise InputError(f"expected a condition, got {value!r}")
    return value


def pruned(value: Any) -> Any:
    """A mapping without its null keys, at any depth."""
    if not isinstance(value, dict):
        return value
    return {key: pruned(part) for key, part in value.items() if part is not None}


def written(value: Any) -> str:
    """Text as it is; a mapping or a list as compact JSON."""
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return as_text(value)


def as_words(values: Mapping[str, Any]) -> dict[str, str]:
    """Variables or files by name, as text; without the null ones."""
    return {key: written(pruned(value)) for key, value in values.items() if value is not None}


def argv_of(command: list[Any], flags: Mapping[str, Any]) -> Iterator[str]:
    """The command's tokens, then each flag: alone where true, left out where false or null."""
    yield from (as_text(token) for token in command)
    for flag, value in flags.items():
        value = pruned(value)
        if value is None or value is False or value == {}:
            continue
        yield flag
        if value is not True:
            yield written(value)


def _copies(process: Mapping[str, Any], names: Names) -> list[dict[str, Any]]:
    """A side process as often as its `count` says, each knowing which `copy` it is."""
    count = _rendered(process.get("count", 1), names)
    if type(count) is not int or not 0 <= count <= MAX_COPIES:
        raise InputError(f"expected a count of 0 to {MAX_COPIES}, got {count!r}")
    parts = {name: process[name] for name in ("argv", "env") if process.get(name)}
    return [_rendered(parts, {**names, "copy": copy}) for copy in range(count)]


MAX_COPIES = 64
"""Of one side process: one for each GPU of a node at most."""


def _rendered(value: Any, names: Names) -> Any:
    """Plain data with every text in it rendered."""
    match value:
        case str():
            return render(value, names)
        case dict():
            return {key: _rendered(part, names) for key, part in value.items()}
        case list():
            return list(_spliced(value, names))
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


def _placed(error: InputError, layer: Layer, line: int, key: str) -> list[Problem]:
    return [Problem(problem.message, layer.file, line, key) for problem in error.problems]
