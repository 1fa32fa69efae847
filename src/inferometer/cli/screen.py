"""How a run looks while it goes: a live display on a terminal, plain lines elsewhere. On stderr, so
that stdout stays the data's.
"""

from __future__ import annotations

import time

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from inferometer.core import Result
from inferometer.load.progress import Progress as LoadProgress
from inferometer.run.job import Job
from inferometer.run.observer import Observer

PLAIN_EVERY_S = 5.0
STYLE = {"valid": "green", "degraded": "yellow", "invalid": "red"}


def observer() -> Observer:
    """The display that suits where stderr goes."""
    console = Console(stderr=True)
    return LiveScreen(console) if console.is_terminal else PlainScreen()


class Pace:
    """Tokens a second, and the time a sweep still takes."""

    def __init__(self) -> None:
        self._last: tuple[float, int] = (time.monotonic(), 0)
        self._rate = 0.0
        self._spent: list[float] = []
        self._begun = time.monotonic()
        self._opened: tuple[float, float] | None = None
        """(seconds since the point began, share) when a share was told first: what came before it,
        start and warm-up, says nothing about the rest."""
        self._points = 0

    def sweep(self, points: int) -> None:
        """So many are to be measured."""
        self._points = points

    def point(self) -> None:
        """A point starts."""
        self._begun, self._last, self._rate = time.monotonic(), (time.monotonic(), 0), 0.0
        self._opened = None

    def point_over(self) -> None:
        """A point ends."""
        self._spent.append(time.monotonic() - self._begun)

    def tokens_per_s(self, tokens: int) -> float:
        """Rate since the last call."""
        now, (then, before) = time.monotonic(), self._last
        if now - then >= 0.5:
            self._rate, self._last = (tokens - before) / (now - then), (now, tokens)
        return self._rate

    def left_s(self, share: float | None) -> float | None:
        """Until the sweep ends, at the pace of the points done, or of `share` of the first one.

        None while there is no telling. By the wall: virtual time has another pace.
        """
        ahead, elapsed = self._points - len(self._spent), time.monotonic() - self._begun
        if self._spent:
            mean = sum(self._spent) / len(self._spent)
        elif share is None:
            return None
        else:
            opened_s, had = self._opened = self._opened or (elapsed, share)
            if share <= had:
                return None
            mean = elapsed + (1 - share) * (elapsed - opened_s) / (share - had)
        return max(0.0, mean * ahead - elapsed)


class PlainScreen:
    """A line a point, and one every few seconds while it is loaded."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._number = 0
        self._of = 0
        self._said = 0.0

    def data(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            click.echo(line, err=True)

    def begin(self, jobs: tuple[Job, ...], done: int) -> None:
        self._number, self._of = done, len(jobs)
        self._pace.sweep(len(jobs) - done)
        if done:
            click.echo(f"{done} of {len(jobs)} points are done already", err=True)

    def point(self, job: Job) -> None:
        self._number += 1
        self._said = time.monotonic()
        self._pace.point()
        click.echo(f"[{self._number}/{self._of}] {job.point.id}", err=True)

    def phase(self, text: str) -> None:
        if time.monotonic() - self._said >= PLAIN_EVERY_S:
            self._said = time.monotonic()
            click.echo(f"    {text}", err=True)

    def progress(self, progress: LoadProgress) -> None:
        rate, left = self._pace.tokens_per_s(progress.tokens), _left(self._pace, progress)
        if time.monotonic() - self._said >= PLAIN_EVERY_S:
            self._said = time.monotonic()
            click.echo(f"    {_load_line(progress, rate)}{left}", err=True)

    def result(self, job: Job, result: Result) -> None:
        self._pace.point_over()
        click.echo(f"    {job.point.id}: {_result_line(result)}", err=True)

    def failed(self, job: Job, message: str) -> None:
        self._pace.point_over()
        click.echo(f"    {job.point.id}: failed: {message}", err=True)

    def end(self) -> None:
        return None


class LiveScreen:
    """A bar for the sweep, one for the window, and the load in figures; finished points above."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace = Pace()
        self._line = Text()
        # A name is no markup.
        name = TextColumn("{task.description}", markup=False)
        columns = (name, BarColumn(), MofNCompleteColumn())
        self._sweep = Progress(*columns, TimeElapsedColumn(), console=console)
        self._window = Progress(name, BarColumn(), console=console)
        self._live = Live(
            Group(self._sweep, self._window, self._line), console=console, refresh_per_second=4
        )

    def data(self, lines: tuple[str, ...]) -> None:
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)

    def begin(self, jobs: tuple[Job, ...], done: int) -> None:
        self._points = self._sweep.add_task("points", total=len(jobs), completed=done)
        self._bar = self._window.add_task("", total=1.0)
        self._pace.sweep(len(jobs) - done)
        self._live.start()

    def point(self, job: Job) -> None:
        self._pace.point()
        self._window.update(self._bar, description=job.point.id, completed=0.0)

    def phase(self, text: str) -> None:
        self._line.plain = f"{text}{_left(self._pace)}"

    def progress(self, progress: LoadProgress) -> None:
        if progress.of_s:
            self._window.update(self._bar, total=progress.of_s, completed=progress.elapsed_s)
        rate = self._pace.tokens_per_s(progress.tokens)
        self._line.plain = f"{_load_line(progress, rate)}{_left(self._pace, progress)}"

    def result(self, job: Job, result: Result) -> None:
        self._pace.point_over()
        self._sweep.advance(self._points)
        level = result.verdict.level
        self._console.print(
            Text(f"{job.point.id}  {_result_line(result)}", style=STYLE[level]), soft_wrap=True
        )

    def failed(self, job: Job, message: str) -> None:
        self._pace.point_over()
        self._sweep.advance(self._points)
        self._console.print(Text(f"{job.point.id}  failed: {message}", style="red"), soft_wrap=True)

    def end(self) -> None:
        self._live.stop()


def _load_line(progress: LoadProgress, rate: float) -> str:
    ttft = "–" if progress.ttft_s is None else f"{progress.ttft_s * 1e3:.0f} ms"
    time_of = f"{progress.elapsed_s:.0f}" + (f"/{progress.of_s:.0f} s" if progress.of_s else " s")
    return (
        f"{progress.phase} {time_of}, {progress.ok} requests done, {progress.failed} failed, "
        f"{progress.in_flight} open, {rate:,.0f} tok/s, TTFT now {ttft}"
    )


def _left(pace: Pace, progress: LoadProgress | None = None) -> str:
    share = progress.elapsed_s / progress.of_s if progress and progress.of_s else None
    left_s = pace.left_s(share)
    if left_s is None:
        return ""
    minutes, seconds = divmod(round(left_s), 60)
    return f", {minutes}:{seconds:02d} left"


def _result_line(result: Result) -> str:
    codes = ", ".join(reason.code for reason in result.verdict.reasons)
    labels = ", ".join(result.verdict.labels)
    per_gpu = result.metrics.get("total_tok_s_per_gpu")
    user = result.metrics.get("intvty_p50")
    figures = f"{_number(per_gpu)} tok/s/GPU at {_number(user)} tok/s/user"
    line = f"{result.verdict.level}: {figures}" + "".join(
        f" ({text})" for text in (codes, labels) if text
    )
    cut_short = result.window.stop_reason
    return f"{line}: {' '.join(cut_short.split())}" if cut_short else line


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
