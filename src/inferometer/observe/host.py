"""Watches the machine while a point is measured: who takes its cores, what the engine holds of its
memory, and whether its wall clock steps. Runs in a thread of the composing process; Linux only, and
elsewhere the series are absent.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from inferometer.core import Sample
from inferometer.observe.processes import PROC, cpu_seconds, family, memory

INTERVAL_S = 1.0
TICKS_S = float(os.sysconf("SC_CLK_TCK"))


@dataclass(frozen=True, slots=True)
class CoreTime:
    """CPU time of the cores that this process may use, seconds since the machine started."""

    busy_s: float
    """Of all processes, those of the machine's other tenants (steal) included."""
    cores: int


class HostWatcher:
    """Samples once a second; `engine` gives the root process of an engine that we started."""

    def __init__(self, engine: Callable[[], int | None], proc: Path = PROC) -> None:
        self.samples: list[Sample] = []
        self._engine = engine
        self._proc = proc
        self._wall_ns = time.time_ns() - time.monotonic_ns()
        self._before: tuple[int, CoreTime, dict[int, float]] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="host", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self._take()
        while not self._stop.wait(INTERVAL_S):
            self._take()

    def _take(self) -> None:
        at_ns = time.monotonic_ns()
        stepped_ns = time.time_ns() - at_ns - self._wall_ns
        self._add(at_ns, "host.clock_step_s", stepped_ns / 1e9)
        root = self._engine()
        engine = frozenset() if root is None else family(root, self._proc)
        if engine:
            for name, held in memory(engine, self._proc).items():
                self._add(at_ns, f"engine.{name}_bytes", held)
        self._cores(at_ns, engine)

    def _cores(self, at_ns: int, engine: frozenset[int]) -> None:
        """Shares of all cores since the last time: the engine's, ours, and everybody else's."""
        total = core_time(self._proc)
        if total is None:
            return
        ours = family(os.getpid(), self._proc) - engine
        used = cpu_seconds(ours | engine, self._proc)
        before, self._before = self._before, (at_ns, total, used)
        if before is None:
            return
        span_s = (at_ns - before[0]) / 1e9 * total.cores
        busy_s = total.busy_s - before[1].busy_s
        engine_s, ours_s = (_grown(before[2], used, pids) for pids in (engine, ours))
        # What ended in between is in the total and in no process: never below nothing.
        other_s = max(0.0, busy_s - engine_s - ours_s)
        shares = {"client": ours_s}
        if engine:
            # An engine that was up already may run here too: then the rest is not only others.
            shares |= {"engine": engine_s, "other": other_s}
        for name, seconds in shares.items():
            self._add(at_ns, f"host.{name}_cpu_share", min(1.0, seconds / span_s))

    def _add(self, at_ns: int, name: str, value: float) -> None:
        self.samples.append(Sample(at_ns, name, "", value))


def core_time(proc: Path = PROC) -> CoreTime | None:
    """Busy time of our cores; None where the system does not tell. See proc(5), /proc/stat."""
    try:
        lines = (proc / "stat").read_text().splitlines()
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    except (OSError, AttributeError):
        return None
    busy = cores = 0
    for line in lines:
        name, *fields = line.split()
        if name in mine and len(fields) >= 8:
            user, nice, system, _idle, _wait, irq, soft, steal = map(int, fields[:8])
            busy += user + nice + system + irq + soft + steal
            cores += 1
    return CoreTime(busy / TICKS_S, cores) if cores else None


def _grown(before: dict[int, float], now: dict[int, float], pids: Iterable[int]) -> float:
    return sum(max(0.0, now[pid] - before.get(pid, 0.0)) for pid in pids if pid in now)
