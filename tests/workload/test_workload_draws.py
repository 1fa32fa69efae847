"""Lengths are those that numpy's generator of (seed, lane, play) draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.workload import draws
from inferometer.workload.draws import FirstDraws, below
from inferometer.workload.fixed import FixedLengths

LENGTH = st.sampled_from([1, 2, 7, 64, 450, 128_000])
NUMBER = st.integers(0, 10_000)


def drawn(isl: int, osl: int, ratio: float, path: tuple[int, int, int]) -> tuple[int, int]:
    """By the library, one by one."""
    rng = np.random.default_rng(np.random.SeedSequence(path))

    def one(length: int) -> int:
        return int(rng.integers(max(1, math.floor(ratio * length)), length, endpoint=True))

    return one(isl), one(osl)


@given(
    LENGTH,
    LENGTH,
    st.sampled_from([0.0, 0.5, 0.8, 0.999, 1.0]),
    st.integers(0, 1 << 40),
    NUMBER,
    NUMBER,
)
def test_lengths_are_those_of_the_library(
    isl: int, osl: int, ratio: float, seed: int, lane: int, play: int
) -> None:
    (turn,) = FixedLengths(isl, osl, ratio, seed).session(lane, play).turns
    assert (turn.input_tokens, turn.output_tokens) == drawn(isl, osl, ratio, (seed, lane, play))


@given(st.integers(0, (1 << 32) - 1), NUMBER, NUMBER)
def test_the_numbers_are_the_first_output(seed: int, lane: int, play: int) -> None:
    raw = np.random.PCG64(np.random.SeedSequence([seed, lane, play])).random_raw()
    assert FirstDraws(seed).of(lane, play) == (raw & 0xFFFF_FFFF, raw >> 32)


def test_a_number_that_the_library_refuses_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2^32 is 1 more than a multiple of 3: of its numbers, 0 is the one that would weigh double.
    assert below(0, 3) is None
    assert [below(1, 3), below(1 << 31, 3), below((1 << 32) - 1, 3)] == [0, 1, 2]
    monkeypatch.setattr(FirstDraws, "of", lambda *_: (0, 0))
    (turn,) = FixedLengths(3, 3, 0.0, 5).session(1, 2).turns
    assert (turn.input_tokens, turn.output_tokens) == drawn(3, 3, 0.0, (5, 1, 2))


def test_what_was_let_go_of_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "KEPT", 2)
    first = FirstDraws(7)
    before = [first.of(lane, 0) for lane in range(0, 80, 8)]
    assert [first.of(lane, 0) for lane in range(0, 80, 8)] == before
    assert len(set(before)) == len(before)
