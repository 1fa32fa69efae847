"""Deployments of several roles: every process of them, and where it sits."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from deployment_points import (
    ADDRESS,
    TP8,
    absent,
    arms,
    launches,
    point,
    pool,
    real,
    real_plans,
    refusal,
    value,
)

from inferometer.core import Parallelism, Point, Pool
from inferometer.plan import digest


@absent
def test_every_row_resolves_to_launches_or_to_the_file_that_it_names() -> None:
    kinds = Counter(plan.kind for _point, plan in real_plans())
    assert kinds == {"external": 757, "multi-node": 149}
    for of, plan in real_plans():
        assert of.multi_node is not None
        named = dict((*of.multi_node.prefill.settings, *of.multi_node.decode.settings))
        assert (plan.external and plan.external.file) == named.get("CONFIG_FILE")
        assert plan.external is None or plan.external.sha256 is None


@absent
def test_an_arm_is_of_one_kind_and_465_name_a_file() -> None:
    plans = {id(of): plan for of, plan in real_plans()}
    kinds: Counter[str] = Counter()
    for arm in arms():
        (kind,) = {plans[id(of)].kind for of in arm}
        kinds[arm[0].framework if kind == "multi-node" else kind] += 1
    assert kinds == {"external": 465, "sglang-disagg": 36, "atom-disagg": 2, "tilert": 2}


@absent
def test_every_setting_of_the_real_files_is_typed() -> None:
    spelled: Counter[str] = Counter()
    for of, plan in real_plans():
        assert of.multi_node is not None
        assert plan.settings is not None
        assert plan.settings.other == {}
        pairs = dict((*of.multi_node.prefill.settings, *of.multi_node.decode.settings))
        spelled.update(pairs.keys())
        for key, text in pairs.items():
            typed = getattr(plan.settings, key.lower())
            assert str(typed).lower() == text.lower() or float(typed) == float(text)
    assert set(spelled) >= {"SYNTHETIC_ACCEPTANCE_LENGTH", "PREFILL_WORKERS", "SLURM_PARTITION"}


@absent
def test_a_deployment_has_a_launch_for_every_gpu_and_node_and_one_router() -> None:
    for of, plan in real_plans():
        if plan.kind != "multi-node":
            continue
        names = [each.name for each in plan.launches]
        assert len(set(names)) == len(names)
        assert sum(each.gpus for each in plan.launches) == of.gpus
        assert [each.role for each in plan.launches].count("router") == 1
        assert plan.launches[-1].role == "router"
        for each in plan.launches:
            told = json.dumps([each.argv, dict(each.env), dict(each.files)])
            assert set(ADDRESS.findall(told)) <= set(names)
            assert (each.kv_transfer is None) == (each.role == "router")


@absent
def test_digests_differ_where_anything_but_the_key_does() -> None:
    found: dict[str, Point] = {}
    for of, plan in real_plans():
        same = found.setdefault(digest(of, plan), of)
        assert replace(same, config="") == replace(of, config="")


@absent
def test_every_gpu_of_an_expert_rank_counts() -> None:
    counted = set()
    for of in real():
        assert of.multi_node is not None
        for each in (of.multi_node.prefill, of.multi_node.decode):
            spread = each.parallelism
            if spread.ep > each.workers * spread.gpus and each.workers:
                counted.add((each.workers, spread.tp, spread.ep, each.gpus))
                assert each.gpus == each.workers * spread.ep
    assert counted == {
        (1, 1, 4, 4),
        (1, 1, 8, 8),
        (2, 1, 8, 16),
        (3, 1, 8, 24),
        (1, 4, 16, 16),
    }


@absent
def test_the_gpus_of_the_settings_agree_with_those_of_the_ranks() -> None:
    seen = 0
    for of, plan in real_plans():
        settings = plan.settings
        if of.framework != "llmd-vllm" or settings is None or of.multi_node is None:
            continue
        assert settings.gpus_per_node is not None
        assert settings.prefill_nodes is not None
        assert settings.decode_nodes is not None
        assert of.multi_node.prefill.gpus == settings.prefill_nodes * settings.gpus_per_node
        assert of.multi_node.decode.gpus == settings.decode_nodes * settings.gpus_per_node
        seen += 1
    assert seen == 5


def test_experts_that_span_workers_are_no_more_gpus() -> None:
    # Two workers of 16 whose 32 expert ranks are all of their GPUs.
    assert pool(2, Parallelism(16, 1, 1, 1, 32, True)).gpus == 32
    assert pool(3, Parallelism(1, 1, 1, 1, 8, True)).gpus == 24
    assert pool(0).gpus == 0


def test_a_launch_a_role_and_node() -> None:
    found = launches(point(pool(2), pool(1, Parallelism(16, 1, 1, 1, 1, False))))
    assert list(found) == ["prefill_0", "prefill_1", "decode_0", "decode_0_node1", "router_0"]
    assert [each.gpus for each in found.values()] == [8, 8, 8, 8, 0]
    assert [each.nodes for each in found.values()] == [1, 1, 2, 2, 1]
    assert [each.node_rank for each in found.values()] == [0, 0, 0, 1, 0]
    first, second = found["decode_0"], found["decode_0_node1"]
    assert "--headless" not in first.argv
    assert "--headless" in second.argv
    for each in (first, second):
        assert value(each, "--nnodes") == "2"
        assert value(each, "--master-addr") == "{decode_0_host}"
        assert value(each, "--tensor-parallel-size") == "16"
    assert value(second, "--node-rank") == "1"
    assert "--nnodes" not in found["prefill_0"].argv


def test_data_parallel_ranks_over_nodes() -> None:
    wide = Parallelism(1, 1, 1, 1, 16, True)
    found = launches(point(decode=pool(1, wide)))
    first, second = found["decode_0"], found["decode_0_node1"]
    assert value(first, "--data-parallel-size") == "16"
    assert value(first, "--tensor-parallel-size") == "1"
    assert [value(each, "--data-parallel-start-rank") for each in (first, second)] == ["0", "8"]
    assert value(second, "--data-parallel-address") == "{decode_0_host}"
    assert "--nnodes" not in first.argv


def test_an_aggregated_deployment_has_one_role() -> None:
    of = point(pool(2), pool(0), disagg=False, p2p=None)
    found = launches(of)
    assert list(found) == ["aggregated_0", "aggregated_1", "router_0"]
    assert "--kv-transfer-config" not in found["aggregated_0"].argv
    assert found["aggregated_0"].kv_transfer is None
    urls = [word for word in found["router_0"].argv if word.startswith("http")]
    assert urls == [f"http://{{aggregated_{n}_host}}:{{aggregated_{n}_port}}" for n in (0, 1)]


def test_one_worker_without_a_router_needs_none() -> None:
    assert list(launches(point(pool(1), pool(0), disagg=False, p2p=None, router=None))) == [
        "aggregated_0"
    ]
    assert "no router is declared" in refusal(point(router=None))


def test_roles_of_different_hardware() -> None:
    found = launches(point(pool(hardware="b200"), pool(hardware="h200"), runner="mixed"))
    assert {name: each.hardware for name, each in found.items()} == {
        "prefill_0": "b200",
        "decode_0": "h200",
        "router_0": "h200",
    }


def test_nodes_come_from_the_setting_the_runner_file_or_the_hardware() -> None:
    def nodes(gpus_per_node: int | None, hardware: str, *settings: tuple[str, str]) -> int:
        of = point(Pool(1, TP8, None, settings), hardware=hardware)
        assert of.multi_node is not None
        bare = replace(of, multi_node=replace(of.multi_node, gpus_per_node=gpus_per_node))
        return launches(bare)["prefill_0"].nodes

    assert nodes(None, "h200") == 1
    assert nodes(None, "gb200") == 2
    assert nodes(8, "gb200") == 1
    assert nodes(8, "h200", ("GPUS_PER_NODE", "2")) == 4
    assert nodes(8, "h200", ("PREFILL_NODES", "2")) == 2
    of = point(hardware="abacus")
    assert of.multi_node is not None
    unknown = replace(of, multi_node=replace(of.multi_node, gpus_per_node=None))
    assert "how many GPUs a node of 'abacus' has is not known" in refusal(unknown)


@pytest.mark.parametrize(
    ("prefill", "message"),
    [
        (pool(PREFILL_WORKERS="2"), "PREFILL_WORKERS is 2, num-worker is 1"),
        (pool(2, PREFILL_NODES="1"), "PREFILL_NODES is 1; 2xTP8 needs 2 nodes of 8 GPUs"),
        (pool(PREFILL_NODES="none"), "PREFILL_NODES='none' has no meaning"),
        (pool(1, Parallelism(12, 1, 1, 1, 1, False)), "fills no whole number of nodes of 8"),
        (pool(2_000_000_000), "more than 1024 processes in one deployment"),
        (pool(2, Parallelism(8, 1, 1, 1, 16, True)), "16 expert ranks on 8 GPUs of a worker"),
        (pool(0), "prefill has no worker"),
        (pool(1, Parallelism(4, 1, 1, 1, 16, True)), "16 GPUs of a worker by its experts, 4 by tp"),
    ],
    ids=["workers", "nodes", "text", "node", "huge", "experts", "none", "attention"],
)
def test_what_cannot_be_placed_is_refused(prefill: Pool, message: str) -> None:
    assert message in refusal(point(prefill))


def test_roles_agree_with_whether_they_are_apart() -> None:
    # The reference has such entries: without decode workers the prefill ones do both.
    found = launches(point(decode=pool(0)))
    assert list(found) == ["aggregated_0", "router_0"]
    assert "--kv-transfer-config" not in found["aggregated_0"].argv
    assert "disagg is false, and decode has a worker" in refusal(point(disagg=False))


def test_small_workers_share_a_node() -> None:
    found = launches(point(pool(2, Parallelism(4, 1, 1, 1, 1, False), PREFILL_NODES="1")))
    # So each has an address of its own.
    router = found["router_0"].argv
    assert "http://{prefill_0_host}:{prefill_0_port}" in router
    assert "http://{prefill_1_host}:{prefill_1_port}" in router
