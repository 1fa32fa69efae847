"""The rows of a Mooncake trace: their fields checked, and whether they are whole contexts.

Rows of one `session_id` are written in two ways: each with the whole context so far (cumulative),
or with what it adds to it (delta). Which one is told here from the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from inferometer.errors import Problem
from inferometer.workload.files import lines
from inferometer.workload.hashes import Ids, Parsed, misfit
from inferometer.workload.reading import MAX_TOKENS, Reading

FIELDS = ("timestamp", "input_length", "output_length", "hash_ids", "session_id", "delay")
_KNOWN = frozenset((*FIELDS, "block_size"))
MAX_MS = 2e12
Fault = Callable[[str | None, str], None]
"""Notes a problem of the row at hand: its field, and what is wrong."""


class MooncakeRow(NamedTuple):
    """One checked row."""

    line: int
    at_ms: float | None
    delay_ms: float | None
    """From the end of the row before it in its session, where the row has no time of its own."""
    tokens: int
    output: int
    ids: Ids | None
    highest: int
    """Of the ids; -1 where there are none."""
    session: str | None
    extra: Mapping[str, Any] | None
    """Fields that the format does not have, where they are kept."""


class Votes(NamedTuple):
    """What a file's rows say of themselves."""

    rows_of: Mapping[str, int]
    """Rows of each session that has an id."""
    cumulative: int
    delta: int


def rows(file: Path, block_size: int, reading: Reading) -> Iterator[MooncakeRow | str | None]:
    """The rows in order; for one with problems, which are noted, its session or None."""
    name = str(file)
    for line, text in lines(file):
        try:
            parsed = Parsed(text)
        except orjson.JSONDecodeError as error:
            message = f"not valid JSON at column {error.colno}: {error.msg}"
            reading.fault(Problem(message, name, line))
            yield None
            continue
        yield _checked(parsed, (name, line), block_size, reading)


def votes(file: Path) -> Votes:
    """A first pass over the rows that have a `session_id`; faults are left to the second one.

    A later row speaks for cumulative where its first block is that of its session's first row (no
    delta begins with the instructions again), or, without ids, where it holds all of the context
    and the reply before it.
    """
    counts: dict[str, int] = {}
    first: dict[str, int | None] = {}
    context: dict[str, int] = {}
    said = [0, 0]
    for _, text in lines(file):
        if b'"session_id"' not in text or (row := _loaded(text)) is None:
            continue
        name, ids = _name(row.get("session_id")), row.get("hash_ids")
        size, output = row.get("input_length"), row.get("output_length")
        if name is None:
            continue
        counts[name] = counts.get(name, 0) + 1
        if not isinstance(size, int) or not isinstance(output, int):
            continue
        begin = ids[0] if isinstance(ids, list) and ids else None
        if name in context:
            known = first[name] is not None and begin is not None
            whole = first[name] == begin if known else size >= context[name]
            said[0 if whole else 1] += 1
        else:
            first[name] = begin
        context[name] = size + output
    return Votes(counts, said[0], said[1])


def _loaded(text: bytes) -> dict[str, Any] | None:
    try:
        row = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _name(value: object) -> str | None:
    """A session's name: text or an integer; None where there is none, or a wrong one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _checked(
    parsed: Parsed, place: tuple[str, int], block_size: int, reading: Reading
) -> MooncakeRow | str | None:
    row, before = parsed.value, reading.found

    def fault(key: str | None, message: str) -> None:
        reading.fault(Problem(message, *place, key))

    if not isinstance(row, dict):
        fault(None, "expected an object")
        return None
    name = _name(row.get("session_id"))
    if row.get("session_id") is not None and name is None:
        fault("session_id", "expected a text or an integer")
    ids = _ids(parsed, row, block_size, fault)
    if not _plain(row):
        _check_numbers(row, name, fault)
    if row.get("block_size", block_size) != block_size:
        fault("block_size", f"expected {block_size}, got {row['block_size']!r}"[:120])
    if reading.found > before:
        return name
    extra = None
    if not row.keys() <= _KNOWN:
        reading.unknown.update(row.keys() - _KNOWN)
        extra = {key: row[key] for key in row if key not in _KNOWN} if reading.keeps else None
    return MooncakeRow(
        line=place[1],
        at_ms=row.get("timestamp"),
        delay_ms=row.get("delay"),
        tokens=row["input_length"],
        output=row["output_length"],
        ids=ids,
        highest=-1 if ids is None or not len(ids) else int(ids.max()),
        session=name,
        extra=extra,
    )


def _plain(row: Mapping[str, Any]) -> bool:
    """Whether the numbers of a row are as those of nearly all rows, and sound."""
    at_ms, tokens, output = (row.get(key) for key in FIELDS[:3])
    return (
        type(at_ms) is int
        and type(tokens) is int
        and type(output) is int
        and 0 <= at_ms <= MAX_MS
        and 1 <= tokens <= MAX_TOKENS
        and 0 <= output <= MAX_TOKENS
        and row.get("delay") is None
    )


def _check_numbers(row: Mapping[str, Any], name: str | None, fault: Fault) -> None:
    """Times and lengths; a row that is no part of a conversation must say when."""
    for key, most in (("timestamp", MAX_MS), ("delay", MAX_MS)):
        value = row.get(key)
        if value is not None and not _is_number(value, most):
            fault(key, f"expected milliseconds in [0, {most:.0e}], got {value!r}"[:120])
    if row.get("timestamp") is None and row.get("delay") is None and name is None:
        fault("timestamp", "missing; expected milliseconds from the start of the trace")
    for key, least in (("input_length", 1), ("output_length", 0)):
        value = row.get(key)
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not least <= value <= MAX_TOKENS
        ):
            got = f", got {value!r}"[:80] if key in row else ""
            missing = "" if key in row else "missing; "
            fault(key, f"{missing}expected an integer from {least} to {MAX_TOKENS} (tokens){got}")


def _ids(parsed: Parsed, row: dict[str, Any], block_size: int, fault: Fault) -> Ids | None:
    if row.get("hash_ids") is None:
        return None
    ids = parsed.ids(row["hash_ids"])
    tokens = row.get("input_length")
    if ids is None:
        fault("hash_ids", "expected a list of integers in [0, 2^63)")
    elif isinstance(tokens, int) and tokens > 0 and (wrong := misfit(len(ids), tokens, block_size)):
        fault("hash_ids", f"{wrong}; --block-size asks for another")
    return ids


def _is_number(value: object, most: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= most
