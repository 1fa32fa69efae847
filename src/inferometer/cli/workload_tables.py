"""The tables of `inferometer workload inspect`: nothing is worked out here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

from rich.table import Table

from inferometer.workload import Inspection, ReadReport, Spread
from inferometer.workload.inspection import IN_USE_S, QUANTILES


def inspection_tables(found: Inspection) -> Iterator[Table]:
    """What sessions hold, as tables in the order in which they are read."""
    yield _pairs("what there is", _counts(found))
    yield _spreads(found.spreads)
    if found.agents:
        yield _pairs("trees", _trees(found))
    yield _caches(found)


def report_table(report: ReadReport, told: Iterable[str]) -> Table:
    """What had to be decided on reading."""
    table = Table(title="read", title_justify="left", show_header=False)
    for field in fields(report):
        value = getattr(report, field.name)
        if field.name != "unknown_fields" and value:
            table.add_row(field.name, f"{value:,}")
    for line in told:
        table.add_row("note", line)
    return table


def _pairs(title: str, pairs: Mapping[str, str]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in pairs.items():
        table.add_row(name, value)
    return table


def _counts(found: Inspection) -> dict[str, str]:
    reuse = found.reuse
    order = "as recorded" if found.lanes is None else f"{found.lanes} sessions side by side"
    return {
        "sessions": f"{found.sessions:,}",
        "turns": f"{found.turns:,}",
        "input tokens": f"{found.input_tokens:,}",
        "output tokens": f"{found.output_tokens:,}",
        "tokens a block": f"{found.block_size:,}",
        "in different blocks": f"{reuse.distinct_tokens:,} tokens hold everything",
        "prefixes broken": f"{found.resets['compacted']:,} compacted, "
        f"{found.resets['rewritten']:,} rewritten",
        "order of requests": order,
        "most in use": f"{max(reuse.in_use_tokens):,} tokens sent within {IN_USE_S} s",
    }


def _trees(found: Inspection) -> dict[str, str]:
    return {
        "sub-agents": ", ".join(f"{count:,} {kind}" for kind, count in found.agents.items()),
        "launched at once": ", ".join(f"{n:,} x {size}" for size, n in found.fan_out.items()),
        "levels of agents": ", ".join(f"{n:,} x {depth}" for depth, n in found.depth.items()),
        "in the background": f"{found.background:,}",
    }


def _spreads(spreads: Iterable[Spread]) -> Table:
    table = Table(title="distributions", title_justify="left")
    for name in ("what", "unit"):
        table.add_column(name)
    heads = ("least", *(f"p{q * 100:g}" for q in QUANTILES[1:-1]), "most")
    for name in ("values", "mean", *heads):
        table.add_column(name, justify="right")
    for one in spreads:
        numbers = (one.mean, *one.quantiles)
        table.add_row(one.name, one.unit, f"{one.count:,}", *(_number(n) for n in numbers))
    return table


def _caches(found: Inspection) -> Table:
    table = Table(title="theoretical prefix hit, by size of the cache", title_justify="left")
    table.add_column("tokens", justify="right")
    table.add_column("of input", justify="right")
    for hit in found.reuse.hits:
        size = "without end" if hit.tokens is None else f"{hit.tokens:,}"
        table.add_row(size, f"{hit.hit:.2%}")
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
