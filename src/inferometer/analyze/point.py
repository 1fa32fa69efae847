"""One point: from its records, its client's report and its engine's totals to its row.

The composer only: the formulas are in `metrics`, the choices of population and window in the
modules named here, and what it is worth in `verdict`. Reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from inferometer import metrics
from inferometer.analyze.acceptance import acceptance_target
from inferometer.analyze.columns import FAILURES, Columns, columns
from inferometer.analyze.engine import engine_figures
from inferometer.analyze.goodput import goodput_figures
from inferometer.analyze.latency import assumed, latency_figures
from inferometer.analyze.live import live_figures
from inferometer.analyze.openloop import open_loop_figures
from inferometer.analyze.power import gpu_figures, host_figures, power_figures
from inferometer.analyze.selfcheck import (
    LAG_PERCENTS,
    Counters,
    busiest_cpu_share,
    client_figures,
    counters,
    schedule_lags_ms,
    token_figures,
)
from inferometer.analyze.sessions import session_figures
from inferometer.analyze.started import gpu_held_share, version_problem
from inferometer.analyze.throughput import cached_share, occupancy_figures, rate_figures
from inferometer.analyze.verdict import Evidence, judge
from inferometer.analyze.window import Windows, find_windows, sent_inside
from inferometer.core import (
    AgenticCoding,
    ClientReport,
    EngineTotals,
    GpuRelease,
    GpuReport,
    LaunchPlan,
    MetricsReport,
    Point,
    Record,
    Result,
    Sample,
    Slo,
    Status,
)
from inferometer.metrics import Figure
from inferometer.store import RequestTable

SHORT_AGENTIC_S = 900.0
"""Below it an agentic window sees few whole sessions: a label, not a fault."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What a row must name to be compared: its format, the package, the measurement version."""

    format: int
    inferometer: str
    measurement: int


@dataclass(frozen=True, slots=True, eq=False)
class PointInputs:
    """All that is known of one run of one point. `engine_died` says how, or is None."""

    point: Point
    plan: LaunchPlan
    digest: str
    records: Sequence[Record] | RequestTable
    samples: Sequence[Sample]
    client: ClientReport
    totals: EngineTotals | None
    gpus: GpuReport | None
    provenance: Literal["measured", "simulated"]
    clock: Literal["real", "virtual"]
    engine_died: str | None
    versions: Versions
    slos: tuple[Slo, ...] = ()
    metrics: MetricsReport | None = None
    engine_version: str | None = None
    release: GpuRelease | None = None


def analyze_point(inputs: PointInputs) -> Result:
    """The point's row: every metric by name (a None has its why in `notes`), counts, verdict."""
    cols = columns(inputs.records)
    open_loop = inputs.plan.workload.open_loop
    windows = find_windows(cols, inputs.client.window, inputs.client.lanes, open_loop=open_loop)
    population = cols.take(sent_inside(cols, windows.whole))
    figures = _figures(inputs, cols, population, windows)
    compared = counters(cols, inputs.totals, inputs.metrics)
    notes = {name: figure.why for name, figure in figures.items() if figure.why is not None}
    if compared.skipped is not None:
        notes["counters"] = compared.skipped
    return Result(
        format=inputs.versions.format,
        point=inputs.point,
        digest=inputs.digest,
        provenance=inputs.provenance,
        clock=inputs.clock,
        gpus=inputs.point.gpus,
        window=windows.whole,
        metrics={name: figure.value for name, figure in figures.items()},
        notes=notes,
        counts=_counts(inputs, cols, population, compared),
        verdict=judge(_evidence(inputs, population, windows, figures, compared)),
        measured_at=_wall_time(inputs.client, windows.whole.start_ns),
        inferometer=inputs.versions.inferometer,
        measurement_version=inputs.versions.measurement,
        slos=inputs.slos,
    )


def _figures(
    inputs: PointInputs, cols: Columns, population: Columns, windows: Windows
) -> dict[str, Figure]:
    agentic = inputs.plan.workload.kind == "agentic"
    open_loop = inputs.plan.workload.open_loop
    gpus, unsent = inputs.point.gpus, inputs.client.arrivals_unsent
    rates = rate_figures(cols, windows, gpus)
    found = {
        "window_s": Figure(windows.whole.seconds),
        "rate_window_s": Figure(windows.rates.seconds, windows.note),
        **latency_figures(population, agentic=agentic, unsent=unsent),
        **goodput_figures(population, inputs.slos, windows.whole.seconds, gpus, unsent),
        **rates,
        **occupancy_figures(cols, windows, inputs.client, inputs.samples),
        "cached_share": cached_share(population),
        **client_figures(population, inputs.client, inputs.totals),
        **token_figures(population),
        **power_figures(inputs.samples, inputs.gpus, windows.rates, rates),
        **gpu_figures(inputs.samples, inputs.gpus, windows.rates),
        **host_figures(inputs.samples, windows.rates, up_already=_up_already(inputs)),
        **engine_figures(
            inputs.samples, inputs.metrics, windows.rates, acceptance_target(inputs.plan)
        ),
    }
    if agentic:
        found |= session_figures(cols, population, inputs.client)
    if inputs.plan.workload.replies == "live":
        found |= live_figures(population)
    return found | open_loop_figures(population, windows, inputs.client) if open_loop else found


