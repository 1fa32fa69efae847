"""Synthetic points for the page's tests: a plausible closed-loop curve, the same at every call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from inferometer.core import (
    AgenticCoding,
    ClientSettings,
    FixedSeqLen,
    KvOffload,
    LaunchPlan,
    Origin,
    Parallelism,
    Point,
    Reason,
    Result,
    RouterPlan,
    Scenario,
    Verdict,
    Window,
    WorkloadSettings,
)
from inferometer.report import PointView, RunView

MODEL = "deepseek-ai/DeepSeek-R1-0528"
SCENARIOS: tuple[Scenario, ...] = (
    FixedSeqLen(1024, 1024),
    FixedSeqLen(8192, 1024),
    AgenticCoding(),
)
CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SPREAD = {"mean": 1.04, "p50": 1.0, "p75": 1.12, "p90": 1.35, "p95": 1.6, "p99": 2.4}


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of GPU. Seconds: of a token alone, more for each lane, of 1k tokens of prefill."""

    hardware: str
    vendor: str
    alone: float
    crowding: float
    prefill: float


MACHINES = (
    Machine("h200", "nvidia", 0.0105, 0.00021, 0.11),
    Machine("b200", "nvidia", 0.0062, 0.00009, 0.055),
    Machine("mi355x", "amd", 0.0070, 0.00010, 0.068),
)
SPREADS = (Parallelism(8, 1, 1, 1, 1, False), Parallelism(4, 1, 1, 1, 1, False))


def point(machine: Machine, scenario: Scenario, spread: Parallelism, conc: int) -> Point:
    engine = "vllm" if machine.vendor == "nvidia" else "sglang"
    return Point(
        config=f"dsr1-fp8-{machine.hardware}-{engine}",
        image=f"registry/{engine}:v0.26.0",
        model=MODEL,
        model_prefix="dsr1",
        precision="fp8",
        framework=engine,
        runner=f"{machine.hardware}-node",
        hardware=machine.hardware,
        scenario=scenario,
        parallelism=spread,
        spec_decoding="none",
        kv_offload=KvOffload("none", None, None, 0),
        router=None,
        conc=conc,
        max_model_len=131072,
        repeat=0,
    )


def metrics(machine: Machine, at: Point) -> dict[str, float | None]:
    """Every metric of the page that a curve gives; `itl` is unknown, as without counts a chunk."""
    fixed = at.scenario if isinstance(at.scenario, FixedSeqLen) else FixedSeqLen(24576, 512)
    share = 8 / at.parallelism.gpus
    tpot = machine.alone * share**0.6 + machine.crowding * at.conc * share
    ttft = machine.prefill * (fixed.isl / 1024) ** 0.8 * (1 + at.conc * share / 24)
    e2el = ttft + tpot * (fixed.osl - 1)
    rate = at.conc / e2el
    values: dict[str, float | None] = {}
    bases = {
        "ttft": ttft,
        "ttft_scheduled": ttft + 0.0004,
        "ttfv": ttft * 1.02,
        "e2el": e2el,
        "tpot": tpot,
        "chunk_gap": tpot,
    }
    for base, seconds in bases.items():
        values |= {f"{base}_{name}_s": seconds * more for name, more in SPREAD.items()}
    values |= {f"itl_{name}_s": None for name in SPREAD}
    for base in ("ttft", "tpot"):
        values |= {f"{base}_p50_lo_s": bases[base] * 0.97, f"{base}_p50_hi_s": bases[base] * 1.03}
    for name, more in list(SPREAD.items())[1:]:
        values[f"intvty_{name}"] = 1 / (tpot * more)
        values[f"e2e_intvty_{name}"] = fixed.osl / (e2el * more)
    cached = 0.0 if isinstance(at.scenario, FixedSeqLen) else 0.93
    rates = {"output": rate * fixed.osl, "input": rate * fixed.isl}
    rates["input_computed"] = rates["input"] * (1 - cached)
    rates["total"] = rates["output"] + rates["input"]
    for name, value in rates.items():
        values[f"{name}_tok_s"] = value
        values[f"{name}_tok_s_per_gpu"] = value / at.parallelism.gpus
    return values | _load(at, rate, cached, fixed)


def _load(at: Point, rate: float, cached: float, fixed: FixedSeqLen) -> dict[str, float | None]:
    return {
        "requests_s": rate,
        "in_flight": at.conc * 0.97,
        "in_flight_per_lane": 0.97,
        "lane_occupancy": 0.965,
        "harness_bound": 0.0,
        "cached_share": cached,
        "output_tokens_mean": float(fixed.osl),
        "input_tokens_mean": float(fixed.isl),
        "schedule_lag_p50_ms": 0.11,
        "schedule_lag_p99_ms": 0.84,
        "coalesced_share": 0.0021,
        "little_residual": 0.004,
        "client_cpu_share": 0.31,
        "loop_lag_p99_ms": 0.9,
        "engine_lateness_p99_ms": None,
        "mystery_new_metric_j": 12.3456,
    }


