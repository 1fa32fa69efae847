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