def _up_already(inputs: PointInputs) -> bool:
    """Whether the engine was there before the run: its plan starts none."""
    started = bool(inputs.plan.argv or inputs.plan.launches)
    return inputs.clock == "real" and not started


def _counts(
    inputs: PointInputs, cols: Columns, population: Columns, compared: Counters
) -> dict[str, int]:
    warmup = cols.take(~cols.measured)
    found = {
        "sent": len(population),
        "ok": population.count(Status.OK),
        "failed": population.count(*FAILURES),
        "censored": population.count(Status.CENSORED),
        "cancelled": population.count(Status.CANCELLED),
        "warmup": len(warmup),
        "warmup_failed": warmup.count(*FAILURES),
        "outside_window": int(cols.measured.sum()) - len(population),
        "context_overflows": inputs.client.context_overflows,
        "wrapped_lanes": inputs.client.wrapped_lanes,
    }
    if inputs.client.arrivals_due is not None:
        found["arrivals_due"] = inputs.client.arrivals_due
        found["arrivals_unsent"] = inputs.client.arrivals_unsent
    found |= {f"failed_{name}": count for name, count in _failures(population).items()}
    for counter in compared.compared:
        found[f"client_{counter.family}"] = counter.client
        found[f"engine_{counter.family}"] = round(counter.engine)
    return found


def _failures(population: Columns) -> dict[str, int]:
    counts = {status.value: population.count(status) for status in FAILURES}
    return {name: count for name, count in counts.items() if count}


def _evidence(
    inputs: PointInputs,
    population: Columns,
    windows: Windows,
    figures: Mapping[str, Figure],
    compared: Counters,
) -> Evidence:
    lags = schedule_lags_ms(population)
    percent = metrics.highest_supported(len(lags), LAG_PERCENTS)
    lag_ms = None if percent is None else metrics.percentile(lags, percent).value
    return Evidence(
        ok=population.count(Status.OK),
        censored=population.count(Status.CENSORED),
        failures=_failures(population),
        context_overflows=inputs.client.context_overflows,
        arrivals_due=inputs.client.arrivals_due,
        arrivals_unsent=inputs.client.arrivals_unsent,
        window=windows.whole,
        engine_died=inputs.engine_died,
        ttft_p50_s=figures["ttft_p50_s"].value,
        chunk_gap_p50_s=figures["chunk_gap_p50_s"].value,
        schedule_lag_ms=lag_ms,
        schedule_lag_percent=percent,
        stamp_source=inputs.client.stamp_source,
        loop_lag_p99_ms=inputs.client.loop_lag_p99_ms,
        busiest_cpu_share=busiest_cpu_share(inputs.client),
        first_token_coalesced_share=figures["first_token_coalesced_share"].value,
        little_residual=figures["little_residual"].value,
        little_noise=figures["little_noise"].value,
        input_mismatch=figures["input_mismatch"].value,
        output_mismatch=(
            figures["output_mismatch"].value if inputs.plan.client.ignore_eos else None
        ),
        engine_lateness_p99_ms=figures["engine_lateness_p99_ms"].value,
        counters=compared.compared,
        labels=_labels(inputs, population, windows),
        power_missing=_power_missing(inputs, figures["energy_j"]),
        gpu_shared_share=figures["gpu_shared_share"].value,
        gpu_throttled_share=figures["gpu_throttled_share"].value,
        other_cpu_share=figures["host_other_cpu_share"].value,
        clock_step_s=figures["clock_step_s"].value,
        acceptance_length=figures["acceptance_length"].value,
        acceptance_target=figures["acceptance_target"].value,
        drafts=figures["engine_drafts"].value,
        version_problem=version_problem(
            inputs.plan.image, inputs.point.framework, inputs.engine_version
        ),
        gpu_held_share=gpu_held_share(inputs.release, inputs.gpus),
    )


def _power_missing(inputs: PointInputs, energy_j: Figure) -> str | None:
    """Why there is no valid energy where the plan wants one; None where all is well."""
    if inputs.plan.require_power is None or energy_j.value is not None:
        return None
    return energy_j.why


def _labels(inputs: PointInputs, population: Columns, windows: Windows) -> tuple[str, ...]:
    """What a reader should know that is no fault."""
    ok = population.take(population.ended(Status.OK))
    holds = {
        "simulated": inputs.provenance == "simulated",
        "virtual": inputs.clock == "virtual",
        "short": isinstance(inputs.point.scenario, AgenticCoding)
        and windows.whole.seconds < SHORT_AGENTIC_S,
        "assumed_tokens": assumed(ok) > 0,
        "open_loop": inputs.plan.workload.open_loop,
        "live": inputs.plan.workload.replies == "live",
        "steady": windows.steady is True,
        "whole_window": windows.steady is False,
    }
    return tuple(label for label, held in holds.items() if held)


def _wall_time(client: ClientReport, mono_ns: int) -> str:
    unix_ns = client.wall_anchor_ns + mono_ns - client.mono_anchor_ns
    return datetime.fromtimestamp(unix_ns / 1e9, tz=UTC).isoformat(timespec="milliseconds")
