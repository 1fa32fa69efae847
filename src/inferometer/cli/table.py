"""The table of results, as wide as its place allows: what matters less is left out, and no number
is ever folded or cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from inferometer.core import Point, Result

IDENTITY: tuple[tuple[str, Callable[[Point], str]], ...] = (
    ("config", lambda point: point.config),
    ("hardware", lambda point: point.hardware),
    ("scenario", lambda point: point.scenario.label),
    ("parallel", lambda point: point.parallelism.label),
)
NUMBERS: tuple[tuple[str, str, int], ...] = (
    ("total_tok_s_per_gpu", "tok/s\n/GPU", 0),
    ("output_tok_s_per_gpu", "out tok/s\n/GPU", 0),
    ("intvty_p50", "tok/s\n/user", 1),
    ("ttft_p50_s", "TTFT\np50 s", 3),
    ("ttft_p90_s", "TTFT\np90 s", 3),
    ("tpot_p50_s", "TPOT\np50 s", 4),
    ("in_flight", "in\nflight", 1),
    ("offered_s", "due\n/s", 1),
    ("goodput_requests_s", "good\nreq/s", 2),
    ("cached_share", "cached", 3),
    ("theoretical_prefix_hit_engine", "cached\ntheory", 3),
)
"""(metric, heading, decimals)."""
OPTIONAL = ("offered_s", "goodput_requests_s", "cached_share", "theoretical_prefix_hit_engine")
"""Columns that are there only where a result has them, and the third only beside the fourth."""
LESS = (
    "theoretical_prefix_hit_engine",
    "cached_share",
    "ok",
    "offered_s",
    "in_flight",
    "ttft_p90_s",
    "output_tok_s_per_gpu",
    "tpot_p50_s",
)
"""What goes first where a terminal is narrow, in this order."""
GAP = 2
"""Columns of the terminal between two of the table."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column as text. `folds`: its cells may be broken between words."""

    name: str
    heading: str
    cells: tuple[str, ...]
    number: bool
    folds: bool = False

    @property
    def width(self) -> int:
        """The least it takes."""
        lines = self.heading.split("\n")
        for cell in self.cells:
            lines += cell.split() if self.folds else [cell]
        return max(map(cell_len, lines))

    @property
    def varies(self) -> bool:
        """Whether it tells one row from another."""
        return len(set(self.cells)) > 1


class Shown(NamedTuple):
    """A table and the width that it needs."""

    table: Table
    width: int


def whole(results: Sequence[Result]) -> Shown:
    """Every column, each row and the heading on one line."""
    columns = [
        replace(column, heading=column.heading.replace("\n/", "/").replace("\n", " "))
        for column in _columns(results)
    ]
    return _shown(results, columns, _width(columns))


def fitted(results: Sequence[Result], width: int) -> Shown:
    """As many columns as `width` has room for, the first to go first; never fewer than the essence.

    Kept to the end: concurrency, throughput a GPU and a user, median TTFT, verdict; and the config
    where that alone tells rows apart. Where even these have no room the table is wider.
    """
    choices = list(_fewer(_columns(results), results))
    columns = next((choice for choice in choices if _width(choice) <= width), choices[-1])
    unfolded = _width([replace(column, folds=False) for column in columns])
    return _shown(results, columns, max(_width(columns), min(unfolded, width)))


def _columns(results: Sequence[Result]) -> list[Column]:
    points = [result.point for result in results]
    found = [Column(name, name, tuple(map(of, points)), number=False) for name, of in IDENTITY]
    found.append(Column("conc", "conc", tuple(str(point.conc) for point in points), number=True))
    for name, heading, digits in NUMBERS:
        if name in OPTIONAL and not _known(name, results):
            continue
        cells = tuple(_number(result.metrics.get(name), digits) for result in results)
        found.append(Column(name, heading, cells, number=True))
    found.append(Column("ok", "ok", tuple(map(_ok, results)), number=False))
    found.append(Column("verdict", "verdict", tuple(map(_verdict, results)), number=False))
    return found


def _known(name: str, results: Sequence[Result]) -> bool:
    """Whether a result has it. What was cached says something beside what could be."""
    if name in ("cached_share", "theoretical_prefix_hit_engine"):
        name = "theoretical_prefix_hit_engine"
        return any(result.metrics.get(name) is not None for result in results)
    return any(name in result.metrics for result in results)


def _fewer(columns: list[Column], results: Sequence[Result]) -> Iterator[list[Column]]:
    """The columns, and then ever fewer of them."""
    if not _configs_alike(results):
        columns = _without(columns, "config")
    yield columns
    columns = [replace(column, folds=column.name == "verdict") for column in columns]
    yield columns
    names = dict(IDENTITY)
    alike = [column.name for column in columns if column.name in names and not column.varies]
    for name in (*LESS, *alike):
        columns = _without(columns, name)
        yield columns
    levels = tuple(result.verdict.level for result in results)
    columns = [replace(c, cells=levels) if c.name == "verdict" else c for c in columns]
    yield columns
    for name in ("parallel", "scenario", "hardware"):
        columns = _without(columns, name)
        yield columns


def _without(columns: Iterable[Column], name: str) -> list[Column]:
    return [column for column in columns if column.name != name]


def _configs_alike(results: Sequence[Result]) -> bool:
    """Whether several configs share hardware and scenario, so that only their names differ."""
    points = [result.point for result in results]
    seen = {(point.hardware, point.scenario.label, point.config) for point in points}
    return len({(hardware, scenario) for hardware, scenario, _ in seen}) < len(seen)


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def _shown(results: Sequence[Result], columns: Sequence[Column], width: int) -> Shown:
    """Cells are plain text: a name may look like markup."""
    simulated = {result.provenance for result in results} == {"simulated"}
    table = Table(
        title="simulated" if simulated else None,
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        width=width,
    )
    for column in columns:
        table.add_column(
            column.heading,
            justify="right" if column.number else "left",
            no_wrap=not column.folds,
            min_width=column.width,
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(Text(cell) for cell in cells))
    return Shown(table, width)


def _ok(result: Result) -> str:
    ok, sent = (result.counts.get(name) for name in ("ok", "sent"))
    return f"{_number(ok, 0)}/{_number(sent, 0)}"


def _verdict(result: Result) -> str:
    codes = ", ".join(reason.code for reason in result.verdict.reasons)
    return f"{result.verdict.level} ({codes})" if codes else result.verdict.level


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
