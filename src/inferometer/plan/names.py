"""What a recipe's expressions may name: the fields of a point, flat, in the language's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from inferometer.core import FixedSeqLen, Point
from inferometer.plan.expressions import Names, Value


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
}

LET_NAMES = ("draft_method", "draft_tokens", "seqs", "step_tokens", "host_bytes")
"""What recipes agree on: a rule's `let` sets them, any layer's expressions name them."""

POINT_NAMES = frozenset((*_NAMES, *LET_NAMES))
"""Every name, to check a recipe before there is a point."""


def point_names(point: Point) -> Names:
    """Name to value. A number that the point lacks is None; a text that it lacks is empty. What a
    `let` may set is None.
    """
    return {name: of(point) for name, of in _NAMES.items()} | dict.fromkeys(LET_NAMES)
