"""How long one step of a batch takes: a roofline over memory, arithmetic and link.

step = max(bytes / bandwidth, FLOPs / peak) + all-reduces + overhead, each peak reduced by a stated
share. One GPU of a tensor-parallel group is computed; all do the same. Not modelled: pipeline and
expert parallelism, imbalance between experts, clocks that fall under load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from inferometer.catalog import Gpu, ModelSpec, gpu, model
from inferometer.engine.simulated.options import EngineOptions

# The four values below were chosen to fit vLLM 0.26 serving Qwen3-8B in bf16 on one H200 (1,024 in,
# 256 out): median time between tokens of 5.3, 5.4, 5.9, 8.2 and 11.9 ms at 1, 4, 16, 64 and 128
# sequences, met within 5 %; and its 99th percentile of 191 ms at 128, taken to be a step that
# prefills 8,192 tokens, met within 10 %. On any other card or model they are an assumption.
MEMORY_EFFICIENCY = 0.80
"""Achieved share of peak bandwidth: streaming kernels lose the rest to tails and launches."""
COMPUTE_EFFICIENCY = 0.65
"""Achieved share of peak FLOP/s in large matrix products, power limit included."""
STEP_OVERHEAD_NS = 1_200_000.0
"""Scheduling, launch and sampling that no batch size hides."""
SEQUENCE_OVERHEAD_NS = 6_000.0
"""Host and sampling work a sequence and step."""
# Not from that measurement (one GPU): assumed from published collective benchmarks.
LINK_EFFICIENCY = 0.70
"""Achieved share of the link's peak in an all-reduce."""
ALL_REDUCE_LATENCY_NS = 8_000.0
"""What one all-reduce of a few kilobytes takes inside a node."""
ALL_REDUCES_PER_LAYER = 2
"""One after attention, one after the MLP (Megatron's tensor parallelism)."""
ACTIVATION_BYTES = 2
"""Activations travel in bf16."""


class Chunk(NamedTuple):
    """A piece of prefill: `tokens` new tokens after `context` tokens whose KV exists."""

    tokens: int
    context: int


class StepCost(Protocol):
    """Durations of steps. Equal arguments give equal durations, alone or within an array."""

    def decode_ns(self, batch: int, contexts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64[n] durations of steps that decode `batch` sequences with total contexts[n]."""
        ...

    def mixed_ns(self, batch: int, context: int, chunks: Sequence[Chunk]) -> int:
        """Duration of one step that decodes `batch` sequences and prefills `chunks`."""
        ...


class Roofline:
    """The StepCost of a model on a tensor-parallel group of GPUs."""

    def __init__(self, options: EngineOptions) -> None:
        spec, card = model(options.model), gpu(options.gpu)
        tp = options.tensor_parallel_size
        self._spec, self._tp = spec, tp
        self._drafts = options.speculative_tokens
        self._tokens_per_decode = 1 + options.speculative_tokens
        self._ns_per_byte = 1e9 / (card.bandwidth_bytes_s * MEMORY_EFFICIENCY)
        peak = card.compute_flops(options.precision)
        self._ns_per_flop = 1e9 / (peak * COMPUTE_EFFICIENCY)
        shards = spec.kv_shards(tp)
        self._kv_bytes = spec.kv_bytes_per_token(options.kv_cache_dtype) / shards
        self._token_flops = spec.flops_per_token / tp
        attention_peak = card.compute_flops("bf16") / peak
        # Attention is computed in bf16; scaled so that all FLOPs share one peak.
        self._decode_flops = spec.attention_flops(decode=True) / tp / attention_peak
        self._prefill_flops = spec.attention_flops(decode=False) / tp / attention_peak
        self._dense_bytes, self._routed_bytes = _weight_bytes(spec, options, tp)
        self._layer_share = 1.0 / spec.layers
        self._reduce_ns, self._reduce_ns_per_token = _all_reduce(spec, card, tp)

    def decode_ns(self, batch: int, contexts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """As StepCost; shapes [n] to [n]."""
        memory, compute, rest = self._decode_parts(batch)
        memory_slope = self._kv_bytes * self._ns_per_byte
        compute_slope = self._tokens_per_decode * self._decode_flops * self._ns_per_flop
        bound: npt.NDArray[np.float64] = np.maximum(
            memory + contexts * memory_slope, compute + contexts * compute_slope
        )
        return np.rint(bound + rest).astype(np.int64)

    def mixed_ns(self, batch: int, context: int, chunks: Sequence[Chunk]) -> int:
        """As StepCost."""
        prefill = sum(chunk.tokens for chunk in chunks)
        tokens = batch * self._tokens_per_decode + prefill
        read = context + sum(chunk.context + chunk.tokens for chunk in chunks)
        pairs = sum(chunk.tokens * (chunk.context + chunk.tokens / 2) for chunk in chunks)
        memory = (self._weights(tokens, batch) + read * self._kv_bytes) * self._ns_per_byte
        flops = tokens * self._token_flops + pairs * self._prefill_flops
        flops += self._tokens_per_decode * context * self._decode_flops
        bound = max(memory, flops * self._ns_per_flop)
        return round(bound + self._rest(tokens, batch + len(chunks)))

    def _decode_parts(self, batch: int) -> tuple[float, float, float]:
        """Memory and compute ns that do not depend on the context, and what is added to both."""
        tokens = batch * self._tokens_per_decode
        memory = self._weights(tokens, batch) * self._ns_per_byte
        compute = tokens * self._token_flops * self._ns_per_flop
        return memory, compute, self._rest(tokens, batch)

    def _weights(self, tokens: int, batch: int) -> float:
        """Bytes of weights read in one step, those of the drafts included.

        Of E experts of which a token uses k, `tokens` uniform tokens touch E (1 - (1 - k/E)^tokens)
        on average. A draft token is one pass of one layer, as with multi-token prediction.
        """
        read = self._dense_bytes
        if (experts := self._spec.experts) is not None:
            miss = (1 - experts.per_token / experts.count) ** tokens
            read += self._routed_bytes * (1 - miss)
        return read * (1 + self._layer_share * self._drafts) if batch else read

    def _rest(self, tokens: int, sequences: int) -> float:
        link = self._reduce_ns + tokens * self._reduce_ns_per_token
        return link + STEP_OVERHEAD_NS + sequences * SEQUENCE_OVERHEAD_NS


def _weight_bytes(spec: ModelSpec, options: EngineOptions, tp: int) -> tuple[float, float]:
    """(always read, routed experts) bytes of one GPU; an input embedding of its own is not read."""
    total = spec.weight_bytes(options.precision)
    body = spec.total_params - spec.embedding_params
    body_bytes = total - spec.embedding_params * 2
    routed = body_bytes * (spec.routed_params / body)
    head = spec.vocab * spec.hidden * 2
    return (body_bytes - routed + head) / tp, routed / tp


def _all_reduce(spec: ModelSpec, card: Gpu, tp: int) -> tuple[float, float]:
    """(ns a step, ns a token) of a step's all-reduces by a ring: 2 (tp - 1) / tp of the bytes."""
    if tp == 1:
        return 0.0, 0.0
    count = ALL_REDUCES_PER_LAYER * spec.layers
    sent = spec.hidden * ACTIVATION_BYTES * 2 * (tp - 1) / tp
    per_token = count * sent / (card.link_bytes_s * LINK_EFFICIENCY) * 1e9
    return count * ALL_REDUCE_LATENCY_NS, per_token
