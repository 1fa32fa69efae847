"""Whole loads in virtual time against a transport that answers by rule."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from fakes import MS, WORKLOAD, FakeStart, FakeWorkload, chain, drive

from inferometer.clock import NS
from inferometer.core import Phase, Prompt, Request, Session, Status, Turn
from inferometer.load.drive import Drive
from inferometer.load.lanes import LATER_S


def test_a_closed_loop_keeps_every_lane_busy_for_the_declared_time() -> None:
    settings = replace(WORKLOAD, duration_s=59.0)
    run = drive(FakeWorkload(chain("s", 1, 0.0)), settings, lanes=3, seconds=lambda _: 2.0)
    assert run.report.window.seconds == 59.0
    assert run.report.window.complete
    assert run.transport.most_open == 3
    in_window = [r for r in run.records if r.phase is Phase.MEASURED]
    assert len(in_window) == 3 * 30
    assert {r.exchange.status for r in run.records} == {Status.OK}


def test_recorded_gaps_run_from_end_to_start() -> None:
    run = drive(FakeWorkload(chain("s", 3, 1.5)), WORKLOAD, lanes=1, seconds=lambda _: 2.0)
    first, second, third = run.records[:3]
    assert second.exchange.sent_ns == first.exchange.end_ns + 1500 * MS
    assert third.scheduled_ns - third.ready_ns == 1500 * MS


def test_the_system_is_never_idle_for_longer_than_its_cap_and_the_shift_is_reported() -> None:
    run = drive(FakeWorkload(chain("s", 2, 25.0)), WORKLOAD, lanes=1, seconds=lambda _: 1.0)
    first, second = run.records[:2]
    assert second.exchange.sent_ns == first.exchange.end_ns + 10 * NS
    # 60 s hold five plays of 1 + 10 + 1 s, each cut from a gap of 25 s to 10 s.
    assert run.report.system_idle_shift_s == 5 * 15.0
    assert run.report.tree_idle_shift_s == 0.0


def test_the_tree_cap_bites_while_another_tree_is_busy() -> None:
    settings = replace(WORKLOAD, duration_s=1000.0, tree_idle_cap_s=30.0)
    workload = FakeWorkload(chain("s", 2, 100.0))
    # Lane 1 answers for ever, so the system is never idle.
    run = drive(workload, settings, lanes=2, seconds=lambda r: 2000.0 if r.lane else 1.0)
    lane_0 = [r for r in run.records if r.lane == 0]
    assert lane_0[1].exchange.sent_ns == lane_0[0].exchange.end_ns + 30 * NS
    assert run.report.tree_idle_shift_s > 0


def test_the_window_opens_on_warm_lanes_without_draining() -> None:
    workload = FakeWorkload(chain("s", 10, 0.0), FakeStart(frozenset({0, 1}), warmup=3))
    run = drive(workload, WORKLOAD, lanes=2, seconds=lambda r: 1 + 1.1 * r.lane)
    warmup = [r for r in run.records if r.phase is Phase.WARMUP]
    one_token = [r for r in run.records if r.max_tokens == 1]
    assert [r.turn for r in one_token if r.lane == 0] == [2, 3, 4]
    # Lane 0 is warm after 3 s and goes on with full turns until lane 1 is, after 6.3 s.
    assert run.report.window.start_ns == 6300 * MS
    assert [r.turn for r in warmup if r.lane == 0] == [2, 3, 4, 5, 6, 7, 8]
    assert all(r.max_tokens == 4 for r in warmup if r.turn > 4)
    start_ns = run.report.window.start_ns
    assert any(r.exchange.sent_ns == start_ns for r in run.records), "no pause at the hand-over"


def test_fixed_length_warm_ups_spread_the_lanes() -> None:
    settings = replace(WORKLOAD, kind="fixed")
    workload = FakeWorkload(chain("s", 1, 0.0, output=100), FakeStart(warmup=1))
    run = drive(workload, settings, lanes=4, seconds=lambda r: r.max_tokens / 10)
    firsts = [r for r in run.records if r.play == 0]
    assert sorted(r.max_tokens for r in firsts) == [25, 50, 75, 100]


def test_a_request_count_ends_the_window_at_the_last_answer() -> None:
    settings = replace(WORKLOAD, duration_s=None, requests=7)
    run = drive(FakeWorkload(chain("s", 1, 0.0)), settings, lanes=2, seconds=lambda _: 3.0)
    assert len([r for r in run.records if r.phase is Phase.MEASURED]) == 7
    assert run.report.window.kind == "requests"
    assert run.report.window.seconds == 12.0
    assert run.report.window.complete


def test_what_is_open_after_the_grace_period_is_censored() -> None:
    run = drive(FakeWorkload(chain("s", 1, 0.0)), WORKLOAD, lanes=2, seconds=lambda _: 66.0)
    assert [r.exchange.status for r in run.records] == [Status.CENSORED] * 2
    assert all(r.exchange.end_ns == 65 * NS for r in run.records)


def test_what_ends_within_the_grace_period_counts() -> None:
    run = drive(FakeWorkload(chain("s", 1, 0.0)), WORKLOAD, lanes=2, seconds=lambda _: 64.0)
    assert [r.exchange.status for r in run.records] == [Status.OK] * 2


def test_an_engine_that_only_fails_stops_the_load_at_once() -> None:
    run = drive(
        FakeWorkload(chain("s", 5, 0.0)),
        WORKLOAD,
        lanes=4,
        seconds=lambda _: 0.1,
        status=lambda _: Status.HTTP_STATUS,
    )
    assert not run.report.window.complete
    assert "failed; the last: http_status: by rule" in (run.report.window.stop_reason or "")
    assert len(run.records) <= 12


def test_a_share_of_failures_below_the_bound_does_not_stop_it() -> None:
    run = drive(
        FakeWorkload(chain("s", 1, 0.0)),
        WORKLOAD,
        lanes=2,
        seconds=lambda _: 0.5,
        status=lambda r: Status.IN_BAND if r.play % 20 == 19 else Status.OK,
    )
    assert run.report.window.complete
    assert sum(r.exchange.status is Status.IN_BAND for r in run.records) > 3


def test_a_turn_beyond_the_context_limit_is_not_sent_and_counted() -> None:
    run = drive(FakeWorkload(chain("s", 3, 1.0)), WORKLOAD, 1, lambda _: 1.0, max_model_len=64)
    assert run.transport.sent == []
    assert "no session fits the context limit" in (run.report.window.stop_reason or "")
    assert run.report.context_overflows > 0


def test_turns_that_wait_and_then_do_not_fit_end_too() -> None:
    session = chain("s", 3, 1.0, first_gap_ns=NS)
    run = drive(FakeWorkload(session), WORKLOAD, 1, lambda _: 1.0, max_model_len=64)
    assert run.transport.sent == []
    assert not run.report.window.complete


def test_warm_up_beyond_its_grace_ends_the_point_with_the_reason() -> None:
    settings = replace(WORKLOAD, warmup_grace_s=5.0)
    workload = FakeWorkload(chain("s", 3, 0.0), FakeStart(warmup=2))
    run = drive(workload, settings, lanes=1, seconds=lambda _: 10.0)
    assert "warm-up took longer" in (run.report.window.stop_reason or "")
    assert [r.exchange.status for r in run.records] == [Status.CANCELLED]


def test_fan_out_may_exceed_the_lanes_and_the_lane_waits_for_the_whole_tree() -> None:
    blocks = np.zeros(1, dtype=np.int64)
    turns = [Turn(0, "root", None, (), 0, blocks, 64, 2)]
    turns += [Turn(i, f"root/{i}", "root", (0,), 0, blocks, 64, 2) for i in (1, 2, 3)]
    run = drive(FakeWorkload(Session("f", 64, tuple(turns))), WORKLOAD, 1, lambda r: 1.0 + r.turn)
    assert run.transport.most_open == 3
    by_play = {p: [r for r in run.records if r.play == p] for p in (0, 1)}
    assert len(by_play[0]) == 4
    assert min(r.exchange.sent_ns or 0 for r in by_play[1]) == max(
        r.exchange.end_ns for r in by_play[0]
    )


@pytest.mark.parametrize("lanes", [1, 5])
def test_two_runs_are_identical(lanes: int) -> None:
    def once() -> list[tuple[object, ...]]:
        run = drive(FakeWorkload(chain("s", 4, 0.7)), WORKLOAD, lanes, lambda r: 1.0 + r.lane)
        return [(r.request_id, r.exchange.sent_ns, r.exchange.end_ns) for r in run.records]

    assert once() == once()


def test_a_stop_in_the_grace_period_cuts_it_short_and_takes_nothing_from_the_window() -> None:
    stops: list[Drive] = []

    def seconds(request: Request) -> float:
        if request.play == 0:
            # Half-way through the grace period somebody asks for a stop.
            asyncio.get_running_loop().call_later(62.0, lambda: stops[0].stop("enough"))
        return 70.0

    run = drive(FakeWorkload(chain("s", 1, 0.0)), WORKLOAD, 1, seconds, driven=stops)
    assert run.report.window.complete
    assert run.report.window.stop_reason is None
    (record,) = run.records
    assert (record.exchange.status, record.exchange.end_ns) == (Status.CENSORED, 62 * NS)


def test_a_window_that_never_opened_has_no_length() -> None:
    settings = replace(WORKLOAD, warmup_grace_s=5.0)
    workload = FakeWorkload(chain("s", 3, 0.0), FakeStart(warmup=2))
    assert drive(workload, settings, 1, lambda _: 10.0).report.window.seconds == 0.0


def test_a_fault_of_the_client_ends_the_load_and_is_raised() -> None:
    def seconds(request: Request) -> float:
        if request.play == 2:
            raise ZeroDivisionError("a bug")
        return 1.0

    settings = replace(WORKLOAD, duration_s=None, requests=10)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        drive(FakeWorkload(chain("s", 1, 0.0)), settings, 1, seconds)


def test_prompts_are_made_ready_before_they_are_due() -> None:
    ready: list[tuple[int, int]] = []
    session = chain("s", 2, 3.0)

    def prepared(prompt: Prompt, at_ns: int) -> None:
        ready.append((prompt.tail_id, at_ns))

    run = drive(FakeWorkload(session), WORKLOAD, 1, lambda _: 1.0, prepared=prepared)
    first, second = run.records[:2]
    # The second turn waits 3 s for its gap, the next session for the whole of this one.
    soon = round(LATER_S * NS)
    assert (1, first.exchange.end_ns + soon) in ready
    assert second.exchange.sent_ns == first.exchange.end_ns + 3 * NS
    assert (0, soon) in ready
