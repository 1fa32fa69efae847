"""Writes records while a load runs, in a thread: no file and no encoding delays a send.

The load's loop only hands records over. They are written a few times a second, in the order in
which they came; a failure to write is told to the loop by `failure`, once.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable

from inferometer.core import Record
from inferometer.store import Journal, record_rows
from inferometer.store.events import batch_sizes

TICK_S = 0.25
"""How old a record is at most when it is written, and what a kill may take. To wake costs more than
to write one; and of several together each costs a third.
"""
AT_ONCE = 1 << 14
"""Events that are encoded together."""
SWITCH_S = 0.0002
"""How long the loop may wait for the thread to let go of the interpreter."""


class RecordWriter:
    """Appends to an open journal from a thread of its own. `close` before the journal is sealed."""

    def __init__(self, journal: Journal, on_failure: Callable[[str], object]) -> None:
        self._journal = journal
        self._on_failure = on_failure
        self._waiting: queue.SimpleQueue[Record] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._failed = False
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        self._thread = threading.Thread(target=self._run, name="records")
        self._thread.start()

    def put(self, record: Record) -> None:
        """One more; returns at once."""
        self._waiting.put(record)

    def close(self) -> None:
        """Write what is left, and end the thread."""
        self._closing.set()
        self._thread.join()
        sys.setswitchinterval(self._switch_s)

    def _run(self) -> None:
        last = False
        while not last:
            last = self._closing.wait(TICK_S)
            try:
                self._write()
            except OSError as error:
                if not self._failed:
                    self._failed = True
                    self._on_failure(f"records cannot be written: {error.strerror}")

    def _write(self) -> None:
        """All that waits now; what comes meanwhile is for the next time."""
        waiting = [self._waiting.get() for _ in range(self._waiting.qsize())]
        if not waiting and not self._failed:
            return
        start = 0
        for size in batch_sizes([len(record.exchange.arrivals) for record in waiting], AT_ONCE):
            for row in record_rows(waiting[start : start + size]):
                self._journal.append(row)
            start += size
        self._journal.flush()
