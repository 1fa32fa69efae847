"""What the machine is, read and not guessed."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from inferometer.observe import machine
from inferometer.observe.systemclock import clock_state

CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Some  CPU @ 2.00GHz: fast

processor\t: 1
model name\t: Another
"""
MEMINFO = "MemTotal:       24683652 kB\nMemFree:        1 kB\n"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for /proc; empty."""
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(machine, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "NODES", tmp_path / "node")
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    monkeypatch.setattr(machine, "GOVERNOR", tmp_path / "governor")
    return tmp_path


def test_this_machine() -> None:
    facts = machine.describe()
    assert facts["python"] == platform.python_version()
    assert facts["architecture"] == platform.machine()
    assert facts["kernel"].startswith(platform.system())
    assert all(value.strip() for value in facts.values())
    if platform.system() == "Linux":
        assert int(facts["cores"]) >= 1
        assert facts["memory"].endswith(" GiB")


def test_the_first_cpu_and_the_memory(proc: Path) -> None:
    (proc / "cpuinfo").write_text(CPUINFO)
    (proc / "meminfo").write_text(MEMINFO)
    facts = machine.describe()
    assert facts["cpu"] == "Some CPU @ 2.00GHz: fast"
    assert facts["memory"] == "23.5 GiB"  # 24,683,652 KiB / 2^20 = 23.54


def test_nodes_and_the_limits_of_a_container(proc: Path) -> None:
    for number, cpus in ((10, "32-63"), (2, "0-31"), (11, "")):
        (proc / "node" / f"node{number}").mkdir(parents=True)
        (proc / "node" / f"node{number}" / "cpulist").write_text(f"{cpus}\n")
    (proc / "node" / "online").write_text("0-1")
    (proc / "cpu.max").write_text("250000 100000\n")
    (proc / "memory.max").write_text(f"{8 << 30}\n")
    (proc / "governor").write_text("performance\n")
    facts = machine.describe()
    assert facts["numa nodes"] == "3 (0-31; 32-63; no CPU)"
    assert (facts["core limit"], facts["memory limit"]) == ("2.5", "8.0 GiB")
    assert facts["governor"] == "performance"


def test_a_machine_without_limits_has_none(proc: Path) -> None:
    (proc / "cpu.max").write_text("max 100000\n")
    (proc / "memory.max").write_text("max\n")
    facts = machine.describe()
    assert set(facts) & {"core limit", "memory limit", "numa nodes", "governor"} == set()


def test_what_keeps_the_wall_clock() -> None:
    def unknown() -> tuple[int, int]:
        raise OSError

    assert clock_state(lambda: (0, 4_200)) == "synchronized, off by 0.004 s at most"
    assert clock_state(lambda: (5, 16_000_000)) == "not synchronized"
    assert clock_state(lambda: (-1, 0)) is None
    assert clock_state(unknown) is None
    if platform.system() == "Linux":
        assert "synchronized" in (clock_state() or "")


def test_what_the_system_does_not_say_is_left_out(proc: Path) -> None:
    assert set(machine.describe()) & {"cpu", "memory"} == set()
    (proc / "cpuinfo").write_text("processor\t: 0\nCPU implementer\t: 0x41\n")
    (proc / "meminfo").write_text("")
    facts = machine.describe()
    assert "cpu" not in facts
    assert "memory" not in facts
    assert facts["python"]


def test_a_system_that_does_not_bind_processes_has_no_core_count(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(machine.os, "sched_getaffinity", raising=False)  # type: ignore[attr-defined]
    assert "cores" not in machine.describe()
