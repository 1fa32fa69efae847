"""Values that a recipe derives from a point, once for all engines. Pure; each says what it assumes.

Recipes reach these by name in expressions, so a formula is changed here and nowhere else. Tokens,
GB (1e9 bytes), GiB and bytes as each name says; a rank is one GPU of the deployment.
"""

from __future__ import annotations

import math

from inferometer.catalog import AcceptanceTable, installed_acceptance
from inferometer.errors import InputError

MAX_LIST = 4096
"""The longest list that an expression makes."""
MAX_TEXT = 65_536
"""Characters of a text that an expression makes, and of a list of texts together."""

GRAPH_GIB = 18.71 + 19.40
"""GiB a GPU that graphs to 1,024 tokens took: pieces and full graphs of DeepSeek-V4.1-Flash on four
MI355X with vLLM (InferenceX pull request 3068, September 2026).
"""


def next_pow2(n: int) -> int:
    """The smallest power of two that is at least `n` (n >= 1).

    Workload model: engines prepare (capture, compile) batch sizes as powers of two, and a batch is
    padded up to the next one prepared. A cap between two of them buys nothing.
    """
    if type(n) is not int or n < 1:
        raise InputError(f"next_pow2 takes a positive integer, got {n}")
    return int(1 << (n - 1).bit_length())


def sequence_cap(conc: int, fan_out: float) -> int:
    """Sequences the engine must admit at once: ceil(conc * fan_out), with fan_out >= 1.

    Workload model: `conc` lanes. A lane of fixed lengths has one request open, so fan_out is 1. A
    lane of agentic replay holds a session tree whose sub-agents run beside each other, so more than
    `conc` requests are open at times; 2 leaves room for it. With less, requests queue in the
    scheduler and the wait is charged to TTFT.
    """
    if type(conc) is not int or conc < 1:
        raise InputError(f"sequence_cap takes a positive integer conc, got {conc}")
    if fan_out < 1:
        raise InputError(f"sequence_cap takes a fan_out of 1 or more, got {fan_out}")
    return math.ceil(conc * fan_out)


