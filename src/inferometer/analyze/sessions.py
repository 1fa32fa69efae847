"""What an agentic replay adds: how long sessions took, and how well recorded gaps were kept.

Works on the records and the notes of the workload; session trees themselves are not needed.
"""

from __future__ import annotations

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import Columns
from inferometer.core import ClientReport
from inferometer.metrics import Figure, Floats

NOT_IN_NOTES = "the workload does not report it"


def session_figures(cols: Columns, population: Columns, client: ClientReport) -> dict[str, Figure]:
    """Agentic metrics, by their published names."""
    sent = population.take(population.sent)
    makespan = metrics.percentile(_makespans(cols), 50)
    if client.arrivals_due is not None:
        makespan = Figure(None, "an open loop does not tell which sessions drained")
    hit = client.workload_notes.get("theoretical_prefix_hit")
    return {
        "session_makespan_p50_s": makespan,
        "recorded_gap_mean_s": metrics.mean(_gaps(sent)),
        "achieved_gap_mean_s": metrics.mean((sent.sent_ns - sent.ready_ns) / metrics.NS),
        "theoretical_prefix_hit": Figure(hit, NOT_IN_NOTES if hit is None else None),
        "tree_idle_shift_s": Figure(client.tree_idle_shift_s),
        "system_idle_shift_s": Figure(client.system_idle_shift_s),
    }


def _gaps(sent: Columns) -> Floats:
    """Recorded gaps, s. An arrival that waited for a place was ready late, and has none."""
    gaps: Floats = np.maximum(sent.scheduled_ns - sent.ready_ns, 0) / metrics.NS
    return gaps


def _makespans(cols: Columns) -> Floats:
    """First `sent` to last end of every play that has no warm-up turn and drained, s.

    A lane takes its next play only when the last has drained, so a play is drained where its lane
    has a later one.
    """
    sent = cols.take(cols.sent)
    if len(sent) == 0:
        return np.empty(0)
    order = np.lexsort((sent.play, sent.lane))
    lane, play = sent.lane[order], sent.play[order]
    heads = np.flatnonzero(np.diff(lane, prepend=lane[0] - 1) | np.diff(play, prepend=play[0] - 1))
    opened = np.minimum.reduceat(sent.sent_ns[order], heads)
    closed = np.maximum.reduceat(sent.end_ns[order], heads)
    drained = np.append(lane[heads][1:] == lane[heads][:-1], False)
    measured = np.logical_and.reduceat(sent.measured[order], heads)
    return (closed - opened)[drained & measured] / metrics.NS
