"""The catalog: figures by hand from public configurations, provenance, unknown names."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from inferometer import catalog
from inferometer.catalog.acceptance import Curve
from inferometer.catalog.tables import read_rows
from inferometer.errors import InputError

COMPLETE = [name for name in catalog.model_names() if not catalog.figures(name).missing()]


def test_qwen3_8b_bytes_follow_from_its_configuration() -> None:
    spec = catalog.model("Qwen/Qwen3-8B")
    # 36 layers, keys and values, 8 heads of 128, 2 bytes.
    assert spec.kv_bytes_per_token("bf16") == 36 * 2 * 8 * 128 * 2
    assert spec.kv_bytes_per_token("fp8") == 36 * 2 * 8 * 128
    assert spec.weight_bytes("bf16") == 2 * spec.total_params
    # Embeddings stay in bf16.
    assert spec.weight_bytes("fp8") == spec.total_params + spec.embedding_params
    assert spec.flops_per_token == 2 * spec.active_params
    # 32 query heads, 2 products of 2 FLOPs over 128 elements, 36 layers.
    assert spec.attention_flops(decode=True) == 32 * 4 * 128 * 36
    assert spec.kv_shards(4) == 4
    assert spec.kv_shards(16) == 8


def test_deepseek_keeps_one_latent_a_token_on_every_gpu() -> None:
    spec = catalog.model("dsr1")
    assert spec.name == "deepseek-ai/DeepSeek-R1-0528"
    assert spec.kv_bytes_per_token("bf16") == 61 * (512 + 64) * 2
    assert spec.kv_shards(8) == 1
    assert spec.attention_flops(decode=True) == 2 * 128 * (2 * 512 + 64) * 61
    assert spec.attention_flops(decode=False) == 2 * 128 * (128 + 64 + 128) * 61


@pytest.mark.parametrize("name", [n for n in COMPLETE if catalog.figures(n).experts])
def test_active_parameters_agree_with_the_experts_used(name: str) -> None:
    spec = catalog.model(name)
    assert spec.experts is not None
    unused = spec.routed_params * (1 - spec.experts.per_token / spec.experts.count)
    # Model cards round, and some leave out the input embedding.
    assert spec.active_params == pytest.approx(spec.total_params - unused, rel=0.12)
    assert spec.routed_params < spec.total_params


def test_unrouted_model_has_no_routed_parameters() -> None:
    assert catalog.model("Qwen3-0.6B").routed_params == 0


@pytest.mark.parametrize(
    "name", ["/models/qwen3-8b", "QWEN/qwen3-8B", "Qwen3-8B", "someone/Qwen3-8B/"]
)
def test_a_model_is_found_by_path_case_and_last_part(name: str) -> None:
    assert catalog.model(name).name == "Qwen/Qwen3-8B"


def test_unknown_names_cite_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'mi355x'"):
        catalog.gpu("mi355")
    with pytest.raises(InputError, match="did you mean 'qwen3-8b'"):
        catalog.model("qwen3-8c")
    with pytest.raises(InputError, match="unknown GPU"):
        catalog.prices("abacus")


def test_gpu_units() -> None:
    h200 = catalog.gpu("H200")
    assert h200.memory_bytes == round(139.8 * 2**30)
    assert h200.bandwidth_bytes_s == 4.8e12
    assert h200.link_bytes_s == 450e9
    assert h200.flops("fp8") == 1979e12
    assert h200.flops("fp4") is None
    assert h200.compute_flops("fp4") == 1979e12
    assert catalog.gpu("mi355x").compute_flops("fp4") == 10066e12


def test_every_fact_has_source_and_date() -> None:
    models = map(catalog.figures, catalog.model_names())
    gpus = map(catalog.gpu, catalog.gpu_names())
    rows = [*gpus, *models, *catalog.acceptance_curves()]
    assert len(rows) >= 16
    assert all(len(row.source) > 10 and row.date >= "2024" for row in rows)


def test_prices_of_several_dates_stand_side_by_side() -> None:
    rental = [price for price in catalog.prices("h100") if price.tier == "rental"]
    assert [price.usd_per_gpu_hour for price in rental] == [1.30, 1.78, 2.00]
    assert [price.date for price in rental] == sorted(price.date for price in rental)
    assert all(price.source for price in rental)
    assert [power.kw for power in catalog.provisioned_kw("h100")] == [1.73, 1.37]


def test_a_placeholder_price_says_so_and_no_power_is_invented() -> None:
    first = catalog.prices("b300")[0]
    assert first.usd_per_gpu_hour == 2.34
    assert "placeholder" in first.source
    assert [power.kw for power in catalog.provisioned_kw("rtx6000pro")] == [0.975]


def test_every_model_and_gpu_of_the_reference_is_in_the_catalog(shared_data: Path) -> None:
    entries = [
        entry
        for vendor in ("amd", "nvidia")
        for entry in yaml.load(
            (shared_data / "inferencex" / f"{vendor}-master.yaml").read_text(), yaml.CSafeLoader
        ).values()
    ]
    by_prefix = {entry["model-prefix"]: catalog.figures(entry["model-prefix"]) for entry in entries}
    assert len(by_prefix) == 8
    for entry in entries:
        # A checkpoint's name and the prefix of its config find the same model.
        assert catalog.figures(entry["model"]) is by_prefix[entry["model-prefix"]], entry["model"]
    runners = yaml.safe_load((shared_data / "inferencex" / "runners.yaml").read_text())
    for label, node in runners["hardware"].items():
        name = label.removeprefix("cluster:").partition("-")[0]
        assert catalog.gpu(name).gpus_per_node == node["gpus-per-node"], label


def test_a_model_without_all_figures_says_which_are_missing_and_why() -> None:
    known = catalog.figures("kimik3")
    assert known.max_context == 1048576
    assert known.checkpoint_bytes == {"fp4": 1_560_000_000_000}
    assert "total_params" in known.missing()
    with pytest.raises(InputError) as caught:
        catalog.model("moonshotai/Kimi-K3")
    message = str(caught.value)
    assert message.startswith("the catalog lacks layers, growing_kv_layers, hidden, heads, ")
    assert "of moonshotai/Kimi-K3" in message
    assert "no configuration of it is at hand" in message


def test_a_gap_without_a_note_and_a_figure_of_zero_are_refused() -> None:
    row = {"name": "a/b", "aliases": [], "source": "somewhere public", "date": "2026-01"}
    with pytest.raises(ValidationError, match=r"lacks layers, .* without a note"):
        catalog.ModelFigures.model_validate(row)
    assert catalog.ModelFigures.model_validate({**row, "note": "unknown"}).layers is None
    with pytest.raises(ValidationError, match="greater than 0"):
        catalog.ModelFigures.model_validate({**row, "note": "unknown", "layers": 0})
    with pytest.raises(ValidationError, match="Extra inputs"):
        catalog.ModelFigures.model_validate({**row, "note": "unknown", "layer": 3})


def test_deepseek_v4_keeps_what_was_published_at_a_million_tokens() -> None:
    spec = catalog.model("dsv4")
    assert spec.kv_bytes_per_token("bf16") * 2**20 == pytest.approx(9.62 * 2**30, rel=0.001)
    assert spec.kv_shards(8) == 1
    assert spec.attention_flops(decode=True) == spec.attention_flops(decode=False) == 186368


def test_a_published_checkpoint_counts_as_its_weights() -> None:
    spec = catalog.model("glm5.2").model_copy(update={"checkpoint_bytes": {"fp4": 5}})
    assert spec.weight_bytes("fp4") == 5.0
    assert spec.weight_bytes("fp8") > 700e9


def test_names_find_one_object_whatever_the_spelling() -> None:
    assert catalog.model("glm5.2") is catalog.model("/models/GLM-5.2-NVFP4/")


def test_racks_join_more_gpus_than_a_host_has() -> None:
    assert (catalog.gpu("gb300").gpus_per_node, catalog.gpu("gb300").scale_up_gpus) == (4, 72)
    assert catalog.gpu("rtx6000pro").scale_up_gpus == 1
    for name in catalog.gpu_names():
        card = catalog.gpu(name)
        assert card.tflops_bf16 < (card.tflops_fp8 or 1e9) < (card.tflops_fp4 or 1e9) or not (
            card.tflops_fp4
        )


def test_acceptance_comes_with_its_source() -> None:
    found = catalog.acceptance("dsv4", "mtp", 3)
    assert (found.length, found.date) == (2.49, "2026-08")
    assert "SPEED-Bench" in found.source
    assert "3068" in catalog.acceptance("dsv41flash", "dspark", 5, "on").source


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("dsv4", "mtp", 9), "lacks draft length 9; known: 1, 2, 3, 4, 5, 6, 7, 8"),
        (("glm5.2", "mtp", 6), "lacks draft length 6; known: 1, 2, 3, 4, 5, 8"),
        (("dsv4", "mtp", 3, "off"), "with thinking 'off'; did you mean 'dsv4 mtp on'?"),
        (("dsv5", "mtp", 3), "for 'mtp' drafts of 'dsv5' with thinking 'on'; did you mean"),
    ],
)
def test_acceptance_that_was_not_measured_is_not_invented(
    asked: tuple[str, str, int], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        catalog.acceptance(*asked)
    assert message in str(caught.value)


def test_an_impossible_acceptance_is_refused() -> None:
    row = dict(read_rows("acceptance.yaml", Curve)[0])
    with pytest.raises(ValidationError, match=r"2 drafts cannot give 3\.5 tokens"):
        Curve.model_validate({**row, "lengths": {2: 3.5}})
    with pytest.raises(ValidationError, match=r"1 drafts cannot give 0\.5 tokens"):
        Curve.model_validate({**row, "lengths": {1: 0.5}})
