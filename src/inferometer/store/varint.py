"""Arrival times in compact form: zigzag varints of differences, exact; four bytes a token at a
pace of 20 ms.

LEB128 (seven bits a byte, low group first, high bit = more follows), vectorised.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SHIFTS = np.arange(0, 64, 7, dtype=np.uint64)
"""A 64-bit value takes at most ten groups of seven bits."""
_GROUP = np.uint64(0x7F)


def encode(values: npt.NDArray[np.int64]) -> bytes:
    """int64[n] → varints of the differences (the first against zero)."""
    if len(values) == 0:
        return b""
    steps = np.diff(values, prepend=np.int64(0))
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    widest = max(1, -(-int(zigzag.max()).bit_length() // 7))
    rest = zigzag[:, np.newaxis] >> _SHIFTS[:widest]  # [n, widest]: each value from each group on
    present = rest != 0
    out = (rest & _GROUP).astype(np.uint8)
    out[:, :-1] |= present[:, 1:].astype(np.uint8) << 7
    present[:, 0] = True  # a zero takes a byte too
    encoded: bytes = out[present].tobytes()
    return encoded


def decode(data: bytes) -> npt.NDArray[np.int64]:
    """The inverse of `encode`. Raises ValueError for bytes that end inside a value."""
    raw = np.frombuffer(data, dtype=np.uint8)
    if len(raw) == 0:
        return np.zeros(0, dtype=np.int64)
    ends = np.flatnonzero(raw < 0x80)
    if len(ends) == 0 or ends[-1] != len(raw) - 1:
        raise ValueError("arrival times end inside a value")
    starts = np.concatenate(([0], ends[:-1] + 1))
    size = ends - starts + 1
    zigzag = np.zeros(len(ends), dtype=np.uint64)
    for plane in range(int(size.max())):
        has = size > plane
        group = (raw[starts[has] + plane] & 0x7F).astype(np.uint64)
        zigzag[has] |= group << np.uint64(7 * plane)
    steps = (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
    return np.cumsum(steps)
