"""What engines and routers of a deployment are told of each other."""

from __future__ import annotations

import json

import pytest
from deployment_points import (
    launches,
    packaged,
    point,
    pool,
    refusal,
    value,
)

from inferometer.core import KvOffload, Parallelism, Router
from inferometer.plan import resolve


@pytest.mark.parametrize(
    ("p2p", "connector", "roles"),
    [
        ("nixl", "NixlConnector", ("kv_both", "kv_both")),
        ("ucx", "NixlConnector", ("kv_both", "kv_both")),
        ("mooncake", "MooncakeConnector", ("kv_producer", "kv_consumer")),
        ("mori", "MoRIIOConnector", ("kv_producer", "kv_consumer")),
    ],
)
def test_vllm_hands_kv_blocks_over(p2p: str, connector: str, roles: tuple[str, str]) -> None:
    for framework, router in (("vllm", "vllm-router"), ("dynamo-vllm", "dynamo-router")):
        found = launches(point(p2p=p2p, framework=framework, router=Router(router, "1")))
        for name, role in zip(("prefill_0", "decode_0"), roles, strict=True):
            config = json.loads(value(found[name], "--kv-transfer-config"))
            assert (config["kv_connector"], config["kv_role"]) == (connector, role)
            assert found[name].kv_transfer == p2p
            extra = config.get("kv_connector_extra_config", {})
            assert extra.get("backends") == (["UCX"] if p2p == "ucx" else None)


@pytest.mark.parametrize("p2p", ["nixl", "mooncake", "mori"])
@pytest.mark.parametrize("framework", ["sglang", "sglang-disagg", "dynamo-sglang"])
def test_sglang_hands_kv_blocks_over(framework: str, p2p: str) -> None:
    named = "dynamo-router" if framework.startswith("dynamo") else "sglang-router"
    found = launches(point(p2p=p2p, framework=framework, router=Router(named, "1")))
    for role in ("prefill", "decode"):
        assert value(found[f"{role}_0"], "--disaggregation-mode") == role
        assert value(found[f"{role}_0"], "--disaggregation-transfer-backend") == p2p
    module = "dynamo.sglang" if framework.startswith("dynamo") else "sglang.launch_server"
    assert found["prefill_0"].argv[:3] == ("python3", "-m", module)


@pytest.mark.parametrize(
    ("p2p", "backend"), [("nixl", "NIXL"), ("ucx", "UCX"), ("mooncake", "MOONCAKE")]
)
def test_tensorrt_llm_hands_kv_blocks_over(p2p: str, backend: str) -> None:
    of = point(p2p=p2p, framework="dynamo-trt", router=Router("dynamo-router", "1"))
    found = launches(of)
    for role in ("prefill", "decode"):
        options = json.loads(found[f"{role}_0"].files["options.yaml"])
        assert options["cache_transceiver_config"] == {"backend": backend}
        assert options.get("disable_overlap_scheduler") == (True if role == "prefill" else None)
        assert value(found[f"{role}_0"], "--extra-engine-args") == "options.yaml"
        assert value(found[f"{role}_0"], "--tensor-parallel-size") == "8"
    assert found["decode_0"].argv[0] == "trtllm-llmapi-launch"


@pytest.mark.parametrize(
    ("framework", "p2p", "message"),
    [
        ("sglang", "ucx", "SGLang transfers KV blocks by nixl, mooncake or mori"),
        ("trt", "mori", "TensorRT-LLM transfers KV blocks by nixl, ucx or mooncake"),
        ("atom", "nixl", "ATOM behind a router transfers KV blocks by mooncake"),
        ("llmd-vllm", "mori", "llm-d's proxy is known here with NIXL only"),
        ("vllm", "nixle", "unknown kv-p2p-transfer 'nixle'; did you mean 'nixl'?"),
    ],
)
def test_a_transfer_that_an_engine_lacks_is_refused(framework: str, p2p: str, message: str) -> None:
    assert message in refusal(point(framework=framework, p2p=p2p))


