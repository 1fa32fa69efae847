"""The expansion, by hand-worked ladders and budgets, and against the rows of InferenceX itself."""

from __future__ import annotations

from typing import Any

import pytest

from inferometer.core import AgenticCoding, FixedSeqLen, KvOffload, Parallelism, Point
from inferometer.plan import Configs, expand, hardware_of, load_configs
from inferometer.plan.matrix import dram_budget_gb, ladder
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


def load(scenarios: str, runner: str) -> Configs:
    files = {"m.yaml": HEAD.replace("RUNNER", runner) + scenarios, "r.yaml": RUNNERS}
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
    first = Point(
        config="key",
        image="i:1",
        model="org/m",
        model_prefix="m",
        precision="fp8",
        framework="vllm",
        runner="h200",
        hardware="h200",
        scenario=FixedSeqLen(1024, 64),
        parallelism=Parallelism(2, 1, 1, 1, 1, False),
        spec_decoding="none",
        kv_offload=KvOffload("none", None, None, 0),
        router=None,
        conc=1,
        max_model_len=1344,
        repeat=0,
    )
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
