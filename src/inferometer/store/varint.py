"""Arrival times in compact form: zigzag varints of differences, exact; four bytes a token at a
pace of 20 ms.

LEB128 (seven bits a byte, low group first, high bit = more follows), vectorised.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_SHIFTS = np.arange(0, 64, 7, dtype=np.uint64)
"""A 64-bit value takes at most ten groups of seven bits."""

FEW = 8
_MORE = 0x8080808080808080
"""The bit of every byte that says that another follows."""


def encode(values: npt.NDArray[np.int64]) -> bytes:
    """int64[n] → varints of the differences (the first against zero)."""
    if len(values) == 0:
        return b""
    if len(values) <= FEW:
        return _few(values.tolist())
    steps = values.copy()
    steps[1:] -= values[:-1]
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    # The first is an absolute time and long; the rest are gaps and mostly of one length.
    head = _one(int(zigzag[0]))
    rest = zigzag[1:]
    if len(rest) == 0:
        return head
    least, widest = _width(int(rest.min())), _width(int(rest.max()))
    if least == widest <= 8:
        return head + _alike(rest, widest)
    out = np.empty((len(rest), widest), np.uint8)
    for plane in range(widest):
        out[:, plane] = rest >> _SHIFTS[plane]
    present = rest[:, np.newaxis] >> _SHIFTS[:widest] != 0
    out &= 0x7F
    out[:, :-1] |= present[:, 1:].view(np.uint8) << 7
    present[:, 0] = True  # a zero takes a byte too
    uneven: bytes = out[present].tobytes()
    return head + uneven


def _few(values: list[int]) -> bytes:
    """A handful of values, for which arrays take longer than they save."""
    out = b""
    before = 0
    for value in values:
        step = value - before
        before = value
        # As an int64 does: the difference of two of them may not be one.
        step = (step + (1 << 63)) % (1 << 64) - (1 << 63)
        out += _one(step << 1 if step >= 0 else ~(step << 1))
    return out


def _alike(zigzag: npt.NDArray[np.uint64], width: int) -> bytes:
    """Values of one width, at most 8 bytes: groups are spread over the bytes of a whole word."""
    words = np.full(len(zigzag), _MORE & ((1 << 8 * (width - 1)) - 1), np.dtype("<u8"))
    for plane in range(width):
        words |= (zigzag << np.uint64(plane)) & np.uint64(0x7F << 8 * plane)
    spread: bytes = words.view(np.uint8).reshape(-1, 8)[:, :width].tobytes()
    return spread


def _width(zigzag: int) -> int:
    """Bytes of a value."""
    return max(1, -(-zigzag.bit_length() // 7))


def _one(zigzag: int) -> bytes:
    """A value by itself."""
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def decode(data: bytes) -> npt.NDArray[np.int64]:
    """The inverse of `encode`. Raises ValueError for bytes that end inside a value."""
    return decode_many([data])[0]


def decode_many(
    blobs: Sequence[bytes],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(values of all blobs, one after the other; offsets int64[n + 1] of each blob's).

    Raises ValueError where a blob ends inside a value.
    """
    sizes = np.array([len(blob) for blob in blobs], dtype=np.int64)
    stops = np.cumsum(sizes)
    raw = np.frombuffer(b"".join(blobs), dtype=np.uint8)
    last = raw < 0x80
    if not last[stops[sizes > 0] - 1].all():
        raise ValueError("arrival times end inside a value")
    ends = np.flatnonzero(last)
    offsets = np.concatenate(([0], np.searchsorted(ends, stops)))
    if len(ends) == 0:
        return np.zeros(0, dtype=np.int64), offsets
    zigzag = _groups(raw, ends)
    steps = (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
    # One running sum over all; it wraps around where it must, and each blob takes off what the
    # ones before it came to.
    sums = np.cumsum(steps)
    before = np.concatenate(([0], sums))[offsets[:-1]]
    return sums - np.repeat(before, np.diff(offsets)), offsets


def _groups(raw: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The values whose last bytes are at `ends`, group by group from the last."""
    starts = np.concatenate(([0], ends[:-1] + 1))
    size = ends - starts + 1
    found = np.zeros(len(ends), dtype=np.uint64)
    at = ends.copy()
    for plane in range(int(size.max())):
        group = raw[at] & 0x7F
        if plane:
            # Values that are over already must not take bytes of the one before.
            group[size <= plane] = 0
            found <<= np.where(size > plane, np.uint64(7), np.uint64(0))
        found |= group
        at -= 1
        np.maximum(at, 0, out=at)
    return found