def rank_sequences(seqs: int, ranks: int) -> int:
    """Sequences that one rank of data-parallel attention must admit: ceil(seqs / ranks).

    Workload model: every rank has a scheduler of its own, and the router spreads sessions evenly
    over them (consistent hashing of a session's id, or the rank with the fewest tokens). A session
    stays on the rank that holds its prefix, so a rank may be ahead of its share for a while; what
    is above the cap waits there though other ranks have room.
    """
    _positive("rank_sequences", seqs, ranks)
    return -(-seqs // ranks)


def verify_tokens(seqs: int, drafts: int) -> int:
    """Tokens of one decode step: seqs * (1 + drafts).

    Workload model: every sequence verifies its drafted tokens and the one before them in one pass,
    whatever share of them is accepted.
    """
    if type(drafts) is not int or drafts < 0:
        raise InputError(f"verify_tokens takes 0 or more drafts, got {drafts}")
    _positive("verify_tokens", seqs)
    return seqs * (1 + drafts)


def graph_cap(tokens: int, least: int, most: int) -> int:
    """The largest graph to capture: the next power of two of `tokens`, within [least, most].

    Workload model: `tokens` is a decode step of every lane, not of the engine's cap on sequences: a
    capture costs memory (`graph_gib`) whether or not a batch of its size ever comes, and a step
    above it runs without a graph.
    """
    _positive("graph_cap", least, most)
    if least > most:
        raise InputError(f"graph_cap needs least <= most, got {least} and {most}")
    return min(max(next_pow2(tokens), least), most)


def graph_gib(tokens: int) -> float:
    """GiB a GPU that graphs to `tokens` take: an estimate, from one measurement (`GRAPH_GIB`).

    Assumed: linear in the largest size, and the same for every model, engine and GPU, which none
    of the measurements at hand tells. Good for an order of magnitude: to see that 1,024 where 128
    would do is a tenth of a GPU.
    """
    _positive("graph_gib", tokens)
    return round(GRAPH_GIB * tokens / 1024, 2)


def steps(first: int, last: int, step: int) -> tuple[int, ...]:
    """first, first + step, ... up to and including `last` where it is met; empty if first > last.

    Workload model: a decode batch of n sequences with N drafted tokens verifies n * (1 + N) tokens,
    so a graph for every n is a capture list in steps of 1 + N, to the sequence cap times that.
    """
    if any(type(number) is not int for number in (first, last, step)) or step < 1:
        raise InputError(f"steps takes integers and a step of 1 or more, got {first, last, step}")
    return _listed(range(first, last + 1, step))


def pow2_steps(first: int, last: int) -> tuple[int, ...]:
    """The powers of two from `first` to `last`, both included where they are one.

    Workload model: past the sizes that are met often, a batch is padded to the next power of two.
    """
    if type(first) is not int or type(last) is not int or first < 1:
        raise InputError(f"pow2_steps takes integers and a first of 1 or more, got {first, last}")
    power = next_pow2(first)
    return tuple(power << n for n in range(64) if power << n <= last)


def prefill_step(isl: int, seqs: int, drafts: int, room: int, multiple: int) -> int:
    """Tokens that one step may hold: isl + seqs * (1 + drafts) + room, up to a multiple.

    Workload model: fixed lengths. A step prefills one whole prompt while every other sequence
    decodes, each with its drafts; `room` is for a chat template, and engines take whole blocks of
    `multiple` tokens. A smaller step would cut every prompt in two.
    """
    _positive("prefill_step", isl, multiple)
    tokens = isl + verify_tokens(seqs, drafts) + room
    return -(-tokens // multiple) * multiple


def context_length(isl: int, osl: int, room: int, multiple: int) -> int:
    """The longest context that a point needs: isl + osl + room, up to a multiple.

    Workload model: fixed lengths, drawn at most as long as declared. `room` is for a chat template
    and for special tokens, which the declared lengths leave out.
    """
    _positive("context_length", isl, osl, multiple)
    return -(-(isl + osl + room) // multiple) * multiple


def rank_bytes(dram_gb: int, ranks: int) -> int:
    """Bytes of host memory that a rank may hold: the deployment's budget in GB over its ranks.

    Workload model: ranks hold equal shares of the KV, so the smallest share bounds all of them.
    """
    _positive("rank_bytes", ranks)
    if type(dram_gb) is not int or dram_gb < 0:
        raise InputError(f"rank_bytes takes whole GB, 0 or more, got {dram_gb}")
    return dram_gb * 1_000_000_000 // ranks


def pool_gb(dram_gb: int, ranks: int, spare_gb: int, share: int, of: int) -> int:
    """GB of a rank's KV pool in host memory: share / of of what `spare_gb` leaves of its share.

    Workload model: an engine that is told the size of one pool allocates others beside it: a Mamba
    pool of the same size halves what the KV pool may have (1 of 2), and a drafts' pool of a
    fifteenth of both leaves 15 of 31 parts. Whole GB, so that the sum stays within the budget.
    """
    _positive("pool_gb", ranks, share, of)
    return (dram_gb - spare_gb * ranks) * share // (of * ranks)


def segment_gib(dram_gb: int, ranks: int, cached_gib: int, rank_gib: int) -> int:
    """Whole GiB of a rank's segment in a store that is shared over host memory.

    Workload model: `cached_gib` of the node hold the checkpoint's pages, which the page cache would
    otherwise take from the store while weights are read again; every rank needs `rank_gib` beside
    its segment (transfer buffers, weights that do not fit its GPU). The budget is in GB, the
    store's sizes in GiB.
    """
    _positive("segment_gib", ranks)
    return math.floor((dram_gb * 1_000_000_000 / 2**30 - cached_gib) / ranks - rank_gib)


def acceptance_length(
    model_prefix: str,
    method: str,
    draft_tokens: int,
    thinking: str = "on",
    *,
    table: AcceptanceTable | None = None,
) -> float:
    """Mean tokens that one verification emits, the bonus token included: from a table of the
    catalog, that of the package unless another is given.

    Workload model: prompts of random tokens or replayed text leave a draft model without its usual
    success, so a throughput run pins the length to what was measured on real coding prompts. It
    does not depend on concurrency or on the engine.
    """
    held = table or installed_acceptance()
    return held.at(model_prefix, method, draft_tokens, thinking).length


def numbered(prefix: str, first: int, count: int) -> str:
    """`prefix` followed by each of `count` numbers from `first`, joined by commas: one address a
    rank. At most 64 of them, of a prefix of at most 64 characters.
    """
    if type(first) is not int or type(count) is not int or not 1 <= count <= 64:
        raise InputError(f"numbered takes integers and a count of 1 to 64, got {first, count}")
    if len(prefix) > 64:
        raise InputError(f"numbered takes a prefix of at most 64 characters, got {len(prefix)}")
    return ",".join(f"{prefix}{first + index}" for index in range(count))


def _positive(name: str, *numbers: int) -> None:
    if any(type(number) is not int or number < 1 for number in numbers):
        raise InputError(f"{name} takes positive integers, got {', '.join(map(str, numbers))}")


def each(pattern: str, names: str) -> tuple[str, ...]:
    """The words of `pattern` once for each of `names`, which are joined by commas.

    A `*` stands for the name and `<...>` for a site placeholder, so that
    `each("--decode http://<*_host>:<*_port>", "decode_0,decode_1")` is two words a worker. A
    router is told its workers so.
    """
    words, keys = pattern.split(), [name for name in names.split(",") if name]
    if len(words) * len(keys) > MAX_LIST:
        raise InputError(f"a list has at most {MAX_LIST} words")
    if sum(_placed(word, name) for word in words for name in keys) > MAX_TEXT:
        raise InputError(f"the words of a list have at most {MAX_TEXT} characters together")
    return tuple(place(word, name) for name in keys for word in words)


def place(pattern: str, name: str) -> str:
    """`pattern` with a name for `*` and a site placeholder for `<...>`."""
    if _placed(pattern, name) > MAX_TEXT:
        raise InputError(f"a text has at most {MAX_TEXT} characters")
    return pattern.replace("*", name).replace("<", "{").replace(">", "}")


def _placed(pattern: str, name: str) -> int:
    """Length of what `place` makes."""
    return len(pattern) + pattern.count("*") * (len(name) - 1)


def _listed(numbers: range) -> tuple[int, ...]:
    # len() of a range fails above 2**63; its ends tell as much.
    if numbers and (numbers[-1] - numbers[0]) // numbers.step >= MAX_LIST:
        raise InputError(f"a list has at most {MAX_LIST} numbers")
    return tuple(numbers)
