"""The catalog: figures by hand from public configurations, provenance, unknown names."""

from __future__ import annotations

import pytest

from inferometer import catalog
from inferometer.errors import InputError


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


@pytest.mark.parametrize("name", [n for n in catalog.model_names() if catalog.model(n).experts])
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
    rows = [*map(catalog.gpu, catalog.gpu_names()), *map(catalog.model, catalog.model_names())]
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
