"""The fixed-length workload: every play is one turn of drawn lengths that shares nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from inferometer.core import Session
from inferometer.errors import InputError, Problem
from inferometer.workload.agentic import StartPlan
from inferometer.workload.draws import FirstDraws, below
from inferometer.workload.oneturn import single
from inferometer.workload.prompts import MAX_LOCAL_ID

BLOCK_SIZE = 64
"""Tokens a block, as in the recorded traces; `reblock` fits it to an engine's own."""
MOST_INPUT_TOKENS = (MAX_LOCAL_ID - 1) * BLOCK_SIZE
"""One number is the turn's own."""


class FixedLengths:
    """Lengths drawn uniformly from the integers in [floor(ratio · L), L]; ratio 1 is exact.

    Raises InputError for prompts that are longer than a play has numbers for.
    """

    wrapped_lanes = 0
    one_turn = True

    def __init__(self, isl: int, osl: int, ratio: float, seed: int) -> None:
        if isl > MOST_INPUT_TOKENS:
            raise InputError(
                Problem(f"at most {MOST_INPUT_TOKENS:,} tokens, got {isl:,}", key="isl")
            )
        self._isl = isl
        self._osl = osl
        self._ratio = ratio
        self._seed = seed
        self._draws = FirstDraws(seed)

    def session(self, lane: int, play: int) -> Session:
        """A session of one turn, a function of (seed, lane, play) alone."""
        input_tokens, output_tokens = self._lengths(lane, play)
        ids = np.arange(input_tokens // BLOCK_SIZE, dtype=np.int64)
        turn = single(ids, input_tokens, output_tokens)
        return Session(f"fixed-{lane}-{play}", BLOCK_SIZE, (turn,))

    def start(self, lane: int) -> StartPlan:  # noqa: ARG002
        """Nothing to skip and no turn to warm with: a play is one whole request."""
        return StartPlan(start=0, skipped=frozenset(), warmup=())

    def starts_ns(self) -> Sequence[int]:
        """Nothing was recorded."""
        return ()

    def notes(self, pool_tokens: int | None = None) -> Mapping[str, float]:  # noqa: ARG002
        """Nothing was decided on the way."""
        return {}

    def _lengths(self, lane: int, play: int) -> tuple[int, int]:
        """Tokens in and out: what numpy's generator of (seed, lane, play) draws, one by one."""
        counts = [length - self._least(length) + 1 for length in (self._isl, self._osl)]
        halves = self._draws.of(lane, play) if max(counts) > 1 else (0, 0)
        taken = iter(halves or ())
        # A range of one number takes none.
        drawn = [0 if count == 1 else below(next(taken, 0), count) for count in counts]
        less_in, less_out = drawn
        if halves is None or less_in is None or less_out is None:
            rng = np.random.default_rng(np.random.SeedSequence([self._seed, lane, play]))
            less_in, less_out = (int(rng.integers(count)) for count in counts)
        return self._least(self._isl) + less_in, self._least(self._osl) + less_out

    def _least(self, length: int) -> int:
        return max(1, math.floor(self._ratio * length))
