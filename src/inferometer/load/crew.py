"""The worker processes of a load, seen from the coordinator: started once, used by every point.

A worker is a bare process with one end of a socket pair; the end of the pair ends it. All methods
are for the thread of the running event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import Callable
from typing import Any

from inferometer.errors import InferometerError
from inferometer.load.bare import start_bare
from inferometer.load.outbox import Message
from inferometer.load.wire import FrameReader, FrameWriter

CLOSE_S = 5.0


class WorkerEnd:
    """The coordinator's end of one worker: messages go out in batches, and come in as they come."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            self._process = start_bare("inferometer.load.worker", theirs.fileno())
        self._sock = ours
        self._reader = FrameReader(ours)
        self._writer = FrameWriter(ours)
        self._batch: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_message: Callable[[Message], None] = _ignore
        self._on_death: Callable[[WorkerEnd], None] = _ignore
        self.open = 0
        """Requests it has."""
        self.alive = True

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def attach(
        self,
        on_message: Callable[[Message], None],
        on_death: Callable[[WorkerEnd], None],
    ) -> None:
        """Serve the running loop from now on."""
        self._loop = asyncio.get_running_loop()
        self._on_message, self._on_death = on_message, on_death
        self._loop.add_reader(self._sock, self._on_readable)

    def detach(self) -> None:
        """Serve no loop; what comes waits."""
        if self._loop is not None:
            self._flush()
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._loop = None
        self._on_message = self._on_death = _ignore

    def send(self, message: Any) -> None:
        """Leaves with all else that this turn of the loop has for the worker."""
        assert self._loop is not None
        if not self._batch:
            self._loop.call_soon(self._flush)
        self._batch.append(message)

    def why_it_ended(self) -> str:
        """Of a worker that is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_S)
        return f"a worker of the load ended by itself (exit code {self._process.returncode})"

    def close(self) -> None:
        """End the process."""
        self.detach()
        self._sock.close()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _flush(self) -> None:
        if self._loop is None:
            return
        if self._batch:
            self._writer.add(self._batch)
            self._batch = []
        try:
            done = self._writer.flush()
        except OSError:
            self._died()
            return
        if done:
            self._loop.remove_writer(self._sock)
        else:
            self._loop.add_writer(self._sock, self._flush)

    def _on_readable(self) -> None:
        messages = self._reader.read()
        if messages is None:
            self._died()
            return
        for message in messages:
            self._on_message(message)

    def _died(self) -> None:
        if not self.alive:
            return
        self.alive = False
        told = self._on_death
        self._batch = []
        if self._loop is not None:
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
        told(self)


class Crew:
    """Workers, as many as the largest load so far needed. To be closed."""

    def __init__(self) -> None:
        self._ends: list[WorkerEnd] = []

    def muster(self, count: int) -> list[WorkerEnd]:
        """`count` living workers; the dead are replaced. Raises InferometerError."""
        for end in [end for end in self._ends if not end.alive]:
            end.close()
            self._ends.remove(end)
        try:
            while len(self._ends) < count:
                self._ends.append(WorkerEnd())
        except OSError as error:
            raise InferometerError(f"no worker of the load could be started: {error}") from None
        return self._ends[:count]

    def close(self) -> None:
        """End every worker."""
        for end in self._ends:
            end.close()
        self._ends.clear()


def _ignore(_: object) -> None:
    """Nobody is there to be told."""
