"""What an engine prints, kept in bounded space and read while it comes.

The first part stays in `server.log`; of what comes after it the last part is kept beside, in
`server.tail.log` and the one before it. Every line is read for its meaning, dropped or not.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from inferometer.deferred import Deferred

if TYPE_CHECKING:
    from inferometer.engine import triage
    from inferometer.engine.logreport import LogReport
else:
    triage = Deferred("inferometer.engine.triage")  # not for an engine of somebody else's

HEAD_BYTES = 16 << 20
"""A start of eight ranks at debug level is a few MiB."""
TAIL_BYTES = 16 << 20
LINE_BYTES = 256 << 10
"""A piece of what comes without a newline: progress bars may write for hours without one."""


def kept_parts(log: Path) -> list[Path]:
    """The files that a log was kept in, in the order of writing; between the first and the others
    lines may be missing.
    """
    return [part for part in (log, _older(log), _tail(log)) if part.is_file()]


def _tail(log: Path) -> Path:
    return log.with_name(f"{log.stem}.tail{log.suffix}")


def _older(log: Path) -> Path:
    return log.with_name(f"{log.stem}.tail.1{log.suffix}")


class LogCapture:
    """Copies a pipe to its files in a thread. A full disk ends the copy, never the reading: an
    engine whose pipe nobody reads stands still.
    """

    def __init__(self, log: Path) -> None:
        self.problem: str | None = None
        """Why the files do not hold all that was printed."""
        self._log = log
        self._tail, self._older = _tail(log), _older(log)
        self._reader = triage.LogReader()
        self._lock = threading.Lock()
        self._written = 0
        self._head: BinaryIO | None = None
        self._thread: threading.Thread | None = None

    def start(self, read_end: int) -> None:
        """Begin; the file descriptor is ours from here on."""
        self._thread = threading.Thread(
            target=self._run, args=(os.fdopen(read_end, "rb"),), name="log", daemon=True
        )
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Wait for the end of the pipe: every process that holds it is gone."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def mark_stop(self) -> None:
        """Note in the log that what comes next is the engine's end, as asked for."""
        self._take(f"{triage.STOP_MARK}\n".encode())

    @property
    def phase(self) -> str | None:
        """How far the start has come, by what was printed."""
        with self._lock:
            return self._reader.phase

    def report(self) -> LogReport:
        """What has been printed so far."""
        with self._lock:
            return self._reader.report()

    def _run(self, pipe: BinaryIO) -> None:
        with pipe, contextlib.ExitStack() as cleanup:
            try:
                head = cleanup.enter_context(self._log.open("ab", buffering=0))
            except OSError as error:
                self._lost(error)
            else:
                with self._lock:
                    self._head = head
            for line in iter(lambda: pipe.readline(LINE_BYTES), b""):
                self._take(line)
            with self._lock:
                self._head = None

    def _take(self, line: bytes) -> None:
        with self._lock:
            self._reader.take(line, goes_on=not line.endswith(b"\n"))
            if self._head is not None:
                self._keep(self._head, line)

    def _lost(self, error: OSError) -> None:
        self.problem = f"the log could not be kept: {error.strerror}"

    def _keep(self, head: BinaryIO, line: bytes) -> None:
        if self.problem is not None:
            return
        try:
            if self._written + len(line) <= HEAD_BYTES:
                head.write(line)
                self._written += len(line)
            else:
                self._written = HEAD_BYTES
                self._keep_tail(line)
        except OSError as error:
            self._lost(error)

    def _keep_tail(self, line: bytes) -> None:
        if self._tail.exists() and self._tail.stat().st_size + len(line) > TAIL_BYTES:
            self._tail.replace(self._older)
        with self._tail.open("ab") as tail:
            tail.write(line)
