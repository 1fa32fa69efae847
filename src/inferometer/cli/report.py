"""`inferometer report`: the page of a run, or of one of its points."""

from __future__ import annotations

from pathlib import Path

import click

from inferometer.errors import InputError, Problem, StoreError, nearest
from inferometer.report import render, render_point, times_of
from inferometer.report.stored import view_of
from inferometer.store import PointDir, RunDir

PAGE = b"<!DOCTYPE html>"


@click.command(
    short_help="Write a run, or one of its points, as an HTML page.",
    epilog="\b\nExamples:\n  inferometer report runs/quickstart -o page.html\n"
    "  inferometer report runs/first --point dsr1-fp8-h200-vllm_1k1k_tp8_c64",
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--point",
    "point_id",
    metavar="ID",
    help="One point over time: its load, queue, KV pool, tokens, power, and every request.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The page to write [RUN/report.html; of a point RUN/points/ID/point.html].",
)
def report(run: Path, point_id: str | None, out: Path | None) -> None:
    """Write RUN (a run directory) as one HTML page that opens from disk, without a network."""
    directory = RunDir(run)
    if point_id is None:
        page = out or run / "report.html"
        text = render(view_of(directory))
    else:
        folder = _finished(directory, point_id)
        page = out or folder.path / "point.html"
        beside = page.resolve().parent == folder.path.resolve()
        text = render_point(times_of(folder, directory.manifest().id), beside=beside)
    _refuse_measured(page, run)
    page.write_text(text, encoding="utf-8")
    click.echo(page)


def _finished(run: RunDir, point_id: str) -> PointDir:
    """The point's directory. Raises InputError for none of that name, StoreError without result."""
    known = [planned.id for planned in run.manifest().points]
    if point_id not in known:
        several = f"; it has {len(known):,}, such as {known[0]!r}" if known else "; it has none"
        listed = f"; it has {known[0]!r}" if len(known) == 1 else several
        hint = nearest(point_id, known) or listed
        raise InputError(Problem(f"the run has no point {point_id!r}{hint}", str(run.path)))
    folder = run.point(point_id)
    if not folder.done:
        why = folder.failure() or "it was not measured to its end"
        raise StoreError(f"{folder.path}: no result, so no page: {why}")
    return folder


def _refuse_measured(page: Path, run: Path) -> None:
    """What lies in a run's directory and is no page was measured: it stays."""
    if not page.is_file() or run.resolve() not in page.resolve().parents:
        return
    with page.open("rb") as file:
        if file.read(len(PAGE)) != PAGE:
            raise InputError(Problem("is part of the run, not a page; not overwritten", str(page)))
