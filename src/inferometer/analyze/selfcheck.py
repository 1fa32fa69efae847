"""The client's account of itself: did it send on time, hear on time, count what the engine counted.

Numbers only; what they are worth is for `verdict` to say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import Columns
from inferometer.analyze.latency import PERCENTS
from inferometer.core import ClientReport, EngineTotals, MetricsReport, Status
from inferometer.metrics import Figure, Floats
from inferometer.store import ABSENT, STATUSES

LAG_PERCENTS = PERCENTS
"""A lag is judged by the highest of these that the number of requests supports."""


class Counter(NamedTuple):
    """One quantity as both sides counted it over the whole run."""

    family: str
    client: int
    engine: float

    @property
    def difference(self) -> float:
        """|client - engine| / engine."""
        return abs(self.client - self.engine) / max(self.engine, 1.0)


class Counters(NamedTuple):
    """The comparable quantities; `skipped` says why there are none, or which is missing."""

    compared: tuple[Counter, ...]
    skipped: str | None


def client_figures(
    population: Columns, client: ClientReport, totals: EngineTotals | None
) -> dict[str, Figure]:
    """What the client says of itself, by published name."""
    lags = schedule_lags_ms(population)
    p50, p99 = metrics.percentiles(lags, (50, 99))
    lateness = None if totals is None else totals.lateness_p99_ms
    return {
        "schedule_lag_p50_ms": p50,
        "schedule_lag_p99_ms": p99,
        **_coalesced(population.take(population.ended(Status.OK))),
        "worker_cpu_share_max": _given(
            max(client.worker_cpu_shares, default=None),
            "the coordinator itself sends, or workers were not sampled",
        ),
        "client_cpu_share": _given(client.cpu_share, "the client's CPU time was not sampled"),
        "loop_lag_p99_ms": _given(client.loop_lag_p99_ms, "the client's loop was not probed"),
        "engine_lateness_p99_ms": _given(lateness, "only the built-in engine reports it"),
    }


def busiest_cpu_share(client: ClientReport) -> float | None:
    """Cores that the busiest process of the client took: each has one loop, so one is all."""
    shares = [*client.worker_cpu_shares]
    if client.cpu_share is not None:
        shares.append(client.cpu_share)
    return max(shares, default=None)


def schedule_lags_ms(population: Columns) -> Floats:
    """`sent` - due of every request that was sent, however it ended, ms.

    One that waited for a place under a cap is due when it had one: that wait is none of the
    client's own lateness.
    """
    return lags_ms(population.take(population.sent))


def lags_ms(sent: Columns) -> Floats:
    """`schedule_lags_ms` of requests that were all sent, in their order."""
    return (sent.sent_ns - np.maximum(sent.scheduled_ns, sent.ready_ns)) / 1e6


def token_figures(population: Columns) -> dict[str, Figure]:
    """Mean lengths of the OK requests, how far the server's count of prompts is off, and the share
    of answers that are not as long as asked.
    """
    ok = population.take(population.ended(Status.OK))
    known = ok.take((ok.prompt != ABSENT) & (ok.intended > 0))
    off = np.abs(known.prompt - known.intended) / np.maximum(known.intended, 1)
    mismatch = float(np.median(off)) if len(off) else None
    told = ok.take(ok.completion != ABSENT)
    other = float(np.mean(told.completion != told.asked)) if len(told) else None
    return {
        "output_tokens_mean": metrics.mean(ok.osl.astype(np.float64)),
        "input_tokens_mean": metrics.mean(ok.input_tokens.astype(np.float64)),
        "input_mismatch": _given(mismatch, "no request has a server count of its prompt"),
        "output_mismatch": _given(other, "no request has a server count of its answer"),
    }


def counters(
    cols: Columns, totals: EngineTotals | None, report: MetricsReport | None = None
) -> Counters:
    """Client and engine over the whole run, warm-up included.

    Only comparable when every request ended OK: what an engine counts of a broken-off one differs
    by engine, and the client never saw its usage. `report` says why there are no totals.
    """
    if totals is None:
        return Counters((), _not_counted(report))
    odd = sorted({STATUSES[code] for code in cols.status.tolist()} - {Status.OK})
    if odd:
        return Counters((), f"not compared: requests ended {', '.join(odd)}")
    sides = {
        "requests": (len(cols), totals.requests),
        "prompt_tokens": (_sum(cols.prompt), totals.prompt_tokens),
        "generation_tokens": (_sum(cols.completion), totals.generation_tokens),
    }
    compared, missing = [], []
    for family, (client, engine) in sides.items():
        if client is None or engine is None:
            missing.append(family)
        else:
            compared.append(Counter(family, client, engine))
    skipped = f"not known to both sides: {', '.join(missing)}" if missing else None
    return Counters(tuple(compared), skipped)


def _not_counted(report: MetricsReport | None) -> str:
    if report is None or report.path is None:
        return "the engine publishes no counters"
    return f"not compared: no metrics page before the load or after it ({report.problem})"


def _sum(counts: metrics.Ints) -> int | None:
    return None if (counts == ABSENT).any() else int(counts.sum())


def _coalesced(ok: Columns) -> dict[str, Figure]:
    some = ok.take(ok.events > 0)
    if len(some) == 0:
        none = Figure(None, "no request ended OK")
        return {"coalesced_share": none, "first_token_coalesced_share": none}
    return {
        "coalesced_share": Figure(float(some.coalesced.sum() / some.events.sum())),
        "first_token_coalesced_share": Figure(float(some.first_coalesced.mean())),
    }


def _given(value: float | None, otherwise: str) -> Figure:
    return Figure(value, otherwise if value is None else None)
