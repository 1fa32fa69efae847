"""The flags of the built-in engine and the memory check."""

from __future__ import annotations

import pytest

from inferometer.catalog import gpu, model
from inferometer.engine.simulated.memory import ACTIVATION_RESERVE_BYTES, kv_blocks
from inferometer.engine.simulated.options import parse_options
from inferometer.errors import InputError

SMALL = ["--model", "Qwen/Qwen3-8B", "--gpu", "h200"]


def test_defaults_are_resolved() -> None:
    options = parse_options(SMALL)
    assert options.served_model_name == "Qwen/Qwen3-8B"
    assert options.max_model_len == 40960
    assert (options.precision, options.kv_cache_dtype) == ("bf16", "bf16")
    assert (options.block_size, options.max_num_seqs) == (64, 256)
    assert options.enable_prefix_caching
    assert options.acceptance_length == 1.0


def test_flags_are_read() -> None:
    argv = [*SMALL, "-tp", "2", "--kv-cache-dtype", "fp8", "--no-enable-prefix-caching"]
    argv += ["--speculative-tokens", "3", "--acceptance-length=2.5", "--port", "0"]
    options = parse_options(argv)
    assert options.tensor_parallel_size == 2
    assert options.kv_cache_dtype == "fp8"
    assert not options.enable_prefix_caching
    assert (options.speculative_tokens, options.acceptance_length) == (3, 2.5)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([*SMALL, "--max-num-seq", "4"], "did you mean '--max-num-seqs'"),
        ([*SMALL, "extra"], "unexpected argument"),
        (["--gpu", "h200"], "--model"),
        (["--model", "Qwen/Qwen3-8B", "--gpu", "h20"], "did you mean 'h200'"),
        ([*SMALL, "--port", "x"], "--port"),
        ([*SMALL, "--port", "99999"], "--port: 99999 is above 65535"),
        ([*SMALL, "--port", "-1"], "--port: -1 is below 0"),
        ([*SMALL, "--speculative-tokens", "1025"], "--speculative-tokens: 1025 is above 1024"),
        ([*SMALL, "--max-num-seqs", str(2**31)], "--max-num-seqs: 2147483648 is above 2147483647"),
        ([*SMALL, "--seed", str(2**63)], "--seed: 9223372036854775808 is above"),
        ([*SMALL, "--kv-cache-bytes", str(2**63)], "--kv-cache-bytes: 9223372036854775808 is "),
        ([*SMALL, "--block-size", "0"], "--block-size: 0 is below 1"),
        ([*SMALL, "--speculative-tokens", "2"], "--acceptance-length: needed"),
        ([*SMALL, "--acceptance-length", "1.5"], "is not in"),
        ([*SMALL, "--gpu-memory-utilization", "1.5"], "is not in"),
        ([*SMALL, "--fail-status", "200"], "--fail-status"),
        ([*SMALL, "-tp", "3"], "--tensor-parallel-size: 3 does not divide the 32 attention heads"),
    ],
)
def test_faults_are_input_errors(argv: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_options(argv)


def test_every_fault_is_listed() -> None:
    argv = ["--model", "none", "--gpu", "none", "--bloc-size", "8", "--seed", "-1"]
    with pytest.raises(InputError) as caught:
        parse_options(argv)
    assert len(caught.value.problems) == 5  # the value of the unknown flag is one too


def test_pool_is_what_memory_leaves() -> None:
    left = 0.9 * gpu("h200").memory_bytes - model("Qwen/Qwen3-8B").weight_bytes("bf16")
    per_block = 64 * 147_456
    assert kv_blocks(parse_options(SMALL)) == int((left - ACTIVATION_RESERVE_BYTES) // per_block)
    # vLLM 0.26 reported 794,016 tokens on this card.
    assert kv_blocks(parse_options(SMALL)) * 64 == pytest.approx(794_016, rel=0.01)


def test_overrides_of_the_pool() -> None:
    assert kv_blocks(parse_options([*SMALL, "--num-gpu-blocks-override", "7"])) == 7
    sized = [*SMALL, "--kv-cache-bytes", str(10 * 64 * 147_456)]
    assert kv_blocks(parse_options(sized)) == 10


def test_weights_that_do_not_fit_name_the_numbers() -> None:
    argv = ["--model", "meta-llama/Llama-3.3-70B-Instruct", "--gpu", "h100"]
    with pytest.raises(InputError, match=r"131\.4 GiB of weights.*71\.6 GiB"):
        kv_blocks(parse_options(argv))
