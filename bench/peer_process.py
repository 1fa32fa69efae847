"""A command and all its descendants, run to the end and watched: CPU, memory, wall time.

CPU is what the kernel charged to those that were waited for, or the sum of what each was last seen
with, whichever is more: a tool may leave its children to others. Seconds and bytes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.observe.processes import cpu_seconds, family, memory

LOOK_S = 0.25
TAIL = 400


@dataclass(frozen=True, slots=True)
class Spent:
    """What a command cost. `why` it failed, None where it did not; `tail` is what it said last."""

    cpu_s: float
    peak_bytes: float
    wall_s: float
    why: str | None
    tail: str


@dataclass(slots=True)
class _Seen:
    """What was seen of the family so far."""

    cpu_s: dict[int, float] = field(default_factory=dict)
    peak_bytes: float = 0.0

    def look(self, root: int) -> None:
        """Once more."""
        pids = family({root})
        self.cpu_s |= cpu_seconds(pids)
        self.peak_bytes = max(self.peak_bytes, memory(pids)["resident"])


def watched(command: Sequence[str], place: Path, timeout_s: float) -> Spent:
    """Run it in `place`, in a session of its own, which is ended with it."""
    said = place / "said.txt"
    begun = time.monotonic()
    with said.open("wb") as out:
        try:
            process = subprocess.Popen(
                command,
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return Spent(0.0, 0.0, 0.0, f"cannot be started: {error}", "")
    seen = _Seen()
    over = threading.Event()
    timer = threading.Timer(timeout_s, lambda: _end(process.pid, over))
    timer.start()
    watcher = threading.Thread(target=_watch, args=(seen, process.pid, over))
    watcher.start()
    try:
        _, status, used = os.wait4(process.pid, 0)
    finally:  # also where somebody stops the comparison
        late = over.is_set()
        timer.cancel()
        _end(process.pid, over)
        watcher.join()
    code = process.returncode = os.waitstatus_to_exitcode(status)
    tail = f"exit code {code}: " + said.read_bytes()[-TAIL:].decode("utf-8", "replace").strip()
    # A tool may end well and be displeased with what it measured: its report decides.
    why = f"not done within {timeout_s:g} s: {tail}" if late else None
    charged = used.ru_utime + used.ru_stime
    cpu_s = max(charged, sum(seen.cpu_s.values()))
    return Spent(cpu_s, seen.peak_bytes, time.monotonic() - begun, why, tail)


def _watch(seen: _Seen, root: int, over: threading.Event) -> None:
    while not over.wait(LOOK_S):
        seen.look(root)


def _end(group: int, over: threading.Event) -> None:
    """End what is left of the session."""
    over.set()
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