def test_dynamo_starts_what_its_workers_register_with() -> None:
    plan = resolve(point(framework="dynamo-vllm", router=Router("dynamo-router", "1")), packaged())
    assert [(side.name, side.beside) for side in plan.side] == [
        ("etcd", "router_0"),
        ("nats", "router_0"),
    ]
    found = {each.name: each for each in plan.launches}
    assert found["router_0"].argv[:3] == ("python3", "-m", "dynamo.frontend")
    for name in ("prefill_0", "decode_0"):
        assert found[name].env["ETCD_ENDPOINTS"] == "http://{router_0_host}:2379"
        assert "--port" not in found[name].argv
        assert value(found[name], "--model") == "org/m"
    assert plan.client.affinity_header == "X-Dynamo-Session-ID"


def test_llm_d_prefills_elsewhere_before_it_decodes() -> None:
    plan = resolve(point(framework="llmd-vllm", router=Router("llm-d-router", "1")), packaged())
    found = {each.name: each for each in plan.launches}
    assert [(side.name, side.beside) for side in plan.side] == [
        ("routing-proxy", "decode_0"),
        ("envoy", "router_0"),
    ]
    # The proxy has the worker's port, and the worker the one after it.
    assert value(found["decode_0"], "--port") == "{port+1}"
    assert value(found["prefill_0"], "--port") == "{port}"
    endpoints = json.loads(found["router_0"].files["llm-d.yaml"])["endpoints"]
    assert endpoints["prefill"] == ["{prefill_0_host}:{prefill_0_port}"]
    assert endpoints["decode"] == ["{decode_0_host}:{decode_0_port}"]


@pytest.mark.parametrize("name", ["sglang-router", "vllm-router", "atomesh"])
def test_a_router_is_told_every_worker_of_each_role(name: str) -> None:
    argv = launches(point(pool(2), pool(3), router=Router(name, "1")))["router_0"].argv
    assert argv.count("--prefill") == 2
    assert argv.count("--decode") == 3
    assert len({word for word in argv if word.startswith("http://{decode_")}) == 3


def test_an_unknown_router_and_framework_have_a_nearest() -> None:
    assert "did you mean 'vllm-router'?" in refusal(point(router=Router("vllm-ruter", "1")))
    assert "did you mean 'dynamo-vllm'?" in refusal(point(framework="dynamo-vlm"))


def test_settings_reach_the_launches() -> None:
    found = launches(
        point(
            pool(PREFILL_IMAGE="p:2"),
            pool(DECODE_MTP_SIZE="2"),
            framework="sglang-disagg",
            router=Router("sglang-router", "1"),
            model_prefix="dsr1",
            spec_decoding="mtp",
            p2p="mori",
        )
    )
    assert [each.image for each in found.values()] == ["p:2", "i:1", "i:1"]
    for name in ("prefill_0", "decode_0"):
        assert value(found[name], "--speculative-num-steps") == "2"


def test_a_pinned_acceptance_reaches_the_engine() -> None:
    pinned = pool(SYNTHETIC_ACCEPTANCE="true", SYNTHETIC_ACCEPTANCE_LENGTH="2.27")
    of = point(pinned, model_prefix="dsr1", spec_decoding="mtp")
    drafts = json.loads(value(launches(of)["decode_0"], "--speculative-config"))
    assert drafts["synthetic_acceptance_length"] == 2.27
    unpinned = point(model_prefix="dsr1", spec_decoding="mtp")
    assert "synthetic" not in value(launches(unpinned)["decode_0"], "--speculative-config")


def test_only_prefill_workers_offload_and_a_spanning_one_has_all_its_nodes_memory() -> None:
    offload = KvOffload("dram", "hicache", None, 100)
    wide = Parallelism(16, 1, 1, 1, 1, False)
    of = point(
        pool(1, wide),
        pool(1),
        framework="dynamo-sglang",
        router=Router("dynamo-router", "1"),
        model_prefix="glm5.2",
        hardware="h200",
        kv_offload=offload,
    )
    found = launches(of)
    assert value(found["prefill_0"], "--hicache-size") == str(2 * 100 // 16)
    assert "--hicache-size" in found["prefill_0_node1"].argv
    assert "--enable-hierarchical-cache" not in found["decode_0"].argv
