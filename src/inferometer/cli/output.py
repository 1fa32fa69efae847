"""Results on stdout: a table for people, JSON lines or CSV for programs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click
import orjson

from inferometer.core import Result
from inferometer.deferred import Deferred

if TYPE_CHECKING:
    from rich import console as _console

    from inferometer.analyze import objectives as _words
    from inferometer.cli import table as _tables
else:
    # Nothing is shown before the load is over.
    _console = Deferred("rich.console")
    _tables = Deferred("inferometer.cli.table")
    _words = Deferred("inferometer.analyze.objectives")

GOODPUT = "goodput_requests_s"
FORMATS = click.Choice(["table", "json", "csv"])
format_option = click.option(
    "--format", "form", type=FORMATS, default="table", show_default=True, help="Form of the output."
)


def print_results(results: Sequence[Result], unfinished: Iterable[str], form: str) -> None:
    """Print results in the asked form. JSON: one object a line, as in result.json."""
    if form == "json":
        for result in results:
            sys.stdout.write(orjson.dumps(result).decode() + "\n")
    elif form == "csv":
        _csv(results)
    else:
        _table(results, unfinished)


def _csv(results: Sequence[Result]) -> None:
    names = sorted({name for result in results for name in result.metrics})
    writer = csv.writer(sys.stdout, lineterminator="\n")
    head = ("point", "config", "hardware", "scenario", "conc", "gpus", "provenance", "verdict")
    writer.writerow([*head, "reasons", *names])
    for result in results:
        point = result.point
        row = (point.id, point.config, point.hardware, point.scenario.label, point.conc)
        codes = " ".join(reason.code for reason in result.verdict.reasons)
        values = [result.metrics.get(name) for name in names]
        writer.writerow(
            [*row, result.gpus, result.provenance, result.verdict.level, codes, *values]
        )


def _table(results: Sequence[Result], unfinished: Iterable[str]) -> None:
    if results:
        console = _console.Console()
        # In a pipe there is no width to fit: a program or a diff gets every column, unfolded.
        terminal = console.is_terminal
        shown = _tables.fitted(results, console.width) if terminal else _tables.whole(results)
        _console.Console(width=max(shown.width, console.width)).print(shown.table)
    for line in _objectives(results):
        click.echo(line)
    for name in unfinished:
        click.echo(f"not measured: {name}")


def _objectives(results: Sequence[Result]) -> list[str]:
    """What goodput was held against, by point where they differ, and why there is none."""
    held = {result.slos: ", ".join(map(_words.told, result.slos)) for result in results}
    if len(held) == 1:
        lines = [f"objectives: {words}" for words in held.values() if words]
    else:
        lines = [f"objectives of {r.point.id}: {held[r.slos] or 'none'}" for r in results]
    for result in results:
        why = result.notes.get(GOODPUT)
        if result.slos and why and result.metrics.get(GOODPUT) is None:
            lines.append(f"no goodput of {result.point.id}: {why}")
    return lines
