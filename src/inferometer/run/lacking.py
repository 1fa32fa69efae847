"""What was not measured yet: the points of which no other run holds a valid result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inferometer.audit import Stored, stale
from inferometer.errors import InputError
from inferometer.plan import Arm, Recipes
from inferometer.run.jobs import NO_OVERRIDES, make_job


@dataclass(frozen=True, slots=True)
class Left:
    """Arms cut to what must be measured, and why points could not be looked up, each cause once."""

    arms: tuple[Arm, ...]
    unknown: Mapping[str, int]
    """Cause to how many points it keeps from having a digest; they are left in."""


def stale_arms(arms: Sequence[Arm], recipes: Recipes, stored: Mapping[str, Stored]) -> Left:
    """Keep the points whose digest has no valid result, and those that have no digest here."""
    unknown: dict[str, int] = {}
    kept = []
    for arm in arms:
        left = []
        for point in arm:
            try:
                job = make_job(point, recipes, NO_OVERRIDES)
            except InputError as error:
                cause = error.problems[0].message.removesuffix(f" (point {point.id})")
                unknown[cause] = unknown.get(cause, 0) + 1
                left.append(point)
            else:
                if stale([(point.id, job.digest)], stored):
                    left.append(point)
        if left:
            kept.append(tuple(left))
    return Left(tuple(kept), unknown)
