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
from inferometer.workload.files import head, trace_files
from inferometer.workload.hashes import kept_once
from inferometer.workload.mooncake import MOONCAKE
from inferometer.workload.prompts import MAX_LOCAL_ID
from inferometer.workload.reading import Reader, Reading, ReadOptions, ReadReport
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


def read_corpus(path: Path, options: ReadOptions | None = None) -> Corpus:
    """All sessions of a path. Raises InputError with the problems of every file."""
    reading = Reading(options or ReadOptions())
    sessions = tuple(stream(path, reading))
    reading.finish()
    return Corpus(sessions, reading.report())


def read_weka(path: Path) -> tuple[Session, ...]:
    """The sessions of a path in the weka format."""
    return read_corpus(path, ReadOptions(format="weka")).sessions


def stream(path: Path, reading: Reading) -> Iterator[Session]:
    """The sound sessions of a path, one after the other; problems are noted in `reading`.

    To be followed by `reading.finish()`, which raises them. Raises InputError where there is no
    file to read, or no such format.
    """
    asked = _asked(reading.options.format)
    for file in trace_files(path):
        try:
            yield from _of_file(file, asked, reading)
        except InputError as error:  # a file that cannot be read to its end
            for problem in error.problems:
                reading.fault(problem)
            reading.tally["skipped"] += 1


def _asked(name: str | None) -> Reader | None:
    if name is None:
        return None
    if name not in READERS:
        known = ", ".join(READERS)
        raise InputError(f"no format {name!r}{nearest(name, READERS)} (there are: {known})")
    return READERS[name]


def _of_file(file: Path, asked: Reader | None, reading: Reading) -> Iterator[Session]:
    reader = asked or _told(file)
    reading.formats[reader.name] += 1
    for placed in reader.read(file, reading):
        if reading.accepts(placed, str(file)):
            yield _renumbered(placed.session, reading)


def _renumbered(session: Session, reading: Reading) -> Session:
    """Ids that would not fit beside a play's key are replaced by their rank within the session."""
    common, turns = session.common_ids, session.turns
    most = max((int(turn.block_ids.max(initial=0)) for turn in turns), default=0)
    if most - common <= MAX_LOCAL_ID:
        return session
    reading.tally["renumbered"] += 1
    ids = np.concatenate([turn.block_ids for turn in turns])
    own = ids >= common
    ids[own] = common + np.unique(ids[own], return_inverse=True)[1]
    parts = np.split(ids, np.cumsum([len(turn.block_ids) for turn in turns])[:-1])
    renewed = (replace(t, block_ids=part) for t, part in zip(turns, kept_once(parts), strict=True))
    return replace(session, turns=tuple(renewed))


def _told(file: Path) -> Reader:
    """The reader whose format a file begins with. JSON of no known kind goes to `weka`, which says
    what it lacks."""
    begin = head(file, HEAD)
    for reader in READERS.values():
        if reader.claims(begin):
            return reader
    if begin.strip()[:1] in (b"{", b"[", b""):
        return WEKA
    known = ", ".join(READERS)
    raise InputError(Problem(f"of no format that is known here ({known})", str(file)))
