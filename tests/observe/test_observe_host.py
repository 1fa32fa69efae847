"""Whose the cores and the memory are, read from /proc or a copy of its form."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from inferometer.observe.host import HostWatcher, core_time, memory_in_use
from inferometer.observe.processes import cpu_seconds, family, memory, shared_once

STAT = "{pid} (a) b) S {parent} {group} {session} 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 1 0 0 0 0"
STATUS = "Name:\tpython\nVmRSS:\t  2048 kB\nVmLck:\t 1024 kB\nVmPin:\t 0 kB\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Process 10 leads a group with 11, which began 12 in a session of its own; 20 is alone."""
    for pid, parent, group in ((10, 1, 10), (11, 10, 10), (12, 11, 12), (20, 1, 20)):
        folder = tmp_path / str(pid)
        folder.mkdir()
        text = STAT.format(pid=pid, parent=parent, group=group, session=group, user=100, system=50)
        (folder / "stat").write_text(text)
        (folder / "status").write_text(STATUS)
    (tmp_path / "self").mkdir()
    return tmp_path


def test_a_family_is_the_group_and_all_that_descend_from_it(proc: Path) -> None:
    assert family({10}, proc) == {10, 11, 12}
    assert family({99}, proc) == {99}


def test_memory_of_a_family_in_bytes(proc: Path) -> None:
    assert memory(frozenset({10, 11}), proc) == {"resident": 4 << 20, "pinned": 2 << 20}
    assert memory(frozenset({404}), proc) == {"resident": 0.0, "pinned": 0.0}


def test_several_roots_make_one_family(proc: Path) -> None:
    assert family({12, 20}, proc) == {12, 20}
    assert family({10, 20}, proc) == {10, 11, 12, 20}


def test_shared_pages_are_counted_once_or_it_is_unknown(proc: Path) -> None:
    for pid, share in ((10, 1024), (11, 512)):
        (proc / str(pid) / "cmdline").write_text("x")
        (proc / str(pid) / "smaps_rollup").write_text(
            f"0-1 ---p 0 00:00 0 [rollup]\nPss: {share} kB\n"
        )
    assert shared_once(frozenset({10, 11, 404}), proc) == 1536 * 1024
    (proc / "11" / "smaps_rollup").unlink()  # as where it is not ours to read
    assert shared_once(frozenset({10, 11}), proc) is None


def test_memory_in_use_is_what_is_not_available(tmp_path: Path) -> None:
    assert memory_in_use(tmp_path) is None
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n")
    assert memory_in_use(tmp_path) == 60 * 1024
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\n")
    assert memory_in_use(tmp_path) is None


def test_cpu_time_is_in_seconds_and_a_process_that_is_gone_has_none(proc: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    assert cpu_seconds(frozenset({10, 404}), proc) == {10: 150 / ticks}


def test_only_our_cores_are_counted(proc: Path) -> None:
    mine = sorted(os.sched_getaffinity(0))[0]
    (proc / "stat").write_text(
        "cpu  9 9 9 9 9 9 9 9 0 0\n"
        f"cpu{mine} 100 0 50 900 10 0 0 50 0 0\n"
        "cpu4095 9 9 9 9 9 9 9 9 0 0\n"
    )
    found = core_time(proc)
    assert found is not None
    assert (found.busy_s * os.sysconf("SC_CLK_TCK"), found.cores) == (200, 1)


def test_a_system_without_proc_gives_no_series(tmp_path: Path) -> None:
    assert core_time(tmp_path) is None


def test_a_burning_stranger_is_seen_and_a_burning_engine_is_the_engines() -> None:
    burn = ["sh", "-c", "while :; do :; done"]
    engine = subprocess.Popen(burn, start_new_session=True)
    watcher = HostWatcher(lambda: family({engine.pid}))
    watcher.start()
    try:
        while sum(s.name == "host.other_cpu_share" for s in list(watcher.samples)) < 2:
            os.sched_yield()
    finally:
        watcher.stop()
        engine.kill()
        engine.wait()
    shares = {s.name: s.value for s in watcher.samples}
    assert shares["host.engine_cpu_share"] > 0
    assert shares["engine.resident_bytes"] > 0
    assert 0 < shares["engine.shared_once_bytes"] <= shares["engine.resident_bytes"]
    assert shares["host.memory_used_bytes"] > 0
    assert abs(shares["host.clock_step_s"]) < 60


def test_what_an_engine_took_before_it_was_found_is_in_no_share(proc: Path) -> None:
    mine = sorted(os.sched_getaffinity(0))[0]
    found: frozenset[int] = frozenset()
    watcher = HostWatcher(lambda: found, proc)

    def told(busy: int) -> list[str]:
        (proc / "stat").write_text(f"cpu{mine} {busy} 0 0 0 0 0 0 0 0 0\n")
        before = len(watcher.samples)
        watcher._take()
        names = (sample.name for sample in watcher.samples[before:])
        return [name for name in names if name.endswith("cpu_share")]

    assert told(100) == []
    assert told(110) == ["host.client_cpu_share"]
    found = frozenset({20})
    assert told(120) == []  # its 1.5 s were not taken since the last time
    assert told(130) == ["host.client_cpu_share", "host.engine_cpu_share", "host.other_cpu_share"]
    assert [s.value for s in watcher.samples if s.name == "host.engine_cpu_share"] == [0.0]
