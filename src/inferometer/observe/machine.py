"""What the measuring machine is: read once a run, from the operating system; nothing is guessed."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from inferometer.observe.systemclock import clock_state

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
NODES = Path("/sys/devices/system/node")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
CGROUP = Path("/sys/fs/cgroup")


def describe() -> dict[str, str]:
    """CPU, cores, NUMA nodes, memory, limits of a container, kernel, Python and the state of the
    clock; a fact the system does not give is left out.
    """
    facts = {
        "cpu": _field(CPUINFO, "model name"),
        "cores": str(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None,
        "core limit": _core_limit(CGROUP / "cpu.max"),
        "governor": _line(GOVERNOR),
        "numa nodes": _nodes(),
        "memory": _gibibytes(_field(MEMINFO, "MemTotal")),
        "memory limit": _memory_limit(CGROUP / "memory.max"),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "architecture": platform.machine(),
        "clock": clock_state(),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _nodes() -> str | None:
    """`2 (0-31, 32-63)`: how many, and the CPUs of each."""
    try:
        folders = [entry for entry in NODES.iterdir() if entry.name[:4] == "node"]
    except OSError:
        return None
    numbered = sorted((int(f.name[4:]), f) for f in folders if f.name[4:].isdecimal())
    cpus = [_line(folder / "cpulist") or "no CPU" for _, folder in numbered]
    return f"{len(cpus)} ({'; '.join(cpus)})" if cpus else None


def _core_limit(file: Path) -> str | None:
    """`2.5` of `250000 100000`, as a container's limit is written; None without one."""
    words = (_line(file) or "").split()
    if len(words) != 2 or not all(word.isdecimal() for word in words) or words[1] == "0":
        return None
    return f"{int(words[0]) / int(words[1]):g}"


def _memory_limit(file: Path) -> str | None:
    text = _line(file) or ""
    return f"{int(text) / (1 << 30):.1f} GiB" if text.isdecimal() else None


def _gibibytes(text: str | None) -> str | None:
    """`24683652 kB`, as the kernel writes kibibytes, to `23.5 GiB`."""
    return f"{int(text.split()[0]) / (1 << 20):.1f} GiB" if text else None


def _line(file: Path) -> str | None:
    try:
        return file.read_text().strip() or None
    except OSError:
        return None


def _field(file: Path, name: str) -> str | None:
    """The first `name : value` of a /proc file."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == name:
            return " ".join(value.split())
    return None
