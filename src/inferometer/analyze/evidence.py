"""What a verdict rests on, and the stable names of its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from inferometer.analyze.selfcheck import Counter
from inferometer.core import Reason, Window


class Code(StrEnum):
    """Stable names of the reasons."""

    NO_SAMPLES = "no_samples"
    FEW_SAMPLES = "few_samples"
    FAILED_SHARE = "failed_share"
    CENSORED_SHARE = "censored_share"
    CONTEXT_OVERFLOW = "context_overflow"
    SHORT_WINDOW = "short_window"
    ENGINE_DIED = "engine_died"
    ENGINE_LATE = "engine_late"
    SCHEDULE_LAG = "schedule_lag"
    CLIENT_LAG = "client_lag"
    CLIENT_CPU = "client_cpu"
    ARRIVALS_UNSENT = "arrivals_unsent"
    COALESCED_FIRST_TOKENS = "coalesced_first_tokens"
    LITTLE_RESIDUAL = "little_residual"
    COUNTERS_DISAGREE = "counters_disagree"
    TOKEN_MISMATCH = "token_mismatch"
    OUTPUT_MISMATCH = "output_mismatch"
    POWER_INVALID = "power_invalid"
    GPU_SHARED = "gpu_shared"
    GPU_THROTTLED = "gpu_throttled"
    HOST_SHARED = "host_shared"
    CLOCK_STEP = "clock_step"
    ACCEPTANCE_OFF = "acceptance_off"
    ENGINE_VERSION = "engine_version"
    GPU_MEMORY_HELD = "gpu_memory_held"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on. Counts are of measured requests sent in the window; None is unknown
    and never held against a point.
    """

    ok: int
    censored: int
    failures: Mapping[str, int]
    context_overflows: int
    arrivals_due: int | None
    """None in a closed loop."""
    arrivals_unsent: int
    window: Window
    engine_died: str | None
    ttft_p50_s: float | None
    chunk_gap_p50_s: float | None
    schedule_lag_ms: float | None
    schedule_lag_percent: int | None
    """Which percentile `schedule_lag_ms` is: the highest that the number of requests supports."""
    stamp_source: str
    loop_lag_p99_ms: float | None
    busiest_cpu_share: float | None
    first_token_coalesced_share: float | None
    little_residual: float | None
    little_noise: float | None
    input_mismatch: float | None
    output_mismatch: float | None
    """None also where answers may end by themselves."""
    engine_lateness_p99_ms: float | None
    counters: tuple[Counter, ...]
    labels: tuple[str, ...]
    power_missing: str | None = None
    """Why there is no valid power, where the plan requires one."""
    gpu_shared_share: float | None = None
    gpu_throttled_share: float | None = None
    other_cpu_share: float | None = None
    clock_step_s: float | None = None
    acceptance_length: float | None = None
    acceptance_target: float | None = None
    """Of a simulated acceptance; None where the model judges its drafts."""
    drafts: float | None = None
    """Verifications in the window; None where the engine counts none."""
    version_problem: str | None = None
    """How the engine's own version differs from the one that the plan names."""
    gpu_held_share: float | None = None
    """Of a GPU's memory, in use before the engine was started."""

    @property
    def failed(self) -> int:
        """Requests that failed, of any class."""
        return sum(self.failures.values())

    @property
    def finished(self) -> int:
        """What shares are of. Requests that the client itself cancelled are left out."""
        return self.ok + self.failed + self.censored


def graded(
    code: Code, value: float, degraded: float, invalid: float | None, text: str
) -> list[Reason]:
    """One reason where `value` is above a bound, the higher bound first."""
    if invalid is not None and value > invalid:
        return [Reason(code, "invalid", text, value, invalid)]
    if value > degraded:
        return [Reason(code, "degraded", text, value, degraded)]
    return []
