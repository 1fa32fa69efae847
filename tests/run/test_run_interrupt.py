"""Stopped in mid-window, politely and not: what was measured is kept, and no process stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from marked import NAME, marked, new_mark, until
from sweep_setup import write_files

from inferometer.store import PointDir, RunDir

pytestmark = pytest.mark.sockets

POINT = "fixed_256_16_tp1_c2"
LIMIT_S = 60.0


@dataclass
class Command:
    """`inferometer run` as a process of its own, in a group of its own as a shell would start it.

    Its output goes to files: a pipe that a child keeps open would never end.
    """

    folder: Path
    mark: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        config, out = self.folder / "config", self.folder / "run"
        files = [str(config / "master.yaml"), "--runners", str(config / "runners.yaml")]
        with (self.folder / "stdout").open("wb") as stdout, self.errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "inferometer", "run", *files, "--out", str(out)],
                env={**os.environ, NAME: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def errors(self) -> Path:
        return self.folder / "stderr"

    @property
    def point(self) -> PointDir:
        return RunDir(self.folder / "run").point(POINT)

    def wait_for_records(self) -> None:
        journal = self.point.path / "records.jsonl"
        until(lambda: journal.exists() and journal.stat().st_size > 0, "records grow", LIMIT_S)

    def signal_group(self, number: int) -> None:
        """As a terminal or a scheduler does."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def ended(self) -> int:
        """The exit code, once every process is gone."""
        assert self.process is not None
        code = self.process.wait(LIMIT_S)
        until(lambda: marked(self.mark) == {}, "every process ends")
        assert "Traceback" not in self.errors.read_text()
        return code


@contextmanager
def command(folder: Path, seconds: float, rule: str = "") -> Iterator[Command]:
    write_files(folder / "config", seconds, conc=(2,)).add_rule(rule)
    run = Command(folder, new_mark())
    run.start()
    try:
        yield run
    finally:
        for pid in marked(run.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if run.process is not None:
            run.process.wait(LIMIT_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_keeps_what_was_measured_and_the_same_command_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    # One goes on to the end of its window later; the other may have what it likes to be stopped in.
    with command(tmp_path, seconds=5 if number is signal.SIGINT else 60) as run:
        run.wait_for_records()
        run.signal_group(number)
        assert run.ended() == 130
        said = run.errors.read_text().splitlines()[-1]
        assert said.startswith(f"error: {POINT}: stopped by the user; its records are kept")
        assert (tmp_path / "stdout").read_text() == ""
        kept = run.point.records()
        assert kept
        assert not (run.point.path / "result.json").exists()
        assert run.point.client().client.window.stop_reason == "stopped by the user"
        if number is signal.SIGTERM:
            return  # once is enough for what follows
        run.start()
        # On a busy machine the point may be invalid for lateness, which is not the matter here.
        assert run.ended() in (0, 5)
        assert run.point.done
        assert run.point.result().counts["ok"] > 0
        attempt = RunDir(tmp_path / "run").point(f"{POINT}.attempt-1")
        assert [r.request_id for r in attempt.records()] == [r.request_id for r in kept]


def test_a_kill_leaves_a_readable_journal_and_no_process(tmp_path: Path) -> None:
    with command(tmp_path, seconds=60) as run:
        run.wait_for_records()
        assert run.process is not None
        lines = " ".join(marked(run.mark).values())
        assert "engine simulated" in lines
        assert "inferometer.run.loadserve" in lines
        run.process.kill()
        assert run.ended() == -signal.SIGKILL
        records = run.point.records()
        # The last of them may have failed: the engine and the load end independently.
        assert records[0].exchange.status == "ok"
        assert not run.point.done
        assert run.point.launch().digest == RunDir(tmp_path / "run").manifest().points[0].digest


def test_a_kill_of_everything_but_the_engine_ends_the_engine(tmp_path: Path) -> None:
    """As where a job's memory runs out: nobody of ours is left to tell it."""
    with command(tmp_path, seconds=60) as run:
        run.wait_for_records()
        run.signal_group(signal.SIGKILL)
        assert run.ended() == -signal.SIGKILL
        journal = (run.point.path / "records.jsonl").read_bytes()
        assert len(run.point.records()) == journal.count(b"\n") > 0


def test_a_stop_while_the_engine_starts_ends_at_once(tmp_path: Path) -> None:
    with command(tmp_path, seconds=60, rule="- argv:\n    --never-ready: true\n") as run:
        log = run.point.server_log
        until(lambda: log.exists() and "ready on" in log.read_text(), "the engine starts", LIMIT_S)
        run.signal_group(signal.SIGINT)
        assert run.ended() == 130
        assert re.search(r"stopped by the user before its engine was ready", run.errors.read_text())
