"""How every metric is called and written on the page: label, unit, group, definition.

A metric that is not listed here is still shown, under its raw name and without a unit (names of
ours carry their unit). Figures have three significant digits; an unknown value is `–`, never 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from inferometer.report.engine_fields import ENGINE_ROWS
from inferometer.report.replay_fields import REPLAY_ROWS

UNKNOWN = "–"
STATISTICS = ("mean", "p50", "p75", "p90", "p95", "p99")
PERCENTILES = STATISTICS[1:]
OTHER = "Other"
INTERVALS = "Intervals, 95 %"

Kind = Literal["number", "seconds", "milliseconds", "share"]


@dataclass(frozen=True, slots=True)
class Field:
    """One metric on the page. `kind` says how the stored value becomes the figure shown:

    `milliseconds` is stored in seconds and shown x 1000, `share` is stored as 0..1 and shown in
    percent, the rest are shown as stored.
    """

    name: str
    label: str
    unit: str
    group: str
    definition: str = ""
    kind: Kind = "number"

    def figure(self, value: float | None) -> str:
        """The value in three significant digits, without its unit."""
        return significant(self.scaled(value))

    def text(self, value: float | None) -> str:
        """The value with its unit; just `–` where it is unknown."""
        figure = self.figure(value)
        return f"{figure} {self.unit}" if self.unit and figure != UNKNOWN else figure

    def scaled(self, value: float | None) -> float | None:
        """The value in the unit shown."""
        if value is None:
            return None
        return value * {"milliseconds": 1e3, "share": 1e2}.get(self.kind, 1.0)


def significant(value: float | None, digits: int = 3) -> str:
    """`1234.5` is `1,230`, `0.01234` is `0.0123`, None is `–`. Below 1e-5 with an exponent."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    rounded = Decimal(f"{value:.{digits - 1}e}")
    if abs(rounded) < Decimal("1e-5"):
        return f"{rounded:.{digits - 1}e}"
    decimals = max(0, digits - 1 - rounded.adjusted())
    return f"{rounded:,.{decimals}f}"


def count(value: int | None) -> str:
    """A count, exact."""
    return UNKNOWN if value is None else f"{value:,}"


