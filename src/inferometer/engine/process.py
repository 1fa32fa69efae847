"""Start a launch plan as a local process, wait until it serves, stop it for certain.

Does not know what the engine is: health, model list, exit code and log are all it looks at. Each is
the child of a keeper (`keeper.py`), which ends it with all that it ever started, and nothing else;
also where this process is killed.
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
from inferometer.engine.keeper import CLEANUP_S, KILL_S
from inferometer.errors import EngineError

POLL_S = 0.05
STOP_S = 10.0
"""For the leader to end its own, then for all that is left, before SIGKILL."""
TAIL_LINES = 5
NO_HEALTH = "not healthy"
DRAIN_S = 1.0
"""For the last words of an engine that has ended to come through its pipe."""

KEEPER = Path(__file__).with_name("keeper.py")
ENDS_S = 2 * STOP_S + KILL_S + CLEANUP_S
"""How long a keeper may take to end all that it keeps."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. `name` is for messages; `cleanup` ends what does not end with its processes: a
    container. `explain` says what an exit code means, where it is not the program's own.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    cleanup: Sequence[str] = ()
    explain: Callable[[int], str | None] | None = None


class EngineProcess:
    """One engine, router or side process; leaving the context stops it. `base_url` is where it
    answers. `left` are processes of it that would not end.
    """

    def __init__(self, command: Command, log: Path, base_url: str) -> None:
        self.base_url = base_url
        self.log = LogCapture(log)
        self.left: tuple[int, ...] = ()
        self._command = command
        self._keeper: subprocess.Popen[bytes] | None = None
        self._leader: int | None = None
        self._code: int | None = None
        self._said = b""
        self._means: str | None = None

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
        folder = "" if command.folder is None else str(command.folder)
        keeper = [sys.executable, "-I", "-S", str(KEEPER), str(STOP_S), folder, str(len(argv))]
        read_end, write_end = os.pipe()
        try:
            self._keeper = subprocess.Popen(
                [*keeper, *argv, *command.cleanup],
                env={**os.environ, **command.env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=write_end,
                # Unbuffered: the pipe is read by `_listen` too.
                bufsize=0,
                # A Ctrl-C at the terminal is ours to pass on.
                start_new_session=True,
            )
        except OSError as error:
            os.close(read_end)
            raise EngineError(f"cannot start {argv[0]!r}: {error.strerror}") from None
        finally:
            os.close(write_end)
        self.log.start(read_end)
        assert self._keeper.stdout is not None
        # Waits for one line: the keeper says at once whether it could start the engine.
        said, _, number = self._keeper.stdout.readline().decode().partition(" ")
        if said == "started":
            self._leader = int(number)
            os.set_blocking(self._keeper.stdout.fileno(), False)
            return
        self.stop()
        reason = os.strerror(int(number)) if said == "failed" else "its keeper ended"
        raise EngineError(f"cannot start {argv[0]!r}: {reason}")

    @property
    def name(self) -> str:
        """What it is: engine, router, or the name of a side process."""
        return self._command.name

    @property
    def pid(self) -> int | None:
        """The parent of all its processes; None before the start."""
        return None if self._keeper is None else self._keeper.pid

    def died(self) -> str | None:
        """How it ended, with its last words; None while it runs."""
        if (how := self._how()) is None:
            return None
        return f"the {self.name} {how}; {self.last_words()}"

    def ended(self) -> int | None:
        """Its exit code, for one that is to end by itself; None while it runs."""
        return None if self._how() is None else (self._code if self._code is not None else -9)

    def _how(self) -> str | None:
        self._listen()
        if self._leader is None:
            return None
        if (code := self._code) is None:
            assert self._keeper is not None
            return None if self._keeper.poll() is None else "lost its keeper, which was killed"
        if self._command.explain is not None and self._means is None:
            # Once: a runtime is asked, and later what it knows is gone.
            self._means = self._command.explain(code) or ""
        if self._means:
            return f"ended with exit code {code}: {self._means}"
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def _listen(self) -> None:
        """Take what the keeper has told since."""
        if self._keeper is None or self._keeper.stdout is None or self._keeper.stdout.closed:
            return
        with contextlib.suppress(BlockingIOError):
            while told := os.read(self._keeper.stdout.fileno(), 4096):
                self._said += told
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            word, _, rest = line.decode().partition(" ")
            if word == "ended":
                self._code = int(rest)
            elif word == "left":
                self.left = tuple(map(int, rest.split()))

    def wait_ready(self, deadline_s: float, tick: Callable[[], None]) -> None:
        """Until `/health` answers 200 and a model is served; `tick` is called between polls.

        Raises EngineError where the process ends, or the deadline comes, before that.
        """
        end_s = time.monotonic() + deadline_s
        health = False
        while (lacking := self._lacking()) is not None:
            if (death := self.died()) is not None:
                raise EngineError(death)
            health = health or lacking != NO_HEALTH
            if time.monotonic() > end_s:
                what = f"; {lacking}" if health else ""
                raise EngineError(
                    f"the {self.name} was not ready in {deadline_s:g} s{what}; {self.last_words()}"
                )
            tick()
            time.sleep(POLL_S)
        if (death := self.died()) is not None:
            raise EngineError(f"another process answers at {self.base_url}, and {death}")

    def _lacking(self) -> str | None:
        """What keeps it from being ready. A front end may be healthy before its workers have told
        it of a model.
        """
        if not healthy(self.base_url):
            return NO_HEALTH
        try:
            listed = served_models(self.base_url)
        except EngineError as error:
            return str(error)
        return None if listed else f"{self.base_url}/v1/models lists no model"

    def last_words(self) -> str:
        """The end of the log, for a message."""
        if self._leader is not None and self._how() is not None:
            self.log.finish(DRAIN_S)
        report = self.log.report()
        if (first := report.ending) is not None:
            return f"{first.name} (line {first.line}: {first.text}); {first.advice}"
        tail = list(report.last[-TAIL_LINES:])
        tail[:0] = [text for text in report.errors[-1:] if text not in tail]
        said = "its log ends: " + " | ".join(tail) if tail else "its log is empty"
        return said if self.log.problem is None else f"{said} ({self.log.problem})"

    def stop(self) -> None:
        """End all of it: politely, then for certain."""
        keeper = self._keeper
        if keeper is None or keeper.stdin is None or keeper.stdin.closed:
            return
        self.log.mark_stop()
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.write(b"stop\n")
        keeper.stdin.close()
        try:
            keeper.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
        self._listen()
        if keeper.returncode != 0 and self._leader is not None:
            self._end_group(self._leader)
        self.log.finish(STOP_S)
        assert keeper.stdout is not None
        keeper.stdout.close()

    def _end_group(self, leader: int) -> None:
        """Somebody killed the keeper: what it kept and is still the leader's group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
        if self._command.cleanup:
            _run(self._command.cleanup)


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
