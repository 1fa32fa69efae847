"""`doctor client`: measures this machine's client, and says plainly what it can be trusted for."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click
import orjson

from inferometer.errors import VerdictError
from inferometer.run.clientcheck import FULL, QUICK, Level, examine, trusted

HEADINGS = (
    ("streams", ""),
    ("chunks/s", ""),
    ("CPU/chunk", "us"),
    ("first token off", "us, p50/p99"),
    ("last token off", "us, p50/p99"),
    ("coalesced", "all/first"),
    ("sends late", "ms, p50/high"),
    ("loop late", "ms, p99"),
)


def examine_client(form: str, quick: bool) -> None:
    """Measure, print. Raises VerdictError where no level is trusted."""
    levels = examine(QUICK if quick else FULL, lambda text: click.echo(f"    {text}", err=True))
    if form == "json":
        sys.stdout.write(orjson.dumps(_as_json(levels)).decode() + "\n")
    else:
        for line in lines(levels):
            click.echo(line)
    if trusted(levels) is None:
        raise VerdictError("this client is not trusted on this machine, now")


def _as_json(levels: Sequence[Level]) -> dict[str, object]:
    best = trusted(levels)
    return {
        "name": "client",
        "cores": os.cpu_count(),
        "trusted_streams": None if best is None else best.streams,
        "trusted_chunks_per_s": None if best is None else best.chunks_per_s,
        "trusted_from_ttft_ms": None if best is None else best.trusted_from_ttft_ms,
        "levels": [asdict(level) for level in levels],
    }


def lines(levels: Sequence[Level]) -> Iterator[str]:
    """A table of the levels, then what they come to."""
    rows = [*zip(*HEADINGS, strict=True), *(_row(level) for level in levels)]
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
        f"{_number(level.schedule_lag_p50_ms, 1)}/{_number(level.schedule_lag_ms, 1)}",
        _number(level.loop_lag_p99_ms, 1),
    )


def _conclusion(levels: Sequence[Level]) -> Iterator[str]:
    """A line for each level, with its reasons below; then what the lines rest on."""
    for level in levels:
        at = f"{_streams(level)}, {level.chunks_per_s:,.0f} chunks/s"
        if level.faults:
            yield f"not trusted at {at}:"
        else:
            yield f"trusted for {_from(level.trusted_from_ttft_ms)} at {at}"
        yield from (f"    {fault}" for fault in level.faults)
        if level.server_late_p99_ms is not None and level.server_late_p99_ms > LATE_MS:
            yield (
                f"    the server itself was up to {level.server_late_p99_ms:.0f} ms late (p99): "
                "the machine had no more to give"
            )
    yield "TTFT is the median of the run that is to be measured: a request may leave late by 1 % of"
    yield "it, or 2 ms. These levels share the machine with what else runs on it now."
    best = trusted(levels)
    if best is None:
        yield "not trusted at any level measured"
    elif best is levels[-1]:
        yield f"no level above {_streams(best)} was tried"


def _from(ttft_ms: float | None) -> str:
    """Rounded up: below, it would be too much."""
    return f"TTFT above {math.ceil(ttft_ms):,} ms" if ttft_ms else "any TTFT"


def _streams(level: Level) -> str:
    return "1 stream" if level.streams == 1 else f"{level.streams:,} streams"


LATE_MS = 20.0
"""A chunk's gap: a server that is later does not write at the rate asked for."""


def _number(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:,.{places}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
