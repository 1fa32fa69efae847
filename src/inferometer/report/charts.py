"""What the charts draw: panels, series, axis values, frontiers, and the rows of the hover card.

A panel is one model under one scenario; a series is one hardware (and its config, where several
share it). Every frontier a reader can select is worked out here, by the one Pareto function.
Invalid points are drawn, and never on a frontier. A null axis value stays null, with its reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from inferometer.analyze.frontier import pareto
from inferometer.core import FixedSeqLen, Result
from inferometer.report.fields import PERCENTILES, UNKNOWN, count, field, significant
from inferometer.report.view import RunView

COLOURS = 8
SHAPES = ("circle", "square", "diamond", "triangle-up", "pentagon", "triangle-down", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
"""Their numbers have no common divisor, so that 280 series all differ in some pairing."""

RATE_AXES = ("total_tok_s_per_gpu", "output_tok_s_per_gpu", "input_tok_s_per_gpu")
UNSTATED = "no reason recorded"


@dataclass(frozen=True, slots=True)
class SpeedAxis:
    """One choice of the horizontal axis; `better` is the direction of the frontier."""

    key: str
    pattern: str
    better: Literal["max", "min"]

    def metric(self, percentile: str) -> str:
        """The metric's name at a percentile."""
        return self.pattern.format(percentile)


SPEED_AXES = (
    SpeedAxis("intvty", "intvty_{}", "max"),
    SpeedAxis("e2e_intvty", "e2e_intvty_{}", "max"),
    SpeedAxis("ttft", "ttft_{}_s", "min"),
)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel. `style` is the same for a name on every panel of the page."""

    name: str
    style: int
    members: tuple[int, ...]

    @property
    def shape(self) -> str:
        """Marker symbol."""
        return SHAPES[self.style % len(SHAPES)]

    @property
    def dash(self) -> str:
        """Line pattern."""
        return DASHES[self.style % len(DASHES)]

    @property
    def colour(self) -> int:
        """Index of the page's colour property `--series-N`."""
        return self.style % COLOURS


@dataclass(frozen=True, slots=True)
class Panel:
    """One model under one scenario; `members` index the points of the run."""

    label: str
    series: tuple[Series, ...]


def panels(view: RunView) -> tuple[Panel, ...]:
    """Every point is in exactly one series of one panel; fixed lengths first, shortest first."""
    results = [point.result for point in view.points]
    names = series_names(results)
    styles = {name: style for style, name in enumerate(sorted(set(names)))}
    several = len({result.point.model for result in results}) > 1
    members: dict[tuple[str, tuple[int, int, int]], list[int]] = {}
    for index, result in enumerate(results):
        members.setdefault((result.point.model, _scenario_order(result)), []).append(index)
    return tuple(
        Panel(
            label=_panel_label(results[indices[0]], several),
            series=tuple(
                Series(name, styles[name], tuple(i for i in indices if names[i] == name))
                for name in sorted({names[i] for i in indices})
            ),
        )
        for _, indices in sorted(members.items())
    )


def series_names(results: Sequence[Result]) -> list[str]:
    """A name a point: the hardware, with the config where several share it, and with the
    provenance where the run mixes measured with simulated points.
    """
    configs: dict[str, set[str]] = {}
    for result in results:
        configs.setdefault(result.point.hardware, set()).add(result.point.config)
    mixed = len({result.provenance for result in results}) > 1
    names = []
    for result in results:
        parts = [result.point.hardware]
        if len(configs[result.point.hardware]) > 1:
            parts.append(result.point.config)
        if mixed:
            parts.append(result.provenance)
        names.append(" · ".join(parts))
    return names


def chart_data(view: RunView, drawn: Sequence[Panel]) -> dict[str, object]:
    """The JSON behind the charts; `points` and every index follow the order of `view.points`."""
    results = [point.result for point in view.points]
    metrics = (*RATE_AXES, *(a.metric(p) for a, p in product(SPEED_AXES, PERCENTILES)))
    return {
        "axes": {name: {"label": field(name).label, "unit": field(name).unit} for name in metrics},
        "values": {name: [_finite(result, name) for result in results] for name in metrics},
        "reasons": {name: _reasons(results, name) for name in metrics},
        "panels": [
            {"label": panel.label, "series": [_series(results, s) for s in panel.series]}
            for panel in drawn
        ],
        "hover": [row[0] for row in hover_rows(results[0])] if results else [],
        "points": [
            {
                "conc": f"c{result.point.conc}",
                "name": short_name(result),
                "verdict": result.verdict.level,
                "hover": [row[1:] if row[2] else row[1:2] for row in hover_rows(result)],
            }
            for result in results
        ],
    }


