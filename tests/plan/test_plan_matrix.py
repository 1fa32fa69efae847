"""The expansion, by hand-worked ladders and budgets, and against the rows of InferenceX itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import POINT
from inferometer.core import (
    AgenticCoding,
    KvOffload,
    MultiNode,
    Parallelism,
    Pool,
    Router,
)
from inferometer.errors import InputError
from inferometer.plan import Configs, expand, expand_arms, hardware_of, load_configs
from inferometer.plan.matrix import MAX_POINTS, dram_budget_gb, ladder
from inferometer.plan.schema import Hardware, Ladder

RUNNERS = """\
labels: {h200: [a], "cluster:h200-cw": [a]}
hardware: {"cluster:h200-cw": {available-cpu-dram-mib: 1_000_000, gpus-per-node: 8}}
"""
HEAD = """\
key:
  image: i:1
  model: org/m
  model-prefix: m
  runner: RUNNER
  precision: fp8
  framework: vllm
  multinode: false
  scenarios:
"""


def load(scenarios: str, runner: str, *, multinode: bool = False) -> Configs:
    head = HEAD.replace("RUNNER", runner)
    if multinode:
        head = head.replace("multinode: false", "multinode: true")
    files = {"m.yaml": head + scenarios, "r.yaml": RUNNERS}
    return load_configs(["m.yaml"], "r.yaml", lambda path: files[path].encode())


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"conc-start": 4, "conc-end": 64}, (4, 8, 16, 32, 64)),
        ({"conc-start": 4, "conc-end": 100}, (4, 8, 16, 32, 64, 100)),
        ({"conc-start": 3, "conc-end": 7}, (3, 6, 7)),
        ({"conc-start": 4, "conc-end": 4}, (4,)),
        ({"conc-list": [64, 1, 8]}, (64, 1, 8)),
    ],
)
def test_ladder(form: dict[str, Any], expected: tuple[int, ...]) -> None:
    assert ladder(Ladder.model_validate(form)) == expected


@pytest.mark.parametrize(
    ("label", "hardware"),
    [
        ("cluster:mi355x-amds", "mi355x"),
        ("h200", "h200"),
        ("b200-multinode", "b200"),
        ("h100-cw_00", "h100"),
        ("rtx6000pro_1", "rtx6000pro"),
        ("sim-h200", "h200"),
        ("cluster:sim-mi355x", "mi355x"),
    ],
)
def test_hardware_of_a_runner_label(label: str, hardware: str) -> None:
    assert hardware_of(label) == hardware


def test_dram_budget() -> None:
    # 1,000,000 MiB = 1,048,576,000,000 B; a half, four of eight GPUs: 262.144e9 B.
    node = Hardware.model_validate({"available-cpu-dram-mib": 1_000_000, "gpus-per-node": 8})
    assert dram_budget_gb(node, 0.5, 4) == 262
    # Above the cap of 2,861,022 MiB = 2,999,999,004,672 B: the whole is 2,999 whole GB.
    large = Hardware.model_validate({"available-cpu-dram-mib": 9_000_000, "gpus-per-node": 4})
    assert dram_budget_gb(large, 1, 4) == 2999


def test_a_fixed_config_is_expanded_in_order_with_all_defaults() -> None:
    space = """\
    fixed-seq-len:
    - isl: 1024
      osl: 64
      search-space:
      - { tp: 2, conc-start: 1, conc-end: 2 }
      - { tp: 4, pp: 2, dcp-size: 2, pcp-size: 2, ep: 4, dp-attn: true, conc-list: [8] }
"""
    points = expand(load(space, "h200"))
    first = replace(POINT, conc=1)
    assert points[0] == first
    assert [point.conc for point in points] == [1, 2, 8]
    assert points[2].parallelism == Parallelism(4, 2, 2, 2, 4, True)


def test_an_agentic_config_carries_its_share_of_host_memory() -> None:
    space = """\
    agentic-coding:
    - dram-utilization: 0.5
      search-space:
      - { tp: 4, kv-offloading: none, conc-list: [1] }
      - tp: 4
        kv-offloading: dram
        kv-offload-backend: { name: hicache, version: "1" }
        spec-decoding: mtp
        conc-list: [1]
