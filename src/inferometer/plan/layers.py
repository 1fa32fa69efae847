"""One recipe layer: a YAML list of rules, each with a condition and the values that it sets.

Reads and checks a layer without any point: form, known sections and settings, and every expression.
A later rule overrides an earlier one by key, and inside a mapping by its keys; null drops a flag, a
variable, a file, a side process, the router, or a key of a mapping. A rule that refuses sets
nothing: a point that it holds for has no launch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from pydantic import Field

from inferometer.core import ClientSettings, Origin, WorkloadSettings
from inferometer.errors import InputError, Problem, nearest
from inferometer.plan.expressions import check
from inferometer.plan.fields import Items, SomeItems, Strict, Text, expect, validate
from inferometer.plan.names import LET_NAMES, POINT_NAMES
from inferometer.plan.source import DataPath, Document, Read, read_document
from inferometer.plan.templates import check_template, expressions


def _without_nul(value: object) -> bool:
    """No text anywhere in a value holds the one character that no process can be given."""
    match value:
        case str():
            return "\0" not in value
        case dict():
            return all(_without_nul(part) for part in [*value, *value.values()])
        case list():
            return all(_without_nul(part) for part in value)
    return True


_NO_NUL = expect("text without a NUL character", _without_nul)
Scalar = Annotated[
    Any,
    _NO_NUL,
    expect("a single value", lambda v: v is None or isinstance(v, bool | int | float | str)),
]
EnvValue = Annotated[
    Any,
    _NO_NUL,
    expect(
        "text, a number or null (write true and false in quotes)",
        lambda v: v is None or (isinstance(v, int | float | str) and not isinstance(v, bool)),
    ),
]

Tree = Annotated[
    Any,
    _NO_NUL,
    expect("a single value, a list of single values or a mapping", lambda v: _is_tree(v)),
]

Target = tuple[str, ...]
"""What a rule sets: ("image",), ("argv", "--tp"), ("argv", "--speculative-config", "method")."""


class _Router(Strict):
    name: Text
    version: Text
    argv: Items[Text] = ()


class _Side(Strict):
    argv: SomeItems[Text]
    env: dict[str, EnvValue] = Field(default_factory=dict)
    count: Scalar = 1


class _Rule(Strict):
    when: Text | None = None
    bases: Items[Text] = ()
    let: dict[str, Scalar] = Field(default_factory=dict)
    spell: dict[str, Text | None] = Field(default_factory=dict)
    image: Text | None = None
    command: Items[Text] | None = None
    argv: dict[str, Tree] = Field(default_factory=dict)
    env: dict[str, EnvValue] = Field(default_factory=dict)
    files: dict[str, Tree] = Field(default_factory=dict)
    side: dict[str, _Side | None] = Field(default_factory=dict)
    router: _Router | None = None
    client: dict[str, Scalar] = Field(default_factory=dict)
    workload: dict[str, Scalar] = Field(default_factory=dict)
    refuse: Text | None = None


_WHOLE = ("bases", "image", "command", "router", "refuse")
_WHOLE_BY_NAME = ("side",)
LOAD = ("client", "workload")
"""Sections that say how a point is loaded, whatever is started for it."""
_SETTINGS = {
    "let": list(LET_NAMES),
    "client": [each.name for each in fields(ClientSettings)],
    "workload": [each.name for each in fields(WorkloadSettings)],
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a rule, unevaluated: a scalar, a list of texts, or the mapping of a router or of
    a side process.
    """

    target: Target
    value: Any
    line: int
    origin: Origin
    """Its rule; `expression` are the templates of the value as written, where they have any."""
    fixed: bool
    """Whether it is a scalar that is the same at every point: nothing is left to be rendered."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Settings that hold where `when` does; always, without one.

    What is set, in three parts that are looked at apart: the names that layers agree on, the values
    of a launch with its load, and of those the load's alone.
    """

    when: str | None
    line: int
    settings: tuple[Setting, ...]
    lets: tuple[Setting, ...]
    sets: tuple[Setting, ...]
    loads: tuple[Setting, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The rules of one file, in order. Equal to itself alone."""

    file: str
    rules: tuple[Rule, ...]
    agreeing: tuple[Rule, ...] = field(init=False)
    """Those that set names which layers agree on."""
    setting: tuple[Rule, ...] = field(init=False)
    """Those that set values of a launch or of its load."""
    loading: tuple[Rule, ...] = field(init=False)
    """Those that set values of the load."""
    based: tuple[tuple[Rule, Setting], ...] = field(init=False)
    """Those that name base engines, with that setting."""

    def __post_init__(self) -> None:
        """Every point looks through its layers, and few rules of one are of a kind."""
        rules = self.rules
        based = ((r, each) for r in rules for each in r.settings if each.target == ("bases",))
        object.__setattr__(self, "agreeing", tuple(rule for rule in rules if rule.lets))
        object.__setattr__(self, "setting", tuple(rule for rule in rules if rule.sets))
        object.__setattr__(self, "loading", tuple(rule for rule in rules if rule.loads))
        object.__setattr__(self, "based", tuple(based))


def read_layer(path: str, read: Read) -> Layer:
    """Read and check one layer file. InputError holds every problem found in it."""
    document = read_document(path, read, "list")
    problems = list(document.problems)
    for index in range(len(document.data)):
        problems += _rule_problems(document, index)
    if problems:
        raise InputError(*problems)
    return Layer(path, tuple(_rule(document, index) for index in range(len(document.data))))


def texts(value: Any) -> Iterator[str]:
    """Every text inside a setting's value: the templates."""
    match value:
        case str():
            yield value
        case dict():
            for part in value.values():
                yield from texts(part)
        case list():
            for part in value:
                yield from texts(part)


def _rule(document: Document, index: int) -> Rule:
    data = document.data[index]
    when = data.get("when")
    settings = tuple(
        _setting(document, (index, *target), when, value) for target, value in _targets(data)
    )
    return Rule(
        when,
        document.line((index, "when")),
        settings,
        lets=tuple(each for each in settings if each.target[0] == "let"),
        sets=tuple(each for each in settings if each.target[0] not in ("let", "bases")),
        loads=tuple(each for each in settings if each.target[0] in LOAD),
    )


def _setting(document: Document, path: DataPath, when: str | None, value: Any) -> Setting:
    target = tuple(str(part) for part in path[1:])
    line = document.line(path)
    origin = Origin(document.file, line, when, _expression(value))
    plain = isinstance(value, bool | int | float | str) or value is None
    fixed = plain and not (isinstance(value, str) and ("{" in value or "}" in value))
    return Setting(target, value, line, origin, fixed)


def _expression(value: Any) -> str | None:
    written = [text for text in texts(value) if any(expressions(text))]
    return " ".join(written) or None


def _targets(data: dict[str, Any]) -> Iterator[tuple[Target, Any]]:
    for section, content in data.items():
        if section in _WHOLE:
            yield (section,), content
        elif section in _WHOLE_BY_NAME:
            yield from (((section, name), value) for name, value in content.items())
        elif section != "when":
            yield from _leaves((section,), content)


def _leaves(target: Target, content: dict[str, Any]) -> Iterator[tuple[Target, Any]]:
    for key, value in content.items():
        if isinstance(value, dict) and value:
            yield from _leaves((*target, key), value)
        else:
            yield (*target, key), value


def _is_tree(value: Any) -> bool:
    """Scalars, lists of scalars, and mappings of those by text."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_tree(part) for key, part in value.items())
    if isinstance(value, list):
        return all(isinstance(part, bool | int | float | str) for part in value)
    return value is None or isinstance(value, bool | int | float | str)


def _rule_problems(document: Document, index: int) -> Iterator[Problem]:
    rule, problems = validate(_Rule, document, (index,))
    yield from problems
    if rule is None:
        return
    if rule.when is not None:
        yield from _language_problems(document, (index, "when"), check, rule.when)
    for target, value in _targets(document.data[index]):
        path: DataPath = (index, *target)
        yield from _target_problems(document, path, target)
        for text in texts(value):
            yield from _language_problems(document, path, check_template, text)


def _language_problems(
    document: Document,
    path: DataPath,
    checker: Callable[[str, Collection[str]], None],
    source: str,
) -> Iterator[Problem]:
    try:
        checker(source, POINT_NAMES)
    except InputError as error:
        yield from (document.problem(path, problem.message) for problem in error.problems)


def _target_problems(document: Document, path: DataPath, target: Target) -> Iterator[Problem]:
    if len(target) == 1:
        return
    section, key = target[:2]
    if section in _SETTINGS and key not in _SETTINGS[section]:
        known = _SETTINGS[section]
        hint = nearest(key, known) or f"; known: {', '.join(known)}"
        yield document.problem(path, f"unknown {section} setting {key!r}{hint}")
    if section == "env" and (not key or "=" in key or "\0" in key):
        yield document.problem(path, f"expected the name of a variable, without =, got {key!r}")
    if section == "argv" and "\0" in key:
        yield document.problem(path, f"expected a flag without a NUL character, got {key!r}")
    if section == "argv" and not key.startswith("-"):
        yield document.problem(path, f"expected a flag such as --{key}, got {key!r}")
