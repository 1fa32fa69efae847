"""Points that cannot be told apart, or are the same: what only shows once all are expanded.

InferenceX checks none of it. All are warnings here; a run refuses points declared twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import fields, replace

from inferometer.core import AgenticCoding, Point
from inferometer.errors import Problem
from inferometer.plan.load import Configs
from inferometer.plan.rows import exp_name


def clashes(configs: Configs, points: Sequence[Point]) -> tuple[Problem, ...]:
    """Points declared twice, equal points of two config keys, and names that InferenceX shares."""
    places = {config.key: (config.file, config.line) for config in configs.configs}
    found = [*declared_twice(points), *_equal(points), *_same_names(points)]
    return tuple(Problem(message, *places[key], key) for key, message in found)


def declared_twice(points: Iterable[Point]) -> Iterator[tuple[str, str]]:
    """(config key, message) of every point that two arms of a config declare."""
    for same in _groups(points, lambda point: point.id):
        yield same[0].config, f"point {same[0].id} is declared twice"


def _equal(points: Iterable[Point]) -> Iterator[tuple[str, str]]:
    # By a few fields first: most points then need no comparison of all.
    for near in _groups(points, lambda p: (p.model, p.image, p.runner, p.parallelism, p.conc)):
        for same in _groups(near, lambda point: replace(point, config="")):
            keys = list(dict.fromkeys(point.config for point in same))
            if len(keys) > 1:
                first, others = same[0], ", ".join(keys[1:])
                yield first.config, f"point {first.id} is declared by {others} too, in all equal"


def _same_names(points: Iterable[Point]) -> Iterator[tuple[str, str]]:
    """Agentic points only: the name of a fixed-length point leaves out even its concurrency."""
    agentic = [point for point in points if isinstance(point.scenario, AgenticCoding)]
    named = _groups(agentic, lambda p: (exp_name(p), p.framework, p.precision, p.runner))
    # One fault of a config clashes at each of its concurrencies: it is told once.
    alike: dict[tuple[str, str], list[list[Point]]] = {}
    for same in named:
        names = (name for other in same for name in _differing(same[0], other))
        if differing := ", ".join(dict.fromkeys(names)):
            alike.setdefault((same[0].config, differing), []).append(same)
    for (config, differing), clashes in alike.items():
        first = clashes[0]
        words = f"InferenceX names {len(first)} points {exp_name(first[0])!r}"
        more = f" (and so under {len(clashes) - 1} more names)" if len(clashes) > 1 else ""
        yield config, f"{words}, which differ in {differing}{more}"


def _differing(one: Point, other: Point) -> Iterator[str]:
    """Names of the fields in which two points differ, the config key aside."""
    for field in fields(Point):
        mine, its = getattr(one, field.name), getattr(other, field.name)
        if mine == its or field.name == "config":
            continue
        if field.name == "parallelism" and one.multi_node is None:
            axes = (axis.name for axis in fields(mine))
            yield from (axis for axis in axes if getattr(mine, axis) != getattr(its, axis))
        else:
            yield field.name


def _groups(points: Iterable[Point], key: Callable[[Point], Hashable]) -> Iterator[list[Point]]:
    """Groups of more than one, in the order of their first points."""
    found: defaultdict[Hashable, list[Point]] = defaultdict(list)
    for point in points:
        found[key(point)].append(point)
    return (group for group in found.values() if len(group) > 1)
