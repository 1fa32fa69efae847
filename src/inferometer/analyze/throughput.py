"""Rates over the rate window, and how full the lanes were: throughput, in-flight, occupancy.

Warm-up requests count here. Tokens are those of requests that ended OK or censored; open time is
that of every request that was sent, since a failed one loads the engine too while it is open.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import Columns
from inferometer.analyze.latency import assumed_note
from inferometer.analyze.window import Windows, counts_in_rates, first_inside, output_inside
from inferometer.core import ClientReport, Sample, Status, Window
from inferometer.metrics import Figure
from inferometer.store import ABSENT

GAUGE = "client.in_flight"
GAUGE_MIN_SAMPLES = 30
"""Below this the standard error of the gauge's mean, taken from the same samples, is itself a guess
(30 samples know it to about 13 %)."""
NOISE_ERRORS = 3.0
"""Standard errors within which the gauge and the records cannot be told apart (1 run in 370)."""
UNKNOWN_CACHED_SHARE = 0.01
"""Input tokens whose cached part may be unknown before a number on caching is withheld: the share
of censored requests, whose usage never came, that still leaves a point valid."""


def rate_figures(cols: Columns, windows: Windows, gpus: int) -> dict[str, Figure]:
    """Token and request rates, each also per GPU of the deployment (requests: not)."""
    window = windows.rates
    counted = cols.take(counts_in_rates(cols))
    arriving = counted.take(first_inside(counted, window))
    output = float(output_inside(counted, window).sum())
    read = float(arriving.input_tokens.sum())
    computed, why = _computed(arriving)
    output_note, input_note = assumed_note(counted), _intended_note(arriving)
    amounts = {
        "output_tok_s": (output, output_note),
        "input_tok_s": (read, input_note),
        "input_computed_tok_s": (computed, why),
        "total_tok_s": (output + read, _join(output_note, input_note)),
    }
    found = {}
    for name, (amount, note) in amounts.items():
        figure = _rate(amount, window, _join(windows.note, note))
        found[name] = figure
        per_gpu = None if figure.value is None else figure.value / gpus
        found[f"{name}_per_gpu"] = Figure(per_gpu, figure.why)
    ended = counted.last_ns[counted.ended(Status.OK)]
    done = int(((ended > window.start_ns) & (ended <= window.end_ns)).sum())
    found["requests_s"] = _rate(done, window, windows.note)
    return found


def cached_share(population: Columns) -> Figure:
    """Cached / all prompt tokens of the population's OK requests; None where unknown."""
    ok = population.take(population.ended(Status.OK))
    computed, why = _computed(ok)
    total = float(ok.input_tokens.sum())
    if computed is None or total == 0:
        return Figure(None, why or "no prompt tokens")
    return Figure(1 - computed / total, why)


def occupancy_figures(
    cols: Columns, windows: Windows, client: ClientReport, samples: Sequence[Sample]
) -> dict[str, Figure]:
    """Open requests and lane-time over the rate window, and the gauge held against them."""
    start, end = windows.rates.start_ns, windows.rates.end_ns
    sent = cols.take(cols.sent)
    in_flight = metrics.in_flight(sent.sent_ns, sent.end_ns, start, end)
    open_ns = metrics.covered_ns(sent.lane, sent.sent_ns, sent.end_ns, start, end)
    with_gaps_ns = _open_or_gap_ns(cols, sent, windows, client)
    lanes, length = client.lanes, end - start
    residual, noise = _little(in_flight, samples, windows.rates)
    per_lane = None if in_flight.value is None else in_flight.value / lanes
    return {
        "in_flight": in_flight,
        "in_flight_per_lane": Figure(per_lane, in_flight.why),
        "lane_occupancy": metrics.lane_occupancy(open_ns, lanes, length),
        "harness_bound": metrics.harness_bound(open_ns, with_gaps_ns, lanes, length),
        "little_residual": residual,
        "little_noise": noise,
    }


def _computed(cols: Columns) -> tuple[float | None, str | None]:
    """Prompt tokens that were not cached. The few whose cached part is unknown are taken to be
    cached like the rest.
    """
    known = (cols.cached != ABSENT) & (cols.prompt != ABSENT)
    total = int(cols.input_tokens.sum())
    sure = int(cols.prompt[known].sum())
    if total == 0:
        return 0.0, None
    why = f"{len(cols) - int(known.sum())} of {len(cols)} requests do not say what was cached"
    if total - sure > UNKNOWN_CACHED_SHARE * total:
        return None, why
    computed = (sure - int(cols.cached[known].sum())) * total / sure
    return computed, why if sure < total else None


def _intended_note(cols: Columns) -> str | None:
    count = int((cols.prompt == ABSENT).sum())
    if count == 0:
        return None
    return f"{count} of {len(cols)} requests have no server count: the intended length is used"


def _rate(amount: float | None, window: Window, note: str | None) -> Figure:
    if amount is None:
        return Figure(None, note)
    figure = metrics.per_second(amount, window.seconds)
    return figure if figure.value is None else Figure(figure.value, note)


def _join(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


def _open_or_gap_ns(cols: Columns, sent: Columns, windows: Windows, client: ClientReport) -> int:
    """Lane-time with a request open or a recorded gap running, pending gaps included."""
    window = windows.rates
    pending = np.array(client.pending_gaps, dtype=np.int64).reshape(-1, 2)
    until = np.full(len(pending), windows.whole.end_ns)
    lane = np.concatenate((sent.lane, cols.lane, pending[:, 0]))
    opened = np.concatenate((sent.sent_ns, cols.ready_ns, pending[:, 1]))
    closed = np.concatenate((sent.end_ns, cols.scheduled_ns, until))
    return metrics.covered_ns(lane, opened, closed, window.start_ns, window.end_ns)


def _little(in_flight: Figure, samples: Sequence[Sample], window: Window) -> tuple[Figure, Figure]:
    """The residual, and the size below which sampling alone explains it (both relative)."""
    gauge = np.array(
        [
            sample.value
            for sample in samples
            if sample.name == GAUGE and window.start_ns <= sample.at_ns < window.end_ns
        ]
    )
    if len(gauge) < GAUGE_MIN_SAMPLES:
        none = Figure(None, f"{len(gauge)} gauge samples, {GAUGE_MIN_SAMPLES} needed")
        return none, none
    if not in_flight.value:
        none = Figure(None, in_flight.why or "no request was open in the window")
        return none, none
    residual = metrics.little_residual(float(gauge.mean()), in_flight.value)
    error = float(gauge.std(ddof=1)) / len(gauge) ** 0.5
    return residual, Figure(NOISE_ERRORS * error / in_flight.value)
