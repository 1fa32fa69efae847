"""What launches reserve of host memory, counted by hand, against their points' budgets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from examples import POINT
from inferometer.core import AgenticCoding, KvOffload, LaunchPlan, MultiNode, Point, Pool
from inferometer.plan import (
    check_budget,
    expand,
    load_configs,
    load_recipes,
    read_file,
    reservations,
    resolve,
)

MINE = dataclasses.replace(
    POINT, framework="simulated", scenario=AgenticCoding(), max_model_len=None
)


def at(dram_gb: int, **changes: Any) -> Point:
    """A point on two GPUs with a budget; 0: without one."""
    offload = KvOffload("dram", "x", None, dram_gb) if dram_gb else POINT.kv_offload
    return dataclasses.replace(MINE, kv_offload=offload, **changes)


def plan_of(point: Point, rule: str) -> LaunchPlan:
    """A plan of the built-in engine with one rule of ours on top."""
    recipes = load_recipes(lambda _path: rule.encode(), ["conf"], lambda _root: ["site.yaml"])
    return resolve(point, recipes)


HICACHE = "- argv: {--enable-hierarchical-cache: true, --hicache-size: 144}"
KV_TRANSFER = (
    "- argv: {{--kv-transfer-config: {{kv_connector_extra_config: {{{name}: 5000000000}}}}}}"
)


@pytest.mark.parametrize(
    ("rule", "changes", "total"),
    [
        (HICACHE, {}, 2 * 144 * 10**9),
        # Qwen3.5 has a pool of states beside the pool of KV.
        (HICACHE, {"model_prefix": "qwen3.5"}, 2 * 2 * 144 * 10**9),
        (KV_TRANSFER.format(name="cpu_bytes_to_use"), {}, 5 * 10**9),
        (KV_TRANSFER.format(name="cpu_bytes_to_use_per_rank"), {}, 2 * 5 * 10**9),
        (
            KV_TRANSFER.format(name="cpu_bytes_to_use") + "\n- argv: {--data-parallel-size: 8}",
            {},
            8 * 5 * 10**9,
        ),
        ("- env: {LMCACHE_MAX_LOCAL_CPU_SIZE: 209}", {}, 2 * 209 * 10**9),
        ("- argv: {--cpu-offload-gb: 26}", {}, 2 * 26 * 2**30),
        (
            "- files: {m.json: {global_segment_size: 87GB, local_buffer_size: 4GB}}",
            {},
            2 * 91 * 2**30,
        ),
        ("- files: {o.yaml: {kv_cache_config: {host_cache_size: 1000}}}", {}, 2000),
        ("- argv: {--hicache-size: 144}", {}, 0),
        ("- files: {notes.txt: 'global_segment_size: 87GB'}", {}, 0),
        ("- argv: {--kv-transfer-config: nonsense}", {}, 0),
    ],
)
def test_what_each_setting_reserves(rule: str, changes: dict[str, Any], total: int) -> None:
    point = at(10_000, **changes)
    assert sum(one.bytes for one in reservations(point, plan_of(point, rule))) == total


def test_the_numbers_and_the_rule_are_told() -> None:
    point = at(287)
    (problem,) = check_budget(point, plan_of(point, HICACHE))
    assert problem.message == (
        "reserves 288 GB of host memory (--hicache-size: 2 ranks of 144 GB), "
        "and the point's budget is 287 GB"
    )
    assert (problem.file, problem.line, problem.key) == ("conf/site.yaml", 1, "--hicache-size")
    assert check_budget(at(288), plan_of(at(288), HICACHE)) == []


def test_reservations_count_together() -> None:
    rule = HICACHE + "\n- env: {LMCACHE_MAX_LOCAL_CPU_SIZE: 1}"
    assert check_budget(at(290), plan_of(at(290), rule)) == []
    (problem,) = check_budget(at(289), plan_of(at(289), rule))
    assert problem.message.startswith("reserves 290 GB of host memory (--hicache-size: 2 ranks")
    assert "; LMCACHE_MAX_LOCAL_CPU_SIZE: 2 ranks of 1 GB)" in problem.message


def test_without_a_budget_nothing_may_be_reserved_for_kv() -> None:
    (problem,) = check_budget(at(0), plan_of(at(0), HICACHE))
    assert problem.message.endswith("and the point's budget is 0 GB")
    # Weights on the host are not KV; only a point with a budget says how much they may take.
    assert check_budget(at(0), plan_of(at(0), "- argv: {--cpu-offload-gb: 26}")) == []


def test_a_ratio_is_a_bound_that_says_what_it_assumes() -> None:
    rule = (
        "- argv: {--enable-hierarchical-cache: true, --hicache-ratio: 8,"
        " --mem-fraction-static: 0.5}"
    )
    point = at(100, model="Qwen/Qwen3-8B", precision="bf16")
    (one,) = reservations(point, plan_of(point, rule))
    pool = 0.5 * 139.8 * 2**30 - 2 * 8190735360 / 2
    assert one.assumed
    assert one.bytes == pytest.approx(2 * 8 * pool, rel=1e-6)
    (problem,) = check_budget(point, plan_of(point, rule))
    assert problem.message.startswith("may reserve up to about 1,070 GB")
    assert "0.5 of its memory less the weights" in problem.message
    for unknown in (at(100), dataclasses.replace(point, precision="int4")):
        assert reservations(unknown, plan_of(unknown, rule)) == ()


def test_several_nodes_are_not_counted() -> None:
    pool = Pool(1, POINT.parallelism, "h200", ())
    point = at(1)
    several = dataclasses.replace(point, multi_node=MultiNode(pool, pool, True, None))
    assert reservations(several, plan_of(point, HICACHE)) == ()


OVER = {
    "glm5.2-fp4-mi355x-atom-agentic-mtp",
    "kimik3-fp4-b300-vllm-agentic-dspark",
    "minimaxm3-fp4-b200-vllm-agentic-mtp",
    "minimaxm3-fp4-b300-trtllm-agentic-mtp",
    "minimaxm3-fp4-b300-vllm-agentic-mtp",
}
"""Keys whose reference launches name more host memory than their budget."""


@pytest.mark.parametrize("compat", [False, True])
def test_the_reference_s_excesses_are_found_and_only_compat_has_them(
    shared_data: Path, compat: bool
) -> None:
    files = shared_data / "inferencex"
    masters = [str(files / f"{vendor}-master.yaml") for vendor in ("amd", "nvidia")]
    recipes = load_recipes(read_file, (), compat=compat)
    points = [p for p in expand(load_configs(masters, str(files / "runners.yaml"))) if p.gpus]
    over = {
        point.config
        for point in points
        if point.multi_node is None and point.kv_offload.mode == "dram"
        for problem in check_budget(point, resolve(point, recipes))
        if problem.message.startswith("reserves")
    }
    assert over == (OVER if compat else set())