def field(name: str) -> Field:
    """The listed field, or one that shows the raw name."""
    return FIELDS.get(name) or Field(name, name, "", OTHER)


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
_OTHERS = (
    Field("requests_s", "Requests", "req/s", "Load", "Requests completed per second."),
    Field("offered_s", "Arrivals", "1/s", "Load", "Open loop: arrivals due per second."),
    Field(
        "slo_met_share",
        "Objectives met",
        "%",
        "Goodput",
        "Share of what was due that met every objective; failures meet none.",
        "share",
    ),
    Field(
        "goodput_requests_s", "Goodput", "req/s", "Goodput", "Requests that met every objective."
    ),
    Field("goodput_output_tok_s", "Goodput, tokens", "tok/s", "Goodput", "Output tokens of those."),
    Field(
        "goodput_output_tok_s_per_gpu",
        "Goodput per GPU",
        "tok/s/GPU",
        "Goodput",
        "Output tokens of those, over all GPUs of the deployment.",
    ),
    Field("cap_wait_p50_s", "Wait for a place p50", "s", "Load", "Due, and held back by the cap."),
    Field("cap_wait_p99_s", "Wait for a place p99", "s", "Load", "Due, and held back by the cap."),
    Field(
        "worker_cpu_share_max",
        "Busiest worker CPU",
        "cores",
        "Client",
        "Of the processes that send; each has one loop, and one core is all it can have.",
    ),
    Field("in_flight", "In flight", "requests", "Load", "Time-average of open requests."),
    Field("in_flight_per_lane", "In flight per lane", "requests", "Load", "In flight over lanes."),
    Field(
        "lane_occupancy",
        "Lane occupancy",
        "%",
        "Load",
        "Share of lane-time with at least one open request.",
        "share",
    ),
    Field(
        "harness_bound",
        "Harness-bound",
        "%",
        "Load",
        "Share of lane-time with no open request while a recorded gap runs.",
        "share",
    ),
    Field(
        "cached_share",
        "Cache share",
        "%",
        "Load",
        "Share of prompt tokens that the server took from its prefix cache.",
        "share",
    ),
    Field("window_s", "Window", "s", "Load", "The measured interval."),
    Field(
        "rate_window_s",
        "Window of the rates",
        "s",
        "Load",
        "The part of the window that rates are taken over: the steady part, where it holds enough.",
    ),
    Field("session_makespan_p50_s", "Session makespan p50", "s", "Sessions", "Of drained plays."),
    Field(
        "session_critical_path_p50_s",
        "Critical path p50",
        "s",
        "Sessions",
        "Time in requests on the chain of turns that decided when a play ended.",
    ),
    Field(
        "session_join_wait_mean_s",
        "Join wait, mean",
        "s",
        "Sessions",
        "Time that agents of a play waited for their sub-agents.",
    ),
    Field(
        "session_engine_bound",
        "Engine-bound share of sessions",
        "%",
        "Sessions",
        "Critical paths / makespans; the rest is recorded gaps.",
        "share",
    ),
    Field("recorded_gap_mean_s", "Recorded gap, mean", "s", "Sessions", "Due minus ready."),
    Field("achieved_gap_mean_s", "Achieved gap, mean", "s", "Sessions", "Sent minus ready."),
    Field(
        "theoretical_prefix_hit",
        "Prefix hit, infinite cache",
        "%",
        "Sessions",
        "Share of prompt tokens that a cache without bounds would hold.",
        "share",
    ),
    Field(
        "theoretical_prefix_hit_250k",
        "Prefix hit, 250,000 tokens",
        "%",
        "Sessions",
        "Share of prompt tokens that a cache of 250,000 tokens would hold.",
        "share",
    ),
    Field(
        "theoretical_prefix_hit_1m",
        "Prefix hit, 1 million tokens",
        "%",
        "Sessions",
        "Share of prompt tokens that a cache of 1 million tokens would hold.",
        "share",
    ),
    Field(
        "theoretical_prefix_hit_4m",
        "Prefix hit, 4 million tokens",
        "%",
        "Sessions",
        "Share of prompt tokens that a cache of 4 million tokens would hold.",
        "share",
    ),
    Field(
        "theoretical_prefix_hit_16m",
        "Prefix hit, 16 million tokens",
        "%",
        "Sessions",
        "Share of prompt tokens that a cache of 16 million tokens would hold.",
        "share",
    ),
    Field(
        "tree_idle_shift_s",
        "Shift by session idle cap",
        "s",
        "Sessions",
        "Idle time cut because one session's tree was idle for too long.",
    ),
    Field(
        "system_idle_shift_s",
        "Shift by system idle cap",
        "s",
        "Sessions",
        "Idle time cut because every session was idle for too long.",
    ),
    Field("output_tokens_mean", "Output tokens, mean", "tokens", "Load", "A request."),
    Field("input_tokens_mean", "Input tokens, mean", "tokens", "Load", "A request."),
    Field(
        "schedule_lag_p50_ms",
        "Schedule lag p50",
        "ms",
        "Client",
        "How late a request was sent against its schedule.",
    ),
    Field(
        "schedule_lag_p99_ms",
        "Schedule lag p99",
        "ms",
        "Client",
        "How late a request was sent against its schedule.",
    ),
    Field(
        "coalesced_share",
        "Coalesced events",
        "%",
        "Client",
        "Share of token events read together with a later one: their stamps are late by at most "
        "the gap.",
        "share",
    ),
    Field(
        "first_token_coalesced_share",
        "Coalesced first tokens",
        "%",
        "Client",
        "Share of first tokens read together with a later event.",
        "share",
    ),
    Field(
        "input_mismatch",
        "Prompt length mismatch",
        "%",
        "Client",
        "Median difference between the tokens meant to be sent and the server's count, relative.",
        "share",
    ),
    Field(
        "output_mismatch",
        "Answers of another length",
        "%",
        "Client",
        "Share of answers whose tokens, by the server's count, are not as many as asked for.",
        "share",
    ),
    Field(
        "little_noise",
        "Little's law noise",
        "%",
        "Client",
        "Residual below which sampling alone explains it, relative.",
        "share",
    ),
    Field(
        "little_residual",
        "Little's law residual",
        "%",
        "Client",
        "Open requests as sampled against open requests as recorded, relative.",
        "share",
    ),
    Field(
        "client_cpu_share",
        "Client CPU",
        "cores",
        "Client",
        "CPU seconds of the client over wall seconds; one core is 1.",
    ),
    Field("loop_lag_p99_ms", "Event-loop lag p99", "ms", "Client", "Of the client's own loop."),
    Field(
        "engine_lateness_p99_ms",
        "Engine lateness p99",
        "ms",
        "Client",
        "Built-in engine only: how late it emitted against its own deadlines.",
    ),
)

