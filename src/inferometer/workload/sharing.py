"""Keeps the block ids of a conversation once: most turns extend the one before them.

An array that begins a later one becomes a view of it. Values do not change, only where they lie:
the memory of a session grows with its length and no longer with the square of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


def shared(arrays: Sequence[Ids]) -> list[Ids]:
    """The same arrays, in order; one that the next begins with is a view of the next."""
    found: list[Ids] = []
    for array in reversed(arrays):
        start = found[-1][: len(array)] if found else array
        found.append(start if np.array_equal(start, array) else array)
    return found[::-1]
