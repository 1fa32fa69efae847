"""What a launch reserves of the host's memory for KV, against what its point may have.

Reads the resolved flags, variables and files, not the rules that set them, so a size typed by hand
is held to the budget as well. Bytes, and GB of 1e9 bytes in messages. What only a server beside the
engine is told (LMCache's, Mooncake's master) is not in a plan and not counted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from inferometer.catalog import PRECISIONS, Precision, gpu, model
from inferometer.core import LaunchPlan, Point
from inferometer.errors import InputError, Problem

GB = 10**9
GIB = 2**30
STATE_POOLS: Mapping[str, int] = {"qwen3.5": 1}
"""Model prefix to the pools of the KV pool's size that SGLang allocates beside it in host memory:
models with linear attention keep a state for every cached prefix.
"""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Host memory that one setting takes, over all ranks."""

    setting: str
    """The flag, variable or key of a file that says so."""
    bytes: int
    basis: str
    """How it was counted: `8 ranks of 144 GB`."""
    assumed: bool
    """Whether it is an upper bound from the catalog rather than a size that the launch names."""


def reservations(point: Point, plan: LaunchPlan) -> tuple[Reservation, ...]:
    """Everything that the plan is known to reserve in host memory. Empty for several nodes."""
    if point.multi_node is not None:
        return ()
    flags = _flags(plan.argv)
    found = [
        *_hicache(point, flags),
        *_vllm(point, flags),
        *_lmcache(point, plan.env),
        *(one for text in plan.files.values() for one in _file(point, text)),
    ]
    return tuple(found)


def check_budget(point: Point, plan: LaunchPlan) -> list[Problem]:
    """One problem for each way in which the plan reserves more host memory than the point has, with
    the numbers and the rule that set the size. Nothing is raised: the caller decides what it means.

    A size counts as it stands. A ratio counts as a bound, and its problem says that it is one.
    """
    found = reservations(point, plan)
    named = [one for one in found if not one.assumed]
    problems = []
    budget = point.kv_offload.dram_gb * GB if point.kv_offload.mode == "dram" else 0
    if sum(one.bytes for one in named) > budget:
        problems.append(_problem(named, "reserves", budget, plan))
    problems += [
        _problem([one], "may reserve up to about", budget, plan)
        for one in found
        if one.assumed and one.bytes > budget
    ]
    return problems


def _problem(parts: list[Reservation], verb: str, budget: int, plan: LaunchPlan) -> Problem:
    total = sum(one.bytes for one in parts)
    how = "; ".join(f"{one.setting}: {one.basis}" for one in parts)
    message = (
        f"{verb} {total / GB:,.0f} GB of host memory ({how}), and the point's budget is "
        f"{budget / GB:,.0f} GB"
    )
    largest = max(parts, key=lambda one: one.bytes).setting
    for target, origin in plan.origins.items():
        if target.endswith(largest):
            return Problem(message, origin.layer, origin.line, largest)
    return Problem(message, key=largest)


def _flags(argv: tuple[str, ...]) -> dict[str, str]:
    """Flag to the word after it, or after its `=`."""
    found = {}
    for word, after in zip(argv, (*argv[1:], ""), strict=True):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            found[flag] = value if equals else after
    return found


def _number(text: object) -> float | None:
    """A size as a number, where it is one."""
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _ranks(count: int, size: float, unit: int, setting: str, name: str = "GB") -> Reservation:
    """A size that every rank has. `unit` is bytes to one of it."""
    basis = f"{count} {_plural(count)} of {size:g} {name}"
    return Reservation(setting, round(count * size * unit), basis, assumed=False)


def _plural(count: int) -> str:
    return "ranks" if count > 1 else "rank"


def _hicache(point: Point, flags: Mapping[str, str]) -> Iterator[Reservation]:
    """SGLang's: a size a rank and pool, or a multiple of the GPU's own pool."""
    if "--enable-hierarchical-cache" not in flags:
        return
    pools = 1 + STATE_POOLS.get(point.model_prefix, 0)
    size = _number(flags.get("--hicache-size"))
    if size:
        each = f"GB in each of {pools} pools" if pools > 1 else "GB"
        yield _ranks(point.gpus, size, GB * pools, "--hicache-size", each)
        return
    ratio = _number(flags.get("--hicache-ratio"))
    share = _number(flags.get("--mem-fraction-static"))
    if ratio is not None and share is not None:
        yield from _ratio(point, ratio, share)


def _ratio(point: Point, ratio: float, share: float) -> Iterator[Reservation]:
    """At most: the GPU's pool is what its share of memory leaves after the weights. Nothing where
    the catalog does not know the model.
    """
    if point.precision not in PRECISIONS:
        return
    precision: Precision = next(one for one in PRECISIONS if one == point.precision)
    try:
        weights = model(point.model).weight_bytes(precision) / point.gpus
        pool = share * gpu(point.hardware).memory_bytes - weights
    except InputError:
        return
    if pool <= 0:
        return
    basis = (
        f"{point.gpus} ranks of {ratio:g} times a GPU pool of at most {pool / GB:.0f} GB, which is "
        f"{share:g} of its memory less the weights"
    )
    total = round(point.gpus * ratio * pool)
    yield Reservation("--hicache-ratio", total, basis, assumed=True)


def _vllm(point: Point, flags: Mapping[str, str]) -> Iterator[Reservation]:
    """vLLM's: bytes of an engine or of a rank, and weights that are kept on the host."""
    extra = _data(flags.get("--kv-transfer-config", "")).get("kv_connector_extra_config")
    extra = extra if isinstance(extra, dict) else {}
    engines = int(_number(flags.get("--data-parallel-size")) or 1)
    for name, count, of in (
        ("cpu_bytes_to_use", engines, "engines" if engines > 1 else "engine"),
        ("cpu_bytes_to_use_per_rank", point.gpus, "ranks"),
    ):
        size = _number(extra.get(name))
        if size is not None:
            basis = f"{count} {of} of {size / GB:g} GB"
            yield Reservation(name, round(count * size), basis, assumed=False)
    weights = _number(flags.get("--cpu-offload-gb"))
    if weights and point.kv_offload.mode == "dram":
        yield _ranks(point.gpus, weights, GIB, "--cpu-offload-gb", "GiB")


def _lmcache(point: Point, env: Mapping[str, str]) -> Iterator[Reservation]:
    """LMCache inside the engine: GB of each rank's own cache."""
    size = _number(env.get("LMCACHE_MAX_LOCAL_CPU_SIZE"))
    if size is not None:
        yield _ranks(point.gpus, size, GB, "LMCACHE_MAX_LOCAL_CPU_SIZE")


def _file(point: Point, text: str) -> Iterator[Reservation]:
    """Mooncake's segments and buffers, and TensorRT-LLM's host cache."""
    data = _data(text)
    for name in ("global_segment_size", "local_buffer_size"):
        # The store reads GB as 2**30 bytes.
        size = re.fullmatch(r"(\d+)GB", str(data.get(name, "")))
        if size:
            yield _ranks(point.gpus, float(size[1]), GIB, name, "GiB")
    cache = data.get("kv_cache_config")
    size_of_cache = _number(cache.get("host_cache_size")) if isinstance(cache, dict) else None
    if size_of_cache is not None:
        yield _ranks(point.gpus, size_of_cache / GB, GB, "host_cache_size")


def _data(text: str) -> Mapping[str, Any]:
    """The mapping that a text holds as JSON; empty where it holds none."""
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
