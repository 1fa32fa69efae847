"""The expansion, by hand-worked ladders and budgets, and against the rows of InferenceX itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferometer.core import AgenticCoding, FixedSeqLen, KvOffload, Parallelism, Point
from inferometer.errors import InputError
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


def test_a_point_declared_twice_is_refused() -> None:
    space = """\
    fixed-seq-len:
    - isl: 1024
      osl: 64
      search-space:
      - { tp: 2, conc-list: [1, 2] }
      - { tp: 2, ep: 1, conc-list: [2, 4] }
"""
    with pytest.raises(InputError, match="point key_1024_64_tp2_c2 is declared twice"):
        expand(load(space, "h200"))


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    names = "image model model-prefix precision framework runner tp pp dcp-size pcp-size ep dp-attn"
    common = tuple(row[name] for name in [*names.split(), "conc", "spec-decoding"])
    lengths = (row.get("isl"), row.get("osl"), row.get("max-model-len"))
    backend = row.get("kv-offload-backend", {})
    offload = (row.get("kv-offloading", "none"), row.get("total-cpu-dram-gb", 0))
    router = row.get("router") or {}
    named = (backend.get("name"), backend.get("version"), router.get("name"), router.get("version"))
    return (*common, *lengths, *offload, *named)


def _point(point: Point) -> tuple[Any, ...]:
    spread, offload = point.parallelism, point.kv_offload
    fixed = point.scenario if isinstance(point.scenario, FixedSeqLen) else None
    return (
        *(point.image, point.model, point.model_prefix, point.precision, point.framework),
        *(point.runner, spread.tp, spread.pp, spread.dcp, spread.pcp, spread.ep, spread.dp_attn),
        *(point.conc, point.spec_decoding),
        *(fixed.isl if fixed else None, fixed.osl if fixed else None, point.max_model_len),
        *(offload.mode, offload.dram_gb, offload.backend, offload.version),
        *((point.router.name, point.router.version) if point.router else (None, None)),
    )


def test_real_files_expand_to_the_reference_rows(shared_data: Path) -> None:
    folder = shared_data / "inferencex"
    masters = [str(folder / f"{name}-master.yaml") for name in ("amd", "nvidia")]
    configs = load_configs(masters, str(folder / "runners.yaml"))
    lines = [
        json.loads(line)
        for name in ("amd", "nvidia")
        for line in (folder / f"matrix-{name}.jsonl").read_text().splitlines()
    ]
    rows = [row for row in lines if "prefill" not in row]
    points = expand(configs)
    assert [_point(point) for point in points] == [_row(row) for row in rows]
    assert sum(isinstance(point.scenario, FixedSeqLen) for point in points) == 690
    assert sum(isinstance(point.scenario, AgenticCoding) for point in points) == 482
    assert (len(configs.configs), len(configs.skipped)) == (208, 94)
    assert sorted({str(w.message).split("'")[1] for w in configs.warnings}) == [
        "cluster:mi325x-tw",
        "gb300-nv",
        "h200-dgxc",
    ]
    assert len(configs.warnings) == 8
