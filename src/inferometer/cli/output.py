"""Results on stdout: a table for people, JSON lines or CSV for programs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence

import click
import orjson
from rich.console import Console
from rich.table import Table

from inferometer.core import Result

FORMATS = click.Choice(["table", "json", "csv"])
COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("total_tok_s_per_gpu", "tok/s/GPU", 0),
    ("output_tok_s_per_gpu", "out/GPU", 0),
    ("intvty_p50", "tok/s/user", 1),
    ("ttft_p50_s", "TTFT p50 s", 3),
    ("ttft_p90_s", "p90", 3),
    ("tpot_p50_s", "TPOT p50 s", 4),
    ("in_flight", "in flight", 1),
)
"""(metric, heading, decimals)."""
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
    console = Console()
    provenance = {result.provenance for result in results}
    table = Table(title="simulated" if provenance == {"simulated"} else None, title_style="bold")
    for name in ("config", "hardware", "scenario", "parallel", "conc"):
        table.add_column(name, justify="right" if name == "conc" else "left")
    for _, heading, _ in COLUMNS:
        table.add_column(heading, justify="right")
    table.add_column("ok")
    table.add_column("verdict")
    for result in results:
        point = result.point
        table.add_row(
            point.config,
            point.hardware,
            point.scenario.label,
            point.parallelism.label,
            str(point.conc),
            *(_cell(result.metrics.get(name), digits) for name, _, digits in COLUMNS),
            f"{result.counts['ok']}/{result.counts['sent']}",
            _verdict(result),
        )
    # In a pipe there is no width to fit: a folded table could not be read by a program or a diff.
    console.print(table) if console.is_terminal else Console(width=1000).print(table)
    for name in unfinished:
        click.echo(f"not measured: {name}")


def _verdict(result: Result) -> str:
    codes = ", ".join(reason.code for reason in result.verdict.reasons)
    return f"{result.verdict.level} ({codes})" if codes else result.verdict.level


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
