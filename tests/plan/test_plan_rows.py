"""Rows in the reference's shape: the real files row for row, and eval marks by hand."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from inferometer.core import (
    AgenticCoding,
    FixedSeqLen,
    KvOffload,
    MultiNode,
    Parallelism,
    Point,
    Pool,
    Scenario,
)
from inferometer.plan import (
    Allocation,
    EvalMode,
    allocations,
    expand_arms,
    load_configs,
    mark_evals,
    reference_rows,
)
from inferometer.plan.matrix import Arm

LONG = FixedSeqLen(8192, 1024)
POINT = Point(
    config="key",
    image="i:1",
    model="org/m",
    model_prefix="m",
    precision="fp8",
    framework="vllm",
    runner="h200",
    hardware="h200",
    scenario=LONG,
    parallelism=Parallelism(8, 1, 1, 1, 1, False),
    spec_decoding="none",
    kv_offload=KvOffload("none", None, None, 0),
    router=None,
    conc=1,
    max_model_len=9472,
    repeat=0,
)
POOL = Pool(1, Parallelism(8, 1, 1, 1, 1, False), None, ())
NODES = MultiNode(POOL, replace(POOL, workers=2), disagg=True, p2p_transfer="nixl")
OTHER = replace(NODES, prefill=replace(POOL, settings=(("A", "1"),)))


def arm(
    *concs: int,
    tp: int = 8,
    nodes: MultiNode | None = None,
    scenario: Scenario = LONG,
    config: str = "key",
) -> Arm:
    spread = replace(POINT.parallelism, tp=tp)
    point = replace(POINT, config=config, parallelism=spread, multi_node=nodes, scenario=scenario)
    return tuple(replace(point, conc=conc) for conc in concs)


def marked(mode: EvalMode, *arms: Arm) -> list[tuple[int, list[int], list[int]]]:
    """(tp, concurrencies, those evaluated) of each allocation."""
    return [
        (each.lead.parallelism.tp, _concs(each.points), _concs(each.evals))
        for each in mark_evals(allocations(arms), mode)
    ]


def _concs(points: tuple[Point, ...]) -> list[int]:
    return [point.conc for point in points]


@pytest.mark.parametrize("name", ["amd", "nvidia"])
def test_real_files_give_the_reference_rows(shared_data: Path, name: str) -> None:
    folder = shared_data / "inferencex"
    configs = load_configs([str(folder / f"{name}-master.yaml")], str(folder / "runners.yaml"))
    lines = (folder / f"matrix-{name}.jsonl").read_text().splitlines()
    rows = reference_rows(expand_arms(configs))
    assert rows == [json.loads(line) for line in lines]
    assert [list(row) for row in rows] == [list(json.loads(line)) for line in lines]


def test_the_real_files_have_all_rows_points_and_evals(shared_data: Path) -> None:
    folder = shared_data / "inferencex"
    masters = [str(folder / f"{name}-master.yaml") for name in ("amd", "nvidia")]
    arms = expand_arms(load_configs(masters, str(folder / "runners.yaml")))
    points = [point for arm in arms for point in arm]
    planned = mark_evals(allocations(arms), "marked")
    kinds = Counter((_fixed(each), each.lead.multi_node is not None) for each in planned)
    assert kinds == {
        (True, False): 690,
        (False, False): 482,
        (True, True): 384,
        (False, True): 264,
    }
    assert (len(planned), len(points)) == (1820, 2078)
    assert sum(each.evaluated is True for each in planned) == 519
    twice = [name for name, count in Counter(point.id for point in points).items() if count > 1]
    assert len(twice) == 1, "one point is declared by two arms of its config"
    assert twice[0].startswith("dsr1-fp4-mi355x-sglang-disagg-8k1k-mtp_")


def _fixed(allocation: Allocation) -> bool:
    return isinstance(allocation.lead.scenario, FixedSeqLen)


def test_the_reference_modes_on_the_real_files(shared_data: Path) -> None:
    folder = shared_data / "inferencex"
    masters = [str(folder / f"{name}-master.yaml") for name in ("amd", "nvidia")]
    arms = expand_arms(load_configs(masters, str(folder / "runners.yaml")))
    rows = {mode: reference_rows(arms, mode) for mode in ("none", "only", "all")}
    assert {mode: len(found) for mode, found in rows.items()} == {
        "none": 1820,
        "only": 645,
        "all": 1663,
    }
    assert not any(row.get("run-eval") for row in rows["none"])
    for mode in ("only", "all"):
        assert all(row["run-eval"] and row["eval-only"] for row in rows[mode])


def test_single_nodes_are_marked_at_the_highest_and_the_upper_median_of_all_tp() -> None:
    found = marked("marked", arm(8, 16, 32, 64, 128), arm(4, 32, 64, tp=4))
    # Below 16 is not counted: 16, 32, 64, 128, whose upper median is 64.
    chosen = [(tp, concs[0]) for tp, concs, evals in found if evals]
    assert chosen == [(8, 64), (8, 128), (4, 64)]


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        ((arm(8, 15),), []),
        ((arm(8, 16),), [16]),
        ((arm(16, 32),), [32]),
        ((arm(16, 32, scenario=FixedSeqLen(1024, 1024)),), []),
        ((arm(16, 32, scenario=AgenticCoding()),), []),
    ],
)
def test_who_is_marked(arms: tuple[Arm, ...], expected: list[int]) -> None:
    assert [conc for _, _, evals in marked("marked", *arms) for conc in evals] == expected


def test_a_multi_node_deployment_is_marked_once_at_its_highest() -> None:
    found = marked(
        "marked",
        arm(8, 32, nodes=NODES),
        arm(64, 16, nodes=NODES, config="other"),
        arm(1, 8, nodes=NODES),
        arm(16, nodes=OTHER),
        arm(4, 8, nodes=replace(OTHER, disagg=False)),
    )
    # The config key tells nothing apart: the first three arms are one deployment.
    assert [evals for _, _, evals in found] == [[], [64], [], [16], []]
    assert [concs for _, concs, _ in found] == [[8, 32], [64, 16], [1, 8], [16], [4, 8]]


def test_only_evals_adds_agentic_replay_without_a_floor_on_one_node() -> None:
    agentic = AgenticCoding()
    found = marked(
        "only",
        arm(1, 4, scenario=agentic),
        arm(4, 8, scenario=agentic, tp=4),
        arm(8, 16, 32, scenario=agentic, nodes=NODES),
        arm(1, 8, scenario=agentic, nodes=OTHER),
        arm(8, 16),
    )
    assert found == [(4, [8], [8]), (8, [32], [32]), (8, [16], [16])]


def test_all_evals_joins_the_arms_of_a_deployment() -> None:
    agentic = AgenticCoding()
    found = marked(
        "all",
        arm(8, 2, nodes=NODES),
        arm(4),
        arm(4, 8, nodes=NODES),
        arm(1, 2, scenario=agentic, nodes=NODES),
        arm(3, scenario=FixedSeqLen(1024, 1024)),
    )
    assert found == [(8, [2, 4, 8], [2, 4, 8]), (8, [4], [4]), (8, [1, 2], [2])]
    (first, _, last) = reference_rows(
        (arm(8, 2, nodes=NODES), arm(4), arm(2, 1, scenario=agentic, nodes=NODES)), "all"
    )
    assert first["eval-all-concs"] is True
    assert "eval-conc" not in first
    assert (last["eval-conc"], last["conc"]) == (2, [1, 2])
    assert last["exp-name"] == "m_p1x8_d2x8_conc2", "named after the row that came first"


def test_without_evals_an_agentic_row_says_nothing_of_them() -> None:
    fixed, agentic = reference_rows((arm(16), arm(16, scenario=AgenticCoding())), "none")
    assert fixed["run-eval"] is False
    assert "run-eval" not in agentic


def test_a_name_has_only_the_lengths_that_the_reference_has_names_for() -> None:
    rows = reference_rows((arm(1, scenario=FixedSeqLen(1024, 8192)), arm(1)))
    assert [row["exp-name"] for row in rows] == ["m_1024_8192", "m_8k1k"]


def test_a_role_of_other_hardware_says_so() -> None:
    nodes = replace(NODES, prefill=replace(POOL, hardware="h100"), p2p_transfer=None)
    (row,) = reference_rows((arm(1, nodes=nodes),))
    assert row["prefill"]["hardware"] == "h100"
    assert "hardware" not in row["decode"]
    assert "kv-p2p-transfer" not in row
