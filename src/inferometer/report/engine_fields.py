"""How the metrics that rest on the engine's own are called on the page: rows for `fields`."""

from __future__ import annotations

from inferometer.report.figures import Kind

Row = tuple[str, str, str, str, Kind]
"""Name, label, unit, definition, kind."""

_TIMES = (
    ("queue_time", "Queue time", "From arrival until it is first scheduled."),
    ("ttft", "TTFT by the engine", "From arrival at the engine to the first token."),
    ("itl", "ITL by the engine", "Between two tokens."),
    ("prefill_time", "Prefill time", "From first scheduled to the first token."),
    ("decode_time", "Decode time", "From the first token to the last."),
    ("inference_time", "Inference time", "From first scheduled to the last token."),
)
_GAUGES: tuple[Row, ...] = (
    ("engine_running", "Running", "requests", "Time-average of the batch.", "number"),
    ("engine_running_max", "Running, most", "requests", "Highest scrape.", "number"),
    ("engine_waiting", "Waiting", "requests", "Time-average of the queue.", "number"),
    ("engine_waiting_max", "Waiting, most", "requests", "Highest scrape.", "number"),
    ("engine_kv_use", "KV pool in use", "%", "Time-average; mean over engines.", "share"),
    ("engine_kv_use_max", "KV pool in use, most", "%", "Highest scrape.", "share"),
    (
        "engine_running_while_waiting",
        "Running while others wait",
        "requests",
        "Mean of the scrapes at which requests waited.",
        "number",
    ),
    (
        "engine_kv_use_while_waiting",
        "KV pool in use while others wait",
        "%",
        "Mean of the scrapes at which requests waited.",
        "share",
    ),
)
_COUNTERS: tuple[Row, ...] = (
    ("engine_preemptions", "Preemptions", "", "Requests put back for want of KV.", "number"),
    ("engine_input_tok_s", "Prompt tokens by the engine", "tok/s", "As it counts.", "number"),
    ("engine_output_tok_s", "Output tokens by the engine", "tok/s", "As it counts.", "number"),
    ("engine_prefix_hit", "Prefix hit", "%", "Of all tiers, over what was looked up.", "share"),
    ("engine_prefix_hit_device", "Prefix hit, device", "%", "Of what was looked up.", "share"),
    ("engine_prefix_hit_host", "Prefix hit, host", "%", "Of what was looked up.", "share"),
    ("engine_prefix_hit_external", "Prefix hit, external", "%", "Of what was looked up.", "share"),
    ("acceptance_length", "Acceptance length", "tokens", "Tokens a verification.", "number"),
    ("acceptance_target", "Acceptance length, target", "tokens", "Simulated by plan.", "number"),
    ("engine_drafts", "Verifications", "", "Of drafts, in the window.", "number"),
)


def _times() -> list[Row]:
    rows: list[Row] = []
    for name, label, text in _TIMES:
        rows.append((f"engine_{name}_mean_s", f"{label}, mean", "s", text, "seconds"))
        for percent in ("p50", "p90", "p99"):
            shown = f"{label} {percent}, estimate"
            of = f"{text} Linear inside a bucket of the engine's histogram."
            rows.append((f"engine_{name}_{percent}_s", shown, "s", of, "seconds"))
    return rows


ENGINE_ROWS: tuple[Row, ...] = (*_GAUGES, *_times(), *_COUNTERS)
