"""Right-sizing: each advice with the numbers that prove it, and none just inside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from analyze_factory import inputs, record

from inferometer.analyze import analyze_point
from inferometer.analyze.advice import advise
from inferometer.core import KvOffload, Result

GIB = float(1 << 30)


def result(dram_gb: int = 0, **metrics: float) -> Result:
    found = analyze_point(inputs([record(10, [15, 20])]))
    point = found.point
    if dram_gb:
        point = replace(point, kv_offload=KvOffload("dram", "native", None, dram_gb))
    return replace(found, point=point, metrics=metrics)


@pytest.mark.parametrize(
    ("given", "facts", "says"),
    [
        (
            result(engine_queue_time_mean_s=16.2, engine_running_max=2),
            {"max_running": 2.0},
            "waited 16.20 s on average with all 2 places taken",
        ),
        (
            result(engine_running_max=8),
            {"largest_graph": 1024.0, "graphs_bytes": 19.4 * GIB},
            "graphs up to 1024 hold 20.8 GB, and the largest batch was 8",
        ),
        (result(engine_running_max=80), {"largest_graph": 64.0}, "run without a graph"),
        (
            result(engine_kv_use_max=0.016),
            {"kv_pool_tokens": 33.6e6},
            "the KV pool of 33,600,000 tokens was at most 2% full",
        ),
        (result(engine_kv_use_max=0.99), {}, "was 99% full"),
        (result(engine_preemptions=12), {}, "12 requests were put back"),
        (result(engine_pinned_bytes=188 * GIB), {}, "pinned 202 GB of host memory that the point"),
        (result(679, engine_resident_bytes=100e9), {}, "679 GB are set aside"),
    ],
)
def test_each_advice_names_its_two_numbers(
    given: Result, facts: dict[str, float], says: str
) -> None:
    (advice,) = advise(given, facts)
    assert says in advice.text


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (result(), {}),
        (result(engine_queue_time_mean_s=16.2, engine_running_max=2), {"max_running": 3.0}),
        (result(engine_queue_time_mean_s=0.09, engine_running_max=2), {"max_running": 2.0}),
        # What an empty queue looks like where the first bucket ends at 0.3 s.
        (
            result(
                engine_queue_time_mean_s=4e-5, engine_queue_time_p50_s=0.15, engine_running_max=2
            ),
            {"max_running": 2.0},
        ),
        (result(engine_running_max=64), {"largest_graph": 64.0, "graphs_bytes": GIB}),
        (result(engine_kv_use_max=0.5), {}),
        (result(engine_preemptions=0), {}),
        (result(engine_pinned_bytes=0.5e9), {}),
        (result(400, engine_resident_bytes=200e9), {}),
    ],
)
def test_what_fits_or_is_unknown_gives_no_advice(given: Result, facts: dict[str, float]) -> None:
    assert advise(given, facts) == ()
