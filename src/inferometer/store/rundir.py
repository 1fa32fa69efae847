"""A run's directory and its points': what is written when, and what is never overwritten."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from inferometer.core import (
    ClientReport,
    EngineTotals,
    GpuRelease,
    GpuReport,
    LaunchPlan,
    MetricsReport,
    Point,
    Record,
    Result,
    Sample,
)
from inferometer.core.result import Provenance
from inferometer.errors import StoreError
from inferometer.store.format import FORMAT, load_json
from inferometer.store.journal import Journal
from inferometer.store.records import (
    read_records,
    read_samples,
    record_journal,
    sample_journal,
    seal_records,
)
from inferometer.store.series import RequestWords, SeriesMap, read_series, read_words
from inferometer.store.table import RequestTable, read_table

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Versions:
    """What made the run."""

    inferometer: str
    measurement: int
    python: str
    git: str | None
    packages: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """One point the run means to measure."""

    id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`run.json`: what the run is. Its points are exactly these, in this order."""

    format: int
    id: str
    title: str
    created_at: str
    command: str
    clock: Literal["real", "virtual"]
    base_url: str | None
    """Of an engine that was up already; None where each point started its own."""
    seed: int
    versions: Versions
    machine: Mapping[str, str]
    sources: Mapping[str, str]
    """Config, runner and recipe files by path → SHA-256."""
    points: tuple[PlannedPoint, ...]


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """`launch.json`."""

    format: int
    point: Point
    digest: str
    plan: LaunchPlan


@dataclass(frozen=True, slots=True)
class ClientFile:
    """`client.json`: the client's account of itself, and the engine's own totals."""

    format: int
    provenance: Provenance
    """Simulated where the engine that answered says so of itself."""
    client: ClientReport
    totals: EngineTotals | None
    engine_died: str | None
    gpus: GpuReport | None = None
    """None in virtual time, where there are none."""
    image_digest: str | None = None
    """Of the image that ran; None outside of a container."""
    metrics: MetricsReport | None = None
    """None in virtual time, where there is no page."""
    log_problem: str | None = None
    """Why the kept log of the engine is not whole."""
    engine_version: str | None = None
    """As the engine tells it; None where it does not."""
    release: GpuRelease | None = None
    """Memory of the GPUs before the engine and after its end; None where none was started here."""
    left: tuple[int, ...] = ()
    """Processes of the engine that would not end."""


class PointDir:
    """One point's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def done(self) -> bool:
        """True once `result.json` is there."""
        return (self.path / "result.json").exists()

    @property
    def server_log(self) -> Path:
        """Where the engine's output goes."""
        return self.path / "server.log"

    def begin(self, point: Point, digest: str, plan: LaunchPlan) -> None:
        """Make room: what an earlier attempt left is moved aside, never overwritten."""
        if self.done:
            raise StoreError(f"{self.path}: this point is done; not overwritten")
        if self.path.exists():
            self.path.rename(_free_name(self.path))
        self.path.mkdir(parents=True)
        write_json(self.path / "launch.json", LaunchFile(FORMAT, point, digest, plan))

    def record_journal(self) -> Journal:
        """Where records go as they finish."""
        return record_journal(self.path)

    def sample_journal(self) -> Journal:
        """Where samples go."""
        return sample_journal(self.path)

    def seal_records(self) -> None:
        """The load is over: its records become one parquet file."""
        seal_records(self.path)

    def write_client(self, file: ClientFile) -> None:
        """After the load."""
        write_json(self.path / "client.json", file)

    def write_page(self, which: Literal["first", "last"], text: str) -> None:
        """A metrics page of the engine as it was read, before the load or after it."""
        (self.path / f"metrics.{which}.txt").write_text(text, "utf-8")

    def write_failure(self, message: str) -> None:
        """The point could not be measured: why. A later run tries it again."""
        write_json(self.path / "failure.json", {"format": FORMAT, "error": message})

    def failure(self) -> str | None:
        """Why the point could not be measured; None where it was, or was never tried."""
        path = self.path / "failure.json"
        return str(load_json(path)["error"]) if path.exists() else None

    def finish(self, result: Result) -> None:
        """Verdict, then the result: last and atomic."""
        write_json(self.path / "verdict.json", {"format": FORMAT, "verdict": result.verdict})
        write_json(self.path / "result.json", result)

    def launch(self) -> LaunchFile:
        """What was launched."""
        return read_json(self.path / "launch.json", LaunchFile)

    def client(self) -> ClientFile:
        """The client's account of itself."""
        return read_json(self.path / "client.json", ClientFile)

    def result(self) -> Result:
        """The point's row."""
        return read_json(self.path / "result.json", Result)

    def records(self) -> list[Record]:
        """Every request, also of a point that was cut short."""
        return read_records(self.path)

    def requests(self, *, sessions: bool) -> RequestTable:
        """Every request as arrays, events apart and read in batches: for an analysis, of a point
        whose load has ended. Without `sessions` they are not told apart.
        """
        return read_table(self.path / "records.parquet", sessions=sessions)

    def words(self) -> RequestWords:
        """Who asked, of every request, in the order of `requests`."""
        return read_words(self.path / "records.parquet")

    def series(self, names: Iterable[str], first_ns: int, last_ns: int) -> SeriesMap:
        """The named series between two times, by name and labels."""
        return read_series(self.path / "samples.parquet", names, first_ns, last_ns)

    def samples(self) -> list[Sample]:
        """Every sample, also of a point that was cut short."""
        return read_samples(self.path)


