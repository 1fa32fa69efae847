"""The page: a template filled with escaped text, the data as JSON, and the plotting library.

The page's own policy forbids every request and every script but its own, by hash, so that a
hostile name in a config cannot run even if it got past the escaping.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

import orjson
from plotly.offline import get_plotlyjs

from inferometer.core import Result
from inferometer.report.charts import RATE_AXES, Panel, chart_data, panels
from inferometer.report.details import detail_data
from inferometer.report.fields import INTERACTIVITIES, LATENCIES, PERCENTILES, RATES, field
from inferometer.report.legend import legends
from inferometer.report.table import options, table
from inferometer.report.view import RunView
from inferometer.workload import description

UNNAMED = "unknown"
"""The hardware of a server that nobody named."""
EXTERNAL = "external"
"""The framework of a server that was up: nothing was started."""
_LEVELS = ("valid", "degraded", "invalid")
_ICON_SVG = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' "
    "rx='3' fill='#0b5cad'/><path d='M3 3.5C8 4 12 7 12.5 13' stroke='#fff' stroke-width='2' "
    "fill='none' stroke-linecap='round'/></svg>"
)
ICON = "data:image/svg+xml;base64," + base64.b64encode(_ICON_SVG.encode()).decode()
_PROVENANCE = {
    "measured": "A real engine answered every request on the hardware named.",
    "simulated": "The built-in engine model answered every request: these are predictions, and "
    "no GPU was measured.",
}
_MIXED = (
    "Points answered by a real engine: {measured:,}. Predictions of the built-in engine model: "
    "{simulated:,}. No line joins the two."
)
_UNNAMED = "A server that was up answered every request; nobody named its GPU (bench --hardware)."
_VIRTUAL = "Time jumped from event to event in {part}: no time passed, and no client was late."


def render(view: RunView) -> str:
    """The whole page as HTML: one file, no request to anywhere."""
    drawn = panels(view)
    scripts = [get_plotlyjs(), asset("charts.js"), asset("table.js")]
    points = [point.result.point for point in view.points]
    by_order = sorted(points, key=lambda point: point.scenario.label)
    return Template(asset("page.html")).substitute(
        policy=policy(scripts),
        title=escape(view.title),
        icon=ICON,
        style=asset("page.css"),
        run_id=escape(view.run_id),
        badges=origin([point.result for point in view.points]),
        tally=_tally(view),
        facts=_facts(view),
        unfinished=_unfinished(view.unfinished),
        controls=_controls(drawn),
        legends=legends(drawn),
        scenarios=options([point.scenario.label for point in by_order]),
        hardware=options(sorted(point.hardware for point in points)),
        verdicts=options(_LEVELS),
        shown=f"{len(points):,} of {len(points):,} points",
        table=table(view),
        definitions=_definitions(),
        inferometer=escape(view.inferometer),
        chart_data=embedded(chart_data(view, drawn)),
        detail_data=embedded(detail_data(view)),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def embedded(value: object) -> str:
    """JSON that no HTML parser can read as markup, whatever the strings in it."""
    text = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def asset(name: str) -> str:
    """A file of this package."""
    return files("inferometer.report").joinpath(name).read_text(encoding="utf-8")


def policy(scripts: Sequence[str]) -> str:
    """A content security policy that allows these scripts and no request."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def origin(results: Sequence[Result]) -> str:
    """What kind of numbers these are: each point says it of itself."""
    seen = Counter(str(result.provenance) for result in results)
    kinds = sorted(seen)
    if not kinds:
        return "<span>No point is finished yet.</span>"
    sentence = _PROVENANCE[kinds[0]] if len(kinds) == 1 else _MIXED.format(**seen)
    if kinds == ["measured"] and any(result.point.hardware == UNNAMED for result in results):
        sentence = _UNNAMED
    badges = [f"<b class='badge {kind}'>{kind.upper()}</b>" for kind in kinds]
    virtual = sum(result.clock == "virtual" for result in results)
    if virtual:
        every = virtual == len(results)
        part = "every point" if every else f"{virtual:,} of {len(results):,} points"
        badges.append("<b class='badge virtual'>VIRTUAL TIME</b>")
        sentence += " " + _VIRTUAL.format(part=part)
    return f"{' '.join(badges)} <span>{escape(sentence)}</span>"


def _tally(view: RunView) -> str:
    counts = Counter(str(point.result.verdict.level) for point in view.points)
    counts["unfinished"] = len(view.unfinished)
    return "".join(
        f"<li class='{name}{'' if counts[name] else ' none'}'><b>{counts[name]:,}</b> {name}</li>"
        for name in (*_LEVELS, "unfinished")
    )


