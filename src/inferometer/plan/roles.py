"""Which processes a deployment has: each worker of each role on each of its nodes, and a router.

Places them on nodes by count only: on which machine a node is, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from inferometer.catalog import Facts
from inferometer.core import (
    TRANSFERS,
    DeploymentSettings,
    KvOffload,
    KvTransfer,
    MultiNode,
    Parallelism,
    Point,
    Pool,
    Role,
    launch_name,
)
from inferometer.errors import InputError, nearest
from inferometer.plan.additional import unreadable

MAX_LAUNCHES = 1024
"""Processes of one deployment; the largest real one has 20."""
NODE_GPUS = 8
SMALL_NODES: Mapping[str, int] = {"gb200": 4, "gb300": 4}
"""GPUs of a node of hardware that has other than 8 of them. Source: InferenceX's runner file."""
NO_OFFLOAD = KvOffload("none", None, None, 0)


@dataclass(frozen=True, slots=True)
class Process:
    """One launch to be: its role, and what the worker that it is of looks like."""

    role: Role
    index: int
    workers: int
    nodes: int
    node_rank: int
    worker_gpus: int
    hardware: str
    parallelism: Parallelism

    @property
    def head(self) -> str:
        """The worker's first launch, which the others of the worker connect to."""
        return launch_name(self.role, self.index)

    @property
    def name(self) -> str:
        """The launch's own name."""
        return launch_name(self.role, self.index, self.node_rank)

    @property
    def gpus(self) -> int:
        """GPUs on this node."""
        return self.worker_gpus // self.nodes


def pools_of(nodes: MultiNode) -> tuple[tuple[Role, Pool], ...]:
    """The roles that have workers. Without decode workers the prefill ones do both."""
    if not nodes.decode.workers:
        return (("aggregated", nodes.prefill),)
    return (("prefill", nodes.prefill), ("decode", nodes.decode))


def processes(point: Point, settings: DeploymentSettings, facts: Facts) -> tuple[Process, ...]:
    """Every worker on every node of it. InputError where the workers do not sit on nodes."""
    assert point.multi_node is not None
    if bad := unreadable(settings):
        raise InputError(*(f"{key}={text[:60]!r} has no meaning" for key, text in bad.items()))
    found: list[Process] = []
    _paired(point.multi_node)
    for role, pool in pools_of(point.multi_node):
        _claimed(role, pool, settings)
        size = node_gpus(point, settings, pool.hardware or point.hardware, facts)
        nodes = _nodes(role, pool, size, settings)
        if len(found) + pool.workers * nodes > MAX_LAUNCHES:
            raise InputError(f"more than {MAX_LAUNCHES} processes in one deployment")
        found += _workers(role, pool, nodes, point)
    return tuple(found)


def point_of(process: Process, point: Point) -> Point:
    """The point as the engine of one worker sees it: its own GPUs, and the worker's host memory.

    Only prefill workers offload; the budget of a point is that of one node.
    """
    offload = point.kv_offload
    if process.role == "decode":
        offload = NO_OFFLOAD
    elif process.nodes > 1:
        offload = replace(offload, dram_gb=offload.dram_gb * process.nodes)
    spread = process.parallelism
    if spread.gpus < process.worker_gpus:
        # Attention ranks of one GPU each: an engine counts them all as its tensor parallelism.
        spread = replace(spread, tp=process.worker_gpus // (spread.pp * spread.pcp))
    return replace(point, parallelism=spread, hardware=process.hardware, kv_offload=offload)


def transfer_of(point: Point) -> KvTransfer | None:
    """How KV blocks go from prefill to decode workers. InputError for a way that nobody knows."""
    named = point.multi_node.p2p_transfer if point.multi_node else None
    known = next((each for each in TRANSFERS if each == named), None)
    if named is not None and known is None:
        hint = nearest(named, TRANSFERS) or f"; known: {', '.join(TRANSFERS)}"
        raise InputError(f"unknown kv-p2p-transfer {named!r}{hint}")
    return known


def node_gpus(point: Point, settings: DeploymentSettings, hardware: str, facts: Facts) -> int:
    """GPUs of a node: as the setting says, else the runner file, else what the hardware has."""
    assert point.multi_node is not None
    if settings.gpus_per_node is not None:
        return settings.gpus_per_node
    if point.multi_node.gpus_per_node is not None:
        return point.multi_node.gpus_per_node
    if hardware not in facts.gpus:
        message = f"how many GPUs a node of {hardware!r} has is not known: give GPUS_PER_NODE"
        raise InputError(f"{message}, or gpus-per-node in the runner file")
    return SMALL_NODES.get(hardware, NODE_GPUS)


def _paired(nodes: MultiNode) -> None:
    """Refuse a deployment without prefill workers, and decode workers that nothing is handed to."""
    if not nodes.prefill.workers:
        raise InputError("prefill has no worker: give it some, decode may have none")
    if nodes.decode.workers and not nodes.disagg:
        raise InputError("disagg is false, and decode has a worker")


def _claimed(role: Role, pool: Pool, settings: DeploymentSettings) -> None:
    """Refuse a count of workers that is said twice and differs, and experts without a GPU."""
    told = settings.prefill_workers
    if role != "decode" and told is not None and told != pool.workers:
        raise InputError(f"PREFILL_WORKERS is {told}, num-worker is {pool.workers}")
    ep = pool.parallelism.ep
    if ep > pool.worker_gpus:
        message = f"{role}: {ep} expert ranks on {pool.worker_gpus} GPUs of a worker"
        raise InputError(f"{message}: how they span workers is not known here")
    declared = pool.parallelism.gpus
    if pool.worker_gpus > declared and (declared > 1 or not pool.parallelism.dp_attn):
        message = f"{role}: {pool.worker_gpus} GPUs of a worker by its experts, {declared} by tp"
        raise InputError(f"{message}: how attention lies on them is not known here")


def _nodes(role: Role, pool: Pool, size: int, settings: DeploymentSettings) -> int:
    """Nodes of one worker, `size` GPUs each. A count in the settings is for all workers of the
    role.
    """
    needed, rest = divmod(pool.worker_gpus, size)
    if needed and rest:
        message = f"{role}: a worker of {pool.worker_gpus} GPUs fills no whole number of nodes"
        raise InputError(f"{message} of {size}")
    needed = max(needed, 1)
    told = settings.decode_nodes if role == "decode" else settings.prefill_nodes
    if told is None:
        return needed
    # Workers smaller than a node share one.
    least = -(-pool.gpus // size) if needed == 1 else needed * pool.workers
    if told < least:
        key = "DECODE_NODES" if role == "decode" else "PREFILL_NODES"
        raise InputError(f"{key} is {told}; {pool.label} needs {least} nodes of {size} GPUs")
    each, left = divmod(told, pool.workers)
    return each if each and not left and pool.worker_gpus % each == 0 else needed


def _workers(role: Role, pool: Pool, nodes: int, point: Point) -> Iterator[Process]:
    for index in range(pool.workers):
        for rank in range(nodes):
            yield Process(
                role=role,
                index=index,
                workers=pool.workers,
                nodes=nodes,
                node_rank=rank,
                worker_gpus=pool.worker_gpus,
                hardware=pool.hardware or point.hardware,
                parallelism=pool.parallelism,
            )
