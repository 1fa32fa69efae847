"""Processes of a group and their descendants, from /proc: whose are the GPU and the memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PROC = Path("/proc")
TICKS_S = float(os.sysconf("SC_CLK_TCK"))


def family(root: int, proc: Path = PROC) -> frozenset[int]:
    """A process, its group, its session, and every descendant of any of them; itself at least."""
    stats = _stats(proc)
    own = {root} | {pid for pid, (_, group, session) in stats.items() if root in (group, session)}
    while True:
        more = {pid for pid, (parent, _, _) in stats.items() if parent in own} - own
        if not more:
            return frozenset(own)
        own |= more


def memory(pids: frozenset[int], proc: Path = PROC) -> Mapping[str, float]:
    """Host memory of processes, bytes: `resident` and `pinned` (locked or pinned), summed.

    Shared pages are counted once a process: an upper bound. A process that is gone counts nothing.
    """
    resident = pinned = 0.0
    for pid in pids:
        fields = _status(proc / str(pid) / "status")
        resident += fields.get("VmRSS", 0.0)
        pinned += max(fields.get("VmLck", 0.0), fields.get("VmPin", 0.0))
    return {"resident": resident, "pinned": pinned}


def cpu_seconds(pids: frozenset[int], proc: Path = PROC) -> dict[int, float]:
    """CPU time of processes since each began, s, its waited-for children not included."""
    found = {}
    for pid in pids:
        fields = _fields(proc / str(pid))
        if fields is not None:
            found[pid] = (int(fields[11]) + int(fields[12])) / TICKS_S
    return found


def _fields(folder: Path) -> list[str] | None:
    """/proc/PID/stat from its third field on; None of a process that is gone."""
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may hold anything.
    return text.rpartition(")")[2].split()


def _stats(proc: Path) -> dict[int, tuple[int, int, int]]:
    """(parent, group, session) of every process."""
    found = {}
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        if (fields := _fields(folder)) is not None:
            found[int(folder.name)] = (int(fields[1]), int(fields[2]), int(fields[3]))
    return found


def _status(file: Path) -> dict[str, float]:
    """Sizes of /proc/PID/status, bytes."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, _, rest = line.partition(":")
        if name in ("VmRSS", "VmLck", "VmPin") and rest.split():
            found[name] = float(rest.split()[0]) * 1024
    return found
