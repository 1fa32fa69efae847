"""What latencies, interactivities and rates are called on the page: a row for each base name, of
which `fields` makes one field a statistic.
"""

from __future__ import annotations

from inferometer.report.figures import Kind

LATENCIES: dict[str, tuple[str, str, Kind, str]] = {
    "ttft": (
        "TTFT",
        "s",
        "seconds",
        "Time to first token: from just before the first body byte is sent to the first event "
        "that bears a token (content, reasoning, tool-call arguments or refusal).",
    ),
    "ttft_scheduled": (
        "TTFT from schedule",
        "s",
        "seconds",
        "As TTFT, but from the moment the request was due, so that a late client shows.",
    ),
    "ttfv": (
        "Time to first visible token",
        "s",
        "seconds",
        "From sent to the first token that is not reasoning.",
    ),
    "e2el": (
        "End-to-end latency",
        "s",
        "seconds",
        "From sent to the last event that bears a token.",
    ),
    "e2el_scheduled": (
        "End-to-end from schedule",
        "s",
        "seconds",
        "As end-to-end latency, but from the moment the request was due.",
    ),
    "tpot": (
        "TPOT",
        "ms",
        "milliseconds",
        "Time per output token of one request: first token to last token, over the tokens that "
        "came after the first event.",
    ),
    "chunk_gap": (
        "Chunk gap",
        "ms",
        "milliseconds",
        "Gap between two arrivals that bear tokens, pooled over all requests. A chunk may hold "
        "several tokens: this is not ITL.",
    ),
    "itl": (
        "ITL",
        "ms",
        "milliseconds",
        "Inter-token latency: a chunk's gap over the tokens of that chunk, pooled; only where "
        "the server counts tokens a chunk.",
    ),
}
LATENCIES |= {
    f"{base}_err": (
        f"{LATENCIES[base][0]}, failures as ∞",
        *LATENCIES[base][1:3],
        f"As {LATENCIES[base][0]}, with every failed and every censored request counted as "
        "infinitely slow.",
    )
    for base in ("ttft", "ttft_scheduled", "e2el", "e2el_scheduled", "tpot")
}
WITH_INTERVAL = ("ttft", "e2el", "tpot")
INTERVAL_PERCENTILES = ("p50", "p90", "p99")
INTERACTIVITIES: dict[str, tuple[str, str]] = {
    "intvty": (
        "Interactivity",
        "What one user sees while an answer streams: 1 / TPOT at the same percentile, so p90 is "
        "the speed that nine requests in ten reach or exceed.",
    ),
    "e2e_intvty": (
        "End-to-end interactivity",
        "Output tokens over the whole request, waiting included: 1 / (end-to-end latency / output "
        "tokens) at the same percentile. Percentile first, then the inverse.",
    ),
}
RATES: dict[str, tuple[str, str]] = {
    "total": ("Total", "Input and output tokens inside the window; input includes cached tokens."),
    "output": ("Output", "Output tokens, counted when they arrive inside the window."),
    "input": ("Input", "Prompt tokens, counted at the first token; cached tokens included."),
    "input_computed": ("Computed input", "Prompt tokens less those served from the prefix cache."),
}
