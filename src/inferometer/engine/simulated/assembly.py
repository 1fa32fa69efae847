"""Puts the engine core together from its options; checks that the model fits."""

from __future__ import annotations

from inferometer.engine.simulated.contract import Limits
from inferometer.engine.simulated.memory import kv_blocks
from inferometer.engine.simulated.options import EngineOptions
from inferometer.engine.simulated.prefix_cache import PrefixCache
from inferometer.engine.simulated.roofline import Roofline
from inferometer.engine.simulated.scheduler import Scheduler


def assemble(options: EngineOptions) -> Scheduler:
    """A scheduler with nothing submitted. InputError when the weights do not fit the GPUs."""
    limits = Limits(
        max_model_len=options.max_model_len,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        block_size=options.block_size,
        speculative_tokens=options.speculative_tokens,
        acceptance_length=options.acceptance_length,
        seed=options.seed,
    )
    cache = PrefixCache(kv_blocks(options), enabled=options.enable_prefix_caching)
    return Scheduler(limits, Roofline(options), cache)
