"""One side of an audit: what the files of a tree declare, every point resolved as far as it goes.

Files that are equal on both sides are parsed once, and a point that meets equal layers is resolved
once. What a tree may make us do is bounded: points, settings looked at, characters resolved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from inferometer.audit.discover import ConfigSet, Found, Wanted, discover
from inferometer.audit.flatten import tree_of
from inferometer.audit.tree import Tree
from inferometer.catalog import Facts
from inferometer.core import LaunchPlan, Point, RoleLaunch
from inferometer.errors import InputError, Problem
from inferometer.plan import (
    Config,
    Configs,
    Recipes,
    digest,
    expand,
    load_configs,
    load_recipes,
    read_facts,
    resolve,
)
from inferometer.plan.additional import settings_of
from inferometer.plan.layers import Layer

MAX_POINTS = 20_000
"""Of one side; the real files have 2,078."""
MAX_SETTINGS = 10_000_000
"""Settings of the layers that points of one side may rest on; the real ones have 1,500,000."""
MAX_RESOLVED = 50_000_000
"""Characters of all plans of one side."""


@dataclass(slots=True)
class State:
    """A point on one side. `plan` is None where it does not resolve, and `cause` says why."""

    point: Point
    plan: LaunchPlan | None
    digest: str
    cause: str | None
    problem: Problem | None
    recipes: Recipes | None = None
    """The layers that the plan was resolved with."""
    _tree: dict[str, Any] | None = None

    @property
    def tree(self) -> dict[str, Any]:
        """All values of point and plan by section; worked out once."""
        if self._tree is None:
            self._tree = tree_of(self.point, self.plan)
        return self._tree


@dataclass(frozen=True, slots=True)
class Revision:
    """One side: its files, configs by key, points by id in the order declared."""

    tree: Tree
    found: Found
    configs: Mapping[str, Config]
    states: Mapping[str, State]
    warnings: tuple[Problem, ...]

    @property
    def name(self) -> str:
        """What a person typed."""
        return self.tree.name

    def place(self, config: str) -> tuple[str | None, int | None]:
        """File and line of a config key."""
        found = self.configs.get(config)
        return (found.file, found.line) if found else (None, None)


@dataclass(slots=True)
class Cache:
    """What both sides share, by the ids of the files that it was made of."""

    configs: dict[object, Configs] = field(default_factory=dict)
    recipes: dict[object, Recipes] = field(default_factory=dict)
    facts: dict[object, Facts] = field(default_factory=dict)
    states: dict[object, State] = field(default_factory=dict)
    layers: dict[int, object] = field(default_factory=dict)
    """Identity of a layer object to its file and blob: equal ones need no second look."""
    settings: dict[int, int] = field(default_factory=dict)
    """Identity of a layer object to how many settings it holds."""
    numbers: dict[object, int] = field(default_factory=dict)

    def number(self, layers: object) -> int:
        """A short name for a set of layers: the same for equal ones."""
        return self.numbers.setdefault(layers, len(self.numbers))


def read_revision(tree: Tree, wanted: Wanted, cache: Cache) -> Revision:
    """Everything that a tree declares. InputError holds every problem of its files."""
    found = discover(tree, wanted)
    tree.fetch(path for each in found.sets for path in (*each.masters, each.runners))
    configs: dict[str, Config] = {}
    states: dict[str, State] = {}
    warnings: list[Problem] = []
    problems: list[Problem] = []
    budget = _Budget(tree.name)
    for each in found.sets:
        try:
            declared = _configs(tree, each, cache)
            recipes = _recipes(tree, each, found, cache)
        except InputError as error:
            problems += error.problems
            continue
        warnings += declared.warnings
        for config in declared.configs:
            if (first := configs.get(config.key)) is not None:
                message = f"config key is also in {first.file}:{first.line}"
                problems.append(Problem(message, config.file, config.line, config.key))
            configs[config.key] = config
        for state in _states(tree, declared, recipes, cache, budget):
            states[_free(state.point.id, states)] = state
    if problems:
        raise InputError(*problems)
    return Revision(tree, found, configs, states, tuple(warnings))


@dataclass(slots=True)
class _Budget:
    """What one side may cost."""

    name: str
    points: int = MAX_POINTS
    settings: int = MAX_SETTINGS
    characters: int = MAX_RESOLVED

    def take(self, *, points: int = 0, settings: int = 0, characters: int = 0) -> None:
        self.points -= points
        self.settings -= settings
        self.characters -= characters
        if self.points < 0:
            raise InputError(f"{self.name}: declares more than {MAX_POINTS} points")
        if self.settings < 0:
            raise InputError(f"{self.name}: recipes set more than {MAX_SETTINGS} values in all")
        if self.characters < 0:
            raise InputError(f"{self.name}: plans have more than {MAX_RESOLVED} characters in all")


def _configs(tree: Tree, each: ConfigSet, cache: Cache) -> Configs:
    key = tuple((path, tree.blob(path)) for path in (*each.masters, each.runners))
    if key not in cache.configs:
        cache.configs[key] = load_configs(each.masters, each.runners, tree.read)
    return cache.configs[key]


def _recipes(tree: Tree, each: ConfigSet, found: Found, cache: Cache) -> Recipes:
    roots = [*each.recipe_roots, *([found.package] if found.package else [])]
    files = [f"{root}/{file}" for root in roots for file in tree.below(root)]
    layers = [file for file in files if file.endswith((".yaml", ".yml"))]
    tree.fetch(layers)
    facts = _facts(tree, found, cache)
    blobs = tuple((file, tree.blob(file)) for file in layers)
    key = (each.recipe_roots, found.package, blobs, facts)
    if key not in cache.recipes:
        recipes = load_recipes(
            tree.read, each.recipe_roots, tree.below, package=found.package, facts=facts
        )
        cache.recipes[key] = recipes
        for layer in (recipes.defaults, *recipes.named.values(), *recipes.free):
            held = tree.blob(layer.file) if layer.file in tree.entries else "installed"
            cache.layers[id(layer)] = (layer.file, held)
            cache.settings[id(layer)] = sum(len(rule.settings) for rule in layer.rules)
    return cache.recipes[key]


def _facts(tree: Tree, found: Found, cache: Cache) -> Facts:
    """The catalog's tables as the tree has them."""
    paths = (found.acceptance, found.gpus)
    key = tuple(path and (path, tree.blob(path)) for path in paths)
    if key not in cache.facts:
        tree.fetch(path for path in paths if path)
        cache.facts[key] = read_facts(tree.read, *paths)
    return cache.facts[key]


