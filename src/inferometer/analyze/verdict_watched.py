"""Was the engine the one that was named, alone, and on a sound machine: rules on what was watched
beside the requests, with their bounds and the reason for the size of each.
"""

from __future__ import annotations

from collections.abc import Callable

from inferometer.analyze.evidence import Code, Evidence, graded
from inferometer.core import Reason

COUNTERS_INVALID = 0.01
"""Counters are exact, so any difference is a fault to explain; 1 % moves the published rates."""
ENGINE_LATE_MS = 5.0
ENGINE_LATE_GAP_SHARE = 0.20
"""The built-in engine keeps a timetable. A fifth of a chunk gap late, or 5 ms where gaps are long,
and the machine that was measured is not the one that was declared."""
OTHER_CPU_DEGRADED = 0.20
"""A fifth of the cores went to processes that are not of the run: engine and client waited for
them, and nothing in the records tells how long."""
GPU_SHARED_DEGRADED = 0.0
"""Any other process on a GPU of the deployment takes memory, bandwidth or time from the engine."""
THROTTLED_DEGRADED = 0.01
"""Held down by heat or hardware for more than 1 % of the window: another card than the one named.
At its power limit a card is as it was built to be, and that is no fault."""
GPU_HELD_DEGRADED = 0.02
"""A driver's own share of a card is below 1 %. More was left by an engine before this one, or is
somebody else's: engines size their KV pool by what is free."""
GPU_HELD_INVALID = 0.10
"""With a tenth of the card gone the pool is another one than the launch asks for."""
CLOCK_STEP_DEGRADED_S = 0.5
"""Stamps are monotonic and cannot step; the wall clock they are told by can, and then no outside
log can be laid beside the run."""
ACCEPTANCE_DEGRADED = 0.05
"""A simulated acceptance is set so that engines can be compared, and every rate follows it: 5 % off
is 5 % of a rate. Chance is far below: see the number of verifications."""
ACCEPTANCE_MIN_DRAFTS = 400
"""A length between two whole numbers has at most a half for its standard deviation: three standard
errors of 400 verifications are 0.075, below 5 % of any length above 1.5."""


def _counters(seen: Evidence) -> list[Reason]:
    return [
        reason
        for counter in seen.counters
        for reason in graded(
            Code.COUNTERS_DISAGREE,
            counter.difference,
            0.0,
            COUNTERS_INVALID,
            f"{counter.family}: {counter.client} by the client, {counter.engine:.0f} by the engine",
        )
    ]


def _engine_late(seen: Evidence) -> list[Reason]:
    late_ms, gap_s = seen.engine_lateness_p99_ms, seen.chunk_gap_p50_s
    if late_ms is None:
        return []
    bound_ms = min(ENGINE_LATE_MS, ENGINE_LATE_GAP_SHARE * gap_s * 1e3) if gap_s else ENGINE_LATE_MS
    text = f"the built-in engine emitted {late_ms:.2f} ms late at p99: it was not the one declared"
    return graded(Code.ENGINE_LATE, late_ms, bound_ms, None, text)


def _power(seen: Evidence) -> list[Reason]:
    if seen.power_missing is None:
        return []
    text = f"the plan requires measured power, and there is none: {seen.power_missing}"
    return [Reason(Code.POWER_INVALID, "invalid", text, None, None)]


def _shared(seen: Evidence) -> list[Reason]:
    """Other users of the machine during the window."""
    found = []
    if (share := seen.gpu_shared_share) is not None:
        text = f"other processes were on the deployment's GPUs for {share:.0%} of the window"
        found += graded(Code.GPU_SHARED, share, GPU_SHARED_DEGRADED, None, text)
    if (share := seen.other_cpu_share) is not None:
        text = f"processes that are not of the run took {share:.0%} of the cores"
        found += graded(Code.HOST_SHARED, share, OTHER_CPU_DEGRADED, None, text)
    return found


def _throttled(seen: Evidence) -> list[Reason]:
    share = seen.gpu_throttled_share
    if share is None:
        return []
    text = f"GPUs were slowed by heat or hardware for {share:.0%} of the window"
    return graded(Code.GPU_THROTTLED, share, THROTTLED_DEGRADED, None, text)


def _clock_step(seen: Evidence) -> list[Reason]:
    step_s = seen.clock_step_s
    if step_s is None:
        return []
    text = f"the wall clock moved by {step_s:.2f} s against the monotonic one"
    return graded(Code.CLOCK_STEP, step_s, CLOCK_STEP_DEGRADED_S, None, text)


def _acceptance(seen: Evidence) -> list[Reason]:
    length, target = seen.acceptance_length, seen.acceptance_target
    few = seen.drafts is not None and seen.drafts < ACCEPTANCE_MIN_DRAFTS
    if length is None or not target or few:
        return []
    off = abs(length - target) / target
    text = f"the acceptance length was {length:.2f}, and {target:.2f} is to be simulated"
    return graded(Code.ACCEPTANCE_OFF, off, ACCEPTANCE_DEGRADED, None, text)


def _version(seen: Evidence) -> list[Reason]:
    if seen.version_problem is None:
        return []
    return [Reason(Code.ENGINE_VERSION, "invalid", seen.version_problem, None, None)]


def _held(seen: Evidence) -> list[Reason]:
    share = seen.gpu_held_share
    if share is None:
        return []
    text = f"{share:.1%} of a GPU's memory were in use before the engine was started"
    return graded(Code.GPU_MEMORY_HELD, share, GPU_HELD_DEGRADED, GPU_HELD_INVALID, text)


WATCHED_RULES: tuple[Callable[[Evidence], list[Reason]], ...] = (
    _counters,
    _engine_late,
    _power,
    _shared,
    _throttled,
    _clock_step,
    _acceptance,
    _version,
    _held,
)
