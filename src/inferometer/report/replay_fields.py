"""How the metrics of live replies and of the engine's own KV pool are called on the page."""

from __future__ import annotations

from inferometer.report.engine_fields import Row

_DRIFT = "What a context had more than the recorded one, of turns sent."

REPLAY_ROWS: tuple[Row, ...] = (
    ("engine_kv_pool_tokens", "KV pool", "tokens", "By the engine's log or page.", "number"),
    (
        "theoretical_prefix_hit_engine",
        "Prefix hit, KV pool of this size",
        "%",
        "Share of prompt tokens that a cache as large as the engine's KV pool would hold.",
        "share",
    ),
    ("live_turn_share", "Turns with a real answer", "%", "In their context.", "share"),
    ("live_reply_share", "Answers that are real", "%", "Of those in contexts.", "share"),
    ("context_drift_mean_tokens", "Context drift, mean", "tokens", _DRIFT, "number"),
    ("context_drift_p50_tokens", "Context drift p50", "tokens", _DRIFT, "number"),
    ("context_drift_p90_tokens", "Context drift p90", "tokens", _DRIFT, "number"),
    ("context_drift_share", "Context drift", "%", "Of all recorded tokens.", "share"),
)