def _states(
    tree: Tree, declared: Configs, recipes: Recipes, cache: Cache, budget: _Budget
) -> Iterator[State]:
    places = {config.key: config for config in declared.configs}
    points = expand(declared)
    budget.take(points=len(points))
    sessions = _Sessions(tree)
    whole = (recipes.defaults, *recipes.named.values(), *recipes.free)
    whole_key = cache.number(tuple(cache.layers[id(layer)] for layer in whole))
    for point in points:
        config = places[point.config]
        try:
            layers, outside = _rests_on(point, recipes, whole)
        except InputError as error:
            problem = error.problems[0]
            yield _unresolved(point, Problem(problem.message, config.file, config.line, config.key))
            continue
        budget.take(settings=sum(cache.settings[id(layer)] for layer in layers))
        known: object = (
            whole_key if layers is whole else tuple(cache.layers[id(each)] for each in layers)
        )
        key = (point, known, outside, config.file, config.line, recipes.facts)
        if key not in cache.states:
            cache.states[key] = _resolved(point, recipes, config)
        state = sessions.told(cache.states[key])
        if state.plan is not None:
            budget.take(characters=_size(state.plan))
        yield state


def _rests_on(
    point: Point, recipes: Recipes, whole: tuple[Layer, ...]
) -> tuple[tuple[Layer, ...], str | None]:
    """The layers that a point's plan is made of, and the digest of the file that its settings lie
    in. Each role of a deployment has layers of its own: any may count.
    """
    if point.multi_node is None:
        return recipes.layers(point, recipes.names(point)), None
    file = settings_of(point.multi_node).config_file
    if file is None:
        return whole, None
    held = recipes.beside(file) or recipes.beside(file.partition(":")[0])
    return whole, None if held is None else hashlib.sha256(held).hexdigest()


def _resolved(point: Point, recipes: Recipes, config: Config) -> State:
    try:
        plan = resolve(point, recipes)
    except InputError as error:
        first = error.problems[0]
        if first.file is None:
            first = Problem(first.message, config.file, config.line, first.key or config.key)
        return _unresolved(point, first)
    return State(point, plan, digest(point, plan), None, None, recipes)


def _unresolved(point: Point, problem: Problem) -> State:
    """A point by its own fields alone. One cause is one text, whatever point it is met at."""
    cause = problem.message.removesuffix(f" (point {point.id})")
    found = hashlib.sha256(repr(replace(point, config="")).encode()).hexdigest()
    return State(point, None, found, cause, replace(problem, message=cause))


@dataclass(slots=True)
class _Sessions:
    """Session data that lies in the tree itself: other data is another experiment."""

    tree: Tree
    known: dict[str, str | None] = field(default_factory=dict)

    def told(self, state: State) -> State:
        """The state with the data of its plan named, where the tree has it."""
        plan = state.plan
        if plan is None or plan.workload.sessions is None or plan.workload.sessions_digest:
            return state
        path = plan.workload.sessions.strip("/")
        if path not in self.known:
            self.known[path] = self._data(path)
        if (data := self.known[path]) is None:
            return state
        plan = replace(plan, workload=replace(plan.workload, sessions_digest=data))
        return State(state.point, plan, digest(state.point, plan), None, None, state.recipes)

    def _data(self, path: str) -> str | None:
        start = f"{path}/"
        held = [e for p, e in self.tree.entries.items() if p == path or p.startswith(start)]
        if not held:
            return None
        whole = hashlib.sha256()
        for entry in sorted(held, key=lambda entry: entry.path):
            blob = self.tree.blob(entry.path)
            whole.update(f"{entry.path.removeprefix(start)}\0{blob}\n".encode())
        return f"files:{whole.hexdigest()}"


def _size(plan: LaunchPlan) -> int:
    units: tuple[LaunchPlan | RoleLaunch, ...] = (plan, *plan.launches)
    texts = (t for each in units for t in (*each.argv, *each.env.values(), *each.files.values()))
    beside = (t for each in plan.side for t in (*each.argv, *each.env.values()))
    return sum(map(len, texts)) + sum(map(len, beside))


def _free(name: str, taken: Mapping[str, State]) -> str:
    """A point that is declared twice keeps a name of its own."""
    if name not in taken:
        return name
    number = 2
    while f"{name}#{number}" in taken:
        number += 1
    return f"{name}#{number}"
