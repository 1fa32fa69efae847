"""Deployments newer than the reference: each resolves, with the values that it is known by."""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from inferometer.core import FixedSeqLen, LaunchPlan, Point, RoleLaunch
from inferometer.errors import InputError
from inferometer.plan import (
    Recipes,
    check_launch,
    digest,
    expand,
    load_configs,
    load_recipes,
    newer_paths,
    read_file,
    recipe_roots,
    resolve,
)
from inferometer.plan.derivations import acceptance_length

FLASH = "dsv41flash-fp4-mi355x-vllm-agentic-dspark"
FLASH_B300 = "dsv41flash-fp4-b300-vllm-agentic-dspark"
ATOM = "dsv4-fp4-mi355x-atom-agentic-mtp"
GLM = "glm5.2-fp4-mi355x-sglang-agentic-mtp"
TILERT = "glm5.1-fp8-b200-tilert"
GB200 = "glm5.2-fp4-gb200-dynamo-sglang-agentic-agg"
LADDER = [1, 2, 4, 8, 16, 32, 64, 128]


@lru_cache(maxsize=1)
def recipes() -> Recipes:
    return load_recipes(read_file, recipe_roots(newer_paths()[0]))


@lru_cache(maxsize=1)
def plans() -> tuple[tuple[Point, LaunchPlan], ...]:
    configs = load_configs(*newer_paths())
    assert configs.warnings == ()
    return tuple((point, resolve(point, recipes())) for point in expand(configs))


def of(config: str, *, dp_attn: bool = False) -> dict[int, LaunchPlan]:
    """Plans of one config and kind of attention by concurrency."""
    return {
        point.conc: plan
        for point, plan in plans()
        if point.config == config and point.parallelism.dp_attn == dp_attn
    }


def value(plan: LaunchPlan | RoleLaunch, flag: str) -> str:
    return plan.argv[plan.argv.index(flag) + 1]


