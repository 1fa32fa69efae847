"""Block ids as arrays: parsed straight from JSON text, checked against a length, kept once.

Most of a trace is lists of ids, and most of a list is that of the request before: turning each into
Python integers costs more than all else, and so does keeping each by itself.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import orjson

Ids = npt.NDArray[np.int64]
FEW = 64
"""Ids up to which Python finds the least faster than numpy."""
WORTH_IT = 16_384
"""Bytes from which on it pays to read lists apart."""
_LIST = re.compile(rb'"hash_ids"\s*:\s*\[')
_OF_LIST = b"0123456789, \t\r\n"
_MARK = "\x01hash_ids\x01"
_OVERFLOW = np.iinfo(np.int64).max


class Parsed:
    """A JSON value whose lists of `hash_ids` were read as arrays; `ids` gives one back."""

    def __init__(self, text: bytes) -> None:
        """Raises orjson.JSONDecodeError with the place in the text as it is."""
        self._arrays: list[Ids] = []
        if len(text) < WORTH_IT:
            self.value: Any = orjson.loads(text)
            return
        try:
            self.value = orjson.loads(self._without_lists(text))
        except ValueError:  # of a list or of the rest: as it stands, for the place and the words
            self._arrays = []
            self.value = orjson.loads(text)

    def ids(self, value: object) -> Ids | None:
        """int64[n] >= 0 of a field `hash_ids`; None where it is no list of such integers."""
        if isinstance(value, str) and value.startswith(_MARK):
            return self._arrays[int(value.removeprefix(_MARK))]
        return _id_array(value) if isinstance(value, list) else None

    def _without_lists(self, text: bytes) -> bytes:
        pieces, at = [], 0
        before, array = b"", np.empty(0, np.int64)
        with warnings.catch_warnings():
            # What numpy cannot read to its end it warns of or refuses, by its version.
            warnings.simplefilter("error", DeprecationWarning)
            for match in _LIST.finditer(text):
                begin, end = match.end(), text.find(b"]", match.end())
                if end <= begin:
                    continue
                array = _array(text[begin:end], before, array)
                before = text[begin:end]
                pieces += [text[at : begin - 1], self._mark(array)]
                at = end + 1
        return b"".join([*pieces, text[at:]])

    def _mark(self, array: Ids) -> bytes:
        self._arrays.append(array)
        return orjson.dumps(f"{_MARK}{len(self._arrays) - 1}")


def misfit(count: int, tokens: int, block_size: int) -> str | None:
    """What is wrong with so many ids for so many tokens; None where they fit.

    Two rules are known: an id a whole block (floor), or one more for what is left (ceil).
    """
    whole, all_blocks = tokens // block_size, -(-tokens // block_size)
    if count in (whole, all_blocks):
        return None
    wanted = f"{whole}" if whole == all_blocks else f"{whole} or {all_blocks}"
    return f"expected {wanted} ids for {tokens} tokens in blocks of {block_size}, got {count}"


def kept_once(arrays: Sequence[Ids]) -> list[Ids]:
    """The same arrays; one that begins the next kept one is a view of it."""
    kept: list[Ids] = []
    base: Ids = np.empty(0, np.int64)
    for array in reversed(arrays):
        if len(array) > len(base) or not np.array_equal(array, base[: len(array)]):
            base = array
        kept.append(base[: len(array)])
    return kept[::-1]


def shared_prefix(left: Ids, right: Ids) -> int:
    """How many leading ids are equal."""
    least = min(len(left), len(right))
    same = left[:least] == right[:least]
    return least if same.all() else int(same.argmin())


def _array(text: bytes, before: bytes, known: Ids) -> Ids:
    """The integers of a list; `known` are those of the list `before`, which it often begins with.

    Raises ValueError, or the warning, for a text that is no such list.
    """
    cut = text.rfind(b",", 0, _alike(text, before)) + 1
    if text[cut:].translate(None, _OF_LIST):
        raise ValueError("a list of other things")
    more = np.fromstring(text[cut:], np.int64, sep=",")
    if len(more) and more.max() == _OVERFLOW:
        raise ValueError("an id that does not fit")
    if not len(more):
        raise ValueError("a list without a last id")
    return np.concatenate([known[: text.count(b",", 0, cut)], more])


def _alike(left: bytes, right: bytes) -> int:
    """How many leading bytes are equal, by halving: a comparison of slices is one of memory."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _id_array(ids: list[object]) -> Ids | None:
    if not ids:
        return np.empty(0, np.int64)
    if set(map(type, ids)) != {int}:  # true and false are numbers to numpy
        return None
    numbers = cast(list[int], ids)
    try:
        array = np.asarray(numbers, np.int64)
    except OverflowError:
        return None
    least = min(numbers) if len(numbers) < FEW else int(array.min())
    return array if least >= 0 else None
