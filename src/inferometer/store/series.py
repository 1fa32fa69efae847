"""Samples and the words of requests as columns: what a picture needs of files that may be long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from inferometer.deferred import Deferred
from inferometer.errors import StoreError
from inferometer.store.parquet import connected, first_line

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = Deferred("duckdb")

SeriesMap = dict[tuple[str, str], tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]
"""By (name, labels): `at_ns` int64[n] ascending, finite `value` float64[n]."""
WORDS = ("request_id", "session", "agent", "parent_agent", "error")


@dataclass(frozen=True, slots=True, eq=False)
class RequestWords:
    """Of n requests, in the order of the file: `turn` int64[n], and by name of `WORDS` texts."""

    turn: npt.NDArray[np.int64]
    texts: dict[str, Sequence[str | None]]


def read_series(parquet: Path, names: Iterable[str], first_ns: int, last_ns: int) -> SeriesMap:
    """The named series between two times. Raises StoreError where the file is damaged."""
    query = (
        "SELECT name, labels, at_ns, value FROM read_parquet(?) WHERE list_contains(?, name) "
        "AND at_ns BETWEEN ? AND ? AND isfinite(value) ORDER BY name, labels, at_ns"
    )
    try:
        with connected() as connection:
            asked = [str(parquet), list(names), first_ns, last_ns]
            found = connection.execute(query, asked).fetchnumpy()
    except duckdb.Error as error:
        raise StoreError(f"{parquet}: not readable: {first_line(error)}") from None
    at_ns = np.asarray(found["at_ns"], dtype=np.int64)
    values = np.asarray(found["value"], dtype=np.float64)
    keys = list(zip(found["name"].tolist(), found["labels"].tolist(), strict=True))
    starts = [i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1]]
    ends = [*starts[1:], len(keys)]
    return {
        keys[start]: (at_ns[start:end], values[start:end])
        for start, end in zip(starts, ends, strict=False)
    }


def read_words(parquet: Path) -> RequestWords:
    """Who asked, of every request. Raises StoreError where the file is damaged."""
    query = f"SELECT turn, {', '.join(WORDS)} FROM read_parquet(?)"
    try:
        with connected() as connection:
            rows = connection.execute(query, [str(parquet)]).fetchall()
    except duckdb.Error as error:
        raise StoreError(f"{parquet}: not readable: {first_line(error)}") from None
    turn, *texts = zip(*rows, strict=True) if rows else ((), *((),) * len(WORDS))
    return RequestWords(np.array(turn, dtype=np.int64), dict(zip(WORDS, texts, strict=True)))
