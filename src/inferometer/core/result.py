"""What it means: the client's account of itself, the verdict, and one point's row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from inferometer.core.point import Point
from inferometer.core.record import Window

VerdictLevel = Literal["valid", "degraded", "invalid"]
Provenance = Literal["measured", "simulated"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a point is not valid: a stable code, the value seen, and the bound it crossed."""

    code: str
    level: VerdictLevel
    message: str
    value: float | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst of its reasons; `labels` (such as `short`) inform and do not lower it."""

    level: VerdictLevel
    reasons: tuple[Reason, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineTotals:
    """The engine's own counters, as differences over the whole run, idle at both ends.

    None where the engine does not publish the family.
    """

    requests: float | None
    prompt_tokens: float | None
    generation_tokens: float | None
    lateness_p99_ms: float | None
    """Only the built-in engine: how late it emitted, against its own deadlines."""


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """How the engine's metrics page was read."""

    path: str | None
    """Where it is; None where no page was ever had."""
    engines: tuple[str, ...]
    """Whose families it has, the preferred first; empty where none is known."""
    pages: int
    failed: int
    """Scrapes without a page."""
    problem: str | None
    """Why the first of them failed."""


@dataclass(frozen=True, slots=True)
class ClientReport:
    """How the client did: the evidence that a number is the engine's and not the client's."""

    lanes: int
    window: Window
    wall_anchor_ns: int
    """Unix time of `mono_anchor_ns`, taken once a run."""
    mono_anchor_ns: int
    stamp_source: str
    loop_lag_p50_ms: float | None
    loop_lag_p99_ms: float | None
    loop_lag_max_ms: float | None
    cpu_share: float | None
    """CPU over wall seconds of the window, of the busiest process of the client; one core = 1."""
    tree_idle_shift_s: float
    system_idle_shift_s: float
    wrapped_lanes: int
    context_overflows: int
    pending_gaps: tuple[tuple[int, int], ...]
    """(lane, ready_ns) of turns whose recorded gap was still running when the window ended."""
    workload_notes: Mapping[str, float]
    worker_cpu_shares: tuple[float, ...] = ()
    """As `cpu_share`, of each process that sends; empty where the coordinator itself does."""
    arrivals_due: int | None = None
    """Open loop: arrivals due inside the window; None in a closed loop."""
    arrivals_unsent: int = 0
    """Of those, how many still waited for a place (`cap_in_flight`) when the window ended."""


@dataclass(frozen=True, slots=True)
class Slo:
    """What a request must meet to be good: at most `bound`, or at least where `metric` is a speed.

    `metric` is a per-request metric (docs/metrics.md), `bound` in its unit: s, or tok/s.
    """

    metric: str
    bound: float


@dataclass(frozen=True, slots=True)
class Result:
    """One point's row. `metrics` holds every number of docs/metrics.md.

    `notes` has the why of every None, and what is to be known of other values.
    """

    format: int
    point: Point
    digest: str
    provenance: Provenance
    clock: Literal["real", "virtual"]
    gpus: int
    window: Window
    metrics: Mapping[str, float | None]
    notes: Mapping[str, str]
    counts: Mapping[str, int]
    verdict: Verdict
    measured_at: str
    """Wall time of the window's start, ISO 8601, UTC."""
    inferometer: str
    measurement_version: int
    slos: tuple[Slo, ...] = ()
    """What the goodput in `metrics` was held against; empty: there is none."""
