"""Rows appended as they come, readable to the last whole line after a kill, parquet at the close.

A row is one JSON object a line. Lines leave in batches: at most `BATCH_ROWS` rows, or those since
the last `flush`, are lost to a kill -9; none to an exception or a signal that Python sees.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import orjson

from inferometer.errors import StoreError

BATCH_ROWS = 256


class Journal:
    """Appends rows to `NAME.jsonl`; `seal` turns them into `NAME.parquet` and removes it.

    `columns` are (name, DuckDB type) in order; BLOB columns hold base64 text on the way.
    """

    def __init__(self, folder: Path, name: str, columns: dict[str, str]) -> None:
        self._path = folder / f"{name}.jsonl"
        self._parquet = folder / f"{name}.parquet"
        self._columns = columns
        self._rows: list[bytes] = []
        # Exclusive: a journal that is there already holds what was measured before.
        try:
            self._file = self._path.open("xb")
        except FileExistsError:
            raise StoreError(f"{self._path}: already there; not overwritten") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._file.closed:
            self.flush()
            self._file.close()

    def append(self, row: dict[str, Any]) -> None:
        """Take one row; a full batch leaves."""
        self._rows.append(orjson.dumps(row))
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if self._rows:
            self._file.write(b"\n".join(self._rows) + b"\n")
            self._rows.clear()
        self._file.flush()

    def seal(self) -> None:
        """Close it: write the parquet file, then remove the journal. Raises StoreError."""
        self.flush()
        self._file.close()
        to_parquet(self._path, self._parquet, self._columns)
        self._path.unlink()


def to_parquet(journal: Path, parquet: Path, columns: dict[str, str]) -> None:
    """Convert a journal; the target appears whole or not at all, and the journal stays.

    Raises StoreError, which names the journal.
    """
    on_the_way = {name: "VARCHAR" if kind == "BLOB" else kind for name, kind in columns.items()}
    select = ", ".join(
        f"from_base64({name}) AS {name}" if kind == "BLOB" else name
        for name, kind in columns.items()
    )
    spec = ", ".join(f"'{name}': '{kind}'" for name, kind in on_the_way.items())
    partial = parquet.with_suffix(".parquet.partial")
    source = f"read_json(?, format='newline_delimited', columns={{{spec}}})"
    target = f"'{_quoted(partial)}' (FORMAT parquet, COMPRESSION zstd)"
    try:
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute(f"COPY (SELECT {select} FROM {source}) TO {target}", [str(journal)])
    except duckdb.Error as error:
        partial.unlink(missing_ok=True)
        raise StoreError(f"{journal}: kept, not written as parquet: {_first_line(error)}") from None
    partial.replace(parquet)


def read_rows(folder: Path, name: str, columns: dict[str, str]) -> list[dict[str, Any]]:
    """Every row of `NAME.parquet`, or of the journal where a run was cut short.

    Raises StoreError where neither is there, or the parquet file is damaged.
    """
    parquet, journal = folder / f"{name}.parquet", folder / f"{name}.jsonl"
    if parquet.exists():
        return _from_parquet(parquet)
    if journal.exists():
        return [_from_journal(line, columns) for line in _whole_lines(journal)]
    raise StoreError(f"{folder}: neither {parquet.name} nor {journal.name} is there")


def _from_parquet(parquet: Path) -> list[dict[str, Any]]:
    try:
        with duckdb.connect(config={"threads": 1}) as connection:
            cursor = connection.execute("SELECT * FROM read_parquet(?)", [str(parquet)])
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except duckdb.Error as error:
        raise StoreError(f"{parquet}: not readable: {_first_line(error)}") from None


def _whole_lines(journal: Path) -> list[bytes]:
    """The journal without a last line that a kill cut off."""
    return journal.read_bytes().split(b"\n")[:-1]


def _from_journal(line: bytes, columns: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = orjson.loads(line)
    return {name: row.get(name) for name in columns}


def _first_line(error: duckdb.Error) -> str:
    return str(error).partition("\n")[0]


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
