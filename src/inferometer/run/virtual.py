"""One point in virtual time: the same lanes and the same scheduler, no sockets and no waiting."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from inferometer.clock import NS, VirtualClock, VirtualLoop, run_virtual
from inferometer.core import ClientReport, EngineTotals, Record, Result
from inferometer.engine.place import fill
from inferometer.engine.simulated.options import EngineOptions, parse_options
from inferometer.engine.simulated.virtual import VirtualEngine
from inferometer.errors import EngineError, InputError
from inferometer.load.drive import Drive
from inferometer.load.lane import LanesConfig
from inferometer.run.binding import bind_workload
from inferometer.run.job import Job, Sweep
from inferometer.run.observer import Observer
from inferometer.run.point import STOPPED, judge
from inferometer.store import FORMAT, ClientFile, PointDir, record_row, sample_row
from inferometer.store.journal import Journal

TICKS = 50
"""How often a point's progress is told."""
LEAST_TICK_S = 0.01


def predict_point(
    sweep: Sweep,
    job: Job,
    folder: PointDir,
    observer: Observer,
    stopping: Callable[[], bool],
) -> Result:
    """Run one point of the built-in engine as fast as the CPU allows; writes the same files.

    Raises EngineError where the engine would not start, Interrupted after a stop by the user.
    """
    folder.begin(job.point, job.digest, job.plan)
    with contextlib.closing(VirtualLoop()) as loop:
        report, counted = _run(job, folder, loop, observer, stopping)
    observer.phase("judging")
    return judge(sweep, job, folder, ClientFile(FORMAT, "simulated", report, counted, None))


def _run(
    job: Job,
    folder: PointDir,
    loop: VirtualLoop,
    observer: Observer,
    stopping: Callable[[], bool],
) -> tuple[ClientReport, EngineTotals]:
    clock = VirtualClock(loop)
    options = engine_options(job)
    try:
        engine = VirtualEngine(options, clock)
    except InputError as error:
        # As in real time: this point cannot be, and the others go on.
        raise EngineError(f"the engine would not start: {error}") from None
    config = LanesConfig(
        lanes=job.point.conc,
        tag=job.digest[:8],
        max_model_len=job.point.max_model_len or options.max_model_len,
        client=job.plan.client,
        workload=job.plan.workload,
    )
    with folder.record_journal() as records, folder.sample_journal() as samples:
        drive = Drive(
            config,
            bind_workload(job, options.block_size, pool_tokens=engine.pool_tokens),
            engine,
            clock,
            lambda record: kept.append(record),  # made below: it stops what hands it over
        )
        kept = _Kept(records, drive)

        async def main() -> ClientReport:
            ticker = asyncio.create_task(_tell(drive, clock, job, observer, stopping))
            report = await drive.run()
            ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ticker
            return report

        report = run_virtual(main(), loop)
        kept.check()
        for sample in drive.samples:
            samples.append(sample_row(sample))
        samples.seal()
        records.seal()
    return report, engine.totals()


def engine_options(job: Job) -> EngineOptions:
    """The built-in engine's options of a plan; an InputError where it is another engine."""
    command, argv = ("inferometer", "engine", "simulated"), job.plan.argv
    if argv[: len(command)] != command:
        point = job.point
        raise InputError(
            f"{point.config}: only the built-in engine runs in virtual time, and this config's "
            f"framework is {point.framework!r}; its model and GPU can be predicted without files: "
            f"--model {point.model} --gpu {point.hardware} --tp {point.parallelism.tp}"
        )
    # No socket is opened: the site's values only have to be of the right form.
    site = {"port": "0", "host": "127.0.0.1", "model_path": ""}
    return parse_options(fill(argv[len(command) :], site))


class _Kept:
    """Records on their way to disk. One that cannot be written ends the load: an error raised where
    records are handed over would only be logged by the event loop, once a record.
    """

    def __init__(self, journal: Journal, drive: Drive) -> None:
        self._journal, self._drive = journal, drive
        self._error: OSError | None = None

    def append(self, record: Record) -> None:
        """Write it, unless one before it could not be written."""
        if self._error is not None:
            return
        try:
            self._journal.append(record_row(record))
        except OSError as error:
            self._error = error
            self._drive.stop(STOPPED)

    def check(self) -> None:
        """Raise the OSError that ended the load, if one did."""
        if self._error is not None:
            raise self._error


async def _tell(
    drive: Drive,
    clock: VirtualClock,
    job: Job,
    observer: Observer,
    stopping: Callable[[], bool],
) -> None:
    # Not too often: a warm-up may be far longer than the window.
    step_s = max(LEAST_TICK_S, (job.plan.workload.duration_s or 60.0) / TICKS)
    while True:
        await clock.sleep_until(clock.now_ns() + round(step_s * NS))
        observer.progress(drive.progress())
        if stopping():
            drive.stop(STOPPED)
            return
