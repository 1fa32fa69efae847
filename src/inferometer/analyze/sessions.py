"""What an agentic replay adds: how long sessions took, and how well recorded gaps were kept.

Works on the records and the notes of the workload; session trees themselves are not needed.
"""

from __future__ import annotations

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import ABSENT, Columns
from inferometer.core import ClientReport
from inferometer.metrics import Figure, Floats

NOT_IN_NOTES = "the workload does not report it"


def session_figures(cols: Columns, population: Columns, client: ClientReport) -> dict[str, Figure]:
    """Agentic metrics, by their published names."""
    makespans = _makespans(cols, population)
    median = metrics.percentile(makespans, 50)
    sent = population.take(population.sent)
    hit = client.workload_notes.get("theoretical_prefix_hit")
    return {
        "session_makespan_p50_s": median,
        "recorded_gap_mean_s": metrics.mean((sent.scheduled_ns - sent.ready_ns) / metrics.NS),
        "achieved_gap_mean_s": metrics.mean((sent.sent_ns - sent.ready_ns) / metrics.NS),
        "theoretical_prefix_hit": Figure(hit, NOT_IN_NOTES if hit is None else None),
        "tree_idle_shift_s": Figure(client.tree_idle_shift_s),
        "system_idle_shift_s": Figure(client.system_idle_shift_s),
    }


def _makespans(cols: Columns, population: Columns) -> Floats:
    """First `sent` to last end of every play that began in the window and drained, s.

    A lane takes its next play only when the last has drained, so a play is drained where its lane
    has a later one.
    """
    latest = _latest_play(cols)
    began = _play_spans(cols)
    inside = set(zip(population.lane.tolist(), population.play.tolist(), strict=True))
    warmed = cols.take(~cols.measured)
    outside = set(zip(warmed.lane.tolist(), warmed.play.tolist(), strict=True))
    spans = [
        (end_ns - start_ns) / metrics.NS
        for (lane, play), (start_ns, end_ns) in began.items()
        if (lane, play) in inside - outside and play < latest[lane]
    ]
    return np.array(spans, dtype=np.float64)


def _latest_play(cols: Columns) -> dict[int, int]:
    latest: dict[int, int] = {}
    for lane, play in zip(cols.lane.tolist(), cols.play.tolist(), strict=True):
        latest[lane] = max(play, latest.get(lane, play))
    return latest


def _play_spans(cols: Columns) -> dict[tuple[int, int], tuple[int, int]]:
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    rows = zip(
        cols.lane.tolist(),
        cols.play.tolist(),
        cols.sent_ns.tolist(),
        cols.end_ns.tolist(),
        strict=True,
    )
    for lane, play, sent_ns, end_ns in rows:
        if sent_ns == ABSENT:
            continue
        start, end = spans.get((lane, play), (sent_ns, end_ns))
        spans[lane, play] = (min(start, sent_ns), max(end, end_ns))
    return spans
