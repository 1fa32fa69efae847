"""The process that carries the load, apart from the one with the screen, the scrapes and the files
of the sweep: whatever those do, they do not delay a send or an arrival.

One process serves all points of a sweep in turn. Orders go in, progress and one report come out;
records go straight to the point's directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import multiprocessing.connection
import resource
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from inferometer.clock import RealClock
from inferometer.core import ClientReport, Request
from inferometer.errors import InferometerError, InputError, StoreError
from inferometer.load.crew import Crew, workers_for
from inferometer.load.drive import Drive, Progress
from inferometer.load.endpoints import ENDPOINTS
from inferometer.load.lanes import LanesConfig
from inferometer.load.worker_transport import Account, WorkerTransport
from inferometer.run.binding import bind_workload
from inferometer.run.job import Job
from inferometer.run.recordwriter import RecordWriter
from inferometer.store import PointDir, sample_row
from inferometer.workload import PromptRules, PromptText

TICK_S = 0.2
FILES_A_LANE = 2
"""Sub-agents run beside their parents: about twice as many requests as lanes are open at times."""
OTHER_FILES = 64
CLOSE_S = 5.0
"""How long the process may take to close its files once it is told to end."""
GONE = "the process that runs the sweep is gone"


@dataclass(frozen=True, slots=True)
class Order:
    """One load to carry: the point, where its engine answers, and where its records go."""

    job: Job
    base_url: str
    model: str
    max_model_len: int | None
    """The plan's context limit, else what the engine itself says; a longer turn is not sent."""
    folder: Path
    prompts: PromptRules
    headers: Mapping[str, str]
    workers: int | None
    """As in `Sweep`."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The load could not be carried: a mistake in the input, or a full disk."""

    error: InferometerError


Message = Progress | ClientReport | Failed


class LoadProcess:
    """Starts at once, serves one order after the other, ends with `close`, or with its parent."""

    def __init__(self) -> None:
        # Spawned, not forked: the parent has threads, and a fork would copy their locks.
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(child,), name="load", daemon=True)
        with _signals_ignored():
            self._process.start()
        child.close()

    def begin(self, order: Order) -> None:
        """Carry a load; its messages come through `poll`."""
        self._send(order)

    def expect(self, job: Job) -> None:
        """An order for this point will come: its sessions are read meanwhile."""
        self._send(job)

    def stop(self, reason: str) -> None:
        """End the load early; the report still comes."""
        self._send(reason)

    def poll(self, timeout_s: float) -> Message | None:
        """The next message; None when none came in time. InferometerError: the process is gone."""
        try:
            if not self._pipe.poll(timeout_s):
                return None
            message: Message = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise self._gone() from None
        return message

    def close(self) -> None:
        """End the process: the end of its pipe tells it to."""
        self._pipe.close()
        self._process.join(CLOSE_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _send(self, message: Order | Job | str) -> None:
        try:
            self._pipe.send(message)
        except ConnectionError:
            raise self._gone() from None

    def _gone(self) -> InferometerError:
        self._process.join(CLOSE_S)
        code = self._process.exitcode
        return InferometerError(
            f"the process that carries the load ended by itself (exit code {code}); "
            "what it recorded is kept, and the same command measures the point again"
        )


@contextlib.contextmanager
def _signals_ignored() -> Iterator[None]:
    """What is started inside ignores these signals from its first instruction on: they reach the
    whole process group, and it is the parent that decides what they mean.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def check_open_files(lanes: int, workers: int | None = None) -> None:
    """Raises InputError where this user may not open as many connections as the lanes may need."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    share = -(-lanes // (workers or workers_for(lanes)))
    needed = FILES_A_LANE * share + OTHER_FILES
    if most != resource.RLIM_INFINITY and needed > most:
        raise InputError(
            f"a concurrency of {lanes} may need {needed} open files in a process, and the limit is "
            f"{most}; raise it (ulimit -Hn), ask for fewer lanes, or for more --workers"
        )


def _serve(pipe: multiprocessing.connection.Connection) -> None:
    """Serve orders until the parent closes the pipe, or is gone."""
    with contextlib.closing(Crew()) as crew, contextlib.suppress(EOFError, ConnectionError):
        while True:
            order = pipe.recv()
            if isinstance(order, Job):
                with contextlib.suppress(InferometerError):  # told when the order comes
                    bind_workload(order)
            # A stop may cross with the end of the load that it was meant for.
            if isinstance(order, Order):
                pipe.send(_carried(order, pipe, crew))


def _carried(
    order: Order, pipe: multiprocessing.connection.Connection, crew: Crew
) -> ClientReport | Failed:
    try:
        return asyncio.run(_carry(order, pipe, crew))
    except InferometerError as error:
        return Failed(error)
    except OSError as error:
        return Failed(StoreError(f"{order.folder}: {error.strerror or error}"))


async def _carry(
    order: Order, pipe: multiprocessing.connection.Connection, crew: Crew
) -> ClientReport:
    plan, folder = order.job.plan, PointDir(order.folder)
    prompts = PromptText(order.prompts)
    workload = bind_workload(order.job, text=prompts)
    lanes = order.job.point.conc
    workers = crew.muster(order.workers or workers_for(lanes))
    transport = WorkerTransport(
        order.base_url, _encoder(order, prompts), plan.client, order.headers, RealClock(), workers
    )
    config = LanesConfig(
        lanes=lanes,
        tag=order.job.digest[:8],
        max_model_len=order.max_model_len,
        client=plan.client,
        workload=plan.workload,
    )
    with folder.record_journal() as records, folder.sample_journal() as samples:
        drive = Drive(
            config, workload, transport, RealClock(), lambda r: writer.put(r), prompts.prepare
        )
        told = asyncio.get_running_loop().call_soon_threadsafe
        writer = RecordWriter(records, lambda why: told(drive.stop, why))
        transport.on_fault = drive.stop
        with contextlib.closing(writer):
            report = await _driven(drive, transport, pipe)
        for sample in drive.samples:
            samples.append(sample_row(sample))
        samples.flush()
        records.seal()
    return _with_workers(report, transport.accounts)


def _encoder(order: Order, prompts: PromptText) -> Callable[[Request], bytes]:
    """What makes a request's body."""
    settings = order.job.plan.client
    endpoint = ENDPOINTS[settings.endpoint]

    def encode(request: Request) -> bytes:
        content = prompts.take(request.prompt)
        return endpoint.body(order.model, content, request, settings)

    return encode


async def _driven(
    drive: Drive, transport: WorkerTransport, pipe: multiprocessing.connection.Connection
) -> ClientReport:
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


async def _talk(drive: Drive, pipe: multiprocessing.connection.Connection) -> None:
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
