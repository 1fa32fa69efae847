"""What an expanded row shows: the verdict in words, all metrics, the exact launch, every setting
with the rule that set it, digest and versions. Repeated texts are kept once, in `texts`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from inferometer.analyze.objectives import told
from inferometer.core import ClientSettings, LaunchPlan, Origin, Reason, Result, WorkloadSettings
from inferometer.report.charts import reason
from inferometer.report.fields import (
    DISTRIBUTIONS,
    FIELDS,
    INTERACTIVITIES,
    LATENCIES,
    OTHER,
    STATISTICS,
    UNKNOWN,
    count,
    significant,
)
from inferometer.report.fields import field as metric_field
from inferometer.report.view import PointView, RunView

Json = dict[str, object]


@dataclass(slots=True)
class Texts:
    """Every distinct text once; points hold positions in `kept`."""

    kept: list[str] = field(default_factory=list)
    _where: dict[str, int] = field(default_factory=dict)

    def at(self, text: str) -> int:
        """The position of a text."""
        if text not in self._where:
            self._where[text] = len(self.kept)
            self.kept.append(text)
        return self._where[text]

    def row(self, cells: Iterable[str]) -> list[int]:
        """The positions of several."""
        return [self.at(cell) for cell in cells]


def detail_data(view: RunView) -> Json:
    """The JSON behind the expanded rows; `points` follows the order of `view.points`."""
    texts = Texts()
    points = [_point(point, texts) for point in view.points]
    return {"statistics": STATISTICS, "texts": texts.kept, "points": points}


def command(argv: Iterable[str], env: Mapping[str, str]) -> str:
    """The command for a shell: env first, a flag with its values a line, everything quoted."""
    lines = [shlex.quote(f"{name}={value}") for name, value in env.items()]
    lines += [" ".join(shlex.quote(arg) for arg in group) for group in _by_flag(argv)]
    return " \\\n  ".join(["env", *lines] if env else lines)


def verdict_words(item: Reason) -> tuple[str, str, str, str, str]:
    """(level, code, message, value, bound)."""
    return (
        item.level,
        item.code,
        item.message,
        significant(item.value),
        significant(item.bound),
    )


def setting_rows(plan: LaunchPlan) -> list[tuple[str, str, str, str, str]]:
    """(key, value, layer:line, when, expression) of every flag, env, client and workload value,
    then of any origin whose key none of them has.
    """
    values: dict[str, str] = {}
    for key, value in _flag_values(plan.argv):
        values[key] = f"{values[key]} {value}" if key in values else value
    values |= {f"env.{name}": value for name, value in plan.env.items()}
    for prefix, settings in (("client", plan.client), ("workload", plan.workload)):
        values |= {f"{prefix}.{name}": text for name, text in _settings(settings)}
    keys = [*values, *(key for key in plan.origins if key not in values)]
    return [(key, values.get(key, UNKNOWN), *_origin(plan.origins.get(key))) for key in keys]


def _point(view: PointView, texts: Texts) -> Json:
    result, plan = view.result, view.plan
    return {
        "reasons": [texts.row(verdict_words(item)) for item in result.verdict.reasons],
        "labels": texts.row(result.verdict.labels),
        "remarks": [texts.row(item) for item in sorted(_remarks(result).items())],
        "matrix": _matrix(result, texts),
        "groups": _groups(result, texts),
        "counts": [[texts.at(name), texts.at(count(n))] for name, n in result.counts.items()],
        "image": texts.at(plan.image),
        "command": texts.at(command(plan.argv, plan.env)),
        "router": texts.row(_router(plan)),
        "files": [texts.row(item) for item in plan.files.items()],
        "settings": [texts.row(row) for row in setting_rows(plan)],
        "identity": [texts.row(row) for row in _identity(result)],
    }


def _remarks(result: Result) -> dict[str, str]:
    """Notes that belong to no metric."""
    return {name: why for name, why in result.notes.items() if name not in result.metrics}


def _matrix(result: Result, texts: Texts) -> list[Json]:
    """Rows label, unit, and a (value, reason) a statistic, for latencies and interactivity."""
    rows: list[Json] = []
    named = [(base, "_s", LATENCIES[base][0], LATENCIES[base][3]) for base in LATENCIES]
    named += [(base, "", *INTERACTIVITIES[base]) for base in INTERACTIVITIES]
    for base, suffix, label, definition in named:
        names = [f"{base}_{statistic}{suffix}" for statistic in STATISTICS]
        if not any(name in result.metrics for name in names):
            continue
        rows.append(
            {
                "row": texts.row((label, metric_field(names[-1]).unit, definition)),
                "cells": [_cell(result, name, texts, with_unit=False) for name in names],
            }
        )
    return rows


def _groups(result: Result, texts: Texts) -> list[Json]:
    """Metrics outside the matrix by group, the listed first, then the raw names."""
    members: dict[str, list[list[int]]] = {}
    order = {name: rank for rank, name in enumerate(FIELDS)}
    listed = sorted(result.metrics, key=lambda name: (order.get(name, len(order)), name))
    for name in listed:
        if name in DISTRIBUTIONS:
            continue
        item = metric_field(name)
        row = [*texts.row((item.label, item.definition)), *_cell(result, name, texts)]
        members.setdefault(item.group, []).append(row)
    first = ("Throughput", "Goodput", "Load", "Client", "Sessions")
    names = [*first, *sorted(set(members) - {*first, OTHER}), OTHER]
    return [{"name": n, "rows": members[n]} for n in names if n in members]


def _cell(result: Result, name: str, texts: Texts, with_unit: bool = True) -> list[int]:
    item, value = metric_field(name), result.metrics.get(name)
    note = reason(result, name) or result.notes.get(name, "")
    if name not in result.metrics:
        note = "not a metric of this point"
    return texts.row((item.text(value) if with_unit else item.figure(value), note))


def _router(plan: LaunchPlan) -> tuple[str, ...]:
    if plan.router is None:
        return ()
    name = f"{plan.router.name} {plan.router.version}".strip()
    return (name, command(plan.router.argv, {}) or "started by the engine")


def _identity(result: Result) -> list[tuple[str, str]]:
    window = result.window
    declared = "" if window.declared_s is None else f" of {significant(window.declared_s)} s"
    ended = "complete" if window.complete else "not complete"
    stopped = f", {window.stop_reason}" if window.stop_reason else ""
    return [
        ("Point", result.point.id),
        *([("Objectives", objectives(result))] if result.slos else []),
        ("Digest", result.digest),
        ("Measured at", result.measured_at),
        ("Window", f"{significant(window.seconds)} s{declared}, {ended}{stopped}"),
        ("Provenance", f"{result.provenance}, {result.clock} clock"),
        ("GPUs", count(result.gpus)),
        ("Runner", result.point.runner),
        ("Inferometer", result.inferometer),
        ("Measurement version", str(result.measurement_version)),
        ("Result format", str(result.format)),
        ("Over time", f"inferometer report . --point {shlex.quote(result.point.id)}"),
    ]


def objectives(result: Result) -> str:
    """What the goodput was held against, in words."""
    return ", ".join(map(told, result.slos))


def _by_flag(argv: Iterable[str]) -> list[list[str]]:
    groups: list[list[str]] = []
    for arg in argv:
        if arg.startswith("--") or not groups:
            groups.append([])
        groups[-1].append(arg)
    return groups


def _flag_values(argv: Iterable[str]) -> Iterable[tuple[str, str]]:
    for flag, *values in _by_flag(argv):
        if flag.startswith("--"):
            name, equals, value = flag.partition("=")
            yield f"argv.{name}", value if equals else " ".join(values) or "set"


def _settings(settings: ClientSettings | WorkloadSettings) -> Iterable[tuple[str, str]]:
    for item in fields(settings):
        value = getattr(settings, item.name)
        yield item.name, UNKNOWN if value is None else str(value)


def _origin(origin: Origin | None) -> tuple[str, str, str]:
    if origin is None:
        return (UNKNOWN, "", "")
    line = "" if origin.line is None else f":{origin.line}"
    return (f"{origin.layer}{line}", origin.when or "", origin.expression or "")
