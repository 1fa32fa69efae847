"""Arrival times in compact form: zigzag varints of differences, exact; four bytes a token at a
pace of 20 ms.

LEB128 (seven bits a byte, low group first, high bit = more follows), vectorised.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

FEW = 8
WORD = 8
"""Bytes of the widest values that are spread in whole words, eight groups each."""
_MORE = 0x8080808080808080
"""The bit of every byte that says that another follows."""
_LEAST = [np.uint64(1 << 7 * group) for group in range(WORD)]
"""From here on a value has this group too,"""
_MORE_BEFORE = [np.uint64(1 << 8 * group >> 1) for group in range(WORD)]
"""and the byte before it this bit."""
_SPREADS = tuple(
    (groups, np.uint64(low), np.uint64(high), np.uint64(shift))
    for groups, low, high, shift in (
        (4, 0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
        (2, 0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (1, 0x007F007F007F007F, 0x3F803F803F803F80, 1),
    )
)
"""Halving steps: from words with so many groups in a row to half as many in each half of a word."""


def encode(values: npt.NDArray[np.int64]) -> bytes:
    """int64[n] → varints of the differences (the first against zero)."""
    return encode_many([values])[0]


def encode_many(series: Sequence[npt.NDArray[np.int64]]) -> list[bytes]:
    """`encode` of each, at the price of one: a call of numpy costs more than a hundred values."""
    found = [_few(values.tolist()) if len(values) <= FEW else b"" for values in series]
    long = [index for index, values in enumerate(series) if len(values) > FEW]
    if not long:
        return found
    whole = series[long[0]] if len(long) == 1 else np.concatenate([series[i] for i in long])
    heads = list(accumulate((len(series[index]) for index in long), initial=0))
    steps = whole[1:] - whole[:-1]
    if len(long) > 1:
        steps = np.delete(steps, [head - 1 for head in heads[1:-1]])
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    # The first of each is an absolute time and long; the rest are gaps and mostly of one length.
    rest, stops = _spread(zigzag, [head - at for at, head in enumerate(heads)])
    for index, head, start, stop in zip(long, heads, stops, stops[1:], strict=False):
        found[index] = _few([int(whole[head])]) + rest[start:stop]
    return found


def _spread(zigzag: npt.NDArray[np.uint64], edges: list[int]) -> tuple[bytes, list[int]]:
    """Values as varints, one after the other, and how many bytes those before each edge are."""
    least, widest = _width(int(zigzag.min())), _width(int(zigzag.max()))
    if widest > WORD:
        blobs = [b"".join(map(_one, zigzag[a:b].tolist())) for a, b in pairwise(edges)]
        return b"".join(blobs), list(accumulate(map(len, blobs), initial=0))
    words = zigzag
    for groups, low, high, shift in _SPREADS:
        if widest > groups:
            words = (words & low) | ((words & high) << shift)
    more = np.uint64(_MORE & ((1 << 8 * (least - 1)) - 1))
    words = (words | more).astype("<u8", copy=False)
    for group in range(least, widest):
        words |= (zigzag >= _LEAST[group]) * _MORE_BEFORE[group]
    out = words.view(np.uint8)
    if least == widest:
        return out.reshape(-1, WORD)[:, :widest].tobytes(), [edge * widest for edge in edges]
    present = np.empty(len(out), np.bool_)
    np.greater_equal(out[:-1], 0x80, out=present[1:])
    present[::WORD] = True  # a zero takes a byte too
    counts = (int(np.count_nonzero(present[WORD * a : WORD * b])) for a, b in pairwise(edges))
    return out[present].tobytes(), list(accumulate(counts, initial=0))


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
