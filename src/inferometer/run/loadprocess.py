"""The process that carries the load, apart from the one with the screen, the scrapes and the files
of the sweep: whatever those do, they do not delay a send or an arrival.

One process serves all points of a sweep in turn. Orders go in, progress and one report come out;
records go straight to the point's directory.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import multiprocessing.connection
import signal
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from inferometer.clock import RealClock
from inferometer.core import ClientReport, Request
from inferometer.errors import InferometerError
from inferometer.load.drive import Drive, Progress
from inferometer.load.endpoints import chat_body, completions_body
from inferometer.load.lanes import LanesConfig
from inferometer.load.socket_transport import SocketTransport
from inferometer.run.binding import bind_workload
from inferometer.run.job import Job
from inferometer.store import PointDir, record_row, sample_row
from inferometer.workload.prompts import PromptText

TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class Order:
    """One load to carry: the point, where its engine answers, and where its records go."""

    job: Job
    base_url: str
    model: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Failed:
    """The load could not be carried: a mistake in the input, or a full disk."""

    error: InferometerError


Message = Progress | ClientReport | Failed


class LoadProcess:
    """Starts with the first order, ends with `close`."""

    def __init__(self) -> None:
        # Spawned, not forked: the parent has threads, and a fork would copy their locks.
        context = multiprocessing.get_context("spawn")
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(child,), name="load", daemon=True)
        self._process.start()
        child.close()

    def begin(self, order: Order) -> None:
        """Carry a load; its messages come through `poll`."""
        self._pipe.send(order)

    def stop(self, reason: str) -> None:
        """End the load early; the report still comes."""
        self._pipe.send(reason)

    def poll(self, timeout_s: float) -> Message | None:
        """The next message; None when none came in time."""
        if not self._pipe.poll(timeout_s):
            return None
        message: Message = self._pipe.recv()
        return message

    def close(self) -> None:
        """End the process."""
        if self._process.is_alive():
            self._pipe.send(None)
            self._process.join(5.0)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        self._pipe.close()


def _serve(pipe: multiprocessing.connection.Connection) -> None:
    # Ctrl-C reaches the whole process group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while isinstance(order := pipe.recv(), Order):
        try:
            pipe.send(asyncio.run(_carry(order, pipe)))
        except InferometerError as error:
            pipe.send(Failed(error))


async def _carry(order: Order, pipe: multiprocessing.connection.Connection) -> ClientReport:
    plan, folder = order.job.plan, PointDir(order.folder)
    clock = RealClock()
    workload = bind_workload(order.job)
    prompts = lru_cache(PromptText)
    body = chat_body if plan.client.endpoint == "chat" else completions_body

    def encode(request: Request) -> bytes:
        text = prompts(request.prompt.block_size).text(request.prompt)
        return body(order.model, text, request, plan.client)

    transport = SocketTransport(order.base_url, encode, plan.client, {}, clock)
    config = LanesConfig(
        lanes=order.job.point.conc,
        tag=order.job.digest[:8],
        max_model_len=order.job.point.max_model_len,
        client=plan.client,
        workload=plan.workload,
    )
    with folder.record_journal() as records, folder.sample_journal() as samples:
        drive = Drive(
            config, workload, transport, clock, lambda record: records.append(record_row(record))
        )
        ticker = asyncio.create_task(_talk(drive, pipe))
        # A full collection of a large workload takes tens of milliseconds: not while measuring.
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            report = await drive.run()
        finally:
            gc.enable()
            gc.unfreeze()
            ticker.cancel()
            await transport.close()
        for sample in drive.samples:
            samples.append(sample_row(sample))
        samples.flush()
        records.seal()
    return report


async def _talk(drive: Drive, pipe: multiprocessing.connection.Connection) -> None:
    """Tell how it goes, and take an order to stop."""
    while True:
        await asyncio.sleep(TICK_S)
        pipe.send(drive.progress())
        while pipe.poll():
            drive.stop(pipe.recv())
