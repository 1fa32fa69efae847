"""Latency metrics of the population: distributions, interactivity, intervals, error variants.

The population is chosen by the caller. Values are of requests that ended OK; the failed and the
censored enter only the variants that count them as infinite.
"""

from __future__ import annotations

import math

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import ABSENT, FAILURES, Columns
from inferometer.core import Status
from inferometer.metrics import Figure, Floats, Interval

PERCENTS = (50, 75, 90, 95, 99)
LATENCIES = ("ttft", "ttft_scheduled", "ttfv", "e2el", "tpot", "chunk_gap", "itl")
WITH_INTERVAL = ("ttft", "tpot")
WITH_ERRORS = ("ttft", "e2el", "tpot")
BOOTSTRAP_SEED = 20_260_101
"""Any constant: one set of records gives one interval."""
EMPTY_WHY = {
    "ttfv": "no request had a visible token",
    "tpot": "no request had tokens after its first stamp",
    "chunk_gap": "no request had two token-bearing arrivals",
    "itl": "the server does not count the tokens of each chunk",
}


def latency_figures(population: Columns, *, agentic: bool) -> dict[str, Figure]:
    """Every latency metric of the population, by its published name."""
    timed = population.ended(Status.OK) & population.sent & (population.events > 0)
    ok = population.take(timed)
    values = _values(ok)
    note = assumed_note(ok)
    found: dict[str, Figure] = {}
    for name in LATENCIES:
        found |= _distribution(name, values[name], note if name == "tpot" else None)
    for name in WITH_INTERVAL:
        found |= _interval(name, ok, values[name], agentic=agentic)
    errors = population.count(*FAILURES, Status.CENSORED)
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


def _values(ok: Columns) -> dict[str, Floats]:
    first, last, osl = ok.first_ns, ok.last_ns, ok.osl
    seen = ok.visible_ns != ABSENT
    counted = ok.take(ok.counted)
    at_first = metrics.tokens_at_first(ok.at_ns, ok.tokens, ok.offsets)
    return {
        "ttft": metrics.ttft(first, ok.sent_ns),
        "ttft_scheduled": metrics.ttft_scheduled(first, ok.scheduled_ns),
        "ttfv": metrics.ttfv(ok.visible_ns[seen], ok.sent_ns[seen]),
        "e2el": metrics.e2el(last, ok.sent_ns),
        "tpot": metrics.tpot(first, last, osl, at_first),
        "chunk_gap": metrics.chunk_gap(ok.at_ns, ok.offsets),
        "itl": metrics.itl(counted.at_ns, counted.tokens, counted.offsets),
    }


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
    interval: Interval
    if agentic:
        interval = metrics.session_interval(
            values[known], ok.session[known], 50, seed=BOOTSTRAP_SEED
        )
    else:
        interval = metrics.percentile_interval(values[known], 50)
    return {
        f"{name}_p50_lo_s": Figure(interval.lo, interval.why),
        f"{name}_p50_hi_s": Figure(interval.hi, interval.why),
    }


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
