"""The process that carries the load, seen from the one with the screen, the scrapes and the files
of the sweep: whatever those do, they do not delay a send or an arrival.

One process serves all points of a sweep in turn (`loadserve`). Orders go in, progress and one
report come out; records go straight to the point's directory.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import subprocess
from collections.abc import Iterator
from multiprocessing import Pipe
from typing import TYPE_CHECKING

from inferometer.core import WorkloadSettings
from inferometer.deferred import Deferred
from inferometer.errors import InferometerError, InputError
from inferometer.load.bare import start_bare
from inferometer.load.headcount import workers_for

if TYPE_CHECKING:
    from inferometer.run import order as _order
    from inferometer.run.job import Job
else:
    # The process is started before what it will be sent is imported.
    _order = Deferred("inferometer.run.order")

FILES_A_LANE = 2
"""Sub-agents run beside their parents: about twice as many requests as lanes are open at times."""
OTHER_FILES = 64
CHECK_S = 60.0
CLOSE_S = 5.0
"""How long the process may take to close its files once it is told to end."""
ABANDON_S = 1.0
"""The same after a fault."""


class LoadProcess:
    """Starts at once, serves one order after the other, ends with `close`, or with its parent."""

    def __init__(self) -> None:
        self._begun = False
        self._pipe, child = Pipe()
        with _signals_ignored(), child:
            self._process = start_bare("inferometer.run.loadserve", child.fileno())

    def begin(self, order: _order.Order) -> None:
        """Carry a load; its messages come through `poll`."""
        self._begun = True
        self._send(order)

    def prepare(self, workers: int, sessions: str | None, seed: int) -> None:
        """An order for these sessions will come: workers are started and data is read meanwhile."""
        self._send(_order.Coming(workers, sessions, seed))

    def check(self, settings: WorkloadSettings, limit: int | None) -> tuple[str, ...]:
        """Read the data of a workload, once for all: it is kept there for the points to come.

        What a person should know of it where a model takes `limit` tokens, in lines. Raises
        InputError where it is unusable.
        """
        self._send(_order.Check(settings, limit))
        while (answer := self._next(CHECK_S)) is None:
            pass
        if isinstance(answer, _order.Failed):
            raise answer.error
        assert isinstance(answer, _order.Sound)
        return answer.told

    def expect(self, job: Job) -> None:
        """An order for this point will come: its sessions are read meanwhile."""
        self._send(job)

    def stop(self, reason: str) -> None:
        """End the load early; the report still comes."""
        self._send(reason)

    def poll(self, timeout_s: float) -> _order.Message | None:
        """The next message; None when none came in time. InferometerError: the process is gone."""
        message = self._next(timeout_s)
        assert not isinstance(message, _order.Sound)
        return message

    def _next(self, timeout_s: float) -> _order.Message | _order.Sound | None:
        try:
            if not self._pipe.poll(timeout_s):
                return None
            message: _order.Message | _order.Sound = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise self._gone() from None
        return message

    def close(self, patience_s: float = CLOSE_S) -> None:
        """End the process: the end of its pipe tells it to, and `patience_s` later a signal."""
        self._pipe.close()
        if self._ended(patience_s) is None:
            self._process.kill()
            self._process.wait()

    def abandon(self) -> None:
        """End it after a fault: at once where it carried nothing, as it may be reading for long."""
        self.close(ABANDON_S if self._begun else 0.0)

    def _send(self, message: _order.Order | _order.Coming | _order.Check | Job | str) -> None:
        try:
            self._pipe.send(message)
        except ConnectionError:
            raise self._gone() from None

    def _gone(self) -> InferometerError:
        return InferometerError(
            f"the process that carries the load ended by itself (exit code {self._ended()}); "
            "what it recorded is kept, and the same command measures the point again"
        )

    def _ended(self, patience_s: float = CLOSE_S) -> int | None:
        """Its exit code, once it has ended; it is given a while."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        return self._process.returncode


@contextlib.contextmanager
def load_process() -> Iterator[LoadProcess]:
    """A process for the loads of a sweep."""
    load = LoadProcess()
    try:
        yield load
    except BaseException:
        load.abandon()
        raise
    load.close()


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
