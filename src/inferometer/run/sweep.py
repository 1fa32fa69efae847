"""A sweep: its points one after the other, each kept before the next begins; resumes, never
repeats. A point that could not be measured is noted and tried again by the next run.
"""

from __future__ import annotations

import platform
import shutil
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from inferometer import MEASUREMENT_VERSION, __version__
from inferometer.core import LaunchPlan, Result
from inferometer.deferred import Deferred
from inferometer.errors import EngineError, Interrupted, StoreError
from inferometer.observe import machine
from inferometer.run.binding import data_of
from inferometer.run.job import Job, Sweep
from inferometer.run.loadprocess import LoadProcess, check_open_files, load_process
from inferometer.run.observer import Observer
from inferometer.run.point import measure_point
from inferometer.run.prompting import rules_of
from inferometer.run.reuse import hold_again, take_over
from inferometer.store import FORMAT, Manifest, PlannedPoint, PointDir, RunDir, Versions

if TYPE_CHECKING:
    from inferometer.audit import Stored
    from inferometer.run import virtual
else:
    # The built-in engine, which a sweep in real time does not need in this process.
    virtual = Deferred("inferometer.run.virtual")

PACKAGES = ("numpy", "duckdb", "aiohttp", "orjson", "pydantic")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sweep came to."""

    results: tuple[Result, ...]
    failed: tuple[str, ...]


def run_sweep(
    sweep: Sweep,
    run: RunDir,
    observer: Observer,
    reuse: Mapping[str, Stored] | None = None,
    load: LoadProcess | None = None,
) -> Outcome:
    """Measure every point that is not done yet. `reuse`: results of other runs by digest; the valid
    ones are taken over. `load`: a process that was started ahead.

    Raises InputError when the data of a workload is unusable, before anything is started or
    written; StoreError when the directory holds another sweep; Interrupted after Ctrl-C.
    """
    if sweep.clock == "real":
        check_open_files(max(job.point.conc for job in sweep.jobs), sweep.workers)
    with _carrier(sweep, load) as carrier:
        _check(sweep, carrier, observer)
        with run.lock(), _stop_flag() as stop:
            _open(sweep, run)
            for job in sweep.jobs:
                _take_what_is_there(sweep, job, run.point(job.point.id), reuse or {})
            todo = [job for job in sweep.jobs if not run.point(job.point.id).done]
            observer.begin(sweep.jobs, len(sweep.jobs) - len(todo))
            try:
                failed = _points(sweep, run, todo, observer, stop, carrier)
            finally:
                observer.end()
            return Outcome(tuple(folder.result() for folder in run.finished()), tuple(failed))


def _take_what_is_there(
    sweep: Sweep, job: Job, folder: PointDir, reuse: Mapping[str, Stored]
) -> None:
    found = reuse.get(job.digest)
    if folder.done:
        hold_again(sweep, job, folder)
    elif found and found.verdict == "valid":
        take_over(sweep, job, found, folder)


def _carrier(sweep: Sweep, load: LoadProcess | None) -> AbstractContextManager[LoadProcess | None]:
    """The process that carries the load; none in virtual time."""
    return load_process() if sweep.clock == "real" and load is None else nullcontext(load)


def _check(sweep: Sweep, load: LoadProcess | None, observer: Observer) -> None:
    """Raise InputError where the data of a workload, or a tokenizer, is unusable; tell what a
    person should know of the data, once.

    Recorded sessions are read where they will be sent from: once, and not here as well.
    """
    wanted = [(job.plan.workload, _limit(job, load)) for job in sweep.jobs]
    told = []
    for settings, limit in dict.fromkeys(wanted):
        if load is None or settings.kind == "fixed":
            told.append(data_of(settings, limit))
        else:
            told.append(load.check(settings, limit))
    if load is not None:
        for job in sweep.jobs:
            rules_of(job.plan)  # of each tokenizer once
    for lines in filter(None, dict.fromkeys(told)):
        observer.data(lines)


def _limit(job: Job, load: LoadProcess | None) -> int | None:
    """The context limit that turns will be held against; None where only the engine knows it."""
    if job.point.max_model_len is None and load is None:
        return virtual.engine_options(job).max_model_len
    return job.point.max_model_len


def _points(
    sweep: Sweep,
    run: RunDir,
    todo: list[Job],
    observer: Observer,
    stop: StopFlag,
    load: LoadProcess | None,
) -> list[str]:
    failed = []
    for job in todo:
        if stop.asked:
            raise Interrupted("stopped by the user")
        observer.point(job)
        folder = run.point(job.point.id)
        try:
            if load is None:
                result = virtual.predict_point(sweep, job, folder, observer, lambda: stop.asked)
            else:
                result = measure_point(sweep, job, folder, load, observer, lambda: stop.asked)
        except EngineError as error:
            folder.write_failure(str(error))
            observer.failed(job, str(error))
            failed.append(job.point.id)
        else:
            observer.result(job, result)
    return failed


def _open(sweep: Sweep, run: RunDir) -> None:
    """Begin the run, or see that it is this very sweep that is resumed.

    A point that has no result yet may be planned otherwise than before: its recipe was mended.
    """
    planned = tuple(PlannedPoint(job.point.id, job.digest) for job in sweep.jobs)
    if not run.exists:
        run.begin(_manifest(sweep, planned))
        return
    held = run.manifest()
    if (other := _difference(held, sweep, planned, run)) is not None:
        raise StoreError(
            f"{run.path}: holds another sweep ({held.title}, {len(held.points)} points, {other}); "
            "choose another --out"
        )
    if held.points != planned:
        # What is written says what the points to come are measured by.
        now = _manifest(sweep, planned)
        run.replan(replace(now, id=held.id, created_at=held.created_at))


def _difference(
    held: Manifest, sweep: Sweep, planned: tuple[PlannedPoint, ...], run: RunDir
) -> str | None:
    """Why what is held is not this sweep; None where it is."""
    if held.clock != sweep.clock:
        return f"in {held.clock} time"
    if held.base_url != sweep.base_url:
        return f"of {_engine(held.base_url)}"
    before, now = {p.id: p.digest for p in held.points}, {p.id: p.digest for p in planned}
    for name in [*now, *before]:
        if name not in before:
            return f"without {name}"
        if name not in now:
            return f"with {name}"
        if before[name] != now[name] and run.point(name).done:
            return (
                f"{name} resolved otherwise{_changed(run.point(name).launch().plan, sweep, name)}"
            )
    return None if list(before) == list(now) else "in another order"


def _changed(held: LaunchPlan, sweep: Sweep, name: str) -> str:
    """The first value of a plan that is not as it was, with both."""
    plan = next(job.plan for job in sweep.jobs if job.point.id == name)
    before, now = asdict(held), asdict(plan)
    for section in ("workload", "client"):
        for key, value in before[section].items():
            if now[section][key] != value:
                return f": {section}.{key} was {value}, is {now[section][key]}"
    for key in ("image", "argv", "env", "files", "router"):
        if now[key] != before[key]:
            return f": its {key} differs"
    return ""


def _engine(base_url: str | None) -> str:
    return "engines of its own" if base_url is None else f"the engine at {base_url}"


def _manifest(sweep: Sweep, planned: tuple[PlannedPoint, ...]) -> Manifest:
    now = datetime.now(UTC)
    return Manifest(
        format=FORMAT,
        id=f"{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}",
        title=sweep.title,
        created_at=now.isoformat(timespec="seconds"),
        command=sweep.command,
        clock=sweep.clock,
        base_url=sweep.base_url,
        seed=sweep.jobs[0].plan.workload.seed,
        versions=Versions(
            inferometer=__version__,
            measurement=MEASUREMENT_VERSION,
            python=platform.python_version(),
            git=_git_state(),
            packages={name: version(name) for name in PACKAGES},
        ),
        machine=machine.describe(),
        sources=dict(sweep.sources),
        points=planned,
    )


def _git_state() -> str | None:
    """Commit of this package's own checkout, `+` where it has changes; None outside one."""
    git, here = shutil.which("git"), Path(__file__).resolve().parent
    if git is None:
        return None
    command = [git, "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


class StopFlag:
    """Set by the first Ctrl-C; the second is an ordinary KeyboardInterrupt."""

    def __init__(self) -> None:
        self.asked = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def _stop_flag() -> Iterator[StopFlag]:
    """Ctrl-C, SIGTERM and a lost terminal ask for a stop at the next safe place."""
    flag = StopFlag()
    before = {
        number: signal.signal(number, flag.handle)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
