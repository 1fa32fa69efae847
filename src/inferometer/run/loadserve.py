"""What runs in the process that carries the load: orders come through a pipe, progress and one
report for each go back, and records into files, to be sealed by whoever gave the order.

Loads neither the database nor what reads files of people: it starts fast, and stays small.

    python -m inferometer.run.loadserve PIPE
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import selectors
import sys
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import numpy as np

from inferometer.clock import RealClock
from inferometer.core import ClientReport
from inferometer.deferred import Deferred
from inferometer.errors import InferometerError, StoreError
from inferometer.load.crew import Crew
from inferometer.load.drive import Drive
from inferometer.load.headcount import workers_for
from inferometer.load.lane import LanesConfig
from inferometer.load.worker_transport import Account, WorkerTransport
from inferometer.run.binding import bind_workload, data_of
from inferometer.run.bodies import Bodies
from inferometer.run.job import Job
from inferometer.run.order import Check, Coming, Failed, Order, Sound
from inferometer.run.recordwriter import RecordWriter
from inferometer.store import record_journal, sample_journal, sample_row
from inferometer.workload import PromptText

if TYPE_CHECKING:
    from inferometer.workload import sources as _sources
else:
    # What reads sessions: fixed lengths do without.
    _sources = Deferred("inferometer.workload.sources")

TICK_S = 0.2
LEAD_NS = 3_000_000
"""What a turn takes from its timer to its worker, where the cores were asleep, and some more."""
GONE = "the process that runs the sweep is gone"


def main() -> None:
    """The pipe's end is the argument."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a large request is a file
    with Connection(int(sys.argv[1])) as pipe:
        serve(pipe)


def serve(pipe: Connection) -> None:
    """Serve orders until the parent closes the pipe, or is gone."""
    with contextlib.closing(Crew()) as crew, contextlib.suppress(EOFError, ConnectionError):
        while True:
            order = pipe.recv()
            if isinstance(order, Check):
                pipe.send(_checked(order))
            if isinstance(order, Coming | Job):
                with contextlib.suppress(InferometerError):  # told when the order comes
                    _prepare(order, crew)
            # A stop may cross with the end of the load that it was meant for.
            if isinstance(order, Order):
                pipe.send(_carried(order, pipe, crew))


def _prepare(order: Coming | Job, crew: Crew) -> None:
    """What an order that will come needs, as far as it is known."""
    if isinstance(order, Job):
        bind_workload(order)
        return
    crew.muster(order.workers)
    if order.sessions is not None:
        _sources.prepare(order.sessions, order.seed)


def _checked(asked: Check) -> Sound | Failed:
    """What is read is kept (`workload/sources.py`): the points of a sweep share it."""
    try:
        return Sound(data_of(asked.settings, asked.limit))
    except InferometerError as error:
        return Failed(error)


def _carried(order: Order, pipe: Connection, crew: Crew) -> ClientReport | Failed:
    try:
        with asyncio.Runner(loop_factory=_loop) as runner:
            return runner.run(_carry(order, pipe, crew))
    except InferometerError as error:
        return Failed(error)
    except OSError as error:
        return Failed(StoreError(f"{order.folder}: {error.strerror or error}"))


def _loop() -> asyncio.AbstractEventLoop:
    """A loop whose timers keep to the microsecond: epoll's end up to 1 ms late. It watches a pipe
    to each worker and no connection, so select() has little to look through.
    """
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


async def _carry(order: Order, pipe: Connection, crew: Crew) -> ClientReport:
    plan, folder = order.job.plan, order.folder
    prompts = PromptText(order.prompts)
    workload = bind_workload(order.job, text=prompts, pool_tokens=order.pool_tokens)
    lanes = order.job.point.conc
    workers = crew.muster(order.workers or workers_for(lanes))
    bodies = Bodies(order.model, prompts, plan.client)
    transport = WorkerTransport(
        order.base_url, bodies.encode, plan.client, order.headers, RealClock(), workers
    )
    config = LanesConfig(
        lanes=lanes,
        tag=order.job.digest[:8],
        max_model_len=order.max_model_len,
        client=plan.client,
        workload=plan.workload,
        lead_ns=LEAD_NS,
    )
    with (
        record_journal(folder) as records,
        sample_journal(folder) as samples,
        contextlib.closing(bodies),
    ):
        drive = Drive(
            config,
            workload,
            transport,
            RealClock(),
            lambda r: writer.put(r),
            bodies.prepare,
            transport,
        )
        told = asyncio.get_running_loop().call_soon_threadsafe
        writer = RecordWriter(records, lambda why: told(drive.stop, why))
        transport.on_fault = drive.stop
        with contextlib.closing(writer):
            report = await _driven(drive, transport, pipe)
        for sample in drive.samples:
            samples.append(sample_row(sample))
        samples.flush()
    return _with_workers(report, transport.accounts)


async def _driven(drive: Drive, transport: WorkerTransport, pipe: Connection) -> ClientReport:
    """The load, told of as it goes."""
    ticker = asyncio.create_task(_talk(drive, pipe))
    # A full collection of a large workload takes tens of milliseconds: not while measuring.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        await transport.ready()
        return await drive.run()
    finally:
        gc.enable()
        gc.unfreeze()
        ticker.cancel()
        await transport.close()


async def _talk(drive: Drive, pipe: Connection) -> None:
    """Tell how it goes, and take an order to stop; with nobody to tell, stop."""
    while True:
        await asyncio.sleep(TICK_S)
        try:
            pipe.send(drive.progress())
            while pipe.poll():
                drive.stop(pipe.recv())
        except (EOFError, ConnectionError):
            drive.stop(GONE)
            return


def _with_workers(report: ClientReport, accounts: Sequence[Account]) -> ClientReport:
    """The report of the coordinator, with the CPU of each worker and the latest loop's lag."""
    start_ns, end_ns = report.window.start_ns, report.window.end_ns
    shares = (account.cpu_share(start_ns, end_ns) for account in accounts)
    known = tuple(share for share in shares if share is not None)
    report = replace(report, worker_cpu_shares=known)
    lags = [account.lags_ms(start_ns, end_ns) for account in accounts]
    worst = max((np.percentile(lag, [99, 50, 100]).tolist() for lag in lags if lag), default=None)
    if worst is None or (report.loop_lag_p99_ms or 0.0) >= worst[0]:
        return report
    p99, p50, top = worst
    return replace(report, loop_lag_p50_ms=p50, loop_lag_p99_ms=p99, loop_lag_max_ms=top)


if __name__ == "__main__":
    main()