"""
    plain, offloading = expand(load(space, "cluster:h200-cw"))
    assert plain.kv_offload == KvOffload("none", None, None, 0)
    assert plain.max_model_len is None
    assert offloading.scenario == AgenticCoding()
    assert offloading.kv_offload == KvOffload("dram", "hicache", "1", 262)
    assert offloading.spec_decoding == "mtp"


@pytest.mark.parametrize(
    ("step", "expected"), [(2, (1, 2, 4, 8, 10)), (3, (1, 3, 9, 10)), (16, (1, 10))]
)
def test_a_range_grows_by_the_step_and_ends_at_its_end(
    step: int, expected: tuple[int, ...]
) -> None:
    form = {"conc-start": 1, "conc-end": 10}
    assert ladder(Ladder.model_validate(form), step) == expected


@given(st.integers(1, 65_536), st.integers(1, 65_536), st.integers(2, 50))
def test_a_range_is_short_and_between_its_ends(one: int, other: int, step: int) -> None:
    start, end = sorted((one, other))
    climbed = ladder(Ladder.model_validate({"conc-start": start, "conc-end": end}), step)
    assert (climbed[0], climbed[-1]) == (start, end)
    assert list(climbed) == sorted(set(climbed))
    assert len(climbed) <= 31


MULTI = """\
    agentic-coding:
    - dram-utilization: 0.5
      search-space:
      - conc-list: [4, 1]
        spec-decoding: mtp
        kv-offloading: dram
        kv-offload-backend: { name: hicache }
        kv-p2p-transfer: nixl
        prefill:
          num-worker: 2
          tp: 8
          pp: 2
          ep: 8
          dp-attn: true
          additional-settings: ["CONFIG_FILE=a=b.yaml", "EMPTY="]
        decode: { num-worker: 1, tp: 4, ep: 1, dp-attn: false }
      - conc-list: [4]
        prefill: { num-worker: 3, tp: 8, ep: 1, dp-attn: false }
        decode: { num-worker: 0, tp: 8, ep: 1, dp-attn: false }
"""


def test_a_multi_node_config_is_expanded_to_pools() -> None:
    configs = load(MULTI, "cluster:h200-cw", multinode=True)
    first, last = expand_arms(configs)
    assert [point.conc for point in first] == [4, 1]
    settings = (("CONFIG_FILE", "a=b.yaml"), ("EMPTY", ""))
    prefill = Pool(2, Parallelism(8, 2, 1, 1, 8, True), None, settings)
    decode = Pool(1, Parallelism(4, 1, 1, 1, 1, False), None, ())
    assert first[0].multi_node == MultiNode(prefill, decode, False, "nixl", gpus_per_node=8)
    assert first[0].parallelism == prefill.parallelism
    assert (first[0].gpus, last[0].gpus) == (2 * 16 + 4, 24)
    assert (first[0].deployment, last[0].deployment) == ("P2xDEP8PP2+D1xTP4", "3xTP8")
    # A prefill worker spans two nodes and has half of the memory of each.
    assert first[0].kv_offload == KvOffload("dram", "hicache", None, 524)
    assert last[0].kv_offload.mode == "none"


def test_points_that_differ_have_ids_that_differ() -> None:
    same = expand(load(MULTI, "cluster:h200-cw", multinode=True))[0]
    assert same.multi_node is not None
    pool = same.multi_node.prefill
    variants = [
        replace(same.multi_node, prefill=replace(pool, settings=(("CONFIG_FILE", "c.yaml"),))),
        replace(same.multi_node, prefill=replace(pool, workers=1)),
        replace(same.multi_node, prefill=replace(pool, hardware="h100")),
        replace(same.multi_node, decode=replace(pool, settings=())),
        replace(same.multi_node, p2p_transfer="mori"),
    ]
    points = [same, *(replace(same, multi_node=nodes) for nodes in variants)]
    points += [replace(same, router=Router("r", version)) for version in "12"]
    points += [replace(same, kv_offload=KvOffload("dram", "hicache", v, 524)) for v in "12"]
    assert len({point.id for point in points}) == len(points)
    assert re.fullmatch(
        r"key_agentic_p2xdep8pp2ep8dpa_d1xtp4_mtp_kvdram-hicache_[0-9a-f]{8}_c4", same.id
    )


def test_more_points_than_anybody_plans_are_refused() -> None:
    ladder_of = ", ".join(str(conc) for conc in range(1, 1001))
    arms = "".join(f"      - {{ tp: {tp}, conc-list: *all }}\n" for tp in range(2, 102))
    space = f"""\
    fixed-seq-len:
    - isl: 1024
      osl: 64
      search-space:
      - {{ tp: 1, conc-list: &all [{ladder_of}] }}
{arms}"""
    with pytest.raises(InputError, match=f"more than {MAX_POINTS} points are declared"):
        expand(load(space, "h200"))
