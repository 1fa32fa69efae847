"""One fixed way to spread the bits of integers: equal on every machine and in every version."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)
_MASK = (1 << 64) - 1
_GOLDEN, _FIRST_INT, _SECOND_INT = int(GOLDEN), int(_FIRST), int(_SECOND)


def mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """One step of splitmix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit."""
    values = values + GOLDEN
    values ^= values >> _30
    values *= _FIRST
    values ^= values >> _27
    values *= _SECOND
    values ^= values >> _31
    return values


def mixed_one(value: int) -> int:
    """The same of one number below 2^64, for which an array takes longer than it saves."""
    value = value + _GOLDEN & _MASK
    value = (value ^ value >> 30) * _FIRST_INT & _MASK
    value = (value ^ value >> 27) * _SECOND_INT & _MASK
    return value ^ value >> 31
