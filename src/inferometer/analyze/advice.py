"""Right-sizing that a run itself proves: a setting against what was measured under it.

Every advice carries its numbers. What was not measured, or has another explanation that was not
measured, gives none: silence is no praise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferometer.analyze.engine import NOT_LOOKED_UP
from inferometer.core import Result

QUEUED_S = 0.1
"""A tenth of a second in the queue while lanes are few is a limit of the engine, not its speed."""
IDLE_SHARE = 0.25
"""Less than a quarter used at the peak: half of it would have been enough twice over."""
FULL_SHARE = 0.95
CACHED_SHARE = 0.01
"""Prefix hits above this: what requests leave free of the pool holds what others find there."""
GIGA = 1e9
UNNAMED_BYTES = 8e9
"""Host memory that an engine may take unasked: processes, buffers of each GPU."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change, and the measurement that says so."""

    setting: str
    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What the rules look at: the result's metrics, and what its engine's log said of itself."""

    result: Result
    facts: Mapping[str, float]

    def metric(self, name: str) -> float | None:
        """None where it is unknown."""
        return self.result.metrics.get(name)

    def queued(self) -> float | None:
        """The mean time in the queue, where it is worth a word.

        The mean is exact; a percentile inside a first bucket of 0.3 s would blame an empty queue.
        """
        mean_s = self.metric("engine_queue_time_mean_s")
        return mean_s if mean_s is not None and mean_s >= QUEUED_S else None

    @property
    def nothing_cached(self) -> bool:
        """Whether it is known that next to no prompt token came from the prefix cache."""
        hits = self.metric("engine_prefix_hit")
        if hits is None:
            return self.result.notes.get("engine_prefix_hit") == NOT_LOOKED_UP
        return hits <= CACHED_SHARE

    @property
    def one_engine(self) -> bool:
        """Whether gauges, which add up over engines, compare with limits, which each engine has."""
        point = self.result.point
        return point.multi_node is None and not point.parallelism.dp_attn


def advise(result: Result, facts: Mapping[str, float]) -> tuple[Advice, ...]:
    """Advice on a point; `facts` are what its engine's log said of itself (bytes, counts)."""
    seen = Seen(result, facts)
    rules = (_sequence_cap, _graphs, _kv_pool, _preemptions, _dram, _host_memory)
    found = (rule(seen) for rule in rules)
    return tuple(advice for advice in found if advice is not None)


def _sequence_cap(seen: Seen) -> Advice | None:
    """Requests waited, and whenever they did, every place was taken."""
    queued_s, cap = seen.queued(), seen.facts.get("max_running")
    running = seen.metric("engine_running_while_waiting")
    if queued_s is None or cap is None or running is None or not seen.one_engine:
        return None
    if running < FULL_SHARE * cap:
        return None
    return Advice(
        "sequence cap",
        f"requests waited {queued_s:.2f} s on average, and while any did {running:.1f} of the "
        f"{cap:.0f} places were taken: raise the cap above the requests that are open at a time",
    )


def _graphs(seen: Seen) -> Advice | None:
    running, largest = seen.metric("engine_running_max"), seen.facts.get("largest_graph")
    if running is None or not largest or not seen.one_engine:
        return None
    if running > largest:
        return Advice(
            "graph capture",
            f"batches of up to {running:.0f} ran, graphs end at {largest:.0f}: "
            "larger batches run without a graph",
        )
    held = seen.facts.get("graphs_bytes")
    # Sizes are in tokens: with drafts a sequence takes several, and how many is not known here.
    drafts = seen.result.point.spec_decoding != "none"
    if drafts or held is None or running >= IDLE_SHARE * largest:
        return None
    return Advice(
        "graph capture",
        f"graphs up to {largest:.0f} hold {held / GIGA:.1f} GB, and the largest batch was "
        f"{running:.0f}: capture up to the next size above it",
    )


def _kv_pool(seen: Seen) -> Advice | None:
    peak, tokens = seen.metric("engine_kv_use_max"), seen.facts.get("kv_pool_tokens")
    # Without its mean the scrapes do not cover the window, and a peak may lie between them.
    if peak is None or seen.metric("engine_kv_use") is None:
        return None
    pool = "the KV pool" if tokens is None else f"the KV pool of {tokens:,.0f} tokens"
    queued_s, full = seen.queued(), seen.metric("engine_kv_use_while_waiting")
    if queued_s is not None and full is not None and full >= FULL_SHARE:
        return Advice(
            "KV pool",
            f"requests waited {queued_s:.2f} s on average, and while any did {pool} was {full:.0%} "
            "full: it, and not the GPU, is the limit",
        )
    if peak < IDLE_SHARE and seen.nothing_cached:
        return Advice(
            "KV pool",
            f"{pool} was at most {peak:.1%} full, and nothing was found in the rest: this load "
            "would run with less memory, and longer contexts or more sequences would fit",
        )
    return None


def _preemptions(seen: Seen) -> Advice | None:
    count = seen.metric("engine_preemptions")
    if not count:
        return None
    return Advice(
        "sequence cap",
        f"{count:.0f} requests were put back for want of KV blocks and computed again: lower the "
        "cap, or give the KV pool more memory",
    )


def _dram(seen: Seen) -> Advice | None:
    """Memory that was set aside, against all that the machine gave since the engine began to start:
    what a driver pins is in no process's account.
    """
    budget = seen.result.point.kv_offload.dram_gb
    taken = seen.metric("host_memory_taken_bytes")
    if not budget or taken is None or taken >= IDLE_SHARE * budget * GIGA:
        return None
    return Advice(
        "host memory",
        f"{budget} GB are set aside for KV blocks, and with the engine up the whole machine used "
        f"{max(taken, 0.0) / GIGA:.0f} GB more than before",
    )


def _host_memory(seen: Seen) -> Advice | None:
    """Memory that the point does not name."""
    if seen.result.point.kv_offload.dram_gb:
        return None
    pinned, taken = seen.metric("engine_pinned_bytes"), seen.metric("host_memory_taken_bytes")
    if pinned is not None and pinned > UNNAMED_BYTES:
        return Advice(
            "host memory",
            f"the engine pinned {pinned / GIGA:.0f} GB of host memory that the point does not name",
        )
    resident = seen.metric("engine_pss_bytes") or seen.metric("engine_resident_bytes")
    if taken is None or resident is None or taken - resident <= UNNAMED_BYTES:
        return None
    return Advice(
        "host memory",
        f"the machine used {taken / GIGA:.0f} GB more than before the engine started, and its "
        f"processes show {resident / GIGA:.0f} GB: the rest is pinned by a driver or another's, "
        "and the point names none",
    )
