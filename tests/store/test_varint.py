"""Arrival times survive the compact form exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.store import varint

INT64 = st.integers(min_value=-(1 << 62), max_value=(1 << 62) - 1)


@given(st.lists(INT64, max_size=200))
def test_any_values_come_back(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    assert varint.decode(varint.encode(array)).tolist() == values


def test_the_bytes_are_leb128_of_zigzag_differences() -> None:
    # Differences 1, 63, -64, 64 → zigzag 2, 126, 127, 128; 128 takes two bytes, low group first.
    array = np.array([1, 64, 0, 64], dtype=np.int64)
    assert varint.encode(array) == bytes([2, 126, 127, 0x80, 0x01])


def test_the_widest_and_the_narrowest_value() -> None:
    # Zigzag of the least int64 is 2^64 - 1: ten groups, the last of one bit. A zero takes one byte.
    array = np.array([np.iinfo(np.int64).min], dtype=np.int64)
    assert varint.encode(array) == b"\xff" * 9 + b"\x01"
    assert varint.encode(np.zeros(3, dtype=np.int64)) == bytes(3)
    assert varint.encode(np.zeros(0, dtype=np.int64)) == b""


def test_a_token_every_twenty_milliseconds_takes_four_bytes() -> None:
    array = np.arange(1000, dtype=np.int64) * 20_000_000 + 10**15
    assert len(varint.encode(array)) < 4 * 1000 + 10


def test_cut_bytes_are_refused() -> None:
    data = varint.encode(np.array([10**9], dtype=np.int64))
    with pytest.raises(ValueError, match="inside a value"):
        varint.decode(data[:-1])


@given(st.lists(st.lists(INT64, max_size=40), max_size=6))
def test_many_at_once_are_each_by_itself(series: list[list[int]]) -> None:
    arrays = [np.array(values, dtype=np.int64) for values in series]
    assert varint.encode_many(arrays) == [varint.encode(array) for array in arrays]
    assert varint.encode_many(arrays) == [leb128(values) for values in series]


@given(st.lists(st.integers(0, 1 << 54), min_size=9, max_size=60), st.integers(0, 54))
def test_gaps_of_any_width_are_leb128(gaps: list[int], narrower: int) -> None:
    values = [sum(gap >> narrower for gap in gaps[: index + 1]) for index in range(len(gaps))]
    assert varint.encode(np.array(values, dtype=np.int64)) == leb128(values)


def leb128(values: list[int]) -> bytes:
    """The published form, value by value."""
    out = bytearray()
    for before, value in zip([0, *values], values, strict=False):
        # As an int64 wraps around.
        step = (value - before + (1 << 63)) % (1 << 64) - (1 << 63)
        zigzag = step << 1 if step >= 0 else ~(step << 1)
        while zigzag > 0x7F:
            out.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        out.append(zigzag)
    return bytes(out)
