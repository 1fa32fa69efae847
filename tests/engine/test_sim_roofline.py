"""The roofline: by hand, against a measured card, and array against scalar."""

from __future__ import annotations

import numpy as np
import pytest

from inferometer.engine.simulated.options import parse_options
from inferometer.engine.simulated.roofline import (
    ALL_REDUCE_LATENCY_NS,
    COMPUTE_EFFICIENCY,
    MEMORY_EFFICIENCY,
    SEQUENCE_OVERHEAD_NS,
    STEP_OVERHEAD_NS,
    Chunk,
    Roofline,
)


def roofline(*argv: str) -> Roofline:
    return Roofline(parse_options(argv))


H200 = roofline("--model", "Qwen/Qwen3-8B", "--gpu", "h200")


def test_memory_bound_decode_by_hand() -> None:
    read = (8_190_735_360 - 151_936 * 4096) * 2 + 1000 * 147_456
    expected = read / (4.8e12 * MEMORY_EFFICIENCY) * 1e9 + STEP_OVERHEAD_NS + SEQUENCE_OVERHEAD_NS
    assert H200.decode_ns(1, np.array([1000]))[0] == pytest.approx(expected, abs=1)


def test_compute_bound_prefill_by_hand() -> None:
    flops = 8192 * 2 * 7_568_405_504 + 8192 * 4096 * (32 * 4 * 128 * 36)
    expected = flops / (989e12 * COMPUTE_EFFICIENCY) * 1e9 + STEP_OVERHEAD_NS + SEQUENCE_OVERHEAD_NS
    assert H200.mixed_ns(0, 0, [Chunk(8192, 0)]) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    ("batch", "measured_ms"), [(1, 5.29), (4, 5.44), (16, 5.93), (64, 8.24), (128, 11.90)]
)
def test_reproduces_the_measured_card(batch: int, measured_ms: float) -> None:
    """Median time between tokens, vLLM 0.26, Qwen3-8B in bf16, 1,024 in and 256 out, one H200."""
    predicted = H200.decode_ns(batch, np.array([batch * (1024 + 128)]))[0] / 1e6
    assert predicted == pytest.approx(measured_ms, rel=0.05)


def test_array_equals_scalars_exactly() -> None:
    contexts = np.arange(1_000, 2_000_000, 7_919, dtype=np.int64)
    together = H200.decode_ns(37, contexts)
    alone = [int(H200.decode_ns(37, contexts[i : i + 1])[0]) for i in range(len(contexts))]
    assert together.dtype == np.int64
    assert together.tolist() == alone
    assert (np.diff(together) > 0).all()


def test_a_batch_touches_more_experts_until_it_touches_all() -> None:
    moe = roofline("--model", "dsr1", "--gpu", "b200", "-tp", "8", "--precision", "fp8")
    zero = np.array([0])
    one, ten = int(moe.decode_ns(1, zero)[0]), int(moe.decode_ns(10, zero)[0])
    many, more = int(moe.decode_ns(400, zero)[0]), int(moe.decode_ns(410, zero)[0])
    assert (ten - one) / 9 > 20 * (more - many) / 10


def test_tensor_parallel_divides_the_work_and_pays_the_link() -> None:
    argv = ("--model", "meta-llama/Llama-3.3-70B-Instruct", "--gpu", "mi355x")
    one = int(roofline(*argv).decode_ns(1, np.array([0]))[0])
    eight = int(roofline(*argv, "-tp", "8").decode_ns(1, np.array([0]))[0])
    fixed = STEP_OVERHEAD_NS + SEQUENCE_OVERHEAD_NS
    link = 2 * 80 * (ALL_REDUCE_LATENCY_NS + 8192 * 2 * 1.75 / (576e9 * 0.7) * 1e9)
    assert eight == pytest.approx((one - fixed) / 8 + fixed + link, rel=1e-6)


def test_a_step_with_drafts_costs_more() -> None:
    argv = ("--model", "Qwen/Qwen3-8B", "--gpu", "h200")
    drafts = ("--speculative-tokens", "3", "--acceptance-length", "2")
    plain = roofline(*argv).decode_ns(8, np.array([8000]))[0]
    assert plain < roofline(*argv, *drafts).decode_ns(8, np.array([8000]))[0] < 1.5 * plain
