"""Shells as engines, and what is seen of their processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from inferometer.engine.process import Command, EngineProcess

NOBODY = "http://127.0.0.1:1"
LIMIT_S = 60


def engine(script: str, log: Path, url: str = NOBODY, **env: str) -> EngineProcess:
    return EngineProcess(Command("engine", ["/bin/sh", "-c", script], env), log, url)


def until(holds: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end_s, f"{what}: not within {LIMIT_S} s"
        time.sleep(0.01)


def says(log: Path, word: str) -> Callable[[], bool]:
    return lambda: log.exists() and word in log.read_text()


def alive(pid: int) -> bool:
    """Running, and not only waiting for its parent to take note of its end."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def pids(log: Path) -> list[int]:
    """What scripts print with `echo pid $$`."""
    return [int(line.split()[1]) for line in log.read_text().splitlines() if "pid " in line]
