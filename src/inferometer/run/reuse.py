"""What was measured already: results taken over from other runs.

A result is another run's exactly when the digest is equal. What is taken over says from where, in
its own note, so the page says so too. Bounds of good requests are no part of a digest: where this
run has others, the same records are held against them.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from inferometer.core import Result
from inferometer.run.job import Job, Sweep
from inferometer.run.point import analyzed
from inferometer.store import PointDir

if TYPE_CHECKING:
    from inferometer.audit import Stored

NOTE = "reused_from"
"""Name of the note in `result.json`."""
GOODPUT = ("slo_met_share", "goodput_")
"""How the names of metrics begin that rest on the bounds of good requests."""
_COPIED = (
    *("records.parquet", "samples.parquet", "client.json", "server.log"),
    *("metrics.first.txt", "metrics.last.txt"),
)


def take_over(sweep: Sweep, job: Job, stored: Stored, folder: PointDir) -> None:
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
    first = result.notes.get(NOTE, where)
    if sweep.slos != result.slos:
        result = _held_against(sweep, job, result, folder)
    folder.finish(replace(result, point=job.point, notes={**result.notes, NOTE: first}))


def hold_again(sweep: Sweep, job: Job, folder: PointDir) -> None:
    """Hold a point that is done against the bounds of this run, where it has others: points of one
    run are compared.
    """
    result = folder.result()
    if sweep.slos and sweep.slos != result.slos:
        folder.finish(_held_against(sweep, job, result, folder))


def _held_against(sweep: Sweep, job: Job, result: Result, folder: PointDir) -> Result:
    """The result with the goodput of this run's bounds; everything else as it was judged."""
    again = analyzed(replace(sweep, clock=result.clock), job, folder, folder.client())
    moved = {name for name in again.metrics if name.startswith(GOODPUT)}
    moved |= {name for name in result.metrics if name.startswith(GOODPUT)}
    metrics = {name: value for name, value in result.metrics.items() if name not in moved}
    metrics |= {name: again.metrics[name] for name in moved if name in again.metrics}
    notes = {name: text for name, text in result.notes.items() if name not in moved}
    notes |= {name: text for name, text in again.notes.items() if name in moved}
    return replace(result, metrics=metrics, notes=notes, slos=sweep.slos)
