"""The format `inferometer-sessions`: JSON lines, one session each, that hold all a replay needs.

Every other format converts to it without loss for a replay. The first line names format, version
and block size. Block ids are written as what a turn shares with an earlier one, and runs of
consecutive ids after it. Format and meaning of each field: docs/formats.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from inferometer.core import Session, Turn
from inferometer.errors import InputError, Problem, nearest
from inferometer.workload.files import lines
from inferometer.workload.hashes import Ids, kept_once, shared_prefix
from inferometer.workload.reading import Placed, Reader, Reading
from inferometer.workload.sessionrow import SessionCheck

FORMAT = "inferometer-sessions"
VERSION = 1
HEADER = ("format", "version", "block_size", "family")
SESSIONS_FAMILY = "sessions"
"""Of a file that does not say what its sessions are."""


class SessionWriter:
    """Writes sessions to a stream, one after the other. All have one block size.

    `family` says what they are; None: unknown.
    """

    def __init__(self, stream: BinaryIO, family: str | None = None) -> None:
        self._stream = stream
        self._family = family
        self._block_size: int | None = None

    def write(self, session: Session) -> None:
        """Append a session; the first one also writes the header. Raises InputError for another
        block size than that of the first."""
        if self._block_size is None:
            self._block_size = session.block_size
            said = {} if self._family is None else {"family": self._family}
            size = {"block_size": session.block_size}
            self._line({"format": FORMAT, "version": VERSION} | size | said)
        if session.block_size != self._block_size:
            raise InputError(
                f"session {session.id!r} has blocks of {session.block_size} tokens, and those "
                f"before it {self._block_size}: one file has one block size"
            )
        self._line(_session_row(session))

    def _line(self, row: dict[str, Any]) -> None:
        self._stream.write(orjson.dumps(row) + b"\n")


def _session_row(session: Session) -> dict[str, Any]:
    row: dict[str, Any] = {"id": session.id}
    if session.start_ns is not None:
        row["start_ns"] = session.start_ns
    if session.common_ids:
        row["common_ids"] = session.common_ids
    if session.extra:
        row["extra"] = session.extra
    return row | {"turns": [_turn_row(session.turns, turn) for turn in session.turns]}


def _turn_row(turns: Sequence[Turn], turn: Turn) -> dict[str, Any]:
    row: dict[str, Any] = {"agent": turn.agent}
    if turn.parent_agent is not None:
        row["parent"] = turn.parent_agent
    row |= {"after": turn.after, "gap_ns": turn.gap_ns}
    if turn.duration_ns is not None:
        row["duration_ns"] = turn.duration_ns
    if turn.extra:
        row["extra"] = turn.extra
    row |= {"in": turn.input_tokens, "out": turn.output_tokens}
    like, count = _most_alike(turns, turn)
    if count:
        row["same"] = (like, count)
    return row | {"runs": _runs(turn.block_ids[count:])}


def _most_alike(turns: Sequence[Turn], turn: Turn) -> tuple[int, int]:
    """The earlier turn, of a few likely ones, that shares most, and how many blocks."""
    likely = {*turn.after, *range(max(0, turn.index - 4), turn.index), 0} - {turn.index}
    shared = [(shared_prefix(turns[i].block_ids, turn.block_ids), i) for i in sorted(likely)]
    count, like = max(shared, default=(0, 0))
    return like, count


def _runs(ids: Ids) -> list[tuple[int, int]]:
    """(first id, count) of every run of consecutive ids."""
    if not len(ids):
        return []
    starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 2) != 1)
    counts = np.diff(starts, append=len(ids))
    return list(zip(ids[starts].tolist(), counts.tolist(), strict=True))


def _claims(head: bytes) -> bool:
    return FORMAT.encode() in head.lstrip().split(b"\n", 1)[0]


def _read(file: Path, reading: Reading) -> Iterator[Placed]:
    numbered = lines(file)
    line, text = next(numbered, (1, b""))
    size = _block_size(text, str(file), line, reading)
    if size is None:
        return
    for line, text in numbered:
        session = _session(text, size, SessionCheck(str(file), line, size), reading)
        if session is None:
            reading.tally["skipped"] += 1
        else:
            reading.tally["hash_floor"] += len(session.turns)
            followed = {before for turn in session.turns for before in turn.after}
            silent = sum(session.turns[before].duration_ns is None for before in followed)
            reading.tally["api_time_unknown"] += silent
            yield Placed(session, line)


SESSIONS = Reader(FORMAT, _claims, _read)


def _block_size(text: bytes, file: str, line: int, reading: Reading) -> int | None:
    """The block size of a sound header; None where it is not, which is noted."""

    before = reading.found

    def fault(key: str | None, message: str) -> None:
        reading.fault(Problem(message, file, line, key))

    try:
        header = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        fault(None, f"not valid JSON at column {error.colno}: {error.msg}")
        return None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        fault("format", f"expected a first line with the format {FORMAT!r}")
        return None
    version, size = header.get("version"), header.get("block_size")
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        hint = "; it was written by a newer Inferometer" if newer else ""
        fault("version", f"expected {VERSION}, got {version!r}"[:80] + hint)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        fault("block_size", f"expected an integer >= 1 (tokens a block), got {size!r}"[:120])
    for name in set(header) - set(HEADER):
        reading.unknown[f"header.{name}{nearest(name, HEADER)}"] += 1
    return None if reading.found > before else size


def _session(text: bytes, size: int, check: SessionCheck, reading: Reading) -> Session | None:
    check.parse(text)
    for problem in check.problems:
        reading.fault(problem)
    reading.unknown += check.unknown
    if check.problems:
        return None
    row = check.row
    ids = kept_once(check.ids)
    turns = tuple(
        Turn(
            index=index,
            agent=turn["agent"],
            parent_agent=turn.get("parent"),
            after=tuple(turn["after"]),
            gap_ns=turn["gap_ns"],
            block_ids=own,
            input_tokens=turn["in"],
            output_tokens=turn["out"],
            duration_ns=turn.get("duration_ns"),
            extra=turn.get("extra") if reading.keeps else None,
        )
        for index, (turn, own) in enumerate(zip(row["turns"], ids, strict=True))
    )
    return Session(
        id=row["id"],
        block_size=size,
        turns=turns,
        start_ns=row.get("start_ns"),
        common_ids=row.get("common_ids") or 0,
        extra=row.get("extra") if reading.keeps else None,
    )
