"""Open loops in virtual time: what is due is sent, whatever is open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import MS, WORKLOAD, FakeWorkload, Outcome, chain, drive

from inferometer.clock import NS
from inferometer.core import Phase, Record, Request, Session, Status

PACED = replace(WORKLOAD, arrival="constant", rate=2.0, duration_s=10.0)


def sent(run: Outcome) -> list[float]:
    return [(r.exchange.sent_ns or 0) / NS for r in sorted(run.records, key=_sent_ns)]


def _sent_ns(record: Record) -> int:
    return record.exchange.sent_ns or 0


def test_requests_leave_on_time_whatever_is_open() -> None:
    run = drive(FakeWorkload(chain("s", 1, 0.0)), PACED, lanes=4, seconds=lambda _: 2.9)
    assert sent(run) == [i / 2 for i in range(20)]
    assert all(r.scheduled_ns == r.exchange.sent_ns for r in run.records)
    assert run.transport.most_open == 6
    assert (run.report.arrivals_due, run.report.arrivals_unsent) == (20, 0)
    assert run.report.window.complete


def test_a_slow_server_does_not_slow_the_arrivals() -> None:
    """No coordinated omission: a stall of the server leaves the schedule as it is."""

    def stalls(request: Request) -> float:
        number = request.play * 4 + request.lane
        return 5.0 if number == 4 else 0.1

    run = drive(FakeWorkload(chain("s", 1, 0.0)), PACED, lanes=4, seconds=stalls)
    assert sent(run) == [i / 2 for i in range(20)]


def test_a_cap_makes_arrivals_wait_and_they_stay_due_when_they_were() -> None:
    settings = replace(PACED, cap_in_flight=True)
    run = drive(FakeWorkload(chain("s", 1, 0.0)), settings, lanes=2, seconds=lambda _: 2.0)
    assert run.transport.most_open == 2
    records = sorted(run.records, key=_sent_ns)
    assert [r.scheduled_ns for r in records] == [i * 500 * MS for i in range(10)]
    assert sent(run) == [0, 0.5, 2, 2.5, 4, 4.5, 6, 6.5, 8, 8.5]
    # Ready when a place was free: what is late after that would be the client's own lateness.
    assert [r.ready_ns for r in records] == [r.exchange.sent_ns for r in records]
    # 20 were due in 10 s, and ten found a place; the one free at the very end is too late.
    assert (run.report.arrivals_due, run.report.arrivals_unsent) == (20, 10)


def test_a_count_is_of_requests_and_what_is_beyond_it_was_never_due() -> None:
    settings = replace(PACED, cap_in_flight=True, duration_s=None, requests=5)
    run = drive(FakeWorkload(chain("s", 1, 0.0)), settings, lanes=2, seconds=lambda _: 2.0)
    assert len(run.records) == 5
    assert run.report.window.complete
    assert (run.report.arrivals_due, run.report.arrivals_unsent) == (5, 0)


def test_the_first_arrivals_are_warm_up_and_the_window_opens_when_the_next_is_due() -> None:
    settings = replace(PACED, warmup_requests_per_lane=3)
    run = drive(FakeWorkload(chain("s", 1, 0.0)), settings, lanes=4, seconds=lambda _: 1.0)
    warmup = [r for r in run.records if r.phase is Phase.WARMUP]
    assert len(warmup) == 3
    assert run.report.window.start_ns == 1500 * MS
    assert run.report.arrivals_due == 20


def test_an_open_window_does_not_wait_for_a_place() -> None:
    settings = replace(PACED, cap_in_flight=True, warmup_requests_per_lane=3)
    run = drive(FakeWorkload(chain("s", 1, 0.0)), settings, lanes=1, seconds=lambda _: 4.0)
    assert run.report.window.start_ns == 1500 * MS
    assert sent(run) == [0, 4, 8]


def test_a_burst_is_as_fast_as_its_cap_lets_it() -> None:
    settings = replace(WORKLOAD, arrival="burst", duration_s=None, requests=6)
    everything = drive(FakeWorkload(chain("s", 1, 0.0)), settings, lanes=2, seconds=lambda _: 1.0)
    assert sent(everything) == [0] * 6
    capped = replace(settings, cap_in_flight=True)
    run = drive(FakeWorkload(chain("s", 1, 0.0)), capped, lanes=2, seconds=lambda _: 1.0)
    assert sent(run) == [0, 0, 1, 1, 2, 2]
    assert {r.scheduled_ns for r in run.records} == {0}


def test_sessions_arrive_and_their_turns_follow_by_their_gaps() -> None:
    settings = replace(PACED, rate=0.5, duration_s=9.0)
    run = drive(FakeWorkload(chain("s", 3, 1.5)), settings, lanes=2, seconds=lambda _: 1.0)
    first = [r for r in run.records if r.lane == 0 and r.play == 0]
    assert [r.exchange.sent_ns for r in first] == [0, 2500 * MS, 5000 * MS]
    starts = sorted(r.scheduled_ns for r in run.records if r.turn == 0)
    assert starts == [0, 2 * NS, 4 * NS, 6 * NS, 8 * NS]


def test_a_long_gap_is_not_cut_for_a_system_that_waits_for_arrivals() -> None:
    settings = replace(PACED, rate=0.02, duration_s=120.0, system_idle_cap_s=10.0)
    run = drive(FakeWorkload(chain("s", 2, 25.0)), settings, lanes=2, seconds=lambda _: 1.0)
    assert run.report.system_idle_shift_s == 0
    assert sorted(r.scheduled_ns // NS for r in run.records) == [0, 26, 50, 76, 100]


class Timed(FakeWorkload):
    starts = (3 * NS, 4 * NS, 9 * NS)


def test_recorded_times_are_kept_and_then_nothing_comes() -> None:
    settings = replace(WORKLOAD, arrival="timestamps", duration_s=30.0)
    run = drive(Timed(chain("s", 1, 0.0)), settings, lanes=2, seconds=lambda _: 1.0)
    assert sent(run) == [0, 1, 6]
    assert run.report.window.complete
    assert run.report.arrivals_due == 3


def test_as_many_requests_as_the_recording_has_are_a_whole_window() -> None:
    settings = replace(WORKLOAD, arrival="timestamps", duration_s=None, requests=3)
    run = drive(Timed(chain("s", 1, 0.0)), settings, lanes=2, seconds=lambda _: 1.0)
    assert run.report.window.complete
    assert len(run.records) == 3


def test_more_requests_than_the_recording_has_cannot_be_had() -> None:
    settings = replace(WORKLOAD, arrival="timestamps", duration_s=None, requests=5)
    run = drive(Timed(chain("s", 1, 0.0)), settings, lanes=2, seconds=lambda _: 1.0)
    assert run.report.window.stop_reason == "the workload ended: it has 3 arrivals"


def test_sessions_that_fit_no_context_end_a_burst() -> None:
    settings = replace(WORKLOAD, arrival="burst", duration_s=None, requests=5)
    run = drive(
        FakeWorkload(chain("s", 1, 0.0)), settings, 2, seconds=lambda _: 1.0, max_model_len=10
    )
    assert run.report.window.stop_reason == "no session fits the context limit of 10"


def test_a_failed_arrival_frees_its_place() -> None:
    settings = replace(PACED, cap_in_flight=True, duration_s=3.0)
    run = drive(
        FakeWorkload(chain("s", 2, 0.0)),
        settings,
        lanes=1,
        seconds=lambda _: 0.5,
        status=lambda r: Status.IN_BAND if r.play == 1 else Status.OK,
    )
    assert sent(run) == [0, 0.5, 1.0, 1.5, 2.0, 2.5]


def test_a_closed_loop_may_begin_along_a_ramp_and_opens_when_all_are_in() -> None:
    settings = replace(WORKLOAD, conc_from=1, conc_ramp_s=4.0, duration_s=10.0)
    run = drive(FakeWorkload(chain("s", 1, 0.0)), settings, lanes=3, seconds=lambda _: 1.0)
    firsts = {r.lane: r.exchange.sent_ns for r in run.records if r.play == 0}
    assert firsts == {0: 0, 1: 2 * NS, 2: 4 * NS}
    assert run.report.window.start_ns == 4 * NS
    assert run.report.arrivals_due is None


class Numbered(FakeWorkload):
    """Remembers which session it was asked for."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.asked: set[tuple[int, int]] = set()

    def session(self, lane: int, play: int) -> Session:
        self.asked.add((lane, play))
        return super().session(lane, play)


@pytest.mark.parametrize("seconds", [0.1, 7.0])
def test_which_session_an_arrival_plays_depends_on_its_number_alone(seconds: float) -> None:
    workload = Numbered(chain("s", 1, 0.0))
    run = drive(workload, PACED, lanes=3, seconds=lambda _: seconds)
    by_time = sorted(run.records, key=_sent_ns)
    assert [(r.lane, r.play) for r in by_time] == [(i % 3, i // 3) for i in range(20)]
    assert len({r.request_id for r in by_time}) == 20
    assert {(i % 3, i // 3) for i in range(20)} <= workload.asked
