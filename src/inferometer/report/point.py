"""The page of one point: who it is and what it is worth, and everything over one axis of time.

One file that loads nothing, in the style and under the policy of the report's page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from string import Template

from plotly.offline import get_plotlyjs

from inferometer import __version__
from inferometer.analyze.curves import Curve, Panel, Watched
from inferometer.analyze.playtable import PlayRow, play_rows
from inferometer.analyze.timeline import opened_ns, panels_of, series_between, span_of
from inferometer.core import Result
from inferometer.report.charts import COLOURS
from inferometer.report.details import objectives, verdict_words
from inferometer.report.fields import UNKNOWN, count, field, significant
from inferometer.report.machine import cards_in_words
from inferometer.report.page import ICON, asset, embedded, origin, policy
from inferometer.report.playtable import plays_section
from inferometer.report.table import chip
from inferometer.report.timeline import Bars, bars_of, timeline_data, worth_a_look
from inferometer.store import (
    ABSENT,
    STATUSES,
    ClientFile,
    PointDir,
    RequestTable,
    RequestWords,
)

MOST_LISTED = 200
"""Rows of the table of requests."""
_FIGURES = (
    *("total_tok_s_per_gpu", "output_tok_s_per_gpu", "intvty_p50", "ttft_p50_s", "ttft_p99_s"),
    *("slo_met_share", "goodput_requests_s", "goodput_output_tok_s_per_gpu"),
    *("tpot_p50_s", "in_flight", "cached_share", "theoretical_prefix_hit"),
    *("theoretical_prefix_hit_engine", "engine_kv_pool_tokens", "live_turn_share"),
    *("context_drift_share", "power_w_per_gpu", "j_per_output_token"),
    *("engine_queue_time_mean_s", "engine_kv_use_max", "gpu_memory_used_bytes"),
    *("gpu_power_capped_share", "gpu_throttled_share"),
)
_FILES = {
    "records.parquet": "every request",
    "samples.parquet": "every sample behind the curves",
    "result.json": "figures and their notes",
    "launch.json": "what was launched, and why so",
    "client.json": "the client's account of itself",
    "metrics.first.txt": "the engine's own figures before",
    "metrics.last.txt": "and after the load",
    "server.log": "the engine's log",
}
"""Of a point's directory; the page lies beside them."""


@dataclass(frozen=True, slots=True, eq=False)
class PointTimes:
    """A finished point with all that was watched of it."""

    run_id: str
    result: Result
    watched: Watched
    words: RequestWords
    client: ClientFile
    files: tuple[str, ...]
    """Names of `_FILES` that are there."""
    plays: tuple[PlayRow, ...] = ()


def times_of(folder: PointDir, run_id: str) -> PointTimes:
    """What the page of a point is made of. Raises StoreError where files are damaged."""
    result, client, table = folder.result(), folder.client(), folder.requests(sessions=True)
    first_ns, last_ns = span_of(table, result.window)
    series = folder.series(*series_between(first_ns, last_ns))
    watched = Watched(
        table=table,
        series=series,
        window=result.window,
        first_ns=first_ns,
        last_ns=last_ns,
        simulated=result.provenance == "simulated",
        virtual=result.clock == "virtual",
        metrics=client.metrics,
        gpus=client.gpus,
    )
    words, open_loop = folder.words(), folder.launch().plan.workload.open_loop
    plays = play_rows(table, words, result.window.start_ns, open_loop=open_loop)
    files = tuple(name for name in _FILES if (folder.path / name).exists())
    return PointTimes(run_id, result, watched, words, client, files, tuple(plays))


