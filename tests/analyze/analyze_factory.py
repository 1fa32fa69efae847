"""Small records by hand, in milliseconds: what the tests of `analyze` are written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from inferometer.analyze import PointInputs, Versions
from inferometer.core import (
    AgenticCoding,
    Arrivals,
    ClientReport,
    ClientSettings,
    Exchange,
    FixedSeqLen,
    KvOffload,
    LaunchPlan,
    Parallelism,
    Phase,
    Point,
    Record,
    Status,
    Window,
    WorkloadSettings,
)

MS = 1_000_000


def record(
    sent: float | None,
    events: Sequence[float] = (),
    *,
    end: float | None = None,
    tokens: Sequence[int] | None = None,
    coalesced: Sequence[bool] | None = None,
    status: Status = Status.OK,
    phase: Phase = Phase.MEASURED,
    lane: int = 0,
    play: int = 0,
    session: str = "s",
    agent: str = "root",
    parent: str | None = None,
    ready: float | None = None,
    scheduled: float | None = None,
    dequeued: float = 0,
    visible: float | None = None,
    intended: int = 100,
    prompt: int | None = 100,
    cached: int | None = None,
    completion: int | None = None,
) -> Record:
    """A record; all times in ms. Due and ready when sent, closed at its last event by default."""
    due = scheduled if scheduled is not None else (sent if sent is not None else dequeued)
    closed = end if end is not None else (events[-1] if events else due)
    return Record(
        request_id="r",
        phase=phase,
        lane=lane,
        play=play,
        turn=0,
        session=session,
        agent=agent,
        parent_agent=parent,
        ready_ns=_ns(ready if ready is not None else due),
        scheduled_ns=_ns(due),
        dequeued_ns=_ns(dequeued),
        input_tokens=intended,
        max_tokens=1000 if completion is None else completion,
        exchange=Exchange(
            connected_ns=None,
            sent_ns=None if sent is None else _ns(sent),
            body_sent_ns=None,
            first_byte_ns=None,
            first_visible_ns=None if visible is None else _ns(visible),
            end_ns=_ns(closed),
            arrivals=Arrivals(
                at_ns=np.array([_ns(at) for at in events], dtype=np.int64),
                tokens=None if tokens is None else np.array(tokens, dtype=np.int32),
                coalesced=None if coalesced is None else np.array(coalesced, dtype=np.bool_),
            ),
            status=status,
            error=None,
            http_status=200,
            prompt_tokens=prompt,
            cached_tokens=cached,
            completion_tokens=completion,
            token_source="usage_final",
            stamp_source="kernel",
            reused_connection=True,
        ),
    )


def window(
    start: float = 0,
    end: float = 10_000,
    *,
    kind: str = "duration",
    complete: bool = True,
    stop_reason: str | None = None,
) -> Window:
    """A window in ms, declared as long as it is."""
    duration = kind == "duration"
    return Window(
        kind="duration" if duration else "requests",
        start_ns=_ns(start),
        end_ns=_ns(end),
        declared_s=(end - start) / 1e3 if duration else None,
        complete=complete,
        stop_reason=stop_reason,
    )


def client(span: Window, *, lanes: int = 1) -> ClientReport:
    """A client without a fault."""
    return ClientReport(
        lanes=lanes,
        window=span,
        wall_anchor_ns=1_800_000_000 * 1_000 * MS,
        mono_anchor_ns=0,
        stamp_source="kernel",
        loop_lag_p50_ms=0.1,
        loop_lag_p99_ms=0.5,
        loop_lag_max_ms=1.0,
        cpu_share=0.25,
        tree_idle_shift_s=0.0,
        system_idle_shift_s=0.0,
        wrapped_lanes=0,
        context_overflows=0,
        pending_gaps=(),
        workload_notes={},
    )


def inputs(
    records: Sequence[Record],
    *,
    span: Window | None = None,
    lanes: int = 1,
    gpus: int = 1,
    agentic: bool = False,
) -> PointInputs:
    """A measured point of these records, in real time, on an engine without counters."""
    return PointInputs(
        point=_point(gpus, lanes, agentic),
        plan=_plan(agentic),
        digest="d",
        records=records,
        samples=(),
        client=client(span or window(), lanes=lanes),
        totals=None,
        gpus=None,
        provenance="measured",
        clock="real",
        engine_died=None,
        versions=Versions(format=1, inferometer="0.1.0", measurement=1),
    )


def with_client(given: PointInputs, **changes: object) -> PointInputs:
    """The same run with another account of the client."""
    return replace(given, client=replace(given.client, **changes))  # type: ignore[arg-type]


def _ns(ms: float) -> int:
    return round(ms * MS)


def _point(gpus: int, lanes: int, agentic: bool) -> Point:
    return Point(
        config="c",
        image="i",
        model="m",
        model_prefix="m",
        precision="fp8",
        framework="vllm",
        runner="r",
        hardware="h200",
        scenario=AgenticCoding() if agentic else FixedSeqLen(1024, 1024),
        parallelism=Parallelism(tp=gpus, pp=1, dcp=1, pcp=1, ep=1, dp_attn=False),
        spec_decoding="none",
        kv_offload=KvOffload("none", None, None, 0),
        router=None,
        conc=lanes,
        max_model_len=None,
        repeat=0,
    )


def _plan(agentic: bool) -> LaunchPlan:
    return LaunchPlan(
        image="i",
        argv=(),
        env={},
        files={},
        router=None,
        client=ClientSettings(
            endpoint="chat",
            connect_timeout_s=10,
            first_byte_timeout_s=10,
            between_bytes_timeout_s=10,
            total_timeout_s=100,
            usage_every_chunk=True,
            ignore_eos=True,
            temperature=0,
            affinity_header=None,
            stop_failed_share=0.1,
            grace_s=30,
        ),
        workload=WorkloadSettings(
            kind="agentic" if agentic else "fixed",
            duration_s=10,
            requests=None,
            seed=0,
            isl=None if agentic else 1024,
            osl=None if agentic else 1024,
            length_ratio=1.0,
            sessions=None,
            sessions_digest=None,
            replay_rules="agentx-1",
            warmup_requests_per_lane=1,
            warmup_grace_s=100,
            start_min_share=0.25,
            start_max_share=0.75,
            tree_idle_cap_s=300,
            system_idle_cap_s=10,
        ),
        origins={},
    )
