"""Start a launch plan as a local process, wait until it serves, stop it for certain.

Does not know what the engine is: health, model list, exit code and log are all it looks at. It
only ever ends the process group that it started, and does so even where it is itself killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from inferometer.engine.ask import healthy, served_models
from inferometer.engine.capture import LogCapture
from inferometer.errors import EngineError

POLL_S = 0.05
STOP_S = 10.0
"""After SIGTERM, how long before SIGKILL."""
TAIL_LINES = 5
DRAIN_S = 1.0
"""For the last words of an engine that has ended to come through its pipe."""

# A process group outlives whoever started it: after a kill -9 of ours an engine would hold its port
# and its GPUs for ever. So a shell waits at a pipe of ours. A line says that the engine is stopped;
# the end of the pipe without one, that we are gone.
GUARD = """
read -r stopped && exit 0
group=$1
shift
kill -s TERM -- "-$group"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 1
    kill -s 0 -- "-$group" || break
done
kill -s KILL -- "-$group"
if [ $# -gt 0 ]; then "$@"; fi
"""
CLEANUP_S = 60.0


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. `name` is for messages; `cleanup`, run once the process group is gone, ends
    what does not end with it: a container.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    cleanup: Sequence[str] = ()


class EngineProcess:
    """One engine, router or side process, as a process group of its own; leaving the context stops
    it. `base_url` is where it answers.
    """

    def __init__(self, command: Command, log: Path, base_url: str) -> None:
        self.base_url = base_url
        self.log = LogCapture(log)
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; its output goes to the log. `inferometer` is this very installation."""
        command = self._command
        argv = list(command.argv)
        if argv[0] == "inferometer":
            argv = [sys.executable, "-m", *argv]
        read_end, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                argv,
                cwd=command.folder,
                env={**os.environ, **command.env},
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=subprocess.STDOUT,
                # A group of its own: a Ctrl-C at the terminal is ours to pass on.
                start_new_session=True,
            )
        except OSError as error:
            os.close(read_end)
            raise EngineError(f"cannot start {argv[0]!r}: {error.strerror}") from None
        finally:
            os.close(write_end)
        self.log.start(read_end)
        try:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", GUARD, "guard", str(self._process.pid), *command.cleanup],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self.stop()
            raise

    @property
    def name(self) -> str:
        """What it is: engine, router, or the name of a side process."""
        return self._command.name

    @property
    def pid(self) -> int | None:
        """The leader of the process group; None before the start."""
        return None if self._process is None else self._process.pid

    def died(self) -> str | None:
        """How it ended, with its last words; None while it runs."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"the {self.name} {how}; {self.last_words()}"

    def wait_ready(self, deadline_s: float, tick: Callable[[], None]) -> None:
        """Until `/health` answers 200 and a model is served; `tick` is called between polls.

        Raises EngineError where the process ends, or the deadline comes, before that.
        """
        end_s = time.monotonic() + deadline_s
        while not healthy(self.base_url):
            if (death := self.died()) is not None:
                raise EngineError(death)
            if time.monotonic() > end_s:
                raise EngineError(
                    f"the {self.name} was not ready in {deadline_s:g} s; {self.last_words()}"
                )
            tick()
            time.sleep(POLL_S)
        if (death := self.died()) is not None:
            raise EngineError(f"another process answers at {self.base_url}, and {death}")
        if not served_models(self.base_url):
            raise EngineError(f"{self.base_url}/v1/models lists no model; {self.last_words()}")

    def last_words(self) -> str:
        """The end of the log, for a message."""
        if (process := self._process) is not None and process.poll() is not None:
            self.log.finish(DRAIN_S)
        report = self.log.report()
        if report.failures:
            first = report.failures[0]
            return f"{first.name} (line {first.line}: {first.text}); {first.advice}"
        tail = report.last[-TAIL_LINES:]
        said = "its log ends: " + " | ".join(tail) if tail else "its log is empty"
        return said if self.log.problem is None else f"{said} ({self.log.problem})"

    def stop(self) -> None:
        """End the whole group: politely, then for certain."""
        process, guard = self._process, self._guard
        if process is None:
            return
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        # Also where the leader is gone: a worker it left behind would hold the port and the GPU.
        self._signal(signal.SIGKILL)
        process.wait()
        self.log.finish(STOP_S)
        if self._command.cleanup:
            _run(self._command.cleanup)
        if guard is not None:
            guard.communicate(b"stopped\n")
            self._guard = None

    def _signal(self, number: int) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _run(argv: Sequence[str]) -> None:
    """Run a command for its effect; a container that is gone already is no fault."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=CLEANUP_S,
            check=False,
        )
