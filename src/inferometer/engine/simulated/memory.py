"""How many KV blocks one GPU of the deployment holds, after weights and activations."""

from __future__ import annotations

from inferometer.catalog import gpu, model
from inferometer.engine.simulated.options import EngineOptions
from inferometer.errors import InputError

ACTIVATION_RESERVE_BYTES = round(1.51 * 2**30)
"""Peak activations and buffers: what vLLM 0.26 set aside on an H200 with 8,192 tokens a step."""


def kv_blocks(options: EngineOptions) -> int:
    """Blocks of the KV pool, the smallest over the GPUs (all are alike).

    An override counts as given. InputError names the numbers when the weights do not fit. A pool
    smaller than `max_model_len` is allowed: the scheduler refuses the requests that do not fit.
    """
    if options.num_gpu_blocks_override is not None:
        return options.num_gpu_blocks_override
    spec = model(options.model)
    per_token = spec.kv_bytes_per_token(options.kv_cache_dtype)
    block = options.block_size * per_token / spec.kv_shards(options.tensor_parallel_size)
    pool = options.kv_cache_bytes or _free_bytes(options)
    return int(pool // block)


def _free_bytes(options: EngineOptions) -> float:
    card, tp = gpu(options.gpu), options.tensor_parallel_size
    weights = model(options.model).weight_bytes(options.precision) / tp
    usable = options.gpu_memory_utilization * card.memory_bytes
    left = usable - weights - ACTIVATION_RESERVE_BYTES
    if left <= 0:
        raise InputError(
            f"{options.model} in {options.precision} needs {_gib(weights)} of weights and "
            f"{_gib(ACTIVATION_RESERVE_BYTES)} of activations on each of {tp} GPUs, and "
            f"{options.gpu_memory_utilization:g} of {card.display} is {_gib(usable)}: "
            "raise --tensor-parallel-size or use a narrower --precision"
        )
    return left


def _gib(count: float) -> str:
    return f"{count / 2**30:.1f} GiB"
