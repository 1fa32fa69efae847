"""How many tokens an engine's KV pool holds, by its metrics page. Nothing is assumed: None where it
does not say.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

BLOCKS = "vllm:cache_config_info"
"""vLLM's: blocks and their size are labels, a row an engine of a data-parallel deployment."""
TOKENS = "sglang:max_total_num_tokens"
"""SGLang's: a row a rank; ranks of one data-parallel rank hold parts of the same tokens."""


def pool_tokens(text: str) -> int | None:
    """Tokens of all engines that the page names together."""
    wanted = "\n".join(line for line in text.splitlines() if line.startswith((BLOCKS, TOKENS)))
    try:
        families = list(text_string_to_metric_families(wanted + "\n"))
    except ValueError:
        return None
    samples = [sample for family in families for sample in family.samples]
    found = _of_blocks(samples) + _of_tokens(samples)
    return found or None


def _of_blocks(samples: Iterable[Sample]) -> int:
    total = 0
    for sample in samples:
        labels = sample.labels
        words = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
        if sample.name == BLOCKS and all(word.isascii() and word.isdigit() for word in words):
            total += int(words[0]) * int(words[1])
    return total


def _of_tokens(samples: Iterable[Sample]) -> int:
    ranks: dict[str, float] = {}
    for sample in samples:
        if sample.name == TOKENS and 0 < sample.value < float("inf"):
            rank = sample.labels.get("dp_rank", "0")
            ranks[rank] = max(ranks.get(rank, 0.0), sample.value)
    return round(sum(ranks.values()))
