"""`inferometer report`: the page of a run."""

from __future__ import annotations

from pathlib import Path

import click

from inferometer.report import render
from inferometer.report.stored import view_of
from inferometer.store import RunDir


@click.command(epilog="\b\nExample:\n  inferometer report runs/quickstart -o page.html")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The page to write [RUN/report.html].",
)
def report(run: Path, out: Path | None) -> None:
    """Write RUN (a run directory) as one HTML page that opens from disk, without a network."""
    page = out or run / "report.html"
    page.write_text(render(view_of(RunDir(run))), encoding="utf-8")
    click.echo(page)
