"""Opens the workload that a point's settings name, and digests its data.

`sessions` in the settings is a path to traces in the weka format, or `synthetic:NAME` for a
profile of the generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Protocol

import orjson

from inferometer.core import Session, WorkloadSettings
from inferometer.errors import InputError
from inferometer.workload.agentic import AgenticWorkload, StartPlan
from inferometer.workload.fixed import FixedLengths
from inferometer.workload.profiles import named
from inferometer.workload.synthetic import synthesize
from inferometer.workload.weka import ReadReport, bytes_of, read_corpus, trace_files

SYNTHETIC = "synthetic:"


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
    digest = hashlib.sha256()
    if source.startswith(SYNTHETIC):
        profile = named(source.removeprefix(SYNTHETIC))
        digest.update(orjson.dumps(asdict(profile), option=orjson.OPT_SORT_KEYS))
        return digest.hexdigest()
    for file in trace_files(Path(source)):
        data = bytes_of(file)
        digest.update(f"{file.name}\n{len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def _sessions(source: str, seed: int) -> tuple[tuple[Session, ...], Mapping[str, float]]:
    if source.startswith(SYNTHETIC):
        profile = named(source.removeprefix(SYNTHETIC))
        return synthesize(profile, profile.sessions, seed), {}
    sessions, report = read_corpus(Path(source))
    return sessions, _notes(report)


def _notes(report: ReadReport) -> Mapping[str, float]:
    """Every count of the report; the unknown fields as one sum."""
    names = [field.name for field in fields(report) if field.name != "unknown_fields"]
    counts = {name: float(getattr(report, name)) for name in names}
    return counts | {"unknown_fields": float(sum(report.unknown_fields.values()))}
