"""`inferometer show`: the table of a run."""

from __future__ import annotations

from pathlib import Path

import click

from inferometer.cli.output import format_option, print_results
from inferometer.report.stored import view_of
from inferometer.store import RunDir


@click.command(
    epilog="\b\nExamples:\n  inferometer show runs/quickstart\n"
    "  inferometer show runs/quickstart --format json | jq .metrics.ttft_p50_s"
)
@click.argument("run", type=click.Path(path_type=Path))
@format_option
def show(run: Path, form: str) -> None:
    """Print the points of RUN (a run directory), also of one that is not complete."""
    view = view_of(RunDir(run))
    print_results([point.result for point in view.points], view.unfinished, form)
