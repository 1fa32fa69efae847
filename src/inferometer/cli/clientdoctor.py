"""`doctor client`: measures this machine's client, and says plainly what it can be trusted for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click
import orjson

from inferometer.run.clientcheck import FULL, QUICK, Level, examine, trusted

HEADINGS = (
    "streams",
    "chunks/s",
    "CPU us/chunk",
    "first token off us p50/p99",
    "last token",
    "coalesced/first",
    "send late ms p50/p99",
    "loop late ms p99",
)


def examine_client(form: str, quick: bool) -> None:
    """Measure, print."""
    levels = examine(QUICK if quick else FULL, lambda text: click.echo(f"    {text}", err=True))
    if form == "json":
        sys.stdout.write(orjson.dumps(_as_json(levels)).decode() + "\n")
        return
    for line in lines(levels):
        click.echo(line)


def _as_json(levels: Sequence[Level]) -> dict[str, object]:
    best = trusted(levels)
    return {
        "name": "client",
        "cores": os.cpu_count(),
        "trusted_streams": None if best is None else best.streams,
        "trusted_chunks_per_s": None if best is None else best.chunks_per_s,
        "levels": [asdict(level) for level in levels],
    }


def lines(levels: Sequence[Level]) -> Iterator[str]:
    """A table of the levels, then what they come to."""
    rows = [HEADINGS, *(_row(level) for level in levels)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    yield from _conclusion(levels)


def _row(level: Level) -> tuple[str, ...]:
    return (
        f"{level.streams:,}",
        f"{level.chunks_per_s:,.0f}",
        _number(level.cpu_us_per_chunk, 1),
        f"{_number(level.first_error_p50_us, 0)}/{_number(level.first_error_p99_us, 0)}",
        f"{_number(level.last_error_p50_us, 0)}/{_number(level.last_error_p99_us, 0)}",
        f"{level.coalesced_share:.1%}/{_share(level.coalesced_first_share)}",
        f"{_number(level.schedule_lag_p50_ms, 1)}/{_number(level.schedule_lag_p99_ms, 1)}",
        _number(level.loop_lag_p99_ms, 1),
    )


def _conclusion(levels: Sequence[Level]) -> Iterator[str]:
    best = trusted(levels)
    if best is None:
        yield "not trusted at any level measured, on this machine, now"
    else:
        yield (
            f"trusted up to {best.streams:,} streams, {best.chunks_per_s:,.0f} chunks/s: first "
            f"tokens within {_number(best.first_error_p99_us, 0)} us of the server's write, sends "
            f"within {_number(best.schedule_lag_p99_ms, 1)} ms of when they are due (p99)"
        )
        if best is levels[-1]:
            yield "no level above that was tried"
    for level in levels:
        for fault in level.faults:
            yield f"degraded at {level.streams:,} streams: {fault}"
        if level.server_late_p99_ms is not None and level.server_late_p99_ms > LATE_MS:
            yield (
                f"at {level.streams:,} streams the server itself was up to "
                f"{level.server_late_p99_ms:.0f} ms late (p99): the machine had no more to give"
            )


LATE_MS = 20.0
"""A chunk's gap: a server that is later does not write at the rate asked for."""


def _number(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:,.{places}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
