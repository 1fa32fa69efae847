"""The processes that a test started, its grandchildren too, by a mark in their environment."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

NAME = "INFEROMETER_TEST_MARK"


def new_mark() -> str:
    """A mark for one test; skipped where processes cannot be looked at."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("no /proc to find the processes of a test in")
    return uuid.uuid4().hex


def marked(mark: str) -> dict[int, str]:
    """Command line by process id. Python's own tracker of semaphores is left out: it stays as long
    as the process that runs the tests.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"{NAME}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found[int(entry.name)] = b" ".join(words).decode(errors="replace")
        except OSError:
            continue  # ended meanwhile, or somebody else's
    return {pid: line for pid, line in found.items() if "resource_tracker" not in line}


def until(holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for something that is to happen; fail when it does not."""
    end_s = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end_s:
            pytest.fail(f"{what}: not within {seconds:g} s")
        time.sleep(0.02)
