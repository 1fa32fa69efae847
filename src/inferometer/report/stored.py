"""What a run directory holds, as a view: for the page and for the table on screen."""

from __future__ import annotations

from inferometer.errors import StoreError
from inferometer.report.machine import cards_in_words
from inferometer.report.view import PointView, RunView
from inferometer.store import RunDir


def view_of(run: RunDir) -> RunView:
    """Every finished point, and the names of the others. Raises StoreError for no run.

    A point whose files cannot be read is one of the others, with the reason: the rest is shown.
    """
    manifest = run.manifest()
    points, unfinished = [], []
    cards: dict[str, None] = {}
    for planned in manifest.points:
        folder = run.point(planned.id)
        if not folder.done:
            unfinished.append(planned.id)
            continue
        try:
            if told := cards_in_words(folder.client().gpus):
                cards[told] = None
            points.append(PointView(folder.result(), folder.launch().plan))
        except (StoreError, OSError) as error:
            unfinished.append(f"{planned.id} (unreadable: {error})")
    return RunView(
        title=manifest.title,
        run_id=manifest.id,
        started_at=manifest.created_at,
        inferometer=manifest.versions.inferometer,
        machine={**manifest.machine, **({"gpus": "; ".join(cards)} if cards else {})},
        points=tuple(points),
        unfinished=tuple(unfinished),
    )
