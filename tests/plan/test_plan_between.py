"""Rules at points that no config has: between the reference's concurrencies, above and below them,
and with attention spread where its configs do not spread it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from inferometer.core import LaunchPlan, Point
from inferometer.errors import InputError
from inferometer.plan import Recipes, expand, load_configs, load_recipes, read_file, resolve

FILES = Path(__file__).resolve().parents[3] / "shared" / "data" / "inferencex"

UNMOVED = frozenset(
    {
        "dsr1-fp4-mi355x-atom",
        "dsr1-fp4-mi355x-atom-mtp",
        "dsr1-fp8-h200-sglang",
        "dsr1-fp8-h200-sglang-mtp",
        "dsr1-fp8-mi300x-sglang",
        "dsr1-fp8-mi325x-sglang",
        "dsr1-fp8-mi325x-sglang-mtp",
        "dsr1-fp8-mi355x-atom",
        "dsr1-fp8-mi355x-atom-mtp",
        "dsv4-fp4-b200-sglang",
        "dsv4-fp4-b200-vllm-mtp",
        "dsv4-fp4-b300-vllm",
        "dsv4-fp4-b300-vllm-mtp",
        "dsv4-fp4-mi355x-vllm",
        "dsv4-fp4-mi355x-vllm-mtp",
        "dsv4-fp8-h200-vllm",
        "dsv4-fp8-h200-vllm-mtp",
        "dsv4-fp8-mi300x-vllm",
        "dsv4-fp8-mi300x-vllm-mtp",
        "dsv4-fp8-mi325x-vllm",
        "dsv4-fp8-mi325x-vllm-mtp",
        "kimik3-fp4-mi355x-vllm-agentic-mtp",
        "minimaxm3-fp4-b200-vllm-agentic-mtp",
        "minimaxm3-fp4-b300-vllm-agentic-mtp",
        "qwen3.5-fp4-mi355x-atom",
        "qwen3.5-fp8-h100-sglang-agentic-mtp",
        "qwen3.5-fp8-h200-sglang-agentic-hicache-mtp",
        "qwen3.5-fp8-h200-sglang-agentic-mtp",
        "qwen3.5-fp8-mi355x-atom",
        "qwen3.5-fp8-mi355x-atom-mtp",
    }
)
"""Keys of the reference whose launches do not change with the concurrency, as it was varied: the
middle one of every arm, 3, and 16 more than four times the middle one.
"""
WITHOUT_A_SCRIPT = "qwen3.5-fp8-h100-sglang-agentic"


@lru_cache(maxsize=1)
def points() -> tuple[Point, ...]:
    """Every single-node point of the reference that has a launch."""
    masters = [str(FILES / f"{vendor}-master.yaml") for vendor in ("amd", "nvidia")]
    configs = load_configs(masters, str(FILES / "runners.yaml"))
    single = (point for point in expand(configs) if point.multi_node is None)
    return tuple(point for point in single if point.config != WITHOUT_A_SCRIPT)


@lru_cache(maxsize=2)
def packaged(compat: bool) -> Recipes:
    return load_recipes(read_file, (), compat=compat)


def arms(key: str = "") -> Iterator[tuple[Point, ...]]:
    """Points of a key, or of each, that differ in concurrency and GPUs alone, by concurrency."""
    found: dict[tuple[Any, ...], list[Point]] = {}
    for point in points():
        if key in ("", point.config):
            same = (point.config, point.parallelism.dp_attn, point.kv_offload.mode)
            found.setdefault(same, []).append(point)
    for arm in found.values():
        yield tuple(sorted(arm, key=lambda point: point.conc))


def at(point: Point, conc: int) -> LaunchPlan:
    return resolve(dataclasses.replace(point, conc=conc), packaged(False))


def options(plan: LaunchPlan) -> dict[str, Any]:
    return dict(json.loads(plan.files["options.yaml"]))


def started(point: Point) -> tuple[Any, ...]:
    """What would be started; of a point that is refused, its concurrency."""
    try:
        plan = resolve(point, packaged(True))
    except InputError:
        return (point.conc,)
    return (plan.argv, plan.env, plan.files)


def test_concurrency_decides_where_it_does_in_the_reference_and_nowhere_else(
    shared_data: Path,
) -> None:
    moved: set[str] = set()
    for arm in arms():
        middle = arm[len(arm) // 2]
        if middle.config in moved:
            continue
        before = started(middle)
        others = (dataclasses.replace(middle, conc=conc) for conc in (4 * middle.conc + 16, 3))
        if any(started(other) != before for other in others):
            moved.add(middle.config)
    assert {point.config for point in points()} - moved == UNMOVED


@pytest.mark.parametrize("hardware", ["b200", "b300"])
def test_graphs_of_minimax_on_tensorrt_end_with_all_lanes(shared_data: Path, hardware: str) -> None:
    (arm,) = arms(f"minimaxm3-fp4-{hardware}-trtllm-agentic-mtp")
    for conc in range(1, 81):
        sizes = options(at(arm[0], conc))["cuda_graph_config"]["batch_sizes"]
        assert sizes == sorted(set(sizes))
        assert sizes[-1] == conc
        # As few as the reference has at the concurrencies that it lists.
        assert len(sizes) <= 20 or conc > 45


@pytest.mark.parametrize("key", ["dsr1-fp4-b200-trt", "dsr1-fp4-b200-trt-mtp"])
def test_ranks_together_hold_every_lane_of_tensorrt(shared_data: Path, key: str) -> None:
    spread = next(arm[0] for arm in arms(key) if arm[0].parallelism.dp_attn)
    for conc in range(1, 70):
        most = options(at(spread, conc))["cuda_graph_config"]["max_batch_size"]
        assert most * spread.parallelism.tp >= conc


def test_attention_that_is_spread_is_so_in_every_launch(shared_data: Path) -> None:
    """Whatever the model: a point that says so is not started as something else."""
    seen = set()
    for point in {point.config: point for point in points()}.values():
        tp = point.parallelism.tp
        wide = dataclasses.replace(point.parallelism, ep=tp, dp_attn=True)
        try:
            plan = resolve(dataclasses.replace(point, parallelism=wide, conc=8), packaged(False))
        except InputError:
            continue  # settled at other points only
        words = plan.argv
        if point.framework in ("vllm", "sglang"):
            assert words[words.index("--data-parallel-size") + 1] == str(tp), point.config
        if point.framework == "vllm":
            assert words[words.index("--tensor-parallel-size") + 1] == "1"
        elif point.framework == "trt":
            assert options(plan)["enable_attention_dp"] is True
        else:
            assert "--enable-dp-attention" in words
        seen.add(point.config)
    assert len(seen) > 95
