"""What was measured already: results taken over from other runs.

A result is another run's exactly when the digest is equal. What is taken over says from where, in
its own note, so the page says so too.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from inferometer.run.job import Job
from inferometer.store import PointDir

if TYPE_CHECKING:
    from inferometer.audit import Stored

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