def drafts(plan: LaunchPlan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(value(plan, "--speculative-config"))
    return found


def test_every_point_resolves_and_differs() -> None:
    keys = {FLASH, FLASH_B300, ATOM, GLM, TILERT, GB200}
    assert {point.config for point, _plan in plans()} == keys
    assert len(plans()) == 8 + 8 + 10 + 10 + 2 + 6
    assert len({digest(point, plan) for point, plan in plans()}) == len(plans())


@pytest.mark.parametrize("config", [FLASH, FLASH_B300])
def test_graphs_hold_a_verification_of_every_lane(config: str) -> None:
    sizes = {c: int(value(plan, "--max-cudagraph-capture-size")) for c, plan in of(config).items()}
    # The next power of two of 6 a lane: 6, 12, 24, 48, 96, 192, 384, 768.
    assert sizes == dict(zip(LADDER, [8, 16, 32, 64, 128, 256, 512, 1024], strict=True))


@pytest.mark.parametrize("config", [FLASH, FLASH_B300])
def test_five_drafts_of_the_measured_acceptance(config: str) -> None:
    for plan in of(config).values():
        assert drafts(plan) == {
            "method": "dspark",
            "num_speculative_tokens": 5,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_length": 3.51,
            "draft_sample_method": "probabilistic",
            "enable_adaptive_verification": False,
        }


def test_the_graphs_stop_at_what_the_engine_admits() -> None:
    point = next(point for point, _plan in plans() if point.config == FLASH)
    plan = resolve(dataclasses.replace(point, conc=500), recipes())
    assert value(plan, "--max-cudagraph-capture-size") == "1024"


def test_one_sequence_cap_for_every_concurrency_of_mi355x() -> None:
    for plan in of(FLASH).values():
        assert value(plan, "--max-num-seqs") == "128"
        assert value(plan, "--moe-backend") == "aiter"
        assert value(plan, "--tensor-parallel-size") == "4"
        assert plan.env["AITER_TRITON_LOG_LEVEL"] == "ERROR"


def test_b300_leaves_the_sequence_cap_to_the_engine() -> None:
    for plan in of(FLASH_B300).values():
        assert "--max-num-seqs" not in plan.argv
        assert "--moe-backend" not in plan.argv
        assert "AITER_TRITON_LOG_LEVEL" not in plan.env


def test_the_tensor_parallel_band_pins_acceptance() -> None:
    band = of(ATOM)
    assert list(band) == [1, 2, 4, 8, 16]
    for conc, plan in band.items():
        assert value(plan, "--spec-decode-acceptance-length") == "2.49"
        assert value(plan, "--max-num-seqs") == str(2 * conc)
        assert "--enable-expert-parallel" not in plan.argv
        assert "--all2all-backend" not in plan.argv


def test_the_data_parallel_band_accepts_what_the_model_accepts() -> None:
    band = of(ATOM, dp_attn=True)
    assert list(band) == [48, 64, 96, 128, 256]
    for plan in band.values():
        assert "--spec-decode-acceptance-length" not in plan.argv
        assert {"--enable-dp-attention", "--enable-expert-parallel"} <= set(plan.argv)
        assert value(plan, "--num-speculative-tokens") == "3"
        assert value(plan, "--all2all-backend") == "rccl"
        assert value(plan, "--dp-load-balance") == "least_tokens"
        assert value(plan, "--moe-backend") == "standard"
        assert value(plan, "--state-checkpoint-interval-tokens") == "8192"
        assert plan.env["ATOM_DP_LB_REQ_EQUIV"] == "512"
        assert plan.workload.warmup_grace_s == 3600


@pytest.mark.parametrize("ep", [1, 4])
def test_experts_spread_over_other_than_all_gpus_are_refused(ep: int) -> None:
    point = next(p for p, _plan in plans() if p.config == ATOM and p.parallelism.dp_attn)
    spread = dataclasses.replace(point.parallelism, ep=ep)
    with pytest.raises(InputError) as caught:
        resolve(dataclasses.replace(point, parallelism=spread), recipes())
    (problem,) = caught.value.problems
    assert problem.message.startswith(
        f"RCCL spreads the experts over all 8 GPUs; ep must be 8, not {ep} (point "
    )
    assert problem.file == "inferometer/plan/recipes/pairs/atom-dsv4.yaml"
    assert problem.key == "refuse"
    assert problem.line is not None


@pytest.mark.parametrize(("dp_attn", "ratio"), [(False, "1.0"), (True, "0.5")])
def test_host_blocks_and_graphs_of_glm(dp_attn: bool, ratio: str) -> None:
    band = of(GLM, dp_attn=dp_attn)
    assert list(band) == ([32, 48, 64] if dp_attn else [1, 2, 4, 8, 10, 12, 16])
    for conc, plan in band.items():
        assert value(plan, "--hicache-ratio") == ratio
        assert value(plan, "--cuda-graph-max-bs-decode") == str(min(2 * conc, 64))
        assert "--cuda-graph-max-bs" not in plan.argv
        assert plan.env["SGLANG_SIMULATE_ACC_LEN"] == "3.61"


def role(plan: LaunchPlan, name: str) -> RoleLaunch:
    return next(each for each in plan.launches if each.name == name)


def test_vllm_prefills_and_tilert_decodes_one_at_a_time() -> None:
    points = [(point, plan) for point, plan in plans() if point.config == TILERT]
    assert [point.scenario for point, _plan in points] == [
        FixedSeqLen(1024, 1024),
        FixedSeqLen(8192, 1024),
    ]
    for point, plan in points:
        assert (point.conc, point.gpus, plan.require_power) == (1, 16, "native")
        assert [each.name for each in plan.launches] == ["prefill_0", "decode_0", "router_0"]
        prefill, decode, router = plan.launches
        assert prefill.image == "vllm/vllm-openai:v0.26.0"
        assert decode.image == router.image == "ghcr.io/tile-ai/tilert:0.1.5"
        assert prefill.argv[:2] == ("vllm", "serve")
        config = json.loads(value(prefill, "--kv-transfer-config"))
        assert config["kv_connector"] == "TileRTConnector"
        assert config["kv_connector_extra_config"] == {
            "tilert_host": "{decode_0_host}",
            "tilert_ctrl_port": 5556,
            "tilert_transport": "nixl",
            "tilert_model": "glm5",
            "tilert_max_seq_len": 202752,
        }
        assert json.loads(value(prefill, "--speculative-config"))["num_speculative_tokens"] == 1
        assert value(prefill, "--kv-cache-dtype") == "fp8_ds_mla"
        assert value(decode, "--max-seq-len") == "202752"
        assert value(decode, "--kv-cache-dtype") == "fp8"
        assert "--with-mtp" in decode.argv
        assert value(router, "--decode") == "{decode_0_host}:5556:{decode_0_port}"
        assert plan.router is not None
        assert plan.router.version == "0.1.5.post2"


def test_each_worker_is_checked_as_the_engine_that_it_starts() -> None:
    """vLLM prefills, by its own parser; of TileRT none is recorded, which is said."""
    point, plan = next((point, plan) for point, plan in plans() if point.config == TILERT)
    prefill, *others = plan.launches
    wrong = dataclasses.replace(prefill, argv=(*prefill.argv, "--max-num-seqz", "4"))
    found = check_launch(point, dataclasses.replace(plan, launches=(wrong, *others)))
    assert [(finding.level, finding.message) for finding in found] == [
        ("error", "is unknown; did you mean '--max-num-seqs'? (vllm 0.26.0)"),
        ("note", "no flags are recorded for tilert: not checked"),
    ]
    assert [finding.level for finding in check_launch(point, plan)] == ["note"]


def test_tilert_refuses_two_at_once() -> None:
    point = next(point for point, _plan in plans() if point.config == TILERT)
    with pytest.raises(InputError, match="has one sequence at a time; 1 of them do not carry 2"):
        resolve(dataclasses.replace(point, conc=2), recipes())


def test_one_worker_over_two_nodes_of_gb200() -> None:
    band = of(GB200)
    assert list(band) == [1, 2, 4, 8, 12, 16]
    for conc, plan in band.items():
        names = [each.name for each in plan.launches]
        assert names == ["aggregated_0", "aggregated_0_node1", "router_0"]
        for rank in (0, 1):
            worker = plan.launches[rank]
            assert (worker.nodes, worker.node_rank, worker.gpus) == (2, rank, 4)
            assert worker.argv[:3] == ("python3", "-m", "dynamo.sglang")
            assert value(worker, "--tensor-parallel-size") == "8"
            assert value(worker, "--node-rank") == str(rank)
            assert (
                value(worker, "--dist-init-addr") == "{aggregated_0_host}:{aggregated_0_port+2000}"
            )
            # The reference has 10 at every concurrency, and so queues 12 and 16.
            assert value(worker, "--max-running-requests") == str(2 * conc)
            assert value(worker, "--cuda-graph-max-bs") == str(2 * conc)
            # 0.8 of two nodes' 860,160 MiB in 1e9 B, over eight ranks.
            assert value(worker, "--hicache-size") == "180"
        assert value(role(plan, "router_0"), "--router-mode") == "kv"
        assert [side.name for side in plan.side] == ["etcd", "nats"]


def test_the_files_that_are_not_of_the_reference_s_schema_say_so() -> None:
    (master,) = newer_paths()[0]
    before = Path(master).read_text().partition("  require-power: native")[0]
    assert "InferenceX refuses require-power" in before


def test_a_draft_length_without_a_measurement_is_an_error() -> None:
    with pytest.raises(InputError, match="lacks draft length 3; known: 5"):
        acceptance_length("dsv41flash", "dspark", 3)