_MACHINE: tuple[Field, ...] = (
    Field("energy_j", "GPU energy", "J", "Power", "Board energy of the deployment's GPUs."),
    Field("power_w", "GPU power", "W", "Power", "Mean board power of the deployment."),
    Field("power_w_per_gpu", "GPU power per GPU", "W", "Power", "Mean board power of one GPU."),
    Field("j_per_output_token", "Energy per output token", "J", "Power", "Of all GPUs."),
    Field("j_per_input_token", "Energy per input token", "J", "Power", "Of all GPUs."),
    Field("j_per_total_token", "Energy per token", "J", "Power", "Input and output together."),
    Field("gpu_sm_clock_mhz", "SM clock", "MHz", "Machine", "Mean."),
    Field("gpu_temperature_c", "GPU temperature", "°C", "Machine", "Highest."),
    Field("gpu_memory_used_bytes", "GPU memory used", "B", "Machine", "Highest of one GPU."),
    Field(
        "gpu_throttled_share",
        "Throttled",
        "%",
        "Machine",
        "Share of the window in which heat or hardware held a clock down.",
        "share",
    ),
    Field(
        "gpu_power_capped_share",
        "At the power limit",
        "%",
        "Machine",
        "Share of the window; normal at full load.",
        "share",
    ),
    Field(
        "gpu_shared_share",
        "GPU shared",
        "%",
        "Machine",
        "Share of the window with another process on a GPU of the deployment.",
        "share",
    ),
    Field(
        "host_other_cpu_share",
        "Cores taken by others",
        "%",
        "Machine",
        "CPU time of processes that are neither engine nor client.",
        "share",
    ),
    Field("engine_cpu_share", "Engine CPU", "%", "Machine", "Of all cores.", "share"),
    Field("engine_resident_bytes", "Engine host memory", "B", "Machine", "Most at a time."),
    Field("engine_pinned_bytes", "Engine pinned memory", "B", "Machine", "Most at a time."),
    Field("clock_step_s", "Wall clock moved", "s", "Machine", "Against the monotonic clock."),
)


def _registry() -> dict[str, Field]:
    fields = [*_OTHERS, *_MACHINE]
    for name, label, unit, text, kind in ENGINE_ROWS:
        fields.append(Field(name, label, unit, "Engine", text, kind))
    for name, label, unit, text, kind in REPLAY_ROWS:
        fields.append(Field(name, label, unit, "Sessions", text, kind))
    for base, (label, unit, kind, text) in LATENCIES.items():
        fields += [
            Field(f"{base}_{s}_s", f"{label} {s}", unit, "Latency", text, kind) for s in STATISTICS
        ]
    for base in WITH_INTERVAL:
        label, unit, kind, _ = LATENCIES[base]
        for p in INTERVAL_PERCENTILES:
            for end, side in (("lo", "lower"), ("hi", "upper")):
                text = f"The {side} bound of the 95 % interval of {p}."
                name, title = f"{base}_{p}_{end}_s", f"{label} {p}, {side}"
                fields.append(Field(name, title, unit, INTERVALS, text, kind))
    for base, (label, text) in INTERACTIVITIES.items():
        fields += [
            Field(f"{base}_{p}", f"{label} {p}", "tok/s/user", "Interactivity", text)
            for p in PERCENTILES
        ]
    for base, (label, text) in RATES.items():
        name = f"{base}_tok_s"
        fields.append(Field(name, f"{label} throughput", "tok/s", "Throughput", text))
        per_gpu = f"{text} Over all GPUs of the deployment."
        label = f"{label} throughput per GPU"
        fields.append(Field(f"{name}_per_gpu", label, "tok/s/GPU", "Throughput", per_gpu))
    return {item.name: item for item in fields}


FIELDS = _registry()
DISTRIBUTIONS = frozenset(
    (
        *(f"{base}_{statistic}_s" for base in LATENCIES for statistic in STATISTICS),
        *(f"{base}_{statistic}" for base in INTERACTIVITIES for statistic in STATISTICS),
    )
)
"""Metrics that are one statistic of a distribution."""
