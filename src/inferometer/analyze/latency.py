"""Latency metrics of the population: distributions, interactivity, intervals, error variants.

The population is chosen by the caller. Values are of requests that ended OK; the failed and the
censored enter only the variants that count them as infinite.
"""

from __future__ import annotations

import math

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import FAILURES, Columns
from inferometer.analyze.pool import Pool
from inferometer.analyze.window import timed
from inferometer.core import Status
from inferometer.metrics import Figure, Floats
from inferometer.store import ABSENT

PERCENTS = (50, 75, 90, 95, 99)
REQUEST_LATENCIES = ("ttft", "ttft_scheduled", "ttfv", "e2el", "e2el_scheduled", "tpot")
POOLED = ("chunk_gap", "itl")
WITH_INTERVAL = ("ttft", "e2el", "tpot")
INTERVAL_PERCENTS = (50, 90, 99)
WITH_ERRORS = ("ttft", "ttft_scheduled", "e2el", "e2el_scheduled", "tpot")
BOOTSTRAP_SEED = 20_260_101
"""Any constant: one set of records gives one interval."""
EMPTY_WHY = {
    "ttfv": "no request had a visible token",
    "tpot": "no request had tokens after its first stamp",
    "chunk_gap": "no request had two token-bearing arrivals",
    "itl": "the server does not count the tokens of each chunk",
}


def latency_figures(population: Columns, *, agentic: bool, unsent: int = 0) -> dict[str, Figure]:
    """Every latency metric of the population, by its published name.

    `unsent`: arrivals that were due and never sent; they count as infinite like the failed.
    """
    ok = population.take(timed(population))
    note = assumed_note(ok)
    values = {name: request_values(ok, name) for name in REQUEST_LATENCIES}
    found: dict[str, Figure] = {}
    for name in REQUEST_LATENCIES:
        found |= _distribution(name, values[name], note if name == "tpot" else None)
    for name, pool in zip(POOLED, ok.gaps(), strict=True):
        found |= _pooled(name, pool)
    for name in WITH_INTERVAL:
        found |= _interval(name, ok, values[name], agentic=agentic)
    errors = population.count(*FAILURES, Status.CENSORED) + unsent
    for name in WITH_ERRORS:
        found |= _with_errors(name, values[name], errors)
    return found | _interactivity(ok, values)


def assumed(ok: Columns) -> int:
    """Requests whose counts a chunk are assumed and not borne out by the final usage.

    One token an event is an assumption where the server counts no chunk; as many events as the
    usage has tokens confirm it.
    """
    return int((~ok.counted & (ok.events != ok.completion)).sum())


def assumed_note(ok: Columns) -> str | None:
    """What to know of a number that rests on assumed counts, or None."""
    count = assumed(ok)
    if count == 0:
        return None
    return f"assumed: {count} of {len(ok)} requests have no counts a chunk, and events != tokens"


def request_values(ok: Columns, name: str) -> Floats:
    """One latency of each request, s; NaN where a request has none."""
    match name:
        case "ttft":
            return metrics.ttft(ok.first_ns, ok.sent_ns)
        case "ttft_scheduled":
            return metrics.ttft_scheduled(ok.first_ns, ok.scheduled_ns)
        case "ttfv":
            seen = ok.visible_ns != ABSENT
            return np.where(seen, metrics.ttfv(ok.visible_ns, ok.sent_ns), np.nan)
        case "e2el":
            return metrics.e2el(ok.last_ns, ok.sent_ns)
        case "e2el_scheduled":
            return metrics.e2el_scheduled(ok.last_ns, ok.scheduled_ns)
        case "tpot":
            return metrics.tpot(ok.first_ns, ok.last_ns, ok.osl, ok.at_first)
    raise ValueError(f"no latency of a request is called {name!r}")


def _pooled(name: str, pool: Pool) -> dict[str, Figure]:
    names = [f"{name}_mean_s", *(f"{name}_p{percent}_s" for percent in PERCENTS)]
    if pool.count == 0:
        return dict.fromkeys(names, Figure(None, EMPTY_WHY[name]))
    return dict(zip(names, [pool.mean(), *pool.percentiles(PERCENTS)], strict=True))


def _distribution(name: str, values: Floats, note: str | None) -> dict[str, Figure]:
    known = values[~np.isnan(values)]
    names = [f"{name}_mean_s", *(f"{name}_p{percent}_s" for percent in PERCENTS)]
    if len(known) == 0:
        why = EMPTY_WHY.get(name, "no request ended OK")
        return dict.fromkeys(names, Figure(None, why))
    figures = [metrics.mean(known), *metrics.percentiles(known, PERCENTS)]
    noted = [figure if figure.value is None else Figure(figure.value, note) for figure in figures]
    return dict(zip(names, noted, strict=True))


def _interval(name: str, ok: Columns, values: Floats, *, agentic: bool) -> dict[str, Figure]:
    known = ~np.isnan(values)
    found = {}
    if agentic:
        intervals = metrics.session_intervals(
            values[known], ok.session[known], INTERVAL_PERCENTS, seed=BOOTSTRAP_SEED
        )
    else:
        intervals = [metrics.percentile_interval(values[known], p) for p in INTERVAL_PERCENTS]
    for percent, interval in zip(INTERVAL_PERCENTS, intervals, strict=True):
        found[f"{name}_p{percent}_lo_s"] = Figure(interval.lo, interval.why)
        found[f"{name}_p{percent}_hi_s"] = Figure(interval.hi, interval.why)
    return found


def _with_errors(name: str, values: Floats, errors: int) -> dict[str, Figure]:
    known = values[~np.isnan(values)]
    found = {}
    for percent in PERCENTS:
        figure = metrics.percentile_with_errors(known, errors, percent)
        if figure.value == math.inf:
            why = f"infinite: {errors} of {len(known) + errors} requests failed or were censored"
            figure = Figure(None, why)
        found[f"{name}_err_p{percent}_s"] = figure
    return found


def _interactivity(ok: Columns, values: dict[str, Floats]) -> dict[str, Figure]:
    tpot = values["tpot"][~np.isnan(values["tpot"])]
    whole = metrics.seconds_per_token(values["e2el"], ok.osl)
    found = {}
    for stem, seconds in (("intvty", tpot), ("e2e_intvty", whole)):
        for percent, figure in zip(PERCENTS, metrics.percentiles(seconds, PERCENTS), strict=True):
            found[f"{stem}_p{percent}"] = metrics.intvty(figure)
    return found
