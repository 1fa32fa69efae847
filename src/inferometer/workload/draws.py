"""The first two 32-bit numbers of numpy's generator of (seed, lane, play), for many plays at once.

To make a generator takes longer than all that is drawn from it; here 64 are seeded in one go.
Equal, bit by bit, to `PCG64(SeedSequence([seed, lane, play]))`: M. O'Neill's seed_seq and PCG
XSL RR 128/64, as numpy has them since 1.17.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

SIDE = 8
"""A block is of so many lanes, and of so many plays of each."""
KEPT = 512
"""Blocks, of 2.5 kB each: those of 4,096 lanes."""
MASK = 0xFFFF_FFFF

_ONES_64, _ONES_128 = (1 << 64) - 1, (1 << 128) - 1
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_POOL = 4
_OTHERS = [[other for other in range(_POOL) if other != source] for source in range(_POOL)]

Words = npt.NDArray[np.uint32]


def _keys(start: int, factor: int, count: int) -> Words:
    """(key, factor) of each hash in turn: uint32[count, 2]."""
    chain = [start]
    for _ in range(count):
        chain.append(chain[-1] * factor & MASK)
    return np.array([chain[:-1], chain[1:]], np.uint32).T


_INTO = _keys(0x43B0D7E5, 0x931E8875, _POOL * _POOL)
_OUT = _keys(0x8B51F9DD, 0x58F38DED, 2 * _POOL)


class FirstDraws:
    """Of one seed. Lanes and plays are numbers below 2^32."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._blocks: OrderedDict[tuple[int, int], list[list[int]]] = OrderedDict()

    def of(self, lane: int, play: int) -> tuple[int, int] | None:
        """The two numbers; None for a seed of more than one word, which mixes in another way."""
        if self._seed > MASK:
            return None
        name = (lane // SIDE, play // SIDE)
        block = self._blocks.get(name)
        if block is None:
            block = self._blocks[name] = _seeded(self._seed, name[0] * SIDE, name[1] * SIDE)
            if len(self._blocks) > KEPT:
                self._blocks.popitem(last=False)
        return _first(block[lane % SIDE * SIDE + play % SIDE])


def below(number: int, count: int) -> int | None:
    """One of 0 … count - 1 by a 32-bit number (D. Lemire 2019); None where that one is refused,
    and the next would be asked.
    """
    scaled = number * count
    low = scaled & MASK
    return None if low < count and low < (1 << 32) % count else scaled >> 32


def _seeded(seed: int, lane: int, play: int) -> list[list[int]]:
    """Eight words of state for each of the block's plays, lane by lane."""
    pool = np.zeros((_POOL, SIDE * SIDE), np.uint32)
    pool[0] = seed
    pool[1] = np.repeat(np.arange(lane, lane + SIDE, dtype=np.uint32), SIDE)
    pool[2] = np.tile(np.arange(play, play + SIDE, dtype=np.uint32), SIDE)
    pool = _hashed(pool, _INTO[:_POOL])
    for source, others in enumerate(_OTHERS):
        keys = _INTO[_POOL + source * len(others) :][: len(others)]
        mixed = pool[others] * np.uint32(0xCA01F9DD)
        mixed -= _hashed(pool[source], keys) * np.uint32(0x4973F715)
        pool[others] = mixed ^ mixed >> np.uint32(16)
    found: list[list[int]] = _hashed(np.tile(pool, (2, 1)), _OUT).T.tolist()
    return found


def _hashed(words: Words, keys: Words) -> Words:
    """Each row of `words` (or the one row, again and again) with its key."""
    mixed = (words ^ keys[:, :1]) * keys[:, 1:]
    return mixed ^ mixed >> np.uint32(16)


def _first(words: list[int]) -> tuple[int, int]:
    """The halves of the first output, low one first."""
    state = words[1] << 96 | words[0] << 64 | words[3] << 32 | words[2]
    step = (words[5] << 96 | words[4] << 64 | words[7] << 32 | words[6]) << 1 & _ONES_128 | 1
    # Seeding takes two steps, of which the first starts at zero; output is after one more.
    state = ((state + step) * _MULTIPLIER + step) & _ONES_128
    state = (state * _MULTIPLIER + step) & _ONES_128
    folded, turn = (state >> 64 ^ state) & _ONES_64, state >> 122
    turned = folded >> turn | folded << 64 - turn
    return turned & MASK, turned >> 32 & MASK