def render_point(times: PointTimes, *, beside: bool = True) -> str:
    """The page as HTML; with links to the files of its point where it is to lie beside them."""
    scripts = [get_plotlyjs(), asset("timeaxis.js"), asset("lanes.js")]
    watched, words = times.watched, times.words
    panels, bars = panels_of(watched), bars_of(watched.table, words)
    return Template(asset("point.html")).substitute(
        policy=policy(scripts),
        icon=ICON,
        style=asset("page.css") + asset("point.css"),
        title=escape(times.result.point.id),
        run_id=escape(times.run_id),
        badges=origin([times.result]),
        facts=_facts(times),
        verdict=_verdict(times.result),
        files=_files(times.files, linked=beside),
        panels="\n".join(_panel(panel) for panel in panels),
        drawn=escape(_drawn(bars)),
        listed=escape(_listed(len(bars.rows.order))),
        table=_table(watched.table, words, bars, watched.window.start_ns),
        plays=plays_section(times.plays),
        inferometer=escape(__version__),
        data=embedded(timeline_data(watched, panels, bars, words)),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _facts(times: PointTimes) -> str:
    result = times.result
    point, window = result.point, result.window
    declared = "" if window.declared_s is None else f" of {significant(window.declared_s)} s asked"
    ended = "complete" if window.complete else f"not complete: {window.stop_reason or 'cut short'}"
    client = times.client
    facts = {
        "Model": f"{point.model} ({point.precision})",
        "Engine": f"{point.framework} ({point.image.rsplit('/', 1)[-1]})",
        "Engine says": client.engine_version,
        "Image": client.image_digest,
        "Hardware": f"{count(result.gpus)} x {point.hardware}, {point.parallelism.label}",
        "GPUs": cards_in_words(client.gpus),
        "Scenario": f"{point.scenario.label}, concurrency {point.conc:,}",
        "Objectives": objectives(result) or None,
        "Window": f"{significant(window.seconds)} s{declared}, {ended}",
        "Measured at": result.measured_at,
        "Requests": ", ".join(
            f"{result.counts[name]:,} {name}"
            for name in ("ok", "failed", "censored", "cancelled", "warmup")
            if name in result.counts
        ),
        "Digest": result.digest,
        "Watched by": _watched_by(times.watched),
    }
    figures = {
        field(name).label: field(name).text(value)
        for name in _FIGURES
        if (value := result.metrics.get(name)) is not None
    }
    known = {name: text for name, text in facts.items() if text is not None}
    return _list("What was run", known) + _list("What came of it", figures)


def _files(names: Sequence[str], *, linked: bool) -> str:
    """What lies in the point's directory, for whoever doubts a picture."""
    if not names:
        return ""
    shown = (
        f"<a href='{name}'>{name}</a> ({_FILES[name]})" if linked else f"{name} ({_FILES[name]})"
        for name in names
    )
    return f"<p class='files'>In this point's directory: {', '.join(shown)}.</p>"


def _watched_by(watched: Watched) -> str:
    if watched.virtual:
        return "the client alone: virtual time"
    gpus, metrics = watched.gpus, watched.metrics
    page = metrics.path if metrics is not None and metrics.path else "no metrics page"
    return f"client, {page}, {gpus.source if gpus and gpus.source else 'no GPU'}"


def _list(heading: str, facts: dict[str, str]) -> str:
    pairs = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts.items()
    )
    return f"<section><h2>{heading}</h2><dl>{pairs}</dl></section>"


def _verdict(result: Result) -> str:
    items = [_reason(*verdict_words(item)) for item in result.verdict.reasons]
    found = f"<ul>{''.join(items)}</ul>" if items else ""
    none = "" if items else " <span class='about'>No reason to doubt this point was found.</span>"
    return f"<section class='verdict-box'>{chip(result.verdict)}{none}{found}</section>"


def _reason(level: str, code: str, message: str, value: str, bound: str) -> str:
    figures = [f"{name} {text}" for name, text in (("seen", value), ("bound", bound))]
    shown = ", ".join(text for text in figures if not text.endswith(UNKNOWN))
    return (
        f"<li><span class='chip {escape(level)}'>{escape(level)}</span> "
        f"<code>{escape(code)}</code> {escape(message)} <small>{escape(shown)}</small></li>"
    )


