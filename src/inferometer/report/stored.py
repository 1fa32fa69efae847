"""What a run directory holds, as a view: for the page and for the table on screen."""

from __future__ import annotations

from inferometer.report.view import PointView, RunView
from inferometer.store import RunDir


def view_of(run: RunDir) -> RunView:
    """Every finished point, and the names of the others. Raises StoreError for no run."""
    manifest = run.manifest()
    points, unfinished = [], []
    for planned in manifest.points:
        folder = run.point(planned.id)
        if folder.done:
            points.append(PointView(folder.result(), folder.launch().plan))
        else:
            unfinished.append(planned.id)
    return RunView(
        title=manifest.title,
        run_id=manifest.id,
        started_at=manifest.created_at,
        inferometer=manifest.versions.inferometer,
        machine=manifest.machine,
        points=tuple(points),
        unfinished=tuple(unfinished),
        provenance=manifest.provenance,
    )
