"""Values that tests of several packages start from, and change with `dataclasses.replace`."""

from __future__ import annotations

from inferometer.core import FixedSeqLen, KvOffload, Parallelism, Point, WorkloadSettings

POINT = Point(
    config="key",
    image="i:1",
    model="org/m",
    model_prefix="m",
    precision="fp8",
    framework="vllm",
    runner="h200",
    hardware="h200",
    scenario=FixedSeqLen(1024, 64),
    parallelism=Parallelism(2, 1, 1, 1, 1, False),
    spec_decoding="none",
    kv_offload=KvOffload("none", None, None, 0),
    router=None,
    conc=6,
    max_model_len=1344,
    repeat=0,
)

AGENTIC = WorkloadSettings(
    kind="agentic",
    duration_s=60.0,
    requests=None,
    seed=42,
    isl=None,
    osl=None,
    length_ratio=1.0,
    sessions="synthetic:quickstart",
    sessions_digest=None,
    replay_rules="agentx-1",
    warmup_requests_per_lane=3,
    warmup_grace_s=60.0,
    start_min_share=0.25,
    start_max_share=0.75,
    tree_idle_cap_s=300.0,
    system_idle_cap_s=10.0,
)
