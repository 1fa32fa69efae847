"""Rows appended as they come, readable to the last whole line after a kill, parquet as they grow.

A row is one JSON object a line. Lines leave in batches: at most `BATCH_ROWS` rows, or those since
the last `flush`, are lost to a kill -9; none to an exception or a signal that Python sees. A file
that has grown to `SEGMENT_BYTES` becomes a parquet file of its own while the next one fills, so
that neither memory nor the work at the end grows with the run.

    NAME.jsonl        rows of now
    NAME.0000.jsonl   a full segment, until it is parquet
    NAME.0000.parquet
    NAME.parquet      all of them, at the end; then the others are gone
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from inferometer.errors import StoreError
from inferometer.load.bare import own_env
from inferometer.store.parquet import merge, read_parquet_rows, to_parquet

BATCH_ROWS = 256
SEGMENT_BYTES = 32 << 20
"""Some 45,000 rows of a token each, or 6,000 of a thousand: under a second of work apiece."""
PATIENCE_S = 2.0
"""At the end, for what is being converted."""


class Journal:
    """Appends rows to `NAME.jsonl`; `seal` ends it with `NAME.parquet` alone.

    `columns` are (name, DuckDB type) in order; BLOB columns hold base64 text on the way.
    """

    def __init__(
        self, folder: Path, name: str, columns: dict[str, str], segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self._folder = folder
        self._name = name
        self._columns = columns
        self._segment_bytes = segment_bytes
        self._path = folder / f"{name}.jsonl"
        self._parquet = folder / f"{name}.parquet"
        self._rows: list[bytes] = []
        self._written = 0
        self._segments: list[Path] = []
        self._converter: _Converter | None = None
        # A journal that is there already holds what was measured before.
        for there in (self._parquet, *segments(folder, name)):
            if there.exists():
                raise StoreError(f"{there}: already there; not overwritten")
        self._file = self._open()

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
        if self._converter is not None:
            self._converter.finish()

    def append(self, row: dict[str, Any]) -> None:
        """Take one row; a full batch leaves."""
        self._rows.append(orjson.dumps(row))
        if len(self._rows) >= BATCH_ROWS:
            self.flush()

    def extend(self, rows: Iterable[dict[str, Any]], by: str) -> None:
        """Take a batch of rows, say of several workers, in order of the column `by`.

        Order is kept within a batch; whoever reads sorts.
        """
        for row in sorted(rows, key=lambda row: int(row[by])):
            self.append(row)

    def flush(self) -> None:
        """Write what is waiting."""
        if self._rows:
            lines = b"\n".join(self._rows) + b"\n"
            self._file.write(lines)
            self._written += len(lines)
            self._rows.clear()
        self._file.flush()
        if self._written >= self._segment_bytes:
            self._file.close()
            self._hand_over()
            self._file = self._open()

    def seal(self) -> None:
        """Close it: write the parquet file, then remove the rest. Raises StoreError."""
        self.flush()
        self._file.close()
        if self._converter is not None:
            self._converter.finish()
        seal(self._folder, self._name, self._columns)

    def _open(self) -> Any:
        self._written = 0
        try:
            return self._path.open("xb")
        except FileExistsError:
            raise StoreError(f"{self._path}: already there; not overwritten") from None

    def _hand_over(self) -> None:
        """The file of now becomes a segment, and its conversion somebody else's work."""
        segment = self._folder / f"{self._name}.{len(self._segments):04d}.jsonl"
        self._path.rename(segment)
        self._segments.append(segment)
        if self._converter is None:
            self._converter = _Converter(self._columns)
        self._converter.take(segment)


class _Converter:
    """Has segments turned into parquet by a process of its own, which steps back for whoever wants
    the CPU: to load the library alone would hold up this interpreter for tens of milliseconds.

    What it could not convert stays as it is: nothing is lost, and `seal` tries again and says why.
    """

    def __init__(self, columns: dict[str, str]) -> None:
        module = ("-m", "inferometer.store.convert")
        command = [sys.executable, *module, json.dumps(columns), str(os.getpid())]
        self._process: subprocess.Popen[bytes] | None
        try:
            # It may outlive a killed parent by a segment, and must not hold its output open.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=own_env()
            )
        except OSError:
            self._process = None

    def take(self, segment: Path) -> None:
        """Convert it when the ones before are done."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(os.fsencode(segment) + b"\0")
                self._process.stdin.flush()

    def finish(self) -> None:
        """Wait for all of them, but not where others leave it no time: `seal` does the rest."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            try:
                self._process.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def seal(folder: Path, name: str, columns: dict[str, str]) -> None:
    """End a journal that nobody writes any more: all of it as `NAME.parquet`, the rest gone.

    Raises StoreError, and then nothing is lost.
    """
    journal, parquet = folder / f"{name}.jsonl", folder / f"{name}.parquet"
    full = segments(folder, name)
    if not full:
        to_parquet(journal, parquet, columns)
        journal.unlink()
        return
    if journal.stat().st_size:
        last = folder / f"{name}.{len(full):04d}.jsonl"
        journal.rename(last)
        full.append(last)
    else:
        journal.unlink()
    parts = [convert(segment, columns) for segment in full]
    merge(parts, parquet)
    for part in parts:
        part.unlink()


def convert(segment: Path, columns: dict[str, str]) -> Path:
    """A segment as parquet, which takes its place. Raises StoreError; the segment is kept then."""
    parquet = segment.with_suffix(".parquet")
    if segment == parquet:
        segment.with_suffix(".jsonl").unlink(missing_ok=True)
        return parquet
    try:
        to_parquet(segment, parquet, columns)
        segment.unlink()
    except OSError as error:
        raise StoreError(f"{segment}: kept: {error.strerror or error}") from None
    return parquet


def segments(folder: Path, name: str) -> list[Path]:
    """Full segments of a journal, in order, as parquet where they are that already."""
    found = {path.stem: path for path in folder.glob(f"{name}.[0-9]*.jsonl")}
    found |= {path.stem: path for path in folder.glob(f"{name}.[0-9]*.parquet")}
    return sorted(found.values(), key=lambda path: int(path.stem.rpartition(".")[2]))


def read_rows(folder: Path, name: str, columns: dict[str, str]) -> list[dict[str, Any]]:
    """Every row of `NAME.parquet`, or of the segments and the journal of a run cut short.

    Raises StoreError where nothing is there, or a parquet file is damaged.
    """
    parquet, journal = folder / f"{name}.parquet", folder / f"{name}.jsonl"
    if parquet.exists():
        return read_parquet_rows(parquet)
    files = segments(folder, name)
    if journal.exists():
        files.append(journal)
    if not files:
        raise StoreError(f"{folder}: neither {parquet.name} nor {journal.name} is there")
    rows: list[dict[str, Any]] = []
    for file in files:
        rows += _rows_of(file, columns)
    return rows


def _rows_of(file: Path, columns: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a segment, or of the journal."""
    if file.suffix == ".parquet":
        return read_parquet_rows(file)
    try:
        lines = _whole_lines(file)
    except FileNotFoundError:
        # Converted meanwhile: its parquet file is there before the lines are gone.
        return read_parquet_rows(file.with_suffix(".parquet"))
    return [_from_journal(line, columns) for line in lines]


def _whole_lines(journal: Path) -> list[bytes]:
    """The journal without a last line that a kill cut off."""
    return journal.read_bytes().split(b"\n")[:-1]


def _from_journal(line: bytes, columns: dict[str, str]) -> dict[str, Any]:
    row: dict[str, Any] = orjson.loads(line)
    return {name: row.get(name) for name in columns}
