"""`inferometer show`: the table of a run, or of its sessions."""

from __future__ import annotations

from pathlib import Path

import click

from inferometer.cli.output import format_option, print_results
from inferometer.cli.playtable import print_plays
from inferometer.report.stored import view_of
from inferometer.store import RunDir


@click.command(
    short_help="Print the points of a run, as a table, JSON or CSV.",
    epilog="\b\nExamples:\n  inferometer show runs/quickstart\n"
    "  inferometer show runs/quickstart --format json | jq .metrics.ttft_p50_s\n"
    "  inferometer show runs/agentic --sessions --point '*_c16' --format csv",
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--sessions", is_flag=True, help="A row a session that was played, with its times.")
@click.option("--point", metavar="ID", help="With --sessions: only these points; * and ? match.")
@format_option
def show(run: Path, sessions: bool, point: str | None, form: str) -> None:
    """Print the points of RUN (a run directory), also of one that is not complete."""
    if sessions:
        print_plays(RunDir(run), point or "*", form)
        return
    if point is not None:
        raise click.UsageError("--point goes only with --sessions")
    view = view_of(RunDir(run))
    print_results([point.result for point in view.points], view.unfinished, form)
