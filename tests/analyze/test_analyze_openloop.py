"""What an open loop changes in an analysis, and that files and memory give one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from analyze_factory import MS, inputs, record, window, with_client

from inferometer.analyze import PointInputs, analyze_point
from inferometer.analyze.columns import columns
from inferometer.analyze.window import find_windows
from inferometer.core import Phase, Record, Result, Slo, Status
from inferometer.store import Journal, record_row
from inferometer.store.records import RECORD_COLUMNS
from inferometer.store.table import read_table

COUNTED = window(0, 99_000, kind="requests")


def paced(given: PointInputs, due: int, unsent: int = 0) -> PointInputs:
    workload = replace(given.plan.workload, arrival="poisson", rate=1.0, cap_in_flight=True)
    open_loop = replace(given, plan=replace(given.plan, workload=workload))
    return with_client(open_loop, arrivals_due=due, arrivals_unsent=unsent)


def arrivals(count: int) -> list[Record]:
    """One a second, each open for 3 s."""
    return [
        record(at * 1_000, (at * 1_000 + 100, at * 1_000 + 3_000), completion=2)
        for at in range(count)
    ]


def test_the_steady_part_of_a_counted_run_ends_with_the_last_arrival() -> None:
    found = find_windows(columns(arrivals(10)), COUNTED, 4, open_loop=True)
    assert (found.whole.start_ns, found.whole.end_ns) == (0, 12_000 * MS)
    assert (found.rates.start_ns, found.rates.end_ns) == (0, 9_000 * MS)
    assert found.steady is True


def test_a_burst_has_no_part_in_which_it_arrives() -> None:
    found = find_windows(columns([record(0, (100,), completion=1)]), COUNTED, 4, open_loop=True)
    assert found.rates == found.whole
    assert found.note == "over the whole window: nothing arrived in it"


def test_arrivals_are_held_against_the_time_in_which_they_came() -> None:
    result = analyze_point(paced(inputs(arrivals(10), span=COUNTED), due=10))
    assert result.metrics["offered_s"] == pytest.approx(10 / 9)
    declared = analyze_point(paced(inputs(arrivals(10)), due=10))
    assert declared.metrics["offered_s"] == 1.0


def test_a_wait_for_a_place_is_in_no_lag_and_in_every_latency_from_schedule() -> None:
    waited = [
        record(at + 5_000, (at + 5_100,), scheduled=at, ready=at + 4_999, completion=1)
        for at in range(0, 400, 4)
    ]
    result = analyze_point(paced(inputs(waited), due=100))
    assert result.metrics["schedule_lag_p99_ms"] == pytest.approx(1)
    assert result.metrics["ttft_scheduled_p50_s"] == pytest.approx(5.1)
    assert result.metrics["e2el_scheduled_p50_s"] == pytest.approx(5.1)
    assert result.metrics["ttft_p50_s"] == pytest.approx(0.1)
    assert result.metrics["cap_wait_p99_s"] == pytest.approx(4.999)
    assert result.verdict.level == "valid"


def test_a_late_client_is_late_all_the_same() -> None:
    late = [
        record(at + 5_000, (at + 5_100,), scheduled=at, ready=at, completion=1)
        for at in range(0, 400, 4)
    ]
    result = analyze_point(paced(inputs(late), due=100))
    assert [reason.code for reason in result.verdict.reasons] == ["schedule_lag"]


def test_what_is_of_lanes_is_null_and_says_why() -> None:
    result = analyze_point(paced(inputs(arrivals(3), agentic=True), due=3))
    for name in ("in_flight_per_lane", "lane_occupancy", "harness_bound"):
        assert result.metrics[name] is None
        assert result.notes[name] == "an open loop has no lanes"
    assert result.metrics["session_makespan_p50_s"] is None
    assert "open loop" in result.notes["session_makespan_p50_s"]
    assert result.metrics["recorded_gap_mean_s"] == 0


@pytest.mark.parametrize(("shares", "level"), [((0.3, 0.9), "valid"), ((0.3, 0.91), "degraded")])
def test_the_busiest_process_of_the_client_is_judged(shares: tuple[float, ...], level: str) -> None:
    result = analyze_point(with_client(inputs(arrivals(6)), worker_cpu_shares=shares))
    assert result.metrics["worker_cpu_share_max"] == max(shares)
    assert result.verdict.level == level


def mixed() -> list[Record]:
    """Counted and not, coalesced and not, warm-up, failed, open, and one without an event."""
    found: list[Record] = []
    for number in range(40):
        at = number * 200
        status = Status.OK if number % 7 else Status.TIMEOUT
        events = [at + 50 + 13 * i + number % 5 for i in range(number % 9)]
        found.append(
            record(
                at,
                events,
                end=at + 900,
                tokens=[1 + i % 3 for i in range(len(events))] if number % 2 else None,
                coalesced=[i % 2 == 0 for i in range(len(events))] if number % 3 else None,
                completion=2 * len(events) or None,
                cached=10,
                status=status if events else Status.EMPTY,
                phase=Phase.WARMUP if number < 3 else Phase.MEASURED,
                lane=number % 4,
                play=number // 4,
                session=f"s{number % 8}",
            )
        )
    return found


def stored(folder: Path, records: Sequence[Record], given: PointInputs) -> PointInputs:
    with Journal(folder, "records", RECORD_COLUMNS, segment_bytes=4_000) as journal:
        for item in records:
            journal.append(record_row(item))
            journal.flush()
        journal.seal()
    table = read_table(folder / "records.parquet", sessions=given.plan.workload.kind == "agentic")
    return replace(given, records=table)


@pytest.mark.parametrize("agentic", [False, True])
@pytest.mark.parametrize("kind", ["duration", "requests"])
def test_a_file_and_its_records_give_one_result(tmp_path: Path, agentic: bool, kind: str) -> None:
    span = window(500, 6_500, kind=kind)
    given = replace(inputs(mixed(), span=span, lanes=4, agentic=agentic), slos=(Slo("ttft", 0.1),))
    expected: Result = analyze_point(given)
    found = analyze_point(stored(tmp_path, mixed(), given))
    assert found.metrics == expected.metrics
    assert found.notes == expected.notes
    assert (found.counts, found.verdict, found.window) == (
        expected.counts,
        expected.verdict,
        expected.window,
    )
    assert expected.metrics["itl_p50_s"] is not None