def frontier(
    results: Sequence[Result], members: Sequence[int], axis: str, rate: str, better: str
) -> list[int]:
    """Indices into `results` on the Pareto frontier of `members`, sorted by the axis."""
    able = [index for index in members if results[index].verdict.level != "invalid"]
    xs = [_finite(results[index], axis) for index in able]
    ys = [_finite(results[index], rate) for index in able]
    kept = pareto(xs, ys, "max" if better == "max" else "min", "max")
    return [able[position] for position in kept]


def hover_rows(result: Result) -> list[tuple[str, str, str]]:
    """(label, value, reason where the value is unknown), the same labels for every point."""
    point = result.point
    named = (
        ("Total throughput", "total_tok_s_per_gpu"),
        ("Output throughput", "output_tok_s_per_gpu"),
        ("Input throughput", "input_tok_s_per_gpu"),
        ("Interactivity p50", "intvty_p50"),
        ("Interactivity p90", "intvty_p90"),
        ("TTFT p50", "ttft_p50_s"),
        ("TTFT p90", "ttft_p90_s"),
        ("TPOT p50", "tpot_p50_s"),
        ("End-to-end p50", "e2el_p50_s"),
    )
    ok, failed, censored = request_counts(result)
    codes = ", ".join(reason.code for reason in result.verdict.reasons)
    clock = ", virtual time" if result.clock == "virtual" else ""
    return [
        ("Config", point.config, ""),
        ("Model", f"{point.model} · {point.precision}", ""),
        ("Engine", point.framework, ""),
        ("Hardware", f"{point.hardware} × {result.gpus}", ""),
        ("Parallelism", point.parallelism.label, ""),
        ("Scenario", point.scenario.label, ""),
        ("Concurrency", count(point.conc), ""),
        *((label, with_interval(result, name), reason(result, name)) for label, name in named),
        ("Requests", f"{ok} ok · {failed} failed · {censored} censored", ""),
        ("Window", f"{significant(result.window.seconds)} s", ""),
        ("Verdict", f"{result.verdict.level}: {codes}" if codes else result.verdict.level, ""),
        ("Provenance", f"{result.provenance}{clock}", ""),
        ("Digest", result.digest[:12], ""),
    ]


def with_interval(result: Result, name: str) -> str:
    """`0.312 s (0.301-0.330)` where both ends of the interval are known."""
    item = field(name)
    stem = name.removesuffix("_s")
    low, high = (result.metrics.get(f"{stem}_{end}_s") for end in ("lo", "hi"))
    text = item.text(result.metrics.get(name))
    if low is None or high is None or text == UNKNOWN:
        return text
    return f"{text} ({item.figure(low)}–{item.figure(high)})"


def reason(result: Result, name: str) -> str:
    """Why a metric is unknown; empty where it is known."""
    value = result.metrics.get(name)
    if value is not None and math.isfinite(value):
        return ""
    if value is not None:
        return "not a finite number"
    return result.notes.get(name) or UNSTATED


def request_counts(result: Result) -> tuple[str, str, str]:
    """(ok, failed, censored) as text."""
    ok, failed, censored = (count(result.counts.get(n)) for n in ("ok", "failed", "censored"))
    return ok, failed, censored


def short_name(result: Result) -> str:
    """How a point is called in a list under its panel."""
    point = result.point
    repeat = f" r{point.repeat}" if point.repeat else ""
    return f"{point.hardware} {point.parallelism.label} c{point.conc}{repeat}"


def _series(results: Sequence[Result], series: Series) -> dict[str, object]:
    return {
        "name": series.name,
        "colour": series.colour,
        "shape": series.shape,
        "dash": series.dash,
        "members": series.members,
        "frontiers": {
            f"{speed.metric(percentile)} {rate}": frontier(
                results, series.members, speed.metric(percentile), rate, speed.better
            )
            for speed, percentile, rate in product(SPEED_AXES, PERCENTILES, RATE_AXES)
        },
    }


def _finite(result: Result, name: str) -> float | None:
    value = result.metrics.get(name)
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _reasons(results: Sequence[Result], name: str) -> dict[str, str]:
    found = ((str(index), reason(result, name)) for index, result in enumerate(results))
    return {index: text for index, text in found if text}


def _scenario_order(result: Result) -> tuple[int, int, int]:
    scenario = result.point.scenario
    if isinstance(scenario, FixedSeqLen):
        return (0, scenario.isl, scenario.osl)
    return (1, 0, 0)


def _panel_label(result: Result, several_models: bool) -> str:
    scenario = result.point.scenario.label
    return f"{result.point.model} · {scenario}" if several_models else scenario
