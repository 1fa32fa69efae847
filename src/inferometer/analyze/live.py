"""What a replay with real answers adds: how many were threaded, and how far contexts drifted.

Drift is what a turn's context had more than the recorded one, in tokens: by the server's count
where it gives one, else by what was meant to be sent.
"""

from __future__ import annotations

from inferometer import metrics
from inferometer.analyze.columns import Columns
from inferometer.metrics import Figure, Ints
from inferometer.store import ABSENT

NAMES = (
    "live_turn_share",
    "live_reply_share",
    "context_drift_mean_tokens",
    "context_drift_p50_tokens",
    "context_drift_p90_tokens",
    "context_drift_share",
)


def live_figures(population: Columns) -> dict[str, Figure]:
    """Metrics of the sent requests of a live replay, by their published names."""
    sent = population.take(population.sent & (population.recorded != ABSENT))
    if not len(sent):
        return dict.fromkeys(NAMES, Figure(None, "no request was sent"))
    live, answers = int(sent.live.sum()), int((sent.live + sent.canned).sum())
    drift: Ints = sent.input_tokens - sent.recorded
    figures = (
        Figure(float((sent.live > 0).mean())),
        Figure(live / answers) if answers else Figure(None, "no context had an answer in it"),
        metrics.mean(drift.astype(float)),
        metrics.percentile(drift.astype(float), 50),
        metrics.percentile(drift.astype(float), 90),
        Figure(float(drift.sum() / sent.recorded.sum())),
    )
    return dict(zip(NAMES, figures, strict=True))
