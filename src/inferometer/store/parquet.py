"""Parquet files by DuckDB: from lines of JSON, from several of their kind, and back to rows.

One thread, and memory that does not grow with the file: row groups are of some `GROUP_BYTES`. A
target appears whole or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferometer.deferred import Deferred
from inferometer.errors import StoreError

if TYPE_CHECKING:
    import duckdb
else:
    # Whoever only appends rows need not load it.
    duckdb = Deferred("duckdb")

GROUP_BYTES = 32 << 20
MEMORY_LIMIT = "1GB"
LEAST_GROUP, MOST_GROUP = 2048, 122_880
"""Rows of a group; the least is what DuckDB works on at a time."""


def connected() -> duckdb.DuckDBPyConnection:
    """A connection of one's own, to be closed, that prints nothing."""
    connection = _database().cursor()
    # It draws on stdout when a query takes long, and stdout is for results.
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET enable_progress_bar_print = false")
    return connection


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    """A database in memory that takes one thread: to make one costs 40 ms, so a process has one."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
    # It keeps what it read of files, up to that limit; versions before 1.3 do not know how.
    with contextlib.suppress(duckdb.Error):
        connection.execute("SET enable_external_file_cache = false")
    return connection


def first_line(error: duckdb.Error) -> str:
    """What it says, without the query."""
    return str(error).partition("\n")[0]


def to_parquet(journal: Path, parquet: Path, columns: dict[str, str]) -> None:
    """Convert a journal, which stays. Raises StoreError, which names the journal."""
    on_the_way = {name: "VARCHAR" if kind == "BLOB" else kind for name, kind in columns.items()}
    select = ", ".join(
        f"from_base64({name}) AS {name}" if kind == "BLOB" else name
        for name, kind in columns.items()
    )
    spec = ", ".join(f"'{name}': '{kind}'" for name, kind in on_the_way.items())
    source = f"read_json(?, format='newline_delimited', columns={{{spec}}})"
    try:
        _copy(f"SELECT {select} FROM {source}", str(journal), parquet, MOST_GROUP)
    except duckdb.Error as error:
        raise StoreError(f"{journal}: kept, not written as parquet: {first_line(error)}") from None


def merge(parts: Sequence[Path], parquet: Path) -> None:
    """One file of several, in their order; the parts stay. Raises StoreError, which names them."""
    try:
        with connected() as connection:
            counted = connection.execute(
                "SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata(?)",
                [[str(part) for part in parts]],
            ).fetchone()
        rows = counted[0] if counted else 0
        size = sum(part.stat().st_size for part in parts)
        group = min(MOST_GROUP, max(LEAST_GROUP, rows * GROUP_BYTES // max(size, 1)))
        _copy("SELECT * FROM read_parquet(?)", [str(part) for part in parts], parquet, group)
    except duckdb.Error as error:
        names = f"{parts[0].parent}: {parts[0].name} to {parts[-1].name}"
        raise StoreError(f"{names}: kept, not merged: {first_line(error)}") from None


def read_parquet_rows(parquet: Path) -> list[dict[str, Any]]:
    """Every row. Raises StoreError where the file is damaged."""
    try:
        with connected() as connection:
            cursor = connection.execute("SELECT * FROM read_parquet(?)", [str(parquet)])
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except duckdb.Error as error:
        raise StoreError(f"{parquet}: not readable: {first_line(error)}") from None


def _copy(select: str, source: str | list[str], parquet: Path, group_rows: int) -> None:
    partial = parquet.with_suffix(".parquet.partial")
    options = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group_rows}"
    try:
        with connected() as connection:
            connection.execute(f"COPY ({select}) TO '{_quoted(partial)}' ({options})", [source])
    except duckdb.Error:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(parquet)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
