"""What a recipe's expressions may name: the fields of a point, flat, in the language's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

from inferometer.catalog import Facts
from inferometer.core import DeploymentSettings, FixedSeqLen, MultiNode, Point
from inferometer.plan.expressions import Names, Value
from inferometer.plan.roles import Process, pools_of


def scenario_of(point: Point) -> str:
    """`fixed` or `agentic`."""
    return "fixed" if isinstance(point.scenario, FixedSeqLen) else "agentic"


_FIELDS = {
    **{name: name for name in ("config", "image", "model", "model_prefix", "precision")},
    **{name: name for name in ("framework", "runner", "hardware", "spec_decoding", "gpus")},
    **{name: name for name in ("conc", "max_model_len", "repeat")},
    **{name: f"parallelism.{name}" for name in ("tp", "pp", "dcp", "pcp", "ep", "dp_attn")},
    **{"kv_offload": "kv_offload.mode", "dram_gb": "kv_offload.dram_gb"},
}
"""Name to where a point has it; all are asked for at once, since every rule of every point asks."""
_of_point = attrgetter(*_FIELDS.values())

_NAMES: Mapping[str, Callable[[Point], Value | None]] = {
    "vendor": lambda point: "amd" if point.hardware.startswith("mi") else "nvidia",
    "scenario": scenario_of,
    "isl": lambda point: getattr(point.scenario, "isl", None),
    "osl": lambda point: getattr(point.scenario, "osl", None),
    "kv_backend": lambda point: point.kv_offload.backend or "",
    "kv_version": lambda point: point.kv_offload.version or "",
    "router": lambda point: point.router.name if point.router else "",
    "router_version": lambda point: point.router.version if point.router else "",
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

_REST: Names = {**_SINGLE, **dict.fromkeys(LET_NAMES)}

POINT_NAMES = frozenset((*_FIELDS, *_NAMES, *_SINGLE, *_GPUS, *LET_NAMES))
"""Every name, to check a recipe before there is a point."""


def point_names(point: Point) -> Names:
    """Name to value. A number that the point lacks is None; a text that it lacks is empty. What a
    `let` may set is None.
    """
    names: dict[str, Value | Facts | None] = dict(zip(_FIELDS, _of_point(point), strict=True))
    for name, of in _NAMES.items():
        names[name] = of(point)
    names.update(_REST)
    for name in _GPUS:
        names[name] = names["gpus"]
    return names


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
