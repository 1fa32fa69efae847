"""The sessions of a run, one a row: for people as a table, for programs as CSV or JSON lines."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer.analyze.playtable import PlayRow, play_rows
from inferometer.errors import InputError, nearest
from inferometer.store import RunDir

NAMES = tuple(field.name for field in fields(PlayRow))
SHOWN = (
    *("lane", "play", "session", "requests", "failed", "drained", "start_s", "makespan_s"),
    *("critical_path_s", "join_wait_s", "recorded_gap_s", "achieved_gap_s"),
)
"""Of a table for people."""
WIDTH = 180
"""Of a table that goes to no terminal."""


class _Found(NamedTuple):
    point: str
    rows: list[PlayRow]


def print_plays(run: RunDir, pattern: str, form: str) -> None:
    """The plays of every finished point whose id matches. Raises InputError where none does."""
    found = list(_found(run, pattern))
    if form == "json":
        for point, rows in found:
            for row in rows:
                sys.stdout.write(orjson.dumps({"point": point, **asdict(row)}).decode() + "\n")
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["point", *NAMES])
        for point, rows in found:
            writer.writerows([point, *(getattr(row, name) for name in NAMES)] for row in rows)
    else:
        console = Console()
        wide = console if console.is_terminal else Console(width=WIDTH)
        for point, rows in found:
            wide.print(_table(point, rows))


def _found(run: RunDir, pattern: str) -> Iterator[_Found]:
    names = [planned.id for planned in run.manifest().points if run.point(planned.id).done]
    wanted = [name for name in names if fnmatchcase(name, pattern)]
    if not wanted:
        raise InputError(f"{run.path}: no finished point {pattern!r}{nearest(pattern, names)}")
    for name in wanted:
        folder = run.point(name)
        result, plan = folder.result(), folder.launch().plan
        rows = play_rows(
            folder.requests(sessions=True),
            folder.words(),
            result.window.start_ns,
            open_loop=plan.workload.open_loop,
        )
        yield _Found(name, rows)


def _table(point: str, rows: list[PlayRow]) -> Table:
    """Cells are plain text: a name may look like markup."""
    table = Table(title=Text(point), box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in SHOWN:
        table.add_column(name.replace("_s", " s").replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(Text(_cell(getattr(row, name))) for name in SHOWN))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
