"""Every published formula, a pure function of arrays and scalars. No I/O; knows no record, no file.

Stamps are int64 nanoseconds of one monotonic clock, results are seconds, tokens or joules as the
name says. Token events of many requests come as one flat array and `offsets` (int64[n + 1]): the
events of request i are `[offsets[i]:offsets[i + 1]]`, in order of arrival. In float arrays NaN is
an unknown value; a `Figure` without a value says why. Definitions: `docs/metrics.md`.
"""

from __future__ import annotations

from inferometer.metrics.energy_and_cost import (
    COUNTER_SLACK_SHARE,
    DURATION_SLACK_S,
    DURATION_SLACK_SHARE,
    MAX_POWER_GAP_S,
    PowerSeries,
    energy,
    gpu_energy,
    joules_per_token,
    speed_of_light,
    usd_per_mtok,
)
from inferometer.metrics.figures import (
    NS,
    Bools,
    Counts,
    Figure,
    Floats,
    Interval,
    Ints,
)
from inferometer.metrics.load import (
    covered_ns,
    harness_bound,
    in_flight,
    lane_occupancy,
    little_residual,
    per_second,
    session_engine_bound,
    tokens_inside,
)
from inferometer.metrics.requests import (
    chunk_gap,
    chunk_gaps_ns,
    e2el,
    e2el_scheduled,
    intvty,
    itl,
    itl_ns,
    seconds_per_token,
    segment_sums,
    tokens_at_first,
    tpot,
    ttft,
    ttft_scheduled,
    ttfv,
)
from inferometer.metrics.statistics import (
    MIN_SESSIONS,
    highest_supported,
    mean,
    percentile,
    percentile_interval,
    percentile_with_errors,
    percentiles,
    session_intervals,
)

__all__ = [
    "COUNTER_SLACK_SHARE",
    "DURATION_SLACK_S",
    "DURATION_SLACK_SHARE",
    "MAX_POWER_GAP_S",
    "MIN_SESSIONS",
    "NS",
    "Bools",
    "Counts",
    "Figure",
    "Floats",
    "Interval",
    "Ints",
    "PowerSeries",
    "chunk_gap",
    "chunk_gaps_ns",
    "covered_ns",
    "e2el",
    "e2el_scheduled",
    "energy",
    "gpu_energy",
    "harness_bound",
    "highest_supported",
    "in_flight",
    "intvty",
    "itl",
    "itl_ns",
    "joules_per_token",
    "lane_occupancy",
    "little_residual",
    "mean",
    "per_second",
    "percentile",
    "percentile_interval",
    "percentile_with_errors",
    "percentiles",
    "seconds_per_token",
    "segment_sums",
    "session_engine_bound",
    "session_intervals",
    "speed_of_light",
    "tokens_at_first",
    "tokens_inside",
    "tpot",
    "ttft",
    "ttft_scheduled",
    "ttfv",
    "usd_per_mtok",
]
