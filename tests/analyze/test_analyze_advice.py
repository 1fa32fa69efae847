"""Right-sizing: each advice with the numbers that prove it, and none just inside or unproven."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from analyze_factory import inputs, record

from inferometer.analyze import analyze_point
from inferometer.analyze.advice import advise
from inferometer.core import KvOffload, Point, Result

GIB = float(1 << 30)
WAITED = {
    "engine_queue_time_mean_s": 16.2,
    "engine_running_while_waiting": 2.0,
    "engine_kv_use_while_waiting": 0.4,
}
FULL = {
    "engine_queue_time_mean_s": 3.0,
    "engine_kv_use": 0.8,
    "engine_kv_use_max": 0.99,
    "engine_kv_use_while_waiting": 0.98,
}
EMPTY = {"engine_kv_use": 0.01, "engine_kv_use_max": 0.016, "engine_prefix_hit": 0.0}
HELD = {"host_memory_taken_bytes": 100e9, "engine_resident_bytes": 20e9}
GRAPHS = {"largest_graph": 1024.0, "graphs_bytes": 19.4 * GIB}
CAP = {"max_running": 2.0}


def result(*dram_gb: int, **metrics: Any) -> Result:
    """A point with these metrics, and `notes`; with so many GB of host memory set aside."""
    notes = metrics.pop("notes", {})
    found = analyze_point(inputs([record(10, [15, 20])]))
    point = found.point
    for budget in dram_gb:
        point = replace(point, kv_offload=KvOffload("dram", "native", None, budget))
    return replace(found, point=point, metrics=metrics, notes=notes)


@pytest.mark.parametrize(
    ("given", "facts", "says"),
    [
        (result(**WAITED), CAP, "waited 16.20 s on average, and while any did 2.0 of the 2 places"),
        (
            result(engine_running_max=8),
            GRAPHS,
            "graphs up to 1024 hold 20.8 GB, and the largest batch was 8",
        ),
        (result(engine_running_max=80), {"largest_graph": 64.0}, "run without a graph"),
        (
            result(**EMPTY),
            {"kv_pool_tokens": 33.6e6},
            "the KV pool of 33,600,000 tokens was at most 1.6% full, and nothing was found in the",
        ),
        (
            result(
                notes={"engine_prefix_hit": "nothing was looked up in the window"},
                **{**EMPTY, "engine_prefix_hit": None},
            ),
            {},
            "the KV pool was at most 1.6% full",
        ),
        (
            result(**FULL),
            {},
            "waited 3.00 s on average, and while any did the KV pool was 98% full",
        ),
        (result(engine_preemptions=12), {}, "12 requests were put back"),
        (result(engine_pinned_bytes=188 * GIB), {}, "pinned 202 GB of host memory that the point"),
        (result(679, **HELD), {}, "679 GB are set aside for KV blocks, and with the engine up"),
        (
            result(host_memory_taken_bytes=208e9, engine_resident_bytes=6e9),
            {},
            "used 208 GB more than before the engine started, and its processes show 6 GB",
        ),
    ],
)
def test_each_advice_names_its_numbers(given: Result, facts: dict[str, float], says: str) -> None:
    (advice,) = advise(given, facts)
    assert says in advice.text


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (result(), {}),
        # Places were free while requests waited: something else held them up.
        (result(**{**WAITED, "engine_running_while_waiting": 1.8}), CAP),
        (result(**WAITED), {"max_running": 3.0}),
        (result(**{**WAITED, "engine_queue_time_mean_s": 0.09}), CAP),
        # No scrape saw one wait, or the engine does not say.
        (result(engine_queue_time_mean_s=16.2, engine_running_max=2), CAP),
        # What an empty queue looks like where the first bucket ends at 0.3 s.
        (
            result(**{**WAITED, "engine_queue_time_mean_s": 4e-5}, engine_queue_time_p50_s=0.15),
            CAP,
        ),
        (result(engine_running_max=64), {"largest_graph": 64.0, "graphs_bytes": GIB}),
        (result(engine_running_max=8), {"largest_graph": 1024.0}),
        # Full for nobody: none waited, and none was put back.
        (result(**{**FULL, "engine_queue_time_mean_s": 0.01}), {}),
        (result(**{**FULL, "engine_kv_use_while_waiting": 0.9}), {}),
        (result(engine_kv_use=0.4, engine_kv_use_max=0.5, engine_prefix_hit=0.0), {}),
        # What requests leave free of the pool holds the prefixes that others find.
        (result(**{**EMPTY, "engine_prefix_hit": 0.87}), {}),
        (result(**{**EMPTY, "engine_prefix_hit": None}), {}),
        # Scrapes with holes: the peak may lie in one.
        (result(**{**EMPTY, "engine_kv_use": None}), {}),
        (result(engine_preemptions=0), {}),
        (result(engine_pinned_bytes=0.5e9), {}),
        (result(400, **HELD), {}),
        # What a driver pins is in no process: without the machine's own account it is unproven.
        (result(679, engine_resident_bytes=1e9, engine_pinned_bytes=0.0), {}),
        (result(host_memory_taken_bytes=26e9, engine_resident_bytes=20e9), {}),
        (result(host_memory_taken_bytes=208e9), {}),
        (
            result(host_memory_taken_bytes=26e9, engine_resident_bytes=90e9, engine_pss_bytes=20e9),
            {},
        ),
    ],
)
def test_what_fits_or_is_unproven_gives_no_advice(given: Result, facts: dict[str, float]) -> None:
    assert advise(given, facts) == ()


def of(given: Result, **changes: Any) -> Result:
    point: Point = replace(given.point, **changes)
    return replace(given, point=point)


def test_limits_of_each_engine_are_not_held_against_the_sum_of_several() -> None:
    waited, small = result(**WAITED), result(engine_running_max=8)
    spread = replace(waited.point.parallelism, dp_attn=True)
    assert len(advise(waited, CAP)) == len(advise(small, GRAPHS)) == 1
    assert advise(of(waited, parallelism=spread), CAP) == ()
    assert advise(of(small, parallelism=spread), GRAPHS) == ()


def test_with_drafts_a_sequence_takes_several_tokens_of_a_graph() -> None:
    small, large = result(engine_running_max=8), result(engine_running_max=2000)
    assert advise(of(small, spec_decoding="mtp"), GRAPHS) == ()
    assert len(advise(of(large, spec_decoding="mtp"), GRAPHS)) == 1
