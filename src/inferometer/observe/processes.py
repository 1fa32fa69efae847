"""Processes of a group and their descendants, from /proc: whose are the GPU and the memory.

Of an engine in a container the descendants of its runtime's command line are no part: those of the
container's first process are, see `containers`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

PROC = Path("/proc")
TICKS_S = float(os.sysconf("SC_CLK_TCK"))
STAT_BYTES = 4096
"""More than a line of /proc/PID/stat has."""


def family(roots: Iterable[int], proc: Path = PROC) -> frozenset[int]:
    """Processes, their groups, their sessions, and every descendant of any of them; themselves at
    least.
    """
    stats, first = _stats(proc), set(roots)
    own = first | {pid for pid, (_, *leaders) in stats.items() if not first.isdisjoint(leaders)}
    while True:
        more = {pid for pid, (parent, _, _) in stats.items() if parent in own} - own
        if not more:
            return frozenset(own)
        own |= more


def memory(pids: frozenset[int], proc: Path = PROC) -> Mapping[str, float]:
    """Host memory of processes, bytes: `resident` and `pinned` (locked or pinned), summed.

    Shared pages are counted once a process: an upper bound; see `shared_once`. A process that is
    gone counts nothing.
    """
    resident = pinned = 0.0
    for pid in pids:
        fields = _sizes(proc / str(pid) / "status", ("VmRSS", "VmLck", "VmPin"))
        resident += fields.get("VmRSS", 0.0)
        pinned += max(fields.get("VmLck", 0.0), fields.get("VmPin", 0.0))
    return {"resident": resident, "pinned": pinned}


def shared_once(pids: frozenset[int], proc: Path = PROC) -> float | None:
    """Resident memory of processes with every shared page counted once, bytes (PSS, proc(5)).

    None where one that is still there may not be looked into. The system walks all pages for it.
    """
    total = 0.0
    for pid in pids:
        share = _sizes(proc / str(pid) / "smaps_rollup", ("Pss",)).get("Pss")
        if share is None and (proc / str(pid) / "cmdline").exists() and _has_memory(pid, proc):
            return None
        total += share or 0.0
    return total


def _has_memory(pid: int, proc: Path) -> bool:
    return bool(_sizes(proc / str(pid) / "status", ("VmRSS",)).get("VmRSS"))


def cpu_seconds(pids: frozenset[int], proc: Path = PROC) -> dict[int, float]:
    """CPU time of processes since each began, s, its waited-for children not included."""
    found = {}
    for pid in pids:
        fields = _fields(proc / str(pid))
        if fields is not None:
            found[pid] = (int(fields[11]) + int(fields[12])) / TICKS_S
    return found


def _fields(folder: str | Path) -> list[bytes] | None:
    """/proc/PID/stat from its third field on; None of a process that is gone.

    Read as it is: a machine may have thousands of processes, and a file object costs as much again.
    """
    try:
        file = os.open(f"{folder}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(file, STAT_BYTES)
    except OSError:
        return None
    finally:
        os.close(file)
    # The name, in parentheses, may hold anything.
    return text.rpartition(b")")[2].split()


def _stats(proc: Path) -> dict[int, tuple[int, int, int]]:
    """(parent, group, session) of every process."""
    found = {}
    with os.scandir(proc) as entries:
        names = [entry.name for entry in entries if entry.name.isdecimal()]
    for name in names:
        if (fields := _fields(f"{proc}/{name}")) is not None:
            found[int(name)] = (int(fields[1]), int(fields[2]), int(fields[3]))
    return found


def _sizes(file: Path, names: tuple[str, ...]) -> dict[str, float]:
    """Sizes of /proc/PID/status or of a file of its form, bytes."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, _, rest = line.partition(":")
        if name in names and rest.split():
            found[name] = float(rest.split()[0]) * 1024
    return found
