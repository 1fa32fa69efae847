"""The figures of the peers side by side: plain text of at most 100 columns, or markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Summary = Mapping[str, Mapping[str, float | None]]
"""Figures by name, by tool."""


def lines_of(title: str, summary: Summary) -> list[str]:
    """A row a figure, a column a tool."""
    head, rows = _cells(summary)
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(row: Sequence[str]) -> str:
        first, *rest = row
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        return "  ".join((first.ljust(widths[0]), *cells)).rstrip()

    return [title, line(head), line(["-" * width for width in widths]), *map(line, rows)]


def markdown_of(title: str, summary: Summary) -> list[str]:
    """The same as a table of a page."""
    head, rows = _cells(summary)
    rule = ["---", *("--:" for _ in head[1:])]
    return [title, "", *(f"| {' | '.join(row)} |" for row in (head, rule, *rows))]


def _cells(summary: Summary) -> tuple[list[str], list[list[str]]]:
    names = dict.fromkeys(name for each in summary.values() for name in each)
    rows = [[name, *(_number(each.get(name)) for each in summary.values())] for name in names]
    return ["", *summary], rows


def _number(value: float | None) -> str:
    """Three digits that count, no fewer than the whole ones."""
    if value is None:
        return "-"
    places = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{places}f}"
