"""Reads the Azure public LLM trace: arrivals and token counts in CSV, a session of one turn a row.

Times keep their full precision. Rows share nothing with each other: the trace has no hashes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from inferometer.clock import NS
from inferometer.core import Session
from inferometer.errors import Problem, nearest
from inferometer.workload.files import lines
from inferometer.workload.oneturn import single
from inferometer.workload.reading import MAX_TOKENS, Placed, Reader, Reading

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BLOCK_SIZE = 64
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)


class _Row(NamedTuple):
    at_ns: int
    tokens: int
    output: int
    extra: Mapping[str, str] | None = None
    """Cells of other columns, where they are kept."""


def nanoseconds_of(text: str) -> int:
    """A date and time, to nanoseconds since 1970. Raises ValueError; without a zone it is UTC."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    day, clock, fraction, zone = match.groups()
    zone = "+00:00" if zone in (None, "Z") else zone
    moment = datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * NS + int((fraction or "0").ljust(9, "0"))


def _claims(head: bytes) -> bool:
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    names = {
        name.strip().strip('"').lower() for name in first.decode("utf-8", "replace").split(",")
    }
    return len(names & {column.lower() for column in COLUMNS}) >= 2


def _read(file: Path, reading: Reading) -> Iterator[Placed]:
    table = _rows(file)
    line, names = next(table, (1, []))
    places = _places(names, str(file), line, reading)
    if places is None:
        return
    first_ns: int | None = None
    latest_ns = 0
    head = line
    for line, cells in table:
        row = _row(cells, places, Problem("", str(file), line), reading)
        if row is not None and first_ns is not None and row.at_ns < latest_ns:
            text = f"{cells[places[0]]} is before the row above it"
            reading.fault(Problem(text, str(file), line, COLUMNS[0]))
            row = None
        if row is None:
            reading.tally["skipped"] += 1
            continue
        first_ns = row.at_ns if first_ns is None else first_ns
        latest_ns = row.at_ns
        if reading.keeps and len(names) > len(COLUMNS):
            row = row._replace(extra=_others(names, cells, places))
        reading.tally["zero_output"] += row.output == 0
        reading.tally["hash_none"] += 1
        yield Placed(_session(file, line, row, first_ns), line, named=False)
    if line == head:
        reading.fault(Problem("expected rows below the names of the columns", str(file), line))


AZURE = Reader("azure", _claims, _read)


def _session(file: Path, line: int, row: _Row, first_ns: int) -> Session:
    ids = np.arange(row.tokens // BLOCK_SIZE, dtype=np.int64)
    turn = single(ids, row.tokens, max(1, row.output), row.extra)
    return Session(f"{file.name}:{line}", BLOCK_SIZE, (turn,), row.at_ns - first_ns)


def _others(
    names: Sequence[str], cells: Sequence[str], places: tuple[int, int, int]
) -> Mapping[str, str] | None:
    others = {
        name.strip(): cell.strip()
        for index, (name, cell) in enumerate(zip(names, cells, strict=False))
        if index not in places and name.strip()
    }
    return others or None


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    for number, text in lines(file):
        decoded = text.decode("utf-8-sig" if number == 1 else "utf-8", "replace")
        yield number, next(csv.reader([decoded]))


def _places(
    names: Sequence[str], file: str, line: int, reading: Reading
) -> tuple[int, int, int] | None:
    """Where the columns stand; None where one is missing."""
    found = {name.strip().lower(): index for index, name in enumerate(names)}
    missing = [column for column in COLUMNS if column.lower() not in found]
    others = [name for name in names if name.strip().lower() not in map(str.lower, COLUMNS)]
    for column in missing:
        text = f"column is missing{nearest(column, others)}"
        reading.fault(Problem(text, file, line, column))
    if missing:
        return None
    reading.unknown.update(set(found) - {column.lower() for column in COLUMNS} - {""})
    at, tokens, output = (found[column.lower()] for column in COLUMNS)
    return at, tokens, output


def _row(
    cells: Sequence[str], places: tuple[int, int, int], place: Problem, reading: Reading
) -> _Row | None:
    """The values of a row; None where one is wrong."""
    before = reading.found

    def fault(index: int, expected: str) -> int:
        cell = cells[places[index]] if places[index] < len(cells) else "nothing"
        text = f"expected {expected}, got {cell!r}"
        reading.fault(Problem(text, place.file, place.line, COLUMNS[index]))
        return 0

    def count(index: int, least: int) -> int:
        cell = cells[places[index]].strip() if places[index] < len(cells) else ""
        if (
            len(cell) < 12
            and cell.isascii()
            and cell.isdigit()
            and least <= int(cell) <= MAX_TOKENS
        ):
            return int(cell)
        return fault(index, f"an integer from {least} to {MAX_TOKENS} (tokens)")

    try:
        at_ns = nanoseconds_of(cells[places[0]] if places[0] < len(cells) else "")
    except ValueError:
        at_ns = fault(0, "a time such as 2023-11-16 18:17:03.9799600")
    row = _Row(at_ns, count(1, 1), count(2, 0))
    return row if reading.found == before else None
