"""Every launch of a set of points, checked: each distinct finding once, with its number of points.

A point that does not resolve is a finding like any other. Starts nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from inferometer.core import Point
from inferometer.errors import InputError
from inferometer.plan.flagcheck import FlagFinding, Severity, check_flags
from inferometer.plan.recipes import Recipes
from inferometer.plan.resolve import resolve

MULTI_NODE = FlagFinding("note", None, "launches over several nodes are not checked")


def check_points(
    points: Iterable[Point], recipes: Recipes, severity: Severity = "exact"
) -> tuple[tuple[FlagFinding, int], ...]:
    """(finding, number of points) in the order first met."""
    counts: Counter[FlagFinding] = Counter()
    for point in points:
        # A flag may have one fault in two words of one launch: that is one point.
        counts.update(dict.fromkeys(_of_point(point, recipes, severity), 1))
    return tuple(counts.items())


def _of_point(point: Point, recipes: Recipes, severity: Severity) -> Iterator[FlagFinding]:
    if point.multi_node is not None:
        yield MULTI_NODE
        return
    try:
        plan = resolve(point, recipes)
    except InputError as error:
        for problem in error.problems:
            message = problem.message.removesuffix(f" (point {point.id})")
            yield FlagFinding("error", problem.key, message, problem.file, problem.line)
    else:
        yield from check_flags(plan, point.framework, severity)
