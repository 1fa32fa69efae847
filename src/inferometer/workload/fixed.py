"""The fixed-length workload: every play is one turn of drawn lengths that shares nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from inferometer.core import Session
from inferometer.workload.agentic import StartPlan
from inferometer.workload.oneturn import single

BLOCK_SIZE = 64
"""Tokens a block, as in the recorded traces; `reblock` fits it to an engine's own."""


class FixedLengths:
    """Lengths drawn uniformly from the integers in [floor(ratio · L), L]; ratio 1 is exact."""

    wrapped_lanes = 0
    one_turn = True

    def __init__(self, isl: int, osl: int, ratio: float, seed: int) -> None:
        self._isl = isl
        self._osl = osl
        self._ratio = ratio
        self._seed = seed

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
        """Tokens in and out."""
        if self._least(self._isl) == self._isl and self._least(self._osl) == self._osl:
            return self._isl, self._osl  # nothing to draw, and a generator takes time to make
        rng = np.random.default_rng(np.random.SeedSequence([self._seed, lane, play]))
        return self._draw(rng, self._isl), self._draw(rng, self._osl)

    def _draw(self, rng: np.random.Generator, length: int) -> int:
        return int(rng.integers(self._least(length), length, endpoint=True))

    def _least(self, length: int) -> int:
        return max(1, math.floor(self._ratio * length))
