"""Energy of GPUs with its validity, and what is derived from rates: cost, speed of light."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from inferometer.metrics.figures import NS, Figure, Floats, Ints

MAX_POWER_GAP_S = 3.0
"""Longest gap between two power samples over which a straight line is still believed."""
DURATION_SLACK_S, DURATION_SLACK_SHARE = 0.5, 0.01
COUNTER_SLACK_SHARE = 0.05
NOISE_ERRORS = 3.0
"""A reading of the instant in a load of bursts scatters by 10 to 60 % of the mean, so the mean of a
hundred is 1 to 6 % off by chance: three standard errors of it say nothing against the counter."""
AGREES = "its energy counter agrees"


class PowerSeries(NamedTuple):
    """Power of one GPU: `at_ns` int64[n] ascending, `watts` float64[n], and where the card has an
    energy counter `counter_j` float64[n], cumulative joules at the same stamps.
    """

    at_ns: Ints
    watts: Floats
    counter_j: Floats | None


def usd_per_mtok(usd_per_gpu_hour: float, tok_s_per_gpu: float) -> Figure:
    """Cost, $/Mtok: price of a GPU-hour / (tok/s/GPU x 3600 / 1e6). Which tokens the rate counts
    (input, output, total) is part of the name under which it is published.
    """
    if tok_s_per_gpu <= 0:
        return Figure(None, "no tokens")
    return Figure(usd_per_gpu_hour / (tok_s_per_gpu * 3600 / 1e6))


def gpu_energy(series: PowerSeries, start_ns: int, end_ns: int) -> Figure:
    """Energy of one GPU over the window, J: trapezoid, power interpolated at both edges.

    None unless the samples bracket the window, no gap that touches it exceeds `MAX_POWER_GAP_S`,
    and the card's energy counter, where there is one, agrees within 5 %, or within three standard
    errors of the samples' mean if that is more. A counter that does not bracket the window (NaN)
    checks nothing, and the note says so.
    """
    at_ns, watts = series.at_ns, series.watts
    if len(at_ns) < 2 or at_ns[0] > start_ns or at_ns[-1] < end_ns or end_ns <= start_ns:
        return Figure(None, "the samples do not bracket the window")
    touching = (at_ns[1:] > start_ns) & (at_ns[:-1] < end_ns)
    gap_s = float(np.diff(at_ns)[touching].max()) / NS
    if gap_s > MAX_POWER_GAP_S:
        return Figure(None, f"a gap of {gap_s:.1f} s between samples")
    inside = at_ns[(at_ns > start_ns) & (at_ns < end_ns)]
    knots = np.concatenate(([start_ns], inside, [end_ns])) - start_ns
    energy_j = float(np.trapezoid(np.interp(knots, at_ns - start_ns, watts), knots / NS))
    if series.counter_j is None:
        return Figure(energy_j)
    slack = max(
        COUNTER_SLACK_SHARE, NOISE_ERRORS * _noise(np.interp(knots, at_ns - start_ns, watts))
    )
    return _checked(energy_j, _counted_j(series, start_ns, end_ns), slack)


def _noise(watts: Floats) -> float:
    """Standard error of the mean of these samples, relative to it, from the differences of
    neighbours: slow changes, which a trapezoid follows, count little.
    """
    mean = float(watts.mean())
    if len(watts) < 3 or mean <= 0:
        return 0.0
    scatter = float(np.mean(np.diff(watts) ** 2)) / 2
    return math.sqrt(scatter / len(watts)) / mean


def _counted_j(series: PowerSeries, start_ns: int, end_ns: int) -> float:
    """What the card's counter grew by over the window, J; NaN where it does not say."""
    if series.counter_j is None:
        return math.nan
    edges = np.interp([0, end_ns - start_ns], series.at_ns - start_ns, series.counter_j)
    return float(edges[1] - edges[0])


def _checked(energy_j: float, counted_j: float, slack: float) -> Figure:
    """The energy held against the card's counter."""
    if math.isnan(counted_j):
        return Figure(energy_j, "its energy counter was not read on both sides of the window")
    if counted_j < 0:
        return Figure(None, "its energy counter fell: it was reset, or the card was")
    if abs(counted_j - energy_j) > slack * energy_j:
        return Figure(None, f"its energy counter says {counted_j:.0f} J, not {energy_j:.0f} J")
    return Figure(energy_j, AGREES)


def energy(
    series: Mapping[str, PowerSeries],
    deployment: Sequence[str],
    start_ns: int,
    end_ns: int,
    reported_s: float,
) -> Figure:
    """Energy of a deployment over the window, J: the sum over its GPUs, named by UUID.

    GPUs in `series` that are not of the deployment are not counted. None if any GPU has no valid
    value, or the duration that the result reports differs from the window by more than
    max(0.5 s, 1 %). Where all counters agree the note says what they counted more.
    """
    window_s = (end_ns - start_ns) / NS
    if abs(reported_s - window_s) > max(DURATION_SLACK_S, DURATION_SLACK_SHARE * window_s):
        return Figure(None, f"reported {reported_s:.1f} s, the window is {window_s:.1f} s")
    if not deployment:
        return Figure(None, "no GPU is named")
    total_j, counted_j, notes = 0.0, 0.0, []
    for uuid in deployment:
        if uuid not in series:
            return Figure(None, f"{uuid}: it told no power")
        figure = gpu_energy(series[uuid], start_ns, end_ns)
        if figure.value is None:
            return Figure(None, f"{uuid}: {figure.why}")
        total_j += figure.value
        counted_j += _counted_j(series[uuid], start_ns, end_ns)
        notes.append(figure.why)
    note = notes[0] if len(set(notes)) == 1 else None
    if note == AGREES:
        # Rounded first: what rounds to nothing has no sign.
        note = f"{note} ({round(counted_j / total_j - 1, 3) + 0.0:+.1%})"
    return Figure(total_j, note)


def joules_per_token(energy_j: Figure, tokens: float) -> Figure:
    """J/token over the same window. Per input, output or total token: alternatives, not addends."""
    if energy_j.value is None or tokens <= 0:
        return Figure(None, energy_j.why or "no tokens")
    return Figure(energy_j.value / tokens)


def speed_of_light(measured: float, bound: float) -> Figure:
    """Measured rate / the rate that the roofline of the point allows, 0..1. Above 1 the bound, or
    what it assumes, is wrong. Source: Williams, Waterman and Patterson, CACM 52(4), 2009.
    """
    return Figure(measured / bound) if bound > 0 else Figure(None, "no bound")
