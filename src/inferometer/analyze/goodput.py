"""Goodput: requests and tokens per second of those requests that met every objective (SLO).

An objective is a bound on a metric of one request. Whatever was due in the window is in the
denominator: failed and censored requests, and arrivals that never found a place, meet nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import FAILURES, Columns
from inferometer.analyze.latency import REQUEST_LATENCIES, request_values
from inferometer.analyze.window import timed
from inferometer.core import Slo, Status
from inferometer.errors import InputError, Problem, nearest
from inferometer.metrics import Bools, Figure, Floats

SPEEDS = ("intvty", "e2e_intvty")
"""Tokens a second that one user sees: more is better, so the bound is a least one."""
SLO_METRICS = (*REQUEST_LATENCIES, *SPEEDS)
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0}
SPEED_UNITS = {"tok/s": 1.0, "tok/s/user": 1.0}
EXAMPLE = "an objective is METRIC:BOUND, such as ttft:500ms, tpot:20ms or intvty:30tok/s"
_BOUND = re.compile(r"(?P<value>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)\s*(?P<unit>\D*)")


def parse_slos(texts: Sequence[str]) -> tuple[Slo, ...]:
    """Objectives as typed. InputError has every problem of all of them."""
    found: dict[str, Slo] = {}
    problems = []
    for text in texts:
        try:
            slo = _parse(text)
        except ValueError as error:
            problems.append(Problem(str(error), "--slo", None, text))
            continue
        if slo.metric in found:
            problems.append(Problem(f"{slo.metric} has a bound already", "--slo", None, text))
        found.setdefault(slo.metric, slo)
    if problems:
        raise InputError(*problems)
    return tuple(found.values())


def _parse(text: str) -> Slo:
    name, colon, bound = (part.strip() for part in text.partition(":"))
    if not colon:
        raise ValueError(EXAMPLE)
    if name not in SLO_METRICS:
        hint = nearest(name, SLO_METRICS) or f"; there are {', '.join(SLO_METRICS)}"
        raise ValueError(f"no metric of a request is called {name!r}{hint}")
    units = SPEED_UNITS if name in SPEEDS else TIME_UNITS
    match = _BOUND.fullmatch(bound)
    if match is None:
        raise ValueError(f"{bound!r} is no bound; {EXAMPLE}")
    unit = match["unit"].strip()
    if unit not in units:
        got = repr(unit) if unit else "none"
        raise ValueError(f"a bound of {name} has a unit of {', '.join(units)}; got {got}")
    value = float(match["value"]) * units[unit]
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"a bound is above 0, got {bound!r}")
    return Slo(name, value)


def goodput_figures(
    population: Columns, slos: Sequence[Slo], window_s: float, gpus: int, unsent: int
) -> dict[str, Figure]:
    """Goodput over the whole window, by published name; nothing without objectives."""
    if not slos:
        return {}
    ok = population.take(timed(population))
    good = met(ok, slos)
    due = population.count(Status.OK, *FAILURES, Status.CENSORED) + unsent
    tokens = float(ok.osl[good].sum())
    share = Figure(int(good.sum()) / due) if due else Figure(None, "no request was due")
    rate = metrics.per_second(tokens, window_s)
    per_gpu = None if rate.value is None else rate.value / gpus
    return {
        "slo_met_share": share,
        "goodput_requests_s": metrics.per_second(float(good.sum()), window_s),
        "goodput_output_tok_s": rate,
        "goodput_output_tok_s_per_gpu": Figure(per_gpu, rate.why),
    }


def met(ok: Columns, slos: Sequence[Slo]) -> Bools:
    """Which of these requests met all objectives.

    Without a value there is nothing to hold against a bound: a request of one token has no time
    per token, and meets it. A request without a visible token never met the wait for one.
    """
    good = np.ones(len(ok), np.bool_)
    for slo in slos:
        values = _values(ok, slo.metric)
        meets = values >= slo.bound if slo.metric in SPEEDS else values <= slo.bound
        good &= meets if slo.metric == "ttfv" else meets | np.isnan(values)
    return good


def _values(ok: Columns, name: str) -> Floats:
    if name == "intvty":
        return 1 / request_values(ok, "tpot")
    if name == "e2e_intvty":
        spans = metrics.seconds_per_token(request_values(ok, "e2el"), ok.osl)
        return np.where(spans > 0, 1 / np.where(spans > 0, spans, 1), math.inf)
    return request_values(ok, name)
