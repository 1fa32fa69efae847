"""Opens the workload that a point's settings name, and digests its data.

`sessions` in the settings is one text (docs/formats.md#workloads):
`[FORMAT:]PATH[?option=value,...]` for recorded sessions, `synthetic:NAME[?sessions=N]` for the
generator of agentic ones, `KIND:key=value,...` for what is drawn from a few numbers (`made`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import orjson

from inferometer.core import Session, WorkloadSettings
from inferometer.deferred import Deferred
from inferometer.errors import InputError, Problem, nearest
from inferometer.workload.agentic import AgenticWorkload
from inferometer.workload.caveats import caveats, headline, over_long, told_over_long
from inferometer.workload.corpus import READERS, read_corpus
from inferometer.workload.files import raw_chunks, trace_files
from inferometer.workload.made import (
    EMPIRICAL,
    KINDS,
    MadeWorkload,
    drawn_session,
    key_values,
    made,
)
from inferometer.workload.reading import ReadOptions, ReadReport, options_of

if TYPE_CHECKING:
    from inferometer.workload import profiles as _profiles
    from inferometer.workload import synthetic as _synthetic
else:
    # The generator, which recorded sessions do without.
    _profiles = Deferred("inferometer.workload.profiles")
    _synthetic = Deferred("inferometer.workload.synthetic")

SYNTHETIC = "synthetic"
DRAWN = 1000
"""Sessions that stand for a workload without end."""
KEPT = 2
"""Sets of sessions kept in this process: every point of a sweep opens the same one."""


class PathSource(NamedTuple):
    """Recorded sessions."""

    path: str
    options: ReadOptions


class ProfileSource(NamedTuple):
    """Sessions of the generator."""

    profile: _profiles.Profile
    sessions: int


def opened(source: str, settings: WorkloadSettings, lanes: int) -> MadeWorkload | AgenticWorkload:
    """The workload that a text names, for so many lanes. Raises InputError where it is unusable."""
    drawn = made(source)
    if drawn is not None:
        return MadeWorkload(drawn, settings)
    found = named_sessions(source, settings.seed)
    return AgenticWorkload(found.sessions, settings, lanes, found.notes)


def drawn_sessions(source: str, seed: int, count: int = DRAWN) -> tuple[Session, ...] | None:
    """Some sessions of a workload that has no end; None for any other."""
    drawn = made(source)
    if drawn is None:
        return None
    return tuple(drawn_session(drawn, seed, 0, play) for play in range(count))


def sessions_digest(source: str) -> str:
    """SHA-256, in hex, over what a source holds, whatever it is called.

    Of files their names and bytes, and options that are not the defaults; of a profile, or of a
    made workload, its values. Raises InputError when there is no such source.
    """
    drawn = made(source)
    if drawn is not None:
        return hashlib.sha256(drawn.identity.encode()).hexdigest()
    found = source_of(source)
    if isinstance(found, ProfileSource):
        values = asdict(found.profile) | {"sessions": found.sessions}
        return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return _digest_of(_stamps(found.path), found.options)


def source_of(text: str) -> PathSource | ProfileSource:
    """What a text that is no made workload names. Raises InputError with all that is wrong."""
    kind, colon, rest = text.partition(":")
    if kind == SYNTHETIC and colon:
        return _profile_source(rest, text)
    if Path(text).exists():
        return PathSource(text, ReadOptions())
    path, _, options = text.partition("?")
    values = key_values(options, text)
    if kind in READERS and colon and not Path(path).exists():
        path = path.partition(":")[2]
        values.setdefault("format", kind)
    elif colon and not Path(path).exists():
        # Not a path, so a kind that is misspelt; a path that is missing is told when it is read.
        kinds = (*READERS, *KINDS, EMPIRICAL, SYNTHETIC)
        if hint := nearest(kind, kinds):
            raise InputError(f"{text}: no workload of the kind {kind!r}{hint}")
    try:
        return PathSource(path, options_of(values))
    except InputError as error:
        problems = (f"{text}: {problem.message}" for problem in error.problems)
        raise InputError(*problems) from error


def named_sessions(source: str, seed: int) -> Kept:
    """The sessions of a path or a profile, and notes on reading them. Read or made once."""
    found = source_of(source)
    if isinstance(found, ProfileSource):
        return _made(found, seed)
    return _read(found, _stamps(found.path))


def account(source: str, seed: int, limit: int | None) -> tuple[str, ...]:
    """What a person should know of a source before it is sent to a model with that context limit,
    in lines; empty where nothing had to be decided. Raises InputError where it is unusable.
    """
    if made(source) is not None:
        return ()
    found = named_sessions(source, seed)
    beyond = over_long(found.sessions, limit) if limit else 0
    if not (limit and beyond):
        return found.told
    line = f"  {told_over_long(beyond, limit)}; they are not sent"
    return (*(found.told or (f"{source}:",)), line)


def prepare(source: str, seed: int) -> None:
    """Read or make the sessions that will be asked for, and their digest; both are kept.

    Raises InputError where they are unusable. Does nothing for a made workload.
    """
    if made(source) is None:
        named_sessions(source, seed)
        sessions_digest(source)


def _profile_source(text: str, source: str) -> ProfileSource:
    name, _, options = text.partition("?")
    values = key_values(options, source)
    profile = _profiles.named(name)
    count = values.pop("sessions", str(profile.sessions))
    if values:
        key = next(iter(values))
        raise InputError(f"{source}: no option {key!r}{nearest(key, ('sessions',))}")
    if not (count.isascii() and count.isdigit() and 1 <= int(count[:9]) <= _profiles.MOST_SESSIONS):
        wanted = f"expected an integer from 1 to {_profiles.MOST_SESSIONS}"
        raise InputError(f"{source}: sessions: {wanted}, got {count!r}")
    return ProfileSource(profile, int(count))


class _Stamp(NamedTuple):
    """What tells that a file is still the one that was read."""

    path: Path
    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Kept(NamedTuple):
    """Sessions that points share, frozen, and what reading them came to."""

    sessions: tuple[Session, ...]
    notes: Mapping[str, float]
    told: tuple[str, ...] = ()
    """What a person should know of the reading, in lines."""


def _stamps(source: str) -> tuple[_Stamp, ...]:
    return tuple(_stamp(file) for file in trace_files(Path(source)))


def _stamp(file: Path) -> _Stamp:
    try:
        is_now = file.stat()
    except OSError as error:
        raise InputError(Problem(error.strerror or "cannot be read", str(file))) from error
    times = is_now.st_mtime_ns, is_now.st_ctime_ns
    return _Stamp(file, is_now.st_dev, is_now.st_ino, is_now.st_size, *times)


@lru_cache(KEPT)
def _digest_of(stamps: tuple[_Stamp, ...], options: ReadOptions) -> str:
    digest = hashlib.sha256()
    for file, _, _, size, *_ in stamps:
        digest.update(f"{file.name}\n{size}\n".encode())
        for piece in raw_chunks(file):
            digest.update(piece)
    if options != ReadOptions():
        digest.update(repr(options).encode())
    return digest.hexdigest()


@lru_cache(KEPT)
def _read(source: PathSource, stamps: tuple[_Stamp, ...]) -> Kept:  # noqa: ARG001 - part of the key
    found = read_corpus(Path(source.path), source.options)
    told = [f"  {line}" for line in caveats(found.report)]
    told += [f"warning: {problem}" for problem in found.passed]
    head = headline(source.path, found.report, found.formats)
    return _kept(found.sessions, _notes(found.report), (head, *told) if told else ())


@lru_cache(KEPT)
def _made(source: ProfileSource, seed: int) -> Kept:
    return _kept(_synthetic.synthesize(source.profile, source.sessions, seed), {})


def _kept(
    sessions: tuple[Session, ...], notes: Mapping[str, float], told: tuple[str, ...] = ()
) -> Kept:
    for session in sessions:
        for turn in session.turns:
            turn.block_ids.flags.writeable = False
    return Kept(sessions, MappingProxyType(dict(notes)), told)


def _notes(report: ReadReport) -> Mapping[str, float]:
    """Every count of the report; the unknown fields as one sum."""
    names = [field.name for field in fields(report) if field.name != "unknown_fields"]
    counts = {name: float(getattr(report, name)) for name in names}
    return counts | {"unknown_fields": float(sum(report.unknown_fields.values()))}
