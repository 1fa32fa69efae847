"""What was measured already: results taken over from other runs, and points that none has.

A result is another run's exactly when the digest is equal. What is taken over says from where, in
its own note, so the page says so too.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inferometer.audit import Stored, stale
from inferometer.errors import InputError
from inferometer.plan import Arm, Recipes
from inferometer.run.job import Job
from inferometer.run.jobs import NO_OVERRIDES, make_job
from inferometer.store import PointDir

NOTE = "reused_from"
"""Name of the note in `result.json`."""
_COPIED = ("records.parquet", "samples.parquet", "client.json", "server.log")


def take_over(job: Job, stored: Stored, folder: PointDir) -> None:
    """Make a point of this run from one of another. The launch file is this run's: where values
    came from may differ, and moves no number.
    """
    source = PointDir(stored.folder)
    result = source.result()
    folder.begin(job.point, job.digest, job.plan)
    for name in _COPIED:
        if (source.path / name).is_file():
            shutil.copyfile(source.path / name, folder.path / name)
    where = f"run {stored.run}, measured at {stored.measured_at}, {stored.place}"
    notes = {**result.notes, NOTE: result.notes.get(NOTE, where)}
    folder.finish(replace(result, point=job.point, notes=notes))


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
