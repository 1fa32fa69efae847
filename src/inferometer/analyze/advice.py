"""Right-sizing that a run itself proves: a setting against what was measured under it.

Every advice carries its two numbers. What was not measured gives none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferometer.core import Result

QUEUED_S = 0.1
"""A tenth of a second in the queue while lanes are few is a limit of the engine, not its speed."""
IDLE_SHARE = 0.25
"""Less than a quarter used at the peak: half of it would have been enough twice over."""
FULL_SHARE = 0.95
GIGA = 1e9


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change, and the measurement that says so."""

    setting: str
    text: str


def advise(result: Result, facts: Mapping[str, float]) -> tuple[Advice, ...]:
    """Advice on a point; `facts` are what its engine's log said of itself (bytes, counts)."""
    rules = (_sequence_cap, _graphs, _kv_pool, _preemptions, _dram)
    found = (rule(result.metrics, facts, result) for rule in rules)
    return tuple(advice for advice in found if advice is not None)


def _sequence_cap(
    metrics: Mapping[str, float | None], facts: Mapping[str, float], _: Result
) -> Advice | None:
    # The mean is exact; a percentile inside a first bucket of 0.3 s would blame an empty queue.
    queued_s, running = metrics.get("engine_queue_time_mean_s"), metrics.get("engine_running_max")
    cap = facts.get("max_running")
    if queued_s is None or running is None or cap is None or queued_s < QUEUED_S or running < cap:
        return None
    return Advice(
        "sequence cap",
        f"requests waited {queued_s:.2f} s on average with all {cap:.0f} places taken: "
        "raise the cap above the requests that are open at a time",
    )


def _graphs(
    metrics: Mapping[str, float | None], facts: Mapping[str, float], _: Result
) -> Advice | None:
    running, largest = metrics.get("engine_running_max"), facts.get("largest_graph")
    if running is None or largest is None or largest <= 0:
        return None
    if running > largest:
        return Advice(
            "graph capture",
            f"batches of up to {running:.0f} ran, graphs end at {largest:.0f}: "
            "larger batches run without a graph",
        )
    held = facts.get("graphs_bytes")
    if running >= IDLE_SHARE * largest or held is None:
        return None
    return Advice(
        "graph capture",
        f"graphs up to {largest:.0f} hold {held / GIGA:.1f} GB, and the largest batch was "
        f"{running:.0f}: capture up to the next size above it",
    )


def _kv_pool(
    metrics: Mapping[str, float | None], facts: Mapping[str, float], _: Result
) -> Advice | None:
    peak, tokens = metrics.get("engine_kv_use_max"), facts.get("kv_pool_tokens")
    if peak is None:
        return None
    pool = "the KV pool" if tokens is None else f"the KV pool of {tokens:,.0f} tokens"
    if peak >= FULL_SHARE:
        return Advice("KV pool", f"{pool} was {peak:.0%} full: it, and not the GPU, is the limit")
    if peak < IDLE_SHARE:
        return Advice(
            "KV pool",
            f"{pool} was at most {peak:.0%} full: this load would run with less memory, and longer "
            "contexts or more sequences would fit",
        )
    return None


def _preemptions(
    metrics: Mapping[str, float | None], _: Mapping[str, float], __: Result
) -> Advice | None:
    count = metrics.get("engine_preemptions")
    if not count:
        return None
    return Advice(
        "sequence cap",
        f"{count:.0f} requests were put back for want of KV blocks and computed again: lower the "
        "cap, or give the KV pool more memory",
    )


def _dram(
    metrics: Mapping[str, float | None], _: Mapping[str, float], result: Result
) -> Advice | None:
    budget = result.point.kv_offload.dram_gb
    pinned, resident = metrics.get("engine_pinned_bytes"), metrics.get("engine_resident_bytes")
    held = max((value for value in (pinned, resident) if value is not None), default=None)
    if held is None:
        return None
    if not budget and pinned is not None and pinned > GIGA:
        return Advice(
            "host memory",
            f"the engine pinned {pinned / GIGA:.0f} GB of host memory that the point does not name",
        )
    if budget and held < IDLE_SHARE * budget * GIGA:
        return Advice(
            "host memory",
            f"{budget} GB are set aside for KV blocks, and the engine held {held / GIGA:.0f} GB",
        )
    return None
