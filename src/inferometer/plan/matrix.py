"""Configs into points: the one expansion, in the order written. Single-node configs only so far.

Pure: no filter, no file. Every default is filled in here, so that a point has none left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from inferometer.core import (
    AgenticCoding,
    FixedSeqLen,
    KvOffload,
    Parallelism,
    Point,
    Router,
    Scenario,
)
from inferometer.errors import InputError
from inferometer.plan.load import Configs
from inferometer.plan.schema import (
    Hardware,
    Ladder,
    Runners,
    SingleNodeAgenticEntry,
    SingleNodeConfig,
    SingleNodeEntry,
)

MAX_DRAM_MIB = 2_861_022
"""InferenceX's policy: at most 3 TB of host memory a server count (3e12 / 2**20)."""
CONTEXT_SLACK = 256
"""Tokens beyond isl + osl that the engine's context allows: chat template and rounding."""
NO_OFFLOAD = KvOffload("none", None, None, 0)


def expand(configs: Configs) -> tuple[Point, ...]:
    """Every point of every single-node config; `configs.skipped` names the others.

    InputError where two arms of a config declare the same point.
    """
    points = tuple(
        point
        for key, config in configs.single_node
        for point in _expand_config(key, config, configs.runners)
    )
    twice = [name for name, count in Counter(point.id for point in points).items() if count > 1]
    if twice:
        raise InputError(*(f"point {name} is declared twice" for name in twice))
    return points


def _expand_config(key: str, config: SingleNodeConfig, runners: Runners) -> Iterator[Point]:
    for fixed in config.scenarios.fixed_seq_len or ():
        lengths = FixedSeqLen(fixed.isl, fixed.osl)
        for entry in fixed.search_space:
            yield from _expand_arm(key, config, entry, lengths, NO_OFFLOAD)
    for agentic in config.scenarios.agentic_coding or ():
        for arm in agentic.search_space:
            offload = _offload(config, arm, agentic.dram_utilization, runners)
            yield from _expand_arm(key, config, arm, AgenticCoding(), offload)


def _expand_arm(
    key: str,
    config: SingleNodeConfig,
    entry: SingleNodeEntry,
    scenario: Scenario,
    offload: KvOffload,
) -> Iterator[Point]:
    fixed = scenario if isinstance(scenario, FixedSeqLen) else None
    # Declared once: for the whole config, or in the entry of its search space.
    declared = entry.router or config.router
    router = Router(declared.name, declared.version) if declared else None
    for conc in ladder(entry):
        yield Point(
            config=key,
            image=config.image,
            model=config.model,
            model_prefix=config.model_prefix,
            precision=config.precision,
            framework=config.framework,
            runner=config.runner,
            hardware=hardware_of(config.runner),
            scenario=scenario,
            parallelism=_parallelism(entry),
            spec_decoding=entry.spec_decoding,
            kv_offload=offload,
            router=router,
            conc=conc,
            max_model_len=fixed.isl + fixed.osl + CONTEXT_SLACK if fixed else None,
            repeat=0,
        )


def ladder(entry: Ladder) -> tuple[int, ...]:
    """The list as it stands; a range doubles from its start and always includes its end."""
    if entry.conc_list is not None:
        return entry.conc_list
    # The schema allows one form only, so a ladder without a list has both ends.
    assert entry.conc_start is not None
    assert entry.conc_end is not None
    steps = []
    conc = entry.conc_start
    while conc < entry.conc_end:
        steps.append(conc)
        conc *= 2
    return (*steps, entry.conc_end)


def hardware_of(runner: str) -> str:
    """The GPU that a runner label names: `mi355x` for `cluster:mi355x-amds`.

    A label of the built-in engine, `sim-h200`, names the GPU it pretends to be: `h200`.
    """
    name = runner.removeprefix("cluster:").removeprefix("sim-")
    return name.replace("_", "-").split("-")[0]


def dram_budget_gb(node: Hardware, utilization: float, gpus: int) -> int:
    """Host memory for KV blocks of a deployment, in whole 1e9 B.

    floor(min(node MiB, 2,861,022) * 2**20 * utilization * gpus / gpus per node / 1e9): a fair share
    of the node. Exact arithmetic, so that 0.8 means four fifths. Source: InferenceX.
    """
    mib = min(node.available_cpu_dram_mib, MAX_DRAM_MIB)
    share = Fraction(str(utilization)) * gpus / node.gpus_per_node
    return int(mib * 2**20 * share // 10**9)


def _offload(
    config: SingleNodeConfig,
    arm: SingleNodeAgenticEntry,
    utilization: float | None,
    runners: Runners,
) -> KvOffload:
    if arm.kv_offloading == "none":
        return NO_OFFLOAD
    # Loading has checked that an offloading arm has a backend, a share and a known node.
    assert arm.kv_offload_backend is not None
    assert utilization is not None
    backend = arm.kv_offload_backend
    gpus = _parallelism(arm).gpus
    budget = dram_budget_gb(runners.hardware[config.runner], utilization, gpus)
    return KvOffload("dram", backend.name, backend.version, budget)


def _parallelism(entry: SingleNodeEntry) -> Parallelism:
    return Parallelism(
        tp=entry.tp,
        pp=entry.pp,
        dcp=entry.dcp_size,
        pcp=entry.pcp_size,
        ep=entry.ep or 1,
        dp_attn=bool(entry.dp_attn),
    )
