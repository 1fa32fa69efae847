"""The page of a workload: what sessions hold and what their prompts share, as pictures and tables.

One file that loads nothing, in the style and under the policy of the report's page. Every figure
comes ready from the inspection; the tables are complete without a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from string import Template

from plotly.offline import get_plotlyjs

from inferometer import __version__
from inferometer.report.fields import significant
from inferometer.report.page import ICON, asset, embedded, policy
from inferometer.workload.inspection import IN_USE_S, QUANTILES, Inspection, Spread


def render_workload(found: Inspection, source: str, told: Iterable[str]) -> str:
    """The page as HTML; `told` are sentences about what reading the sessions came to."""
    scripts = [get_plotlyjs(), asset("workload.js")]
    return Template(asset("workload.html")).substitute(
        policy=policy(scripts),
        icon=ICON,
        style=asset("page.css"),
        title=escape(source),
        facts=_facts(found),
        told=_told(list(told)),
        order=escape(_order(found)),
        in_use=IN_USE_S,
        caches=_caches(found),
        figures="".join(_figure(index, one) for index, one in enumerate(found.spreads)),
        spreads=_spreads(found.spreads),
        trees=_trees(found),
        inferometer=escape(__version__),
        data=embedded(_data(found)),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _data(found: Inspection) -> dict[str, object]:
    reuse = found.reuse
    sized = [hit for hit in reuse.hits if hit.tokens is not None]
    return {
        "sizes": [hit.tokens for hit in sized],
        "hits": [hit.hit for hit in sized],
        "endless": reuse.hits[-1].hit,
        "holdsAll": reuse.distinct_tokens,
        "atSeconds": reuse.at_s,
        "inUse": reuse.in_use_tokens,
        "spreads": [
            {"name": one.name, "unit": one.unit, "edges": one.edges, "counts": one.counts}
            for one in found.spreads
        ],
    }


def _order(found: Inspection) -> str:
    if found.lanes is None:
        return "Requests in the order of their recorded times."
    return (
        f"{found.lanes:,} sessions side by side, each going on as recorded, with pauses of at most "
        "300 s; the next one begins when all of one has ended."
    )


def _facts(found: Inspection) -> str:
    reuse = found.reuse
    facts = {
        "Sessions": f"{found.sessions:,}",
        "Turns": f"{found.turns:,}",
        "Input": f"{found.input_tokens:,} tokens",
        "Output": f"{found.output_tokens:,} tokens",
        "Block": f"{found.block_size:,} tokens",
        "Distinct": f"{reuse.distinct_tokens:,} tokens hold every block",
        "Endless hit": f"{reuse.hits[-1].hit:.2%} of input",
        "Most in use": f"{max(reuse.in_use_tokens):,} tokens",
        "Broken": ", ".join(f"{count:,} {kind}" for kind, count in found.resets.items()),
    }
    return _pairs(facts)


def _trees(found: Inspection) -> str:
    if not found.agents:
        return ""
    facts = {
        "Kinds": ", ".join(f"{count:,} {kind}" for kind, count in found.agents.items()),
        "At once": ", ".join(f"{n:,} groups of {size}" for size, n in found.fan_out.items()),
        "Levels": ", ".join(f"{n:,} sessions of {depth}" for depth, n in found.depth.items()),
        "Background": f"{found.background:,} that nobody waits for",
    }
    return f"<section><h2>Trees of agents</h2><div class='facts'>{_pairs(facts)}</div></section>"


def _pairs(facts: dict[str, str]) -> str:
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts.items()
    )
    return f"<section><dl>{rows}</dl></section>"


def _told(told: Sequence[str]) -> str:
    if not told:
        return ""
    listed = "".join(f"<li>{escape(line)}</li>" for line in told)
    return f"<section class='notes'><h2>What reading them came to</h2><ul>{listed}</ul></section>"


def _caches(found: Inspection) -> str:
    rows = [
        ("without end" if hit.tokens is None else f"{hit.tokens:,}", f"{hit.hit:.2%}")
        for hit in found.reuse.hits
    ]
    return _table(("Cache, tokens", "Prefix hit, of input"), rows)


def _figure(index: int, one: Spread) -> str:
    name = escape(f"{one.name[:1].upper()}{one.name[1:]}, {one.unit}")
    return (
        f"<figure class='chart'><figcaption><h3 id='spread-{index}-title'>{name}</h3></figcaption>"
        f"<div class='plot small' id='spread-{index}' role='img' "
        f"aria-labelledby='spread-{index}-title'></div></figure>"
    )


def _spreads(spreads: Sequence[Spread]) -> str:
    heads = ("least", *(f"p{q * 100:g}" for q in QUANTILES[1:-1]), "most")
    rows = [
        (
            f"{one.name} ({one.unit})",
            f"{one.count:,}",
            *(significant(value) for value in (one.mean, *one.quantiles)),
        )
        for one in spreads
    ]
    return _table(("What", "Values", "Mean", *heads), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr><th scope='row'>"
        + escape(first)
        + "</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f"<div class='wide'><table class='numbers'><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