class RunDir:
    """One run's directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """True where a run was begun."""
        return (self.path / "run.json").exists()

    def begin(self, manifest: Manifest) -> None:
        """A new run."""
        (self.path / "points").mkdir(parents=True)
        write_json(self.path / "run.json", manifest)

    def replan(self, manifest: Manifest) -> None:
        """The same run with other plans for points that have no result yet."""
        write_json(self.path / "run.json", manifest)

    def manifest(self) -> Manifest:
        """What the run is."""
        if not self.exists:
            runs = sorted(found.parent.name for found in self.path.glob("*/run.json"))
            hint = f"; it holds runs: {', '.join(runs)}" if runs else ""
            raise StoreError(f"{self.path}: no run.json; not the directory of a run{hint}")
        return read_json(self.path / "run.json", Manifest)

    def point(self, point_id: str) -> PointDir:
        """One point's directory, there or not."""
        return PointDir(self.path / "points" / point_id)

    def finished(self) -> Iterator[PointDir]:
        """Points that are done, in the planned order."""
        for planned in self.manifest().points:
            if (folder := self.point(planned.id)).done:
                yield folder

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One process writes a run at a time; the lock ends with the process.

        Raises StoreError, and touches nothing, where the directory holds something else.
        """
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path}: is no directory; choose another one")
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.exists and any(p.name != "run.lock" for p in self.path.iterdir()):
            raise StoreError(f"{self.path}: not empty, and not a run; choose another directory")
        with (self.path / "run.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(f"{self.path}: another process is writing this run") from None
            yield


def write_json(path: Path, value: Any) -> None:
    """Write atomically: the file is there whole or not at all."""
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_json(path: Path, kind: type[T]) -> T:
    """Read back, checked: missing, unknown and mistyped fields are errors that name the file.

    What was understood, written out again, must be what was read: nothing is dropped in silence.
    """
    data = load_json(path)
    try:
        value = _adapter(kind).validate_json(orjson.dumps(data))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{path}: {place}: {first['msg']}") from None
    if (stray := _difference(data, orjson.loads(orjson.dumps(value)))) is not None:
        raise StoreError(f"{path}: {stray}: unknown to this version")
    return value


def _difference(read: Any, understood: Any) -> str | None:
    """The dotted path of the first thing in `read` that is not in `understood`; None if equal."""
    if isinstance(read, dict) and isinstance(understood, dict):
        for key in read:
            if key not in understood:
                return str(key)
            if (place := _difference(read[key], understood[key])) is not None:
                return f"{key}.{place}".rstrip(".")
        return None
    if isinstance(read, list) and isinstance(understood, list) and len(read) == len(understood):
        pairs = enumerate(zip(read, understood, strict=True))
        found = ((i, _difference(a, b)) for i, (a, b) in pairs)
        return next((f"{i}.{place}" for i, place in found if place is not None), None)
    return None if read == understood else ""


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.attempt-{number}")).exists():
        number += 1
    return name
