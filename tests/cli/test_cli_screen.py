"""The display of a run: what is told of a point, and how long the rest will take."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, call
from rich.console import Console

from inferometer.cli import screen
from inferometer.cli.screen import LiveScreen, Pace, PlainScreen
from inferometer.core import Reason, Result, Verdict
from inferometer.load.progress import Progress
from inferometer.run.job import Job
from inferometer.store import RunDir

PROGRESS = Progress(
    phase="window",
    elapsed_s=2.0,
    of_s=8.0,
    sent=12,
    ok=9,
    failed=1,
    in_flight=2,
    tokens=4_000,
    ttft_s=0.0304,
)


class Time:
    """Stands for the `time` module; its clock stands still until it is moved."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    standing = Time()
    monkeypatch.setattr(screen, "time", standing)
    return standing


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Job, Result]]:
    out = tmp_path_factory.mktemp("runs") / "run"
    assert call("predict", *SMALL, "--out", out).code == 0
    pairs = []
    for folder in RunDir(out).finished():
        launch = folder.launch()
        pairs.append((Job(launch.point, launch.plan, launch.digest), folder.result()))
    return pairs


def test_the_time_left_is_that_of_the_first_point_until_one_is_done(time: Time) -> None:
    pace = Pace()
    pace.sweep(4)
    pace.point()
    assert pace.left_s(None) is None
    assert pace.left_s(0.0) is None
    time.now += 10
    assert pace.left_s(0.5) == 4 * 20 - 10
    time.now += 20
    pace.point_over()
    pace.point()
    assert pace.left_s(None) == 3 * 30
    time.now += 12
    assert pace.left_s(0.9) == 3 * 30 - 12, "a point that is done tells more than a share of one"
    time.now += 1_000
    assert pace.left_s(None) == 0


def test_start_and_warm_up_say_nothing_about_the_window(time: Time) -> None:
    pace = Pace()
    pace.sweep(1)
    pace.point()
    assert pace.left_s(None) is None
    time.now += 30
    assert pace.left_s(1 / 60) is None, "it has only begun"
    time.now += 1
    assert pace.left_s(2 / 60) == pytest.approx(58)


def test_the_rate_is_over_half_a_second_at_least(time: Time) -> None:
    pace = Pace()
    pace.point()
    assert pace.tokens_per_s(100) == 0
    time.now += 0.5
    assert pace.tokens_per_s(200) == 400
    time.now += 0.1
    assert pace.tokens_per_s(10_000) == 400
    time.now += 1.9
    assert pace.tokens_per_s(1_200) == 500


def test_plain_lines_are_few(
    time: Time, measured: list[tuple[Job, Result]], capsys: pytest.CaptureFixture[str]
) -> None:
    (job, result), (other, _) = measured
    plain = PlainScreen()
    plain.begin((job, other, other), 1)
    plain.point(job)
    plain.phase("starting the engine (0 s)")
    plain.progress(replace(PROGRESS, elapsed_s=0.0))
    time.now += 5
    plain.progress(PROGRESS)
    plain.progress(PROGRESS)
    plain.result(job, result)
    plain.point(other)
    time.now += 5
    plain.phase("starting the engine (5 s)")
    plain.failed(other, "the engine ended")
    plain.end()
    out, err = capsys.readouterr()
    assert out == ""
    *lines, last = err.splitlines()
    assert lines[:3] == [
        "1 of 3 points are done already",
        f"[2/3] {job.point.id}",
        # Two points are ahead, a quarter of the first took 5 s.
        "    window 2/8 s, 9 requests done, 1 failed, 2 open, 800 tok/s, TTFT now 30 ms, 0:35 left",
    ]
    assert lines[3].startswith(f"    {job.point.id}: valid: ")
    assert "tok/s/GPU at " in lines[3]
    assert lines[4:] == [f"[3/3] {other.point.id}", "    starting the engine (5 s)"]
    assert last == f"    {other.point.id}: failed: the engine ended"


def test_the_live_display_shows_the_same(measured: list[tuple[Job, Result]]) -> None:
    (job, result), (other, _) = measured
    reason = Reason("engine_late", "invalid", "late", 9.0, 5.0)
    bad = replace(result, verdict=Verdict("invalid", (reason,), ("simulated",)), metrics={})
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    live = LiveScreen(console)
    live.begin((job, other), 0)
    live.point(job)
    live.phase("starting the engine (0 s)")
    live.progress(PROGRESS)
    live.progress(replace(PROGRESS, of_s=None, ttft_s=None))
    live.result(job, bad)
    live.point(other)
    live.failed(other, "the engine ended [exit code 2]")
    live.end()
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "window 2 s, 9 requests done, 1 failed, 2 open" in shown
    assert "TTFT now –" in shown
    line = f"{job.point.id}  invalid: – tok/s/GPU at – tok/s/user (engine_late) (simulated)"
    assert line in shown
    assert f"{other.point.id}  failed: the engine ended [exit code 2]" in shown
    assert "2/2" in shown


def test_a_point_that_was_cut_short_says_why(
    measured: list[tuple[Job, Result]], capsys: pytest.CaptureFixture[str]
) -> None:
    job, result = measured[0]
    why = "3 of 3 requests failed; the last: http_status: HTTP 401:\n{}"
    PlainScreen().result(job, replace(result, window=replace(result.window, stop_reason=why)))
    PlainScreen().result(job, result)
    cut_short, whole = capsys.readouterr().err.splitlines()
    assert cut_short == f"{whole}: 3 of 3 requests failed; the last: http_status: HTTP 401: {{}}"


def test_a_name_is_no_markup(measured: list[tuple[Job, Result]]) -> None:
    (job, _), _ = measured
    hostile = replace(job, point=replace(job.point, config="[bold]x[/bold][/red]"))
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    live = LiveScreen(console)
    live.begin((hostile,), 0)
    live.point(hostile)
    live.end()
    assert isinstance(console.file, io.StringIO)
    assert "[bold]x[-bold][-red]_256_16_tp1_c1" in console.file.getvalue()


@pytest.mark.parametrize(("terminal", "kind"), [(True, LiveScreen), (False, PlainScreen)])
def test_a_terminal_gets_the_display_and_a_file_gets_lines(
    terminal: bool, kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Console, "is_terminal", terminal)
    assert type(screen.observer()) is kind


def test_what_is_printed_in_a_pipe_is_not_folded(tmp_path: Path) -> None:
    name = "--isl", "99999", "--requests", "5", "--concurrency", "1"
    said = call("predict", *SMALL[:6], *name, "--out", tmp_path / "run")
    rows = [line for line in said.out.splitlines() if "short_window" in line]
    assert len(rows) == 1
    assert "invalid (short_window, no_samples, context_overflow)" in rows[0]
