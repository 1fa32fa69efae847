"""Opens the workload that a point's settings name, and digests its data.

`sessions` in the settings is a path to traces in the weka format, or `synthetic:NAME` for a
profile of the generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import orjson

from inferometer.core import Session, WorkloadSettings
from inferometer.errors import InputError, Problem
from inferometer.workload.agentic import AgenticWorkload, StartPlan
from inferometer.workload.corpus import read_corpus
from inferometer.workload.files import raw_chunks, trace_files
from inferometer.workload.fixed import FixedLengths
from inferometer.workload.profiles import named
from inferometer.workload.reading import ReadReport
from inferometer.workload.synthetic import synthesize

SYNTHETIC = "synthetic:"
KEPT = 2
"""Sets of sessions kept in this process: every point of a sweep opens the same one."""


class Workload(Protocol):
    """What is sent, as a function of lane and play alone."""

    @property
    def wrapped_lanes(self) -> int:
        """Lanes that play a session that another lane plays at the same time."""
        ...

    def session(self, lane: int, play: int) -> Session:
        """The session of a lane's play; both count from 0."""
        ...

    def start(self, lane: int) -> StartPlan:
        """Where the lane's first play starts; every later one starts at turn 0."""
        ...

    def notes(self) -> Mapping[str, float]:
        """Numbers about the data, for the result."""
        ...


def open_workload(settings: WorkloadSettings, lanes: int) -> Workload:
    """The workload of a point with `lanes` lanes.

    Raises InputError where its data is unusable, or is not what the settings' digest stands for.
    """
    if settings.seed < 0:
        raise InputError(f"seed: expected an integer >= 0, got {settings.seed}")
    if settings.kind == "fixed":
        if settings.isl is None or settings.osl is None:
            raise InputError("a workload of fixed lengths needs isl and osl")
        return FixedLengths(settings.isl, settings.osl, settings.length_ratio, settings.seed)
    if settings.sessions is None:
        raise InputError("an agentic workload needs sessions: a path, or synthetic:NAME")
    if settings.sessions_digest not in (None, sessions_digest(settings.sessions)):
        raise InputError(f"{settings.sessions}: the sessions have changed since the plan was made")
    sessions, notes = _sessions(settings.sessions, settings.seed)
    return AgenticWorkload(sessions, settings, lanes, notes)


def sessions_digest(source: str) -> str:
    """SHA-256, in hex, over the names and bytes of the trace files, or the profile's values.

    Raises InputError when the path or the profile does not exist.
    """
    if source.startswith(SYNTHETIC):
        profile = named(source.removeprefix(SYNTHETIC))
        values = orjson.dumps(asdict(profile), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(values).hexdigest()
    return _digest_of(_stamps(source))


class _Stamp(NamedTuple):
    """What tells that a file is still the one that was read."""

    path: Path
    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class _Kept(NamedTuple):
    """Sessions that points share, frozen, and what reading them came to."""

    sessions: tuple[Session, ...]
    notes: Mapping[str, float]


def _stamps(source: str) -> tuple[_Stamp, ...]:
    return tuple(_stamp(file) for file in trace_files(Path(source)))


def _stamp(file: Path) -> _Stamp:
    try:
        is_now = file.stat()
    except OSError as error:
        raise InputError(Problem(error.strerror or "cannot be read", str(file))) from error
    times = is_now.st_mtime_ns, is_now.st_ctime_ns
    return _Stamp(file, is_now.st_dev, is_now.st_ino, is_now.st_size, *times)


def _sessions(source: str, seed: int) -> _Kept:
    if source.startswith(SYNTHETIC):
        return _made(source.removeprefix(SYNTHETIC), seed)
    return _read(source, _stamps(source))


@lru_cache(KEPT)
def _digest_of(stamps: tuple[_Stamp, ...]) -> str:
    digest = hashlib.sha256()
    for file, _, _, size, *_ in stamps:
        digest.update(f"{file.name}\n{size}\n".encode())
        for piece in raw_chunks(file):
            digest.update(piece)
    return digest.hexdigest()


@lru_cache(KEPT)
def _read(source: str, stamps: tuple[_Stamp, ...]) -> _Kept:  # noqa: ARG001 - part of the key
    sessions, report = read_corpus(Path(source))
    return _kept(sessions, _notes(report))


@lru_cache(KEPT)
def _made(profile: str, seed: int) -> _Kept:
    shape = named(profile)
    return _kept(synthesize(shape, shape.sessions, seed), {})


def _kept(sessions: tuple[Session, ...], notes: Mapping[str, float]) -> _Kept:
    for session in sessions:
        for turn in session.turns:
            turn.block_ids.flags.writeable = False
    return _Kept(sessions, MappingProxyType(dict(notes)))


def _notes(report: ReadReport) -> Mapping[str, float]:
    """Every count of the report; the unknown fields as one sum."""
    names = [field.name for field in fields(report) if field.name != "unknown_fields"]
    counts = {name: float(getattr(report, name)) for name in names}
    return counts | {"unknown_fields": float(sum(report.unknown_fields.values()))}
