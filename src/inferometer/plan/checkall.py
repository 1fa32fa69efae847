"""Everything that can be said of a launch before a GPU is booked: its flags, those of each role of
a deployment, and the host memory that they reserve. Each distinct finding once for a set of points.

A point that does not resolve is a finding like any other. Starts nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from inferometer.catalog import flag_schemas
from inferometer.core import LaunchPlan, Point, RoleLaunch
from inferometer.errors import InputError
from inferometer.plan.budget import check_budget
from inferometer.plan.flagcheck import FlagFinding, Severity, check_flags
from inferometer.plan.flagwords import commanded
from inferometer.plan.recipes import Recipes
from inferometer.plan.resolve import resolve

EXTERNAL = "the engine's settings are in a file that is not part of the config: flags not checked"
ENGINES = ("vllm", "sglang", "trt", "atom")


def check_launch(
    point: Point, plan: LaunchPlan, severity: Severity = "exact"
) -> tuple[FlagFinding, ...]:
    """What is to be told of a resolved point, each finding once."""
    found = [
        FlagFinding("warning", problem.key, problem.message, problem.file, problem.line)
        for problem in check_budget(point, plan)
    ]
    if plan.external is not None:
        found.append(FlagFinding("note", None, EXTERNAL))
    for part in _parts(plan):
        found += check_flags(part, _engine(point.framework, part), severity)
    return tuple(dict.fromkeys(found))


def check_points(
    points: Iterable[Point], recipes: Recipes, severity: Severity = "exact"
) -> tuple[tuple[FlagFinding, int], ...]:
    """(finding, number of points) in the order first met."""
    counts: Counter[FlagFinding] = Counter()
    for point in points:
        counts.update(_of_point(point, recipes, severity))
    return tuple(counts.items())


def _of_point(point: Point, recipes: Recipes, severity: Severity) -> tuple[FlagFinding, ...]:
    try:
        return check_launch(point, resolve(point, recipes), severity)
    except InputError as error:
        return tuple(
            FlagFinding(
                "error",
                problem.key,
                problem.message.removesuffix(f" (point {point.id})"),
                problem.file,
                problem.line,
            )
            for problem in error.problems
        )


def _parts(plan: LaunchPlan) -> Iterator[LaunchPlan]:
    """The plan itself, or one for each worker of a deployment; a router is no engine."""
    if plan.argv:
        yield plan
    for launch in plan.launches:
        if launch.role != "router":
            yield _part(plan, launch)


def _part(plan: LaunchPlan, launch: RoleLaunch) -> LaunchPlan:
    head = f"{launch.name}."
    origins = {
        key.removeprefix(head): origin
        for key, origin in plan.origins.items()
        if key.startswith(head)
    }
    return replace(plan, image=launch.image, argv=launch.argv, origins=origins, launches=())


def _engine(framework: str, plan: LaunchPlan) -> str:
    """The engine inside a framework: `sglang` of `sglang-disagg` and `dynamo-sglang`. Where none is
    inside, what the command starts: vLLM prefills for TileRT.
    """
    inside = [part for part in framework.split("-") if part in ENGINES]
    inside += [engine for engine in ENGINES if _starts(plan, engine)]
    return inside[0] if inside else framework


def _starts(plan: LaunchPlan, engine: str) -> bool:
    return any(commanded(plan.argv, schema) is not None for schema in flag_schemas(engine))
