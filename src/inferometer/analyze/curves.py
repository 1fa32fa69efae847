"""Curves and panels, and how a series becomes one: few enough points, broken where nothing was
sampled, no peak lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from inferometer.analyze.bins import Bins, longest_gap_ns, thinned
from inferometer.analyze.series import Series
from inferometer.core import GpuReport, MetricsReport, Window
from inferometer.metrics import Floats, Ints
from inferometer.store import RequestTable, SeriesMap

MOST_POINTS = 2000
"""Of a curve: a screen has fewer columns."""


Kind = Literal["line", "steps", "dots", "limit"]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """`at_ns` int64[n] ascending, `values` float64[n]; NaN breaks it; steps hold rightwards."""

    name: str
    at_ns: Ints
    values: Floats
    kind: Kind = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves of one unit. `missing` has the why of each that is not there."""

    key: str
    title: str
    unit: str
    about: str
    curves: tuple[Curve, ...] = ()
    missing: tuple[str, ...] = ()
    log: bool = False
    """Its values span orders of magnitude, and none is 0."""

    def without(self, why: str) -> Panel:
        """The panel with nothing in it, and the why."""
        return replace(self, missing=(why,))

    def having(self, curves: tuple[Curve, ...], about: str) -> Panel:
        """The panel with curves."""
        return replace(self, curves=curves, about=about)


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """All that is known of a point over time."""

    table: RequestTable
    series: SeriesMap
    window: Window
    first_ns: int
    last_ns: int
    simulated: bool
    virtual: bool
    metrics: MetricsReport | None
    gpus: GpuReport | None


def each(watched: Watched, name: str, word: str, kind: Kind) -> list[Curve]:
    """A curve for each label of a series."""
    found = [(key[1], Series(*pair)) for key, pair in watched.series.items() if key[0] == name]
    several = len(found) > 1
    return [
        thin(f"{word} ({labels})" if several else word, series, kind) for labels, series in found
    ]


def thin(name: str, series: Series, kind: Kind = "line") -> Curve:
    """Few enough points; a line is broken where nothing was sampled for long."""
    kept = thinned(series, MOST_POINTS)
    at_ns, values = series.at_ns[kept], series.values[kept]
    if kind != "line":
        return Curve(name, at_ns, values, kind)
    silent = np.flatnonzero(np.diff(series.at_ns) > longest_gap_ns(series.at_ns)) + 1
    cut = np.searchsorted(kept, silent, "left")
    cut = np.unique(cut[(cut > 0) & (cut < len(kept))])
    return Curve(name, np.insert(at_ns, cut, at_ns[cut] - 1), np.insert(values, cut, np.nan), kind)


def binned(name: str, bins: Bins, values: Floats) -> Curve:
    """Each bin's value from its start to its end."""
    return Curve(name, bins.edges_ns, np.append(values, values[-1:]), "steps")


def times(curve: Curve, factor: float) -> Curve:
    return Curve(curve.name, curve.at_ns, curve.values * factor, curve.kind)
