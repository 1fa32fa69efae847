"""Derivations by hand, their invariants, and the table that acceptance comes from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.errors import InputError
from inferometer.plan.derivations import (
    acceptance_length,
    context_length,
    graph_cap,
    graph_gib,
    numbered,
    pool_gb,
    prefill_step,
    rank_bytes,
    rank_sequences,
    segment_gib,
    verify_tokens,
)
from inferometer.plan.expressions import FUNCTIONS

small = st.integers(1, 10_000)
ranks = st.integers(1, 64)
gigabytes = st.integers(0, 10_000)


def test_by_hand() -> None:
    assert rank_sequences(392, 8) == 49
    assert rank_sequences(6, 8) == 1
    assert verify_tokens(16, 3) == 64
    assert verify_tokens(16, 0) == 16
    # 8,192 + 4 * 64 + 64 = 8,512, a multiple of 64.
    assert prefill_step(8192, 64, 3, 64, 64) == 8512
    assert prefill_step(8192, 16, 3, 256, 1) == 8512
    assert context_length(8192, 1024, 512, 1024) == 10240
    assert context_length(8192, 1024, 20, 1) == 9236
    assert rank_bytes(2849, 8) == 356_125_000_000
    # (1,199 - 4) * 15 / (31 * 4) = 144.6, and half of 1,731 over 8 ranks.
    assert pool_gb(1199, 4, 1, 15, 31) == 144
    assert pool_gb(1731, 8, 0, 1, 2) == 108
    # 1,731e9 bytes are 1,612.1 GiB: less 416, over 8, less 30.
    assert segment_gib(1731, 8, 416, 30) == 119


def test_graphs_of_the_published_ladder() -> None:
    caps = [graph_cap(verify_tokens(conc, 5), 8, 1024) for conc in (1, 2, 4, 8, 16, 32, 64, 128)]
    assert caps == [8, 16, 32, 64, 128, 256, 512, 1024]
    assert graph_cap(3000, 8, 1024) == 1024


def test_what_graphs_cost_is_scaled_from_the_one_measurement() -> None:
    assert graph_gib(1024) == 38.11
    assert graph_gib(8) == 0.3


@given(small, ranks)
def test_all_ranks_together_admit_every_sequence(seqs: int, count: int) -> None:
    share = rank_sequences(seqs, count)
    assert share * count >= seqs
    assert (share - 1) * count < seqs


@given(gigabytes, ranks)
def test_what_ranks_hold_stays_within_the_budget(dram_gb: int, count: int) -> None:
    assert rank_bytes(dram_gb, count) * count <= dram_gb * 10**9
    # A pool and a fifteenth and a pool of its size again: 31 fifteenths of what is asked.
    pool = pool_gb(dram_gb, count, 0, 15, 31)
    assert pool * 31 * count <= dram_gb * 15
    segment = segment_gib(dram_gb, count, 0, 4)
    assert (segment + 4) * 2**30 * count <= dram_gb * 10**9


@given(small, small, st.integers(0, 8), st.integers(1, 256))
def test_a_step_holds_a_prompt_and_every_verification(
    isl: int, seqs: int, drafts: int, multiple: int
) -> None:
    tokens = prefill_step(isl, seqs, drafts, 64, multiple)
    needed = isl + seqs * (1 + drafts) + 64
    assert tokens % multiple == 0
    assert needed <= tokens < needed + multiple


@given(small, small, small)
def test_a_context_holds_prompt_and_answer(isl: int, osl: int, multiple: int) -> None:
    length = context_length(isl, osl, 20, multiple)
    assert length % multiple == 0
    assert isl + osl + 20 <= length < isl + osl + 20 + multiple


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank_sequences(8, 0), "rank_sequences takes positive integers, got 8, 0"),
        (lambda: verify_tokens(8, -1), "verify_tokens takes 0 or more drafts, got -1"),
        (lambda: graph_cap(8, 16, 4), "graph_cap needs least <= most, got 16 and 4"),
        (lambda: rank_bytes(-1, 8), "rank_bytes takes whole GB, 0 or more, got -1"),
        (lambda: pool_gb(9, 1, 0, 1, 0), "pool_gb takes positive integers, got 1, 1, 0"),
        (lambda: numbered("x" * 65, 1, 1), "numbered takes a prefix of at most 64 characters"),
        (lambda: acceptance_length("dsv4", "mtp", 3, "off"), "no acceptance curve for 'mtp'"),
    ],
)
def test_nonsense_is_refused(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_every_derivation_says_what_it_assumes() -> None:
    own = [entry[0] for entry in FUNCTIONS.values() if entry[0].__module__.endswith("derivations")]
    assert len(own) >= 15
    silent = [
        function.__name__
        for function in own
        if not any(mark in (function.__doc__ or "") for mark in ("Workload model:", "Assumed:"))
    ]
    # One only writes addresses.
    assert silent == ["numbered", "each", "place"]
