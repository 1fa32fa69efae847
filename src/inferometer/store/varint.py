"""Arrival times in compact form: zigzag varints of differences, exact; four bytes a token at a
pace of 20 ms.

LEB128 (seven bits a byte, low group first, high bit = more follows), vectorised by byte plane.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PLANES = 10
"""A 64-bit value takes at most ten groups of seven bits."""


def encode(values: npt.NDArray[np.int64]) -> bytes:
    """int64[n] → varints of the differences (the first against zero)."""
    if len(values) == 0:
        return b""
    steps = np.diff(values, prepend=np.int64(0))
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    size = np.ones(len(zigzag), dtype=np.int64)
    for plane in range(1, PLANES):
        size += zigzag >= np.uint64(1) << np.uint64(7 * plane)
    start = np.concatenate(([0], np.cumsum(size)[:-1]))
    out = np.zeros(int(size.sum()), dtype=np.uint8)
    for plane in range(int(size.max())):
        has = size > plane
        group = (zigzag[has] >> np.uint64(7 * plane)) & np.uint64(0x7F)
        more = np.where(size[has] > plane + 1, 0x80, 0)
        out[start[has] + plane] = group.astype(np.uint8) | more.astype(np.uint8)
    return out.tobytes()


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
