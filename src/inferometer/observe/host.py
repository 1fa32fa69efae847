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
from inferometer.observe.processes import PROC, cpu_seconds, family, memory, shared_once

INTERVAL_S = 1.0
SHARED_EVERY = 10
"""Samples. To count shared pages once the system walks all pages of a process."""
SHARED_MOST_S = 0.1
"""Longest that this may take: 100 GB of small pages take seconds, and then it is not done again."""
TICKS_S = float(os.sysconf("SC_CLK_TCK"))


@dataclass(frozen=True, slots=True)
class CoreTime:
    """CPU time of the cores that this process may use, seconds since the machine started."""

    busy_s: float
    """Of all processes, those of the machine's other tenants (steal) included."""
    cores: int


class HostWatcher:
    """Samples once a second; `engine` gives the engine's processes, as far as they are known."""

    def __init__(self, engine: Callable[[], frozenset[int]], proc: Path = PROC) -> None:
        self.samples: list[Sample] = []
        self._count = 0
        self._shared_took_s = 0.0
        self._engine = engine
        self._proc = proc
        self._wall_ns = time.time_ns() - time.monotonic_ns()
        self._before: tuple[int, CoreTime, dict[int, float]] | None = None
        self._known = False
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
        engine = self._engine()
        if engine:
            self._memory(at_ns, engine)
        if (used := memory_in_use(self._proc)) is not None:
            self._add(at_ns, "host.memory_used_bytes", used)
        self._cores(at_ns, engine)

    def _memory(self, at_ns: int, engine: frozenset[int]) -> None:
        """What the engine's processes hold; with shared pages counted once, now and then."""
        for name, held in memory(engine, self._proc).items():
            self._add(at_ns, f"engine.{name}_bytes", held)
        self._count += 1
        if self._count % SHARED_EVERY == 1 and self._shared_took_s <= SHARED_MOST_S:
            began_s = time.monotonic()
            once = shared_once(engine, self._proc)
            self._shared_took_s = time.monotonic() - began_s
            if once is not None:
                self._add(at_ns, "engine.shared_once_bytes", once)

    def _cores(self, at_ns: int, engine: frozenset[int]) -> None:
        """Shares of all cores since the last time: the engine's, ours, and everybody else's."""
        total = core_time(self._proc)
        if total is None:
            return
        ours = family({os.getpid()}, self._proc) - engine
        used = cpu_seconds(ours | engine, self._proc)
        before, self._before = self._before, (at_ns, total, used)
        found = frozenset() if self._known else engine
        self._known = bool(engine)
        if before is None or found - before[2].keys():
            # What an engine took before it was found was not taken since the last time.
            return
        span_s = (at_ns - before[0]) / 1e9 * total.cores
        busy_s = total.busy_s - before[1].busy_s
        engine_s, ours_s = (_grown(before[2], used, pids) for pids in (engine, ours))
        # What ended in between is in the total and in no process: never below nothing.
        other_s = max(0.0, busy_s - engine_s - ours_s)
        shares = {"client": ours_s}
        if engine:
            # One that is not known may run here too: then the rest is not only others.
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


def memory_in_use(proc: Path = PROC) -> float | None:
    """Memory of the machine that is not available, bytes: what processes, the kernel and drivers
    hold, pages pinned by a driver too, which no process shows. See proc(5), /proc/meminfo.
    """
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable")
    if not total or not free:
        return None
    return (float(total[0]) - float(free[0])) * 1024


def _grown(before: dict[int, float], now: dict[int, float], pids: Iterable[int]) -> float:
    return sum(max(0.0, now[pid] - before.get(pid, 0.0)) for pid in pids if pid in now)
