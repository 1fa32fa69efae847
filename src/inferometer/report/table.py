"""The table of points as HTML: a row a point, complete without any script. Sorting, filtering and
the expanded rows are the page script's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from inferometer.core import Result, Verdict
from inferometer.report.charts import reason, request_counts
from inferometer.report.fields import UNKNOWN, field
from inferometer.report.view import RunView


@dataclass(frozen=True, slots=True)
class Column:
    """A numeric column: one metric, its heading, and what stands under it before the unit."""

    metric: str
    heading: str
    below: str = ""


COLUMNS = (
    Column("total_tok_s_per_gpu", "Throughput"),
    Column("output_tok_s_per_gpu", "Output"),
    Column("intvty_p50", "Interactivity", "p50, "),
    Column("ttft_p50_s", "TTFT p50"),
    Column("ttft_p99_s", "TTFT p99"),
    Column("tpot_p50_s", "TPOT p50"),
    Column("in_flight", "In flight"),
    Column("cached_share", "Cached"),
)
WORDS = ("Hardware", "Config")
PLACE = ("Scenario", "Parallel")
"""Behind the verdict, which is to be seen without scrolling."""


def table(view: RunView) -> str:
    """The whole `<table>`."""
    rows = "\n".join(_row(index, point.result) for index, point in enumerate(view.points))
    return (
        "<table id='points'><caption class='unseen'>Every point of the run, one a row"
        f"</caption><thead><tr>{_head()}</tr></thead><tbody>{rows}</tbody></table>"
    )


def options(values: Sequence[str]) -> str:
    """`<option>` elements, each value once, in the order of first appearance."""
    return "".join(
        f"<option value='{escape(value)}'>{escape(value)}</option>"
        for value in dict.fromkeys(values)
    )


def chip(verdict: Verdict) -> str:
    """The verdict as a word with a mark, and its labels."""
    labels = "".join(f" <span class='chip label'>{escape(text)}</span>" for text in verdict.labels)
    return f"<span class='chip {verdict.level}'>{verdict.level}</span>{labels}"


def _judged(verdict: Verdict) -> str:
    """The verdict as a word with a mark, and its reason codes; labels are its tip."""
    codes = ", ".join(dict.fromkeys(reason.code for reason in verdict.reasons))
    listed = f"<span class='codes'>{escape(codes)}</span>" if codes else ""
    tip = f" title='{escape(', '.join(verdict.labels))}'" if verdict.labels else ""
    return f"<span class='chip {verdict.level}'{tip}>{verdict.level}</span>{listed}"


def _head() -> str:
    cells = ["<th scope='col' class='opener'><span class='unseen'>Details</span></th>"]
    cells += [_heading(word, "", "", "") for word in (*WORDS, "Verdict", *PLACE)]
    cells.append(_heading("Conc.", "", "Concurrency: lanes that each hold one session", "number"))
    for column in COLUMNS:
        item = field(column.metric)
        cells.append(_heading(column.heading, column.below + item.unit, item.definition, "number"))
    counted = "Requests sent inside the window; censored ones were open when the grace ended"
    cells.append(_heading("Requests", "ok / failed", counted, "number"))
    return "".join(cells)


def _heading(text: str, unit: str, hint: str, style: str) -> str:
    below = f"<span class='unit'>{escape(unit)}</span>" if unit else ""
    title = f" title='{escape(hint)}'" if hint else ""
    return (
        f"<th scope='col' class='{style}'><button type='button' class='sort'{title}>"
        f"<span>{escape(text)}{below}</span></button></th>"
    )


def _row(index: int, result: Result) -> str:
    point = result.point
    scenario = point.scenario.label
    rank = ("valid", "degraded", "invalid").index(result.verdict.level)
    cells = [
        _opener(index, point.id),
        *(f"<td>{escape(word)}</td>" for word in (point.hardware, point.config)),
        f"<td class='verdict' data-v='{rank}'>{_judged(result.verdict)}</td>",
        *(f"<td>{escape(word)}</td>" for word in (scenario, point.parallelism.label)),
    ]
    cells.append(f"<td class='number' data-v='{point.conc}'>{point.conc:,}</td>")
    cells += [_metric(result, column.metric) for column in COLUMNS]
    cells.append(_requests(result))
    return (
        f"<tr id='point-{index}' data-scenario='{escape(scenario)}' "
        f"data-hardware='{escape(point.hardware)}' data-verdict='{result.verdict.level}'>"
        f"{''.join(cells)}</tr>"
    )


def _opener(index: int, name: str) -> str:
    return (
        f"<td class='opener'><button type='button' class='open' aria-expanded='false' "
        f"aria-controls='detail-{index}' aria-label='Details of {escape(name)}'></button></td>"
    )


def _metric(result: Result, name: str) -> str:
    item, value = field(name), result.metrics.get(name)
    figure = item.figure(value)
    if why := reason(result, name):
        return f"<td class='number null' title='{escape(why)}'>{figure}</td>"
    exact = f"{item.scaled(value):.6g} {item.unit}".strip()
    exact += f"; {result.notes[name]}" if name in result.notes else ""
    return f"<td class='number' data-v='{value:.6g}' title='{escape(exact)}'>{figure}</td>"


def _requests(result: Result) -> str:
    ok, failed, censored = request_counts(result)
    known = "" if ok == UNKNOWN else f" data-v='{result.counts['ok']}'"
    title = f"{ok} ok, {failed} failed, {censored} censored"
    return f"<td class='number'{known} title='{title}'>{ok} / {failed}</td>"
