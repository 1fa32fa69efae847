"""An engine is ended with all that it ever started, and with nothing else."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from shells import alive, engine, pids, says, until

from inferometer.engine import keeper, process
from inferometer.engine.triage import STOP_MARK


def test_the_whole_group_ends_even_what_will_not_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_S", 0.2)
    log = tmp_path / "log"
    worker = "sh -c 'trap \"\" TERM; echo pid $$; while :; do sleep 1; done'"
    deaf = f"trap '' TERM; echo pid $$; {worker} & {worker} & while :; do sleep 1; done"
    with engine(deaf, log):
        until(lambda: len(pids(log)) == 3 if log.exists() else False, "all three start")
        assert all(map(alive, pids(log)))
    until(lambda: not any(map(alive, pids(log))), "all three end")


def test_a_worker_that_outlives_its_leader_ends_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with engine("sh -c 'echo pid $$; sleep 60' & exit 0", log) as running:
        until(lambda: running.died() is not None and says(log, "pid")(), "the leader ends")
        (worker,) = pids(log)
        assert alive(worker)
    until(lambda: not alive(worker), "the worker ends")


STARTS_AND_GOES = """\
import os, pathlib, signal, sys
from inferometer.engine.process import Command, EngineProcess
log = pathlib.Path(sys.argv[1])
command = Command("engine", ["/bin/sh", "-c", sys.argv[2]])
EngineProcess(command, log, "http://127.0.0.1:1").start()
while not log.exists() or log.read_text().count("pid") < 2:
    pass
"""


@pytest.mark.parametrize("how", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_engine_ends_where_we_are_gone_without_stopping_it(tmp_path: Path, how: str) -> None:
    log = tmp_path / "log"
    engine_script = "sh -c 'echo pid $$; sleep 60' & echo pid $$; wait"
    argv = [sys.executable, "-c", STARTS_AND_GOES + how, str(log), engine_script]
    subprocess.run(argv, timeout=60, check=False)
    assert len(set(pids(log))) == 2
    until(lambda: not any(map(alive, pids(log))), "the engine and its worker end")


def test_the_leader_is_asked_first_and_ends_its_own(tmp_path: Path) -> None:
    """A worker that is asked too would end before its leader, which takes that for a fault."""
    log = tmp_path / "log"
    worker = "sh -c 'trap \"echo worker asked\" TERM; echo pid $$; while :; do sleep 0.05; done'"
    trap = "trap 'echo ending it; kill -9 $child; exit' TERM; echo ready"
    with engine(f"{worker} & child=$!; {trap}; wait; wait", log):
        until(says(log, "ready"), "the leader listens")
        until(says(log, "pid"), "the worker starts")
        (pid,) = pids(log)
    assert not alive(pid)
    assert log.read_text().splitlines()[2:] == [STOP_MARK, "ending it"]


DAEMON = "(setsid sh -c '{trap}echo pid $$; while :; do sleep 1; done' &)"
"""Forks twice, and is in a session and a process group of its own: nobody's child."""


@pytest.mark.parametrize("trap", ["", 'trap "" TERM; '])
def test_what_has_made_itself_a_daemon_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    monkeypatch.setattr(process, "STOP_S", 0.3)
    log = tmp_path / "log"
    with engine(f"echo pid $$; {DAEMON.format(trap=trap)}; exec sleep 60", log) as running:
        until(lambda: log.exists() and len(pids(log)) == 2, "both start")
        leader, daemon = pids(log)
        assert os.getsid(daemon) == os.getpgid(daemon) == daemon != os.getpgid(leader)
        assert alive(daemon)
    assert not alive(leader)
    assert not alive(daemon)
    assert running.left == ()


def test_a_daemon_that_starts_another_when_it_is_ended_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is started in the very moment of the stop is on the next list."""
    monkeypatch.setattr(process, "STOP_S", 0.5)
    log, heir = tmp_path / "log", f"61.{os.getpid()}"
    (tmp_path / "first").write_text(
        f"trap 'setsid sleep {heir} & exit' TERM\necho pid $$\nsleep 60 & wait\n"
    )
    with engine(f"(setsid sh {tmp_path}/first &); exec sleep 60", log):
        until(says(log, "pid"), "it starts")
        (first,) = pids(log)
    assert not alive(first)
    assert [words for words in everything() if heir in words.split()] == []


def everything() -> list[str]:
    """Command lines of every process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def test_only_what_the_engine_started_is_ended(tmp_path: Path) -> None:
    """Neither a process of ours nor one of its own group is touched."""
    log = tmp_path / "log"
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        with engine("echo pid $$; exec sleep 60", log):
            until(says(log, "pid"), "it starts")
        assert other.poll() is None
        other.kill()


def test_a_daemon_ends_where_we_are_gone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"echo pid $$; {DAEMON.format(trap='')}; exec sleep 60"
    argv = [sys.executable, "-c", STARTS_AND_GOES + "os._exit(0)", str(log), script]
    subprocess.run(argv, timeout=60, check=False)
    assert len(set(pids(log))) == 2
    until(lambda: not any(map(alive, pids(log))), "the engine and its daemon end")


def test_a_keeper_that_is_killed_takes_the_engine_along(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = "sh -c 'echo pid $$; exec sleep 60' & echo pid $$; wait"
    with engine(script, log) as running:
        until(lambda: log.exists() and len(pids(log)) == 2, "both start")
        assert running.pid is not None
        os.kill(running.pid, signal.SIGKILL)
        until(lambda: running.died() is not None, "its end is seen")
        assert "the engine lost its keeper, which was killed" in (running.died() or "")
    until(lambda: not any(map(alive, pids(log))), "the engine and its worker end")


def test_a_stopped_engine_leaves_no_keeper(tmp_path: Path) -> None:
    running = engine("exec sleep 60", tmp_path / "log")
    running.start()
    assert running.pid is not None
    assert alive(running.pid)
    running.stop()
    assert not Path(f"/proc/{running.pid}").exists()


@pytest.mark.parametrize("known", [True, False])
def test_only_what_is_below_is_sent_a_signal(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    """Also where the kernel has no handles of processes."""

    def unknown(_: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    if not known:
        monkeypatch.setattr(keeper.os, "pidfd_open", unknown)  # type: ignore[attr-defined]
    assert keeper.is_below(os.getpid()) is False
    keeper.send(os.getppid(), signal.SIGKILL)
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        assert keeper.is_below(child.pid)
        keeper.send(child.pid, signal.SIGTERM)
        assert child.wait(20) == -signal.SIGTERM
    keeper.send(child.pid, signal.SIGTERM)
    assert alive(os.getppid())