def _panel(panel: Panel) -> str:
    key, title = escape(panel.key), f"{escape(panel.title)} <small>{escape(panel.unit)}</small>"
    why = "".join(f"<p class='why'>Not drawn: {escape(text)}.</p>" for text in panel.missing)
    if not panel.curves:
        return (
            f"<figure class='panel empty'><figcaption><h3>{title}</h3></figcaption>{why}</figure>"
        )
    legend = "".join(_swatch(index, curve) for index, curve in enumerate(panel.curves))
    return (
        f"<figure class='panel'><figcaption><h3 id='{key}-title'>{title}</h3><ul>{legend}</ul>"
        f"<span class='about'>{escape(panel.about)}</span></figcaption>{why}"
        f"<div class='plot' id='panel-{key}' role='img' aria-labelledby='{key}-title'></div>"
        "</figure>"
    )


def _swatch(index: int, curve: Curve) -> str:
    colour = f"background:var(--series-{index % COLOURS})"
    return (
        f"<li><span class='swatch {curve.kind}' style='{colour}'></span>{escape(curve.name)}"
        " <b class='at'></b></li>"
    )


def _drawn(bars: Bars) -> str:
    shown, total = len(bars.rows.order), bars.total
    lanes = len(set(bars.rows.lane.tolist()))
    if shown == total:
        return f"{total:,} requests of {lanes:,} lanes, warm-up included; a row for each at a time."
    return (
        f"{shown:,} of {total:,} requests: those of the first {lanes:,} lanes, as many as one "
        "picture holds. The curves above are of all."
    )


def _listed(shown: int) -> str:
    if shown <= MOST_LISTED:
        return "The requests as a table, failed ones first, then by time to first token"
    return (
        f"{MOST_LISTED} of these requests as a table: failed ones first, then those that waited "
        "longest for a first token"
    )


_HEADS = ("Request", "Session", "Agent", "Turn", "Lane", "Status", "Sent s", "TTFT s", "Time s")


def _table(table: RequestTable, words: RequestWords, bars: Bars, zero_ns: int) -> str:
    order = bars.rows.order.tolist()
    places = worth_a_look(table, order, MOST_LISTED)
    names = (*_HEADS, "Input", "Cached", "Output")
    head = "".join(
        f"<th scope='col'{' class=word' if name in _HEADS[:3] else ''}>{name}</th>"
        for name in names
    )
    opened = opened_ns(table)
    rows = []
    for place in places:
        index = order[place]
        numbers = {name: int(values[index]) for name, values in table.numbers.items()}
        stamps = _seconds(numbers, int(opened[index]), zero_ns)
        status = STATUSES[numbers["status"]]
        tokens = (numbers[f"{name}_tokens"] for name in ("prompt", "cached", "output"))
        cells = (
            str(int(words.turn[index])),
            str(numbers["lane"]),
            status.value,
            *stamps,
            *(UNKNOWN if value == ABSENT else f"{value:,}" for value in tokens),
        )
        who = [words.texts[name][index] or "" for name in ("request_id", "session", "agent")]
        rows.append(_row(place, who, cells, failed=status.failed))
    return (
        "<table class='numbers'><caption class='unseen'>Requests</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _row(place: int, who: Sequence[str], cells: Iterable[str], *, failed: bool) -> str:
    name, *rest = who
    style = " class='failed'" if failed else ""
    return (
        f"<tr{style}><th scope='row' class='word'><button type='button' class='plain' "
        f"data-bar='{place}'>{escape(name)}</button></th>"
        + "".join(f"<td class='word'>{escape(text)}</td>" for text in rest)
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
    )


def _seconds(numbers: dict[str, int], opened: int, zero_ns: int) -> tuple[str, str, str]:
    """Sent (from the window's start), TTFT, and how long it was open."""
    first, sent = numbers["first_token_ns"], numbers["sent_ns"]
    ttft = UNKNOWN if ABSENT in (first, sent) else f"{(first - sent) / 1e9:.4f}"
    return (
        f"{(opened - zero_ns) / 1e9:.3f}",
        ttft,
        f"{(numbers['end_ns'] - opened) / 1e9:.4f}",
    )