def verdict(at: Point) -> Verdict:
    """Valid, except c256 on h200 (degraded) and c2 on mi355x with TP4 (invalid)."""
    labels = ("short",) if isinstance(at.scenario, AgenticCoding) else ()
    if at.hardware == "h200" and at.conc == 256:
        why = Reason("schedule_lag", "degraded", "The client sent late.", 2.61, 2.0)
        return Verdict("degraded", (why,), labels)
    if at.hardware == "mi355x" and at.conc == 2 and at.parallelism.tp == 4:
        why = Reason("failed_share", "invalid", "Too many requests failed.", 0.123, 0.1)
        return Verdict("invalid", (why,), labels)
    return Verdict("valid", (), labels)


def result(machine: Machine, at: Point) -> Result:
    level = verdict(at)
    values = metrics(machine, at)
    notes = {f"itl_{name}_s": "the server does not count tokens a chunk" for name in SPREAD}
    notes["engine_lateness_p99_ms"] = "only the built-in engine reports it"
    if at.conc < 4:
        few = {name for name in values if "_p99" in name and name[:4] in ("ttft", "tpot", "intv")}
        notes |= dict.fromkeys(few, "needs 100 samples, has 64")
        values |= dict.fromkeys(few)
    return Result(
        format=1,
        point=at,
        digest=(f"{at.conc:04x}{at.parallelism.tp:02x}" + at.hardware.encode().hex()).ljust(
            64, "7"
        ),
        provenance="measured",
        clock="real",
        gpus=at.parallelism.gpus,
        window=Window("duration", 0, 600_000_000_000, 600.0, True, None),
        metrics=values,
        notes=notes,
        counts={"ok": 40 * at.conc, "failed": 12 if level.level == "invalid" else 0, "censored": 1},
        verdict=level,
        measured_at="2026-10-02T08:15:30Z",
        inferometer="0.1.0",
        measurement_version=1,
    )


def plan(at: Point) -> LaunchPlan:
    flags = ("--tensor-parallel-size", str(at.parallelism.tp), "--max-num-seqs", str(at.conc))
    origins: Mapping[str, Origin] = {
        "argv.--tensor-parallel-size": Origin("recipes/vllm.yaml", 12, None, "tp"),
        "argv.--max-num-seqs": Origin("recipes/vllm.yaml", 31, "conc < 512", "next_pow2(conc)"),
        "env.VLLM_USE_V1": Origin("recipes/vllm.yaml", 7, None, None),
        "client.grace_s": Origin("defaults", None, None, None),
    }
    return LaunchPlan(
        image=at.image,
        argv=("vllm", "serve", at.model, *flags, "--override", '{"a b": "$HOME"}', "--trust"),
        env={"VLLM_USE_V1": "1", "NOTE": "two words"},
        files={"/etc/engine/config.yaml": "stream_interval: 1\nbatch: 8\n"},
        router=RouterPlan("smg", "0.3", ("smg", "--policy", "cache_aware")),
        client=ClientSettings("chat", 10, 600, 120, 3600, True, True, 0.0, "X-Session-ID", 0.1, 30),
        workload=_workload(at.scenario),
        origins=origins,
    )


def _workload(scenario: Scenario) -> WorkloadSettings:
    fixed = isinstance(scenario, FixedSeqLen)
    return WorkloadSettings(
        kind="fixed" if fixed else "agentic",
        duration_s=600.0,
        requests=None,
        seed=7,
        isl=scenario.isl if isinstance(scenario, FixedSeqLen) else None,
        osl=scenario.osl if isinstance(scenario, FixedSeqLen) else None,
        length_ratio=1.0,
        sessions=None if fixed else "synthetic:coding",
        sessions_digest=None,
        replay_rules="agentx-1",
        warmup_requests_per_lane=2,
        warmup_grace_s=60.0,
        start_min_share=0.25,
        start_max_share=0.75,
        tree_idle_cap_s=300.0,
        system_idle_cap_s=10.0,
    )


def points() -> tuple[PointView, ...]:
    """3 machines x 3 scenarios x 2 parallelisms x 9 concurrencies."""
    made = []
    for machine in MACHINES:
        for scenario in SCENARIOS:
            for spread in SPREADS:
                for conc in CONCURRENCIES:
                    at = point(machine, scenario, spread, conc)
                    made.append(PointView(result(machine, at), plan(at)))
    return tuple(made)


def view(made: tuple[PointView, ...] | None = None) -> RunView:
    return RunView(
        title="DeepSeek-R1 on H200, B200 and MI355X",
        run_id="2026-10-02-dsr1-fp8",
        started_at="2026-10-02T08:00:00Z",
        inferometer="0.1.0",
        machine={
            "Host": "bench-07",
            "OS": "Ubuntu 24.04, Linux 6.8",
            "CPU": "2 x AMD EPYC 9575F, 128 cores",
            "Memory": "2.2 TiB",
            "Driver": "580.82",
            "Python": "3.12.4",
        },
        points=points() if made is None else made,
        unfinished=("dsr1-fp8-h200-vllm_8k1k_tp4_c512", "dsr1-fp8-b200-vllm_agentic_tp8_c512"),
    )


def simulated(given: PointView) -> PointView:
    """The same point, as the built-in engine under the virtual clock would have it."""
    row = replace(given.result, provenance="simulated", clock="virtual")
    return replace(given, result=row)
