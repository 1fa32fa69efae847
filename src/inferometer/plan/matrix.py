"""Configs into points: the one expansion, in the order written, of one node and of several.

Pure: no filter, no file. Every default is filled in here, so that a point has none left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from inferometer.core import (
    AgenticCoding,
    FixedSeqLen,
    KvOffload,
    MultiNode,
    Parallelism,
    Point,
    Pool,
    Router,
    Scenario,
)
from inferometer.errors import InputError
from inferometer.plan.load import Configs
from inferometer.plan.schema import (
    Hardware,
    Ladder,
    MultiNodeAgenticEntry,
    MultiNodeConfig,
    MultiNodeEntry,
    Runners,
    SingleNodeAgenticEntry,
    SingleNodeConfig,
    SingleNodeEntry,
    Worker,
)

Arm = tuple[Point, ...]
"""One entry of a search space: a deployment at each of its concurrencies, in the order written."""
Entry = SingleNodeConfig | MultiNodeConfig

MAX_DRAM_MIB = 2_861_022
"""InferenceX's policy: at most 3 TB of host memory a server count (3e12 / 2**20)."""
CONTEXT_SLACK = 256
"""Tokens beyond isl + osl that the engine's context allows: chat template and rounding."""
MAX_POINTS = 100_000
"""Of all files together; the real ones have 2,078."""
NO_OFFLOAD = KvOffload("none", None, None, 0)


def expand(configs: Configs, step: int = 2) -> tuple[Point, ...]:
    """Every point of every config: `expand_arms`, flat."""
    return tuple(point for arm in expand_arms(configs, step) for point in arm)


def expand_arms(configs: Configs, step: int = 2) -> tuple[Arm, ...]:
    """Every arm of every config. `step` is the factor of ranges. InputError above MAX_POINTS."""
    arms = []
    left = MAX_POINTS
    for config in configs.configs:
        for arm in _arms(config.key, config.entry, configs.runners, step):
            arms.append(arm)
            left -= len(arm)
            if left < 0:
                raise InputError(f"more than {MAX_POINTS} points are declared")
    return tuple(arms)


def _arms(key: str, config: Entry, runners: Runners, step: int) -> Iterator[Arm]:
    for fixed in config.scenarios.fixed_seq_len or ():
        lengths = FixedSeqLen(fixed.isl, fixed.osl)
        for entry in fixed.search_space:
            first = _first(key, config, entry, lengths, NO_OFFLOAD, runners)
            yield _climb(first, entry, step)
    for agentic in config.scenarios.agentic_coding or ():
        for arm in agentic.search_space:
            offload = _offload(config.runner, arm, agentic.dram_utilization, runners)
            first = _first(key, config, arm, AgenticCoding(), offload, runners)
            yield _climb(first, arm, step)


def _climb(first: Point, entry: Ladder, step: int) -> Arm:
    return tuple(replace(first, conc=conc) for conc in ladder(entry, step))


def _first(
    key: str,
    config: Entry,
    entry: SingleNodeEntry | MultiNodeEntry,
    scenario: Scenario,
    offload: KvOffload,
    runners: Runners,
) -> Point:
    """The arm's point at one lane."""
    fixed = scenario if isinstance(scenario, FixedSeqLen) else None
    # Declared once: for the whole config, or in the entry of its search space.
    declared = entry.router or config.router
    nodes = None
    if isinstance(entry, MultiNodeEntry):
        assert isinstance(config, MultiNodeConfig)
        nodes = _multi_node(config, entry, runners)
    return Point(
        config=key,
        image=config.image,
        model=config.model,
        model_prefix=config.model_prefix,
        precision=config.precision,
        framework=config.framework,
        runner=config.runner,
        hardware=hardware_of(config.runner),
        scenario=scenario,
        parallelism=_parallelism(entry.prefill if isinstance(entry, MultiNodeEntry) else entry),
        spec_decoding=entry.spec_decoding,
        kv_offload=offload,
        router=Router(declared.name, declared.version) if declared else None,
        conc=1,
        max_model_len=fixed.isl + fixed.osl + CONTEXT_SLACK if fixed else None,
        repeat=0,
        multi_node=nodes,
        require_power=config.require_power,
    )


def _multi_node(config: MultiNodeConfig, entry: MultiNodeEntry, runners: Runners) -> MultiNode:
    node = runners.hardware.get(config.runner)
    return MultiNode(
        prefill=_pool(entry.prefill),
        decode=_pool(entry.decode),
        disagg=config.disagg,
        p2p_transfer=entry.kv_p2p_transfer or config.kv_p2p_transfer,
        gpus_per_node=node.gpus_per_node if node else None,
    )


def _pool(worker: Worker) -> Pool:
    pairs = (setting.partition("=") for setting in worker.additional_settings)
    settings = tuple((key, value) for key, _, value in pairs)
    return Pool(worker.num_worker, _parallelism(worker), worker.hardware, settings)


def ladder(entry: Ladder, step: int = 2) -> tuple[int, ...]:
    """The list as it stands; a range grows by `step` (above 1) and always includes its end."""
    if entry.conc_list is not None:
        return entry.conc_list
    # The schema allows one form only, so a ladder without a list has both ends.
    assert entry.conc_start is not None
    assert entry.conc_end is not None
    steps = []
    conc = entry.conc_start
    while conc < entry.conc_end:
        steps.append(conc)
        conc *= step
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
    of one node. Exact arithmetic, so that 0.8 means four fifths. Source: InferenceX.
    """
    mib = min(node.available_cpu_dram_mib, MAX_DRAM_MIB)
    share = Fraction(str(utilization)) * gpus / node.gpus_per_node
    return int(mib * 2**20 * share // 10**9)


def _offload(
    runner: str,
    arm: SingleNodeAgenticEntry | MultiNodeAgenticEntry,
    utilization: float | None,
    runners: Runners,
) -> KvOffload:
    if arm.kv_offloading == "none":
        return NO_OFFLOAD
    # Loading has checked that an offloading arm has a backend, a share and a known node.
    assert arm.kv_offload_backend is not None
    assert utilization is not None
    backend, node = arm.kv_offload_backend, runners.hardware[runner]
    # Prefill workers offload; one that spans nodes has the whole of each.
    worker = arm.prefill if isinstance(arm, MultiNodeAgenticEntry) else arm
    gpus = min(_parallelism(worker).gpus, node.gpus_per_node)
    budget = dram_budget_gb(node, utilization, gpus)
    return KvOffload("dram", backend.name, backend.version, budget)


def _parallelism(entry: SingleNodeEntry | Worker) -> Parallelism:
    return Parallelism(
        tp=entry.tp,
        pp=entry.pp,
        dcp=entry.dcp_size,
        pcp=entry.pcp_size,
        ep=entry.ep or 1,
        dp_attn=bool(entry.dp_attn),
    )
