"""Goodput: requests and tokens per second of those requests that met every objective (SLO).

Whatever was due in the window is in the denominator: failed and censored requests, and arrivals
that never found a place, meet nothing. A value that does not exist is not zero: what has none for
want of tokens has nothing to wait for, what nobody told is not decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import FAILURES, Columns
from inferometer.analyze.latency import assumed_note, request_values
from inferometer.analyze.objectives import AT_LEAST, ONCE, REPEATED
from inferometer.analyze.openloop import cap_waits_s
from inferometer.analyze.selfcheck import lags_ms
from inferometer.analyze.window import timed
from inferometer.core import Slo, Status
from inferometer.metrics import Bools, Figure, Floats
from inferometer.store import ABSENT

UNTOLD_SHARE = 0.01
"""Requests due of which an objective cannot be decided, before goodput is withheld: as much as may
fail in one class, and a point still be valid. They count as not meeting it."""
BY_TOKENS = ("tpot", "intvty")
"""What rests on the tokens of chunks, and so on an assumption where the server counts none."""


class Judged(NamedTuple):
    """Which requests met all objectives, of which it cannot be told, and what is to be known."""

    good: Bools
    untold: Bools
    notes: tuple[str, ...]


def goodput_figures(
    population: Columns, slos: Sequence[Slo], window_s: float, gpus: int, unsent: int
) -> dict[str, Figure]:
    """Goodput over the whole window, by published name; nothing without objectives."""
    if not slos:
        return {}
    ok = population.take(timed(population))
    judged = judge_requests(ok, slos)
    good, untold = judged.good, int(judged.untold.sum())
    due = population.count(Status.OK, *FAILURES, Status.CENSORED) + unsent
    note = "; ".join(judged.notes) or None
    if withheld := untold > UNTOLD_SHARE * due:
        note = f"{untold} of {due} requests may have met all objectives or not: {note}"
    rate = metrics.per_second(float(ok.osl[good].sum()), window_s)
    per_gpu = None if rate.value is None else rate.value / gpus
    found = {
        "slo_met_share": Figure(int(good.sum()) / due) if due else _NOTHING_DUE,
        "goodput_requests_s": metrics.per_second(float(good.sum()), window_s),
        "goodput_output_tok_s": rate,
        "goodput_output_tok_s_per_gpu": Figure(per_gpu, rate.why),
    }
    return {name: _noted(figure, note, withheld=withheld) for name, figure in found.items()}


_NOTHING_DUE = Figure(None, "no request was due")


def _noted(figure: Figure, note: str | None, *, withheld: bool) -> Figure:
    if figure.value is None:
        return figure
    return Figure(None if withheld else figure.value, note)


def judge_requests(ok: Columns, slos: Sequence[Slo]) -> Judged:
    """Hold these requests against all objectives. One that missed any is not good, whatever is not
    known of it besides.
    """
    good, untold = np.ones(len(ok), np.bool_), np.zeros(len(ok), np.bool_)
    notes, values = [], _values(ok, [slo.metric for slo in slos])
    for slo in slos:
        found = values[slo.metric]
        none = np.isnan(found)
        meets = found >= slo.bound if slo.metric in AT_LEAST else found <= slo.bound
        unknown = none & _untold(ok, slo.metric)
        free = none & ~unknown & (slo.metric != "ttfv")
        good &= meets | free | unknown
        untold |= unknown
        notes += _notes(ok, slo.metric, int(free.sum()), int(unknown.sum()))
    return Judged(good & ~untold, good & untold, tuple(notes))


def _untold(ok: Columns, name: str) -> Bools:
    """Requests whose value exists, and which nobody told: the server does not count or say it."""
    if name.startswith("itl_"):
        return ~ok.counted & (ok.osl > 1)
    return np.full(len(ok), name == "cached_share")


def _notes(ok: Columns, name: str, free: int, unknown: int) -> list[str]:
    """What is to be known of an objective, for the notes of goodput."""
    notes = []
    if unknown:
        notes.append(
            f"{unknown} of {len(ok)} requests do not tell {name}, and none of them counts as good"
        )
    if free:
        notes.append(f"{free} of {len(ok)} requests have no {name}, and meet any bound on it")
    if name in BY_TOKENS and (note := assumed_note(ok)) is not None:
        notes.append(note)
    if name == "input_speed" and (missing := int((ok.prompt == ABSENT).sum())):
        notes.append(f"{missing} of {len(ok)} prompts have no server count: as long as intended")
    return notes


def _values(ok: Columns, names: Sequence[str]) -> dict[str, Floats]:
    """Each metric of each request; NaN where it has none, or nobody told."""
    parts = [(name, name.rpartition("_")) for name in names]
    repeated = [(stem, how) for _, (stem, _, how) in parts if stem in REPEATED]
    found = ok.statistics(repeated)
    return found | {name: _value(ok, name) for name in names if name not in found}


def _value(ok: Columns, name: str) -> Floats:
    return request_values(ok, name) if name in ONCE else _OTHERS[name](ok)


def _cached_share(ok: Columns) -> Floats:
    told = (ok.cached != ABSENT) & (ok.prompt > 0)
    return np.where(told, ok.cached / np.where(told, ok.prompt, 1), np.nan)


_OTHERS: dict[str, Callable[[Columns], Floats]] = {
    "intvty": lambda ok: 1 / request_values(ok, "tpot"),
    "e2e_intvty": lambda ok: metrics.e2e_intvty_of_each(ok.osl, request_values(ok, "e2el")),
    "input_speed": lambda ok: metrics.input_speed(ok.input_tokens, request_values(ok, "ttft")),
    "schedule_lag": lambda ok: lags_ms(ok) / 1e3,
    "cap_wait": cap_waits_s,
    "output_tokens": lambda ok: ok.osl.astype(np.float64),
    "cached_share": _cached_share,
}
