"""What an open loop adds, and what it has no use for: arrivals asked for, and waits under a cap."""

from __future__ import annotations

import numpy as np

from inferometer import metrics
from inferometer.analyze.columns import Columns
from inferometer.analyze.window import Windows
from inferometer.core import ClientReport
from inferometer.metrics import Figure, Floats

NO_LANES = "an open loop has no lanes"


def open_loop_figures(
    population: Columns, windows: Windows, client: ClientReport
) -> dict[str, Figure]:
    """By published name; what is of lanes becomes null, with the reason."""
    waits = cap_waits_s(population.take(population.sent))
    p50, p99 = metrics.percentiles(waits, (50, 99))
    return {
        "offered_s": _offered(client, windows),
        "cap_wait_p50_s": p50,
        "cap_wait_p99_s": p99,
        **dict.fromkeys(
            ("in_flight_per_lane", "lane_occupancy", "harness_bound"), Figure(None, NO_LANES)
        ),
    }


def cap_waits_s(sent: Columns) -> Floats:
    """How long each request had waited for a place under the cap, s."""
    waits: Floats = np.maximum(sent.ready_ns - sent.scheduled_ns, 0) / metrics.NS
    return waits


def _offered(client: ClientReport, windows: Windows) -> Figure:
    """Over the interval in which arrivals came: a counted window has a tail without any."""
    if client.arrivals_due is None:
        return Figure(None, "the client does not say how many arrivals were due")
    counted = client.window.kind == "requests"
    span = windows.rates if counted else windows.whole
    return metrics.per_second(client.arrivals_due, span.seconds)
