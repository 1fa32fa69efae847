"""What an agentic replay adds: how long sessions took, and how well recorded gaps were kept.

Works on the records and the notes of the workload; session trees themselves are not needed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import Columns
from inferometer.analyze.plays import drained_plays
from inferometer.core import ClientReport
from inferometer.metrics import Figure, Floats

CACHES = tuple(f"theoretical_prefix_hit_{size}" for size in ("250k", "1m", "4m", "16m"))
POOL, OF_POOL = "engine_kv_pool_tokens", "theoretical_prefix_hit_engine"
NOT_IN_NOTES = "the workload does not report it"
NO_POOL = "the engine says neither in its log nor on its metrics page how large its KV pool is"


def session_figures(cols: Columns, population: Columns, client: ClientReport) -> dict[str, Figure]:
    """Agentic metrics, by their published names."""
    sent = population.take(population.sent)
    return {
        **_play_figures(cols, client),
        "recorded_gap_mean_s": metrics.mean(_gaps(sent)),
        "achieved_gap_mean_s": metrics.mean((sent.sent_ns - sent.ready_ns) / metrics.NS),
        **_hit_figures(client.workload_notes),
        "tree_idle_shift_s": Figure(client.tree_idle_shift_s),
        "system_idle_shift_s": Figure(client.system_idle_shift_s),
    }


def _play_figures(cols: Columns, client: ClientReport) -> dict[str, Figure]:
    """What decided how long sessions took."""
    names = (
        "session_makespan_p50_s",
        "session_critical_path_p50_s",
        "session_join_wait_mean_s",
        "session_engine_bound",
    )
    if client.arrivals_due is not None:
        none = Figure(None, "an open loop does not tell which sessions drained")
        return dict.fromkeys(names, none)
    plays = drained_plays(cols)
    if not len(plays.makespan):
        return dict.fromkeys(names, Figure(None, "no session drained inside the window"))
    share = metrics.session_engine_bound(plays.critical, plays.makespan)
    figures = (
        metrics.percentile(plays.makespan, 50),
        metrics.percentile(plays.critical, 50),
        metrics.mean(plays.join_wait),
        share,
    )
    return dict(zip(names, figures, strict=True))


def _hit_figures(notes: Mapping[str, float]) -> dict[str, Figure]:
    """What caches would hold, as the workload says: without end, and of some sizes in tokens."""
    found = {}
    for name in ("theoretical_prefix_hit", *CACHES):
        hit = notes.get(name)
        found[name] = Figure(hit, NOT_IN_NOTES if hit is None else None)
    pool, hit = notes.get(POOL), notes.get(OF_POOL)
    found[POOL] = Figure(pool, NO_POOL if pool is None else None)
    why = NO_POOL if pool is None else NOT_IN_NOTES
    found[OF_POOL] = Figure(hit, why if hit is None else None)
    return found


def _gaps(sent: Columns) -> Floats:
    """Recorded gaps, s. An arrival that waited for a place was ready late, and has none."""
    gaps: Floats = np.maximum(sent.scheduled_ns - sent.ready_ns, 0) / metrics.NS
    return gaps
