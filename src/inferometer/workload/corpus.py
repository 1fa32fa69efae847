"""Reads a path of any known format into sessions, as a stream or as a whole.

The one place that names the readers. A format is told by what a file begins with, or asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from inferometer.core import Session
from inferometer.errors import InputError, Problem, nearest
from inferometer.workload.azure import AZURE
from inferometer.workload.blocksizes import most_common_size
from inferometer.workload.files import head, trace_files
from inferometer.workload.hashes import kept_once
from inferometer.workload.mooncake import MOONCAKE
from inferometer.workload.prompts import MAX_LOCAL_ID
from inferometer.workload.reading import Placed, Reader, Reading, ReadOptions, ReadReport
from inferometer.workload.sessionfile import SESSIONS
from inferometer.workload.weka import WEKA

READERS: Mapping[str, Reader] = MappingProxyType(
    {reader.name: reader for reader in (SESSIONS, WEKA, MOONCAKE, AZURE)}
)
"""In the order in which they are asked whether a file is theirs."""
HEAD = 1 << 16


class Corpus(NamedTuple):
    """The sessions of a path, ordered by file name and line, and the account of reading them."""

    sessions: tuple[Session, ...]
    report: ReadReport
    formats: Mapping[str, int]
    """Files by the format they were read as."""
    passed: tuple[Problem, ...]
    """Problems of sessions that were left out, as asked."""


def read_corpus(path: Path, options: ReadOptions | None = None) -> Corpus:
    """All sessions of a path. Raises InputError with the problems of every file."""
    reading = Reading(options or ReadOptions())
    sessions = tuple(stream(path, reading))
    reading.finish()
    return Corpus(sessions, reading.report(), reading.formats, reading.listed())


def read_weka(path: Path) -> tuple[Session, ...]:
    """The sessions of a path in the weka format."""
    return read_corpus(path, ReadOptions(format="weka")).sessions


def stream(path: Path, reading: Reading) -> Iterator[Session]:
    """The sound sessions of a path, one after the other; problems are noted in `reading`.

    To be followed by `reading.finish()`, which raises them. Raises InputError where there is no
    file to read, or no such format.
    """
    asked = _asked(reading.options.format)
    files = trace_files(path)
    if reading.options.skip_bad:
        # What is odd must be known before the first session is taken for sound.
        reading.block_size = most_common_size(files)
    for file in files:
        try:
            yield from _of_file(file, asked, reading)
        except InputError as error:  # a file that cannot be read to its end
            for problem in error.problems:
                reading.fault(problem)
            reading.tally["skipped"] += 1
    reading.settle()
    if not reading.tally["sessions"] and not reading.found:
        reading.fault(Problem("no session in it has a request to send", str(path)))


def _asked(name: str | None) -> Reader | None:
    if name is None:
        return None
    if name not in READERS:
        known = ", ".join(READERS)
        raise InputError(f"no format {name!r}{nearest(name, READERS)} (there are: {known})")
    return READERS[name]


def _of_file(file: Path, asked: Reader | None, reading: Reading) -> Iterator[Session]:
    reader = asked or told_reader(head(file, HEAD), file)
    reading.formats[reader.name] += 1
    name = str(file)
    for placed in reader.read(file, reading):
        most = _highest(placed.session)
        if not _fits(placed, most, name, reading):
            continue
        session = reading.accepted(placed, name)
        if session is not None:
            yield _renumbered(session, most, reading)


def _highest(session: Session) -> int:
    """The highest block id of a session."""
    return max((int(t.block_ids.max()) for t in session.turns if len(t.block_ids)), default=0)


def _fits(placed: Placed, most: int, file: str, reading: Reading) -> bool:
    """Whether the blocks and turns of a session have each a number of their own in a play; `most`
    is its highest block id.
    """
    turns = placed.session.turns
    total = most + 1 - placed.session.common_ids + len(turns)
    if total > MAX_LOCAL_ID:
        total = len(np.unique(np.concatenate([turn.block_ids for turn in turns]))) + len(turns)
    if total <= MAX_LOCAL_ID:
        return True
    text = f"{total:,} different blocks and turns, more than {MAX_LOCAL_ID:,} in one session"
    reading.fault(Problem(text, file, placed.line))
    reading.tally["skipped"] += 1
    return False


def _renumbered(session: Session, most: int, reading: Reading) -> Session:
    """Ids that would not fit beside a play's key are replaced by their rank within the session."""
    common, turns = session.common_ids, session.turns
    if most - common <= MAX_LOCAL_ID:
        return session
    reading.tally["renumbered"] += 1
    ids = np.concatenate([turn.block_ids for turn in turns])
    own = ids >= common
    ids[own] = common + np.unique(ids[own], return_inverse=True)[1]
    parts = np.split(ids, np.cumsum([len(turn.block_ids) for turn in turns])[:-1])
    renewed = (replace(t, block_ids=part) for t, part in zip(turns, kept_once(parts), strict=True))
    return replace(session, turns=tuple(renewed))


def told_reader(begin: bytes, file: Path) -> Reader:
    """The reader whose format a file begins with. JSON of no known kind goes to `weka`, which says
    what it lacks. Raises InputError for what is no JSON either."""
    for reader in READERS.values():
        if reader.claims(begin):
            return reader
    if begin.strip()[:1] in (b"{", b"[", b""):
        return WEKA
    known = ", ".join(READERS)
    raise InputError(Problem(f"of no format that is known here ({known})", str(file)))
