"""A point directory of made requests and samples, as a run leaves it; the same at every call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from report_synthetic import MACHINES, SCENARIOS, SPREADS, plan, point, result

from inferometer.core import (
    Arrivals,
    ClientReport,
    Exchange,
    Gpu,
    GpuReport,
    MetricsReport,
    Phase,
    Record,
    Result,
    Sample,
    Status,
    Window,
)
from inferometer.store import (
    FORMAT,
    ClientFile,
    Manifest,
    PlannedPoint,
    RunDir,
    Versions,
    record_row,
    sample_row,
)

S = 1_000_000_000
ZERO = 5_000 * S
"""When the window opens: a clock that does not begin at 0."""
WINDOW_S = 60
EVENTS = 6


@dataclass(frozen=True, slots=True)
class Shape:
    """`lanes` with `each` requests one after the other, from 10 s before the window to 5 s after;
    every fifth is a sub-agent's beside its parent. `word` goes into every name.
    """

    lanes: int = 8
    each: int = 40
    word: str = ""
    gpus: int = 2
    watched: bool = True


def request(shape: Shape, lane: int, turn: int) -> Record:
    """The lane's request number `turn`."""
    span = (WINDOW_S + 15) * S // shape.each
    sent = ZERO - 10 * S + turn * span + lane * span // (2 * shape.lanes)
    sub = turn % 5 == 4
    if sub:
        sent -= span // 2
    first, last = sent + span // 5, sent + span * 4 // 5
    at_ns = np.linspace(first, last, EVENTS).astype(np.int64)
    status = Status.TIMEOUT if (lane, turn) == (1, 7) else Status.OK
    tokens = np.full(EVENTS, 3, np.int32)
    name = f"root/agent-{turn}{shape.word}"
    return Record(
        request_id=f"00c0ffee-{lane:04d}-0000-{turn:05d}",
        phase=Phase.WARMUP if sent < ZERO else Phase.MEASURED,
        lane=lane,
        play=0,
        turn=turn,
        session=f"session-{lane}{shape.word}",
        agent=name if sub else "root",
        parent_agent="root" if sub else None,
        ready_ns=sent,
        scheduled_ns=sent,
        dequeued_ns=sent,
        input_tokens=1000,
        max_tokens=64,
        exchange=Exchange(
            connected_ns=sent,
            sent_ns=sent,
            body_sent_ns=sent,
            first_byte_ns=first,
            first_visible_ns=first,
            end_ns=last,
            arrivals=Arrivals(at_ns, tokens, None),
            status=status,
            error=f"no answer{shape.word}" if status.failed else None,
            http_status=200,
            prompt_tokens=1000,
            cached_tokens=800,
            completion_tokens=3 * EVENTS,
            token_source="usage_per_chunk",
            stamp_source="read",
            reused_connection=True,
        ),
    )


def samples(shape: Shape) -> list[Sample]:
    """A plausible engine, machine and cards, from before the first request to after the last."""
    made = []
    for step in range(-24, 134):
        at_ns, t = ZERO + step * S // 2, step / 2
        load = 0.5 + 0.4 * np.sin(t / 7)
        values = {
            ("client.in_flight", ""): 4 + 3 * load,
            ("engine.running", "engine=vllm"): 5 * load,
            ("engine.waiting", "engine=vllm"): max(0.0, 8 * load - 6),
            ("engine.kv_use", "engine=vllm"): load,
            ("engine.generation_tokens", "engine=vllm"): 600 + 40 * t,
            ("engine.prefix_queries", "engine=vllm,tier=device"): 40_000 + 2000 * t,
            ("engine.prefix_hits", "engine=vllm,tier=device"): 30_000 + 1500 * t,
            ("host.engine_cpu_share", ""): 0.2,
            ("host.client_cpu_share", ""): 0.1 * load,
            ("host.other_cpu_share", ""): 0.01,
        }
        for number in range(shape.gpus):
            uuid = f"GPU-{number}{shape.word}"
            values["gpu.power_w", uuid] = 300 + 350 * load + 10 * number
            values["gpu.sm_clock_mhz", uuid] = 1980 - 200 * load
            # The first card is at its limit, the others are hot; each half of the time.
            values["gpu.throttle", uuid] = (1 if number == 0 else 2) * (load > 0.5)
        made += [Sample(at_ns, *key, float(value)) for key, value in values.items()]
    return made


def row(shape: Shape) -> Result:
    """The point's result."""
    at = point(MACHINES[0], SCENARIOS[2], SPREADS[0], 8)
    window = Window("duration", ZERO, ZERO + WINDOW_S * S, float(WINDOW_S), True, None)
    made = replace(result(MACHINES[0], at), window=window)
    return replace(made, point=replace(at, model=f"{at.model}{shape.word}"))


def run_directory(path: Path, shape: Shape) -> tuple[Path, str]:
    """A run of one finished point, and the point's id."""
    made = row(shape)
    run, launch = RunDir(path), plan(made.point)
    planned = (PlannedPoint(made.point.id, made.digest),)
    versions = Versions("0", 1, "3", None, {})
    run.begin(Manifest(FORMAT, "r", "t", "2026", "c", "real", None, 0, versions, {}, {}, planned))
    folder = run.point(made.point.id)
    folder.begin(made.point, made.digest, launch)
    with folder.record_journal() as journal:
        for lane in range(shape.lanes):
            for turn in range(shape.each):
                journal.append(record_row(request(shape, lane, turn)))
        journal.seal()
    with folder.sample_journal() as journal:
        for sample in samples(shape) if shape.watched else []:
            journal.append(sample_row(sample))
        journal.seal()
    folder.write_client(_client(shape, made))
    folder.finish(made)
    return path, made.point.id


def _card(uuid: str, index: int) -> Gpu:
    return Gpu(uuid, index, "H200", 150_000_000_000, 700.0, 1980.0)


def _client(shape: Shape, made: Result) -> ClientFile:
    account = ClientReport(
        lanes=shape.lanes,
        window=made.window,
        wall_anchor_ns=0,
        mono_anchor_ns=0,
        stamp_source="read",
        loop_lag_p50_ms=None,
        loop_lag_p99_ms=None,
        loop_lag_max_ms=None,
        cpu_share=None,
        tree_idle_shift_s=0.0,
        system_idle_shift_s=0.0,
        wrapped_lanes=0,
        context_overflows=0,
        pending_gaps=(),
        workload_notes={},
    )
    uuids = [f"GPU-{number}{shape.word}" for number in range(shape.gpus)]
    cards = tuple(_card(uuid, index) for index, uuid in enumerate(uuids))
    gpus = GpuReport("nvml", "580", "instant", 0.5, cards, tuple(uuids), "processes", None)
    none = GpuReport(None, None, None, 0.5, (), (), None, f"no driver{shape.word}")
    metrics = MetricsReport("/metrics", ("vllm",), 100, 0, None)
    return ClientFile(
        format=FORMAT,
        provenance="measured",
        client=account,
        totals=None,
        engine_died=None,
        gpus=gpus if shape.watched else none,
        metrics=metrics,
        engine_version=f"0.26.0{shape.word}",
    )