def _facts(view: RunView) -> str:
    results = [point.result for point in view.points]
    versions = sorted({str(result.measurement_version) for result in results})
    concs = sorted({result.point.conc for result in results})
    span = " to ".join(f"{conc:,}" for conc in dict.fromkeys((*concs[:1], *concs[-1:])))
    run = {
        "Started": view.started_at,
        "Models": _distinct(f"{r.point.model} ({r.point.precision})" for r in results),
        "Engines": _distinct(_engine(result) for result in results),
        "Hardware": _distinct(result.point.hardware for result in results),
        "GPUs": _gpus(results),
        "Scenarios": _distinct(result.point.scenario.label for result in results),
        **_sessions(view),
        "Concurrency": span or "no point",
        "Inferometer": f"{view.inferometer}, measurement version {', '.join(versions) or '–'}",
    }
    machine = {_titled(name): value for name, value in view.machine.items()}
    return _facts_list("What was run", run) + _facts_list("Machine", machine)


def _titled(name: str) -> str:
    """`numa nodes` as a heading."""
    first, *rest = name.split(" ")
    known = {"cpu": "CPU", "gpus": "GPUs", "numa": "NUMA"}
    return " ".join((known.get(first, first[:1].upper() + first[1:]), *rest))


def _sessions(view: RunView) -> dict[str, str]:
    """What was replayed, where anything was."""
    sources = {point.plan.workload.sessions for point in view.points} - {None}
    return {"Sessions": _distinct(description(str(text)) for text in sources)} if sources else {}


def _gpus(results: Sequence[Result]) -> str:
    """What rates per GPU are divided by. Of a server that was up it is what `bench` was told."""
    counts = ", ".join(f"{count:,}" for count in sorted({result.gpus for result in results}))
    told = any(result.point.framework == EXTERNAL for result in results)
    return f"{counts or '–'} a deployment" + (", by bench --gpus (default 1)" if told else "")


def _engine(result: Result) -> str:
    if result.point.framework == EXTERNAL:
        return "a server that was up"
    return f"{result.point.framework} ({result.point.image.rsplit('/', 1)[-1]})"


def _facts_list(heading: str, facts: dict[str, str]) -> str:
    pairs = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts.items()
    )
    return f"<section><h2>{heading}</h2><dl>{pairs}</dl></section>" if facts else ""


def _distinct(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values))) or "–"


def _unfinished(names: Sequence[str]) -> str:
    if not names:
        return ""
    listed = "".join(f"<li><code>{escape(name)}</code></li>" for name in names)
    noun = "point has" if len(names) == 1 else "points have"
    return (
        f"<section class='warning'><h2>{len(names):,} {noun} no result</h2>"
        f"<ul class='names'>{listed}</ul></section>"
    )


def _controls(drawn: Sequence[Panel]) -> str:
    rates = [(name, field(name).label.removesuffix(" throughput per GPU")) for name in RATE_AXES]
    return "".join(
        (
            _choice("Scenario", "panel", [(str(i), p.label) for i, p in enumerate(drawn)]),
            _choice("Throughput per GPU", "rate", rates),
            _choice("Percentile", "percentile", [(name, name) for name in PERCENTILES]),
            _choice(
                "Interactivity",
                "basis",
                [("intvty", "while streaming"), ("e2e_intvty", "end to end")],
            ),
        )
    )


def _choice(legend: str, name: str, values: Sequence[tuple[str, str]]) -> str:
    buttons = "".join(
        f"<label><input type='radio' name='{name}' value='{escape(value)}'"
        f"{' checked' if position == 0 else ''}><span>{escape(text)}</span></label>"
        for position, (value, text) in enumerate(values)
    )
    return f"<fieldset><legend>{legend}</legend><div>{buttons}</div></fieldset>" if values else ""


def _definitions() -> str:
    terms = [
        (
            "Throughput per GPU (tok/s/GPU)",
            "Tokens per second inside the measured window over all GPUs of the deployment, "
            "whatever their role. " + " ".join(f"{name}: {text}" for name, text in RATES.values()),
        ),
        *((f"{name} (tok/s/user)", text) for name, text in INTERACTIVITIES.values()),
        *((name, text) for name, _, _, text in LATENCIES.values()),
        (
            "Percentile",
            "Linear interpolation between samples; pXX is given from 1 / (1 - XX) samples on, and "
            "is unknown below that. Unknown is written –, with the reason, and never drawn as 0.",
        ),
        (
            "Verdict",
            "Degraded: usable with care, a bound was crossed. Invalid: the figures are not those "
            "of the engine. The reasons carry the value seen and the bound.",
        ),
        (
            "Censored",
            "A request that was still open when the grace period ended: counted, never a success.",
        ),
        ("Digest", "SHA-256 over everything that can move a number: same digest, same experiment."),
    ]
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in terms
    )
