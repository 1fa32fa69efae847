"""What a recipe's expressions may name: the fields of a point, flat, in the language's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from inferometer.core import DeploymentSettings, FixedSeqLen, MultiNode, Point
from inferometer.plan.expressions import Names, Value
from inferometer.plan.roles import Process, pools_of


def scenario_of(point: Point) -> str:
    """`fixed` or `agentic`."""
    return "fixed" if isinstance(point.scenario, FixedSeqLen) else "agentic"


_NAMES: Mapping[str, Callable[[Point], Value | None]] = {
    "config": lambda point: point.config,
    "image": lambda point: point.image,
    "model": lambda point: point.model,
    "model_prefix": lambda point: point.model_prefix,
    "precision": lambda point: point.precision,
    "framework": lambda point: point.framework,
    "runner": lambda point: point.runner,
    "hardware": lambda point: point.hardware,
    "vendor": lambda point: "amd" if point.hardware.startswith("mi") else "nvidia",
    "scenario": scenario_of,
    "isl": lambda point: getattr(point.scenario, "isl", None),
    "osl": lambda point: getattr(point.scenario, "osl", None),
    "tp": lambda point: point.parallelism.tp,
    "pp": lambda point: point.parallelism.pp,
    "dcp": lambda point: point.parallelism.dcp,
    "pcp": lambda point: point.parallelism.pcp,
    "ep": lambda point: point.parallelism.ep,
    "dp_attn": lambda point: point.parallelism.dp_attn,
    "gpus": lambda point: point.gpus,
    "spec_decoding": lambda point: point.spec_decoding,
    "kv_offload": lambda point: point.kv_offload.mode,
    "kv_backend": lambda point: point.kv_offload.backend or "",
    "kv_version": lambda point: point.kv_offload.version or "",
    "dram_gb": lambda point: point.kv_offload.dram_gb,
    "router": lambda point: point.router.name if point.router else "",
    "router_version": lambda point: point.router.version if point.router else "",
    "conc": lambda point: point.conc,
    "max_model_len": lambda point: point.max_model_len,
    "repeat": lambda point: point.repeat,
    "disagg": lambda point: point.multi_node is not None and _apart(point.multi_node),
    "p2p": lambda point: (point.multi_node.p2p_transfer or "") if point.multi_node else "",
}


def _apart(nodes: MultiNode) -> bool:
    """Whether one role hands over to another. Some that say so have no decode workers."""
    return nodes.disagg and nodes.decode.workers > 0


_SINGLE: Names = {
    "role": "single",
    "worker": 0,
    "workers": 1,
    "nodes": 1,
    "node_rank": 0,
    "head": "",
    "prefill_names": "",
    "decode_names": "",
    "worker_names": "",
    "prefill_image": "",
    "mtp_size": 0,
    "acceptance": 0,
    "copy": None,
}
"""What only a deployment of several roles gives another value to; `copy` only a side process."""

_GPUS = ("node_gpus", "worker_gpus")

LET_NAMES = ("draft_method", "draft_tokens", "seqs", "step_tokens", "host_bytes")
"""What recipes agree on: a rule's `let` sets them, any layer's expressions name them."""

POINT_NAMES = frozenset((*_NAMES, *_SINGLE, *_GPUS, *LET_NAMES))
"""Every name, to check a recipe before there is a point."""


def point_names(point: Point) -> Names:
    """Name to value. A number that the point lacks is None; a text that it lacks is empty. What a
    `let` may set is None.
    """
    named = {name: of(point) for name, of in _NAMES.items()}
    gpus = dict.fromkeys(_GPUS, point.gpus)
    return {**named, **_SINGLE, **gpus, **dict.fromkeys(LET_NAMES)}


def worker_names(process: Process, settings: DeploymentSettings) -> Names:
    """What the names of a worker's point have other values for."""
    pinned = settings.synthetic_acceptance and settings.synthetic_acceptance_length
    return {
        "role": process.role,
        "worker": process.index,
        "workers": process.workers,
        "nodes": process.nodes,
        "node_rank": process.node_rank,
        "node_gpus": process.gpus,
        "worker_gpus": process.worker_gpus,
        "head": process.head,
        "prefill_image": settings.prefill_image or "",
        "mtp_size": settings.decode_mtp_size or 0,
        "acceptance": pinned or 0,
    }


def deployment_names(nodes: MultiNode) -> Names:
    """The workers of each role by name, joined by commas; `worker_names` are those of all."""
    named = {
        role: [f"{role}_{index}" for index in range(pool.workers)] for role, pool in pools_of(nodes)
    }
    every = [name for names in named.values() for name in names]
    return {
        "prefill_names": ",".join(named.get("prefill", ())),
        "decode_names": ",".join(named.get("decode", ())),
        "worker_names": ",".join(every),
    }
