"""What the measuring machine is: read once a run, from the operating system; nothing is guessed."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")


def describe() -> dict[str, str]:
    """CPU, cores, memory, kernel and Python; a fact the system does not give is left out."""
    facts = {
        "cpu": _field(CPUINFO, "model name"),
        "cores": str(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None,
        "memory": _gibibytes(_field(MEMINFO, "MemTotal")),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "architecture": platform.machine(),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _gibibytes(text: str | None) -> str | None:
    """`24683652 kB`, as the kernel writes kibibytes, to `23.5 GiB`."""
    return f"{int(text.split()[0]) / (1 << 20):.1f} GiB" if text else None


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
