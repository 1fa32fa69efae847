"""What leaves by itself when the request before it has ended: the same load as without, whatever
ends it. Virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from zlib import crc32

import fakes
import pytest
from fakes import WORKLOAD, FakeStart, FakeWorkload, Outcome, chain, drive
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rules import UNCUT, apart, faults, load_of, made_loads

from inferometer.clock import NS
from inferometer.core import Exchange, Phase, Record, Request, Session, Status, WorkloadSettings
from inferometer.load.drive import Drive

few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
Said = tuple[object, ...]


def said(record: Record) -> Said:
    """All of a record that a load decides."""
    exchange = record.exchange
    return (
        *(record.request_id, record.phase, record.lane, record.play, record.turn, record.agent),
        *(record.ready_ns, record.scheduled_ns, record.max_tokens, record.input_tokens),
        *(exchange.sent_ns, exchange.end_ns, exchange.status),
    )


def what(run: Outcome) -> list[Said]:
    return sorted(map(said, run.records), key=str)


def both(
    workload: Callable[[], FakeWorkload],
    rules: WorkloadSettings,
    lanes: int,
    seconds: Callable[[Request], float],
    status: Callable[[Request], Status] = lambda _: Status.OK,
) -> tuple[Outcome, Outcome]:
    """The same load without followers and with."""
    without, following = (
        drive(workload(), rules, lanes, seconds, status, following=f) for f in (False, True)
    )
    return without, following


def uneven(request: Request) -> float:
    return 0.4 + crc32(request.id.encode()) % 1000 / 700


def test_single_requests_follow_one_another_by_themselves() -> None:
    """All that is measured, but the request with which the window opens."""
    rules = replace(WORKLOAD, duration_s=30.0)
    start = FakeStart(warmup=2)
    without, following = both(
        lambda: FakeWorkload(chain("s", 1, 0.0, output=40), start), rules, 5, uneven
    )
    assert what(following) == what(without)
    measured = [r for r in following.records if r.phase is Phase.MEASURED]
    begun = following.transport.begun
    assert len(begun) == len(set(begun)) == len(measured) - 1
    assert all(r.dequeued_ns == r.scheduled_ns == r.exchange.sent_ns for r in measured)
    assert without.transport.begun == []


def test_turns_follow_without_a_gap_and_not_behind_one() -> None:
    rules = replace(WORKLOAD, duration_s=60.0)
    for gap_s, first_gap_ns in ((0.0, 0), (1.5, 0), (0.0, 7)):
        without, following = both(
            lambda: FakeWorkload(chain("s", 4, gap_s, first_gap_ns=first_gap_ns)),  # noqa: B023
            rules,
            3,
            uneven,
        )
        assert what(following) == what(without)
        turns = {int(name[-5:]) for name in following.transport.begun}
        assert (
            turns
            == {(0.0, 0): {0, 1, 2, 3}, (1.5, 0): {0}, (0.0, 7): {1, 2, 3}}[gap_s, first_gap_ns]
        )


@few
@given(made_loads, st.integers(0, 12), st.booleans())
def test_made_trees_keep_every_rule(
    made: tuple[list[Session], int], warmups: int, no_gaps: bool
) -> None:
    sessions, lanes = made
    if no_gaps:
        sessions = [
            replace(s, turns=tuple(replace(t, gap_ns=0) for t in s.turns)) for s in sessions
        ]
    rules = replace(UNCUT, warmup_requests_per_lane=warmups)
    load = load_of(sessions, lanes, rules, following=True)
    assert faults(load) == []
    assert list(apart(load)) == []
    assert what(load.run) == what(load_of(sessions, lanes, rules).run)


@few
@given(made_loads, st.integers(0, 2**16))
def test_failures_and_idle_caps_change_nothing(made: tuple[list[Session], int], seed: int) -> None:
    rules = replace(UNCUT, tree_idle_cap_s=20.0, system_idle_cap_s=1.0)

    def status(request: Request) -> Status:
        failing = crc32(f"{request.id} {seed}".encode()) % 20 == 0
        return Status.IN_BAND if failing else Status.OK

    following = load_of(*made, rules, status=status, following=True).run
    without = load_of(*made, rules, status=status).run
    if without.report.window.stop_reason is None:
        assert what(following) == what(without)
    sent = [request.id for request in following.transport.sent]
    assert len(sent) == len(set(sent)) == len(following.records)


@pytest.mark.parametrize("requests", [1, 7, 40, 300])
def test_a_counted_window_has_its_count(requests: int) -> None:
    lanes = 6
    rules = replace(WORKLOAD, duration_s=None, requests=requests)
    without, following = both(lambda: FakeWorkload(chain("s", 1, 0.0)), rules, lanes, uneven)
    assert what(following) == what(without)
    assert len(following.records) == requests
    # The last of every lane are counted before they leave.
    assert len(following.transport.begun) <= max(0, requests - lanes)
    assert (len(following.transport.begun) > 0) == (requests >= 2 * lanes)


@few
@given(st.integers(1, 6), st.integers(1, 60), st.integers(0, 2**16))
def test_a_count_is_kept_though_what_has_left_is_told_late(
    lanes: int, requests: int, seed: int
) -> None:
    """Answers take less time than the word of them, and than the order to let no more leave."""

    class Far(fakes.FakeTransport):
        async def send(self, request: Request) -> Exchange:
            exchange = await super().send(request)
            await asyncio.sleep(0.02)
            return exchange

        def recall(self, done: Callable[[], None]) -> None:
            def arrived() -> None:
                self.followers.clear()
                loop.call_later(0.021, done)  # behind all that was told before

            loop = asyncio.get_running_loop()
            loop.call_later(0.02, arrived)

    def seconds(request: Request) -> float:
        return 0.001 + crc32(f"{request.id} {seed}".encode()) % 40 / 1_000

    rules = replace(WORKLOAD, duration_s=None, requests=requests)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fakes, "FakeTransport", Far)
        run = drive(FakeWorkload(chain("s", 1, 0.0)), rules, lanes, seconds, following=True)
    assert len(run.records) == requests
    assert {record.exchange.status for record in run.records} == {Status.OK}


def test_nothing_leaves_by_itself_at_the_end_of_the_window_or_later() -> None:
    """Every answer takes a second: some end in the very moment, and the lanes decide of those."""
    rules = replace(WORKLOAD, duration_s=10.0)
    without, following = both(lambda: FakeWorkload(chain("s", 1, 0.0)), rules, 3, lambda _: 1.0)
    end_ns = following.report.window.end_ns
    before = [
        [r for r in run.records if (r.exchange.sent_ns or 0) < end_ns]
        for run in (without, following)
    ]
    assert sorted(map(said, before[1]), key=str) == sorted(map(said, before[0]), key=str)
    assert sorted(following.transport.begun) == sorted(r.request_id for r in before[1] if r.play)


def test_a_stop_is_kept_though_a_request_has_left_by_itself() -> None:
    """It left before the order came: its record is there, cancelled, and nothing follows it."""
    driven: list[Drive] = []

    def seconds(request: Request) -> float:
        if request.play == 3 and request.lane == 0:
            driven[-1].stop("enough")
        return uneven(request)

    workload = FakeWorkload(chain("s", 1, 0.0))
    run = drive(workload, WORKLOAD, 2, seconds, driven=driven, following=True)
    assert run.report.window.stop_reason == "enough"
    ids = [r.request_id for r in run.records]
    assert sorted(ids) == sorted(request.id for request in run.transport.sent)
    assert "t-0000-0003-00000" in run.transport.begun
    last = {r.lane: r for r in sorted(run.records, key=lambda r: r.play)}
    assert {r.exchange.status for r in last.values()} == {Status.CANCELLED}
    assert last[0].play == 3


def test_where_answers_or_a_schedule_decide_nothing_is_left_to_itself() -> None:
    for changes in (
        {"replies": "live"},
        {"arrival": "poisson", "rate": 2.0, "cap_in_flight": True},
    ):
        rules = replace(WORKLOAD, duration_s=20.0, **changes)
        run = drive(FakeWorkload(chain("s", 1, 0.0)), rules, 2, uneven, following=True)
        assert run.records
        assert run.transport.begun == []


def test_a_turn_that_is_too_long_for_the_model_does_not_leave_by_itself() -> None:
    """Nor is it counted before it is due."""
    session = chain("s", 2, 0.0)
    long = replace(session.turns[1], input_tokens=6_400)
    session = replace(session, turns=(session.turns[0], long))
    rules = replace(WORKLOAD, duration_s=20.0)
    runs = [
        drive(FakeWorkload(session), rules, 2, uneven, max_model_len=1_000, following=f)
        for f in (True, False)
    ]
    assert what(runs[0]) == what(runs[1])
    assert runs[0].report.context_overflows == runs[1].report.context_overflows > 0
    assert {int(name[-5:]) for name in runs[0].transport.begun} == set()


def test_a_turn_that_leaves_while_the_order_to_stop_is_on_its_way_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stop falls between the end, after which the next one has left, and the word of it."""
    driven: list[Drive] = []

    class Late(fakes.FakeTransport):
        async def send(self, request: Request) -> Exchange:
            exchange = await super().send(request)
            await asyncio.sleep(0.01)
            return exchange

        def recall(self, done: Callable[[], None]) -> None:
            """It comes too late."""
            done()

    def status(request: Request) -> Status:
        if (request.lane, request.play) == (0, 3):
            asyncio.get_running_loop().call_later(0.005, driven[-1].stop, "enough")
        return Status.OK

    monkeypatch.setattr(fakes, "FakeTransport", Late)
    workload = FakeWorkload(chain("s", 1, 0.0))
    run = drive(workload, WORKLOAD, 1, uneven, status, driven=driven, following=True)
    assert run.transport.begun[-1] == "t-0000-0004-00000"
    by_play = {r.play: r.exchange.status for r in run.records}
    assert by_play == {**dict.fromkeys(range(4), Status.OK), 4: Status.CANCELLED}


def test_while_a_gap_runs_nothing_leaves_by_itself() -> None:
    """Its turn may fail meanwhile, and end the agent of the one that would follow."""
    turns = [((), 0.0), ((0,), 0.0), ((0,), 0.2), ((1,), 0.0)]
    first = chain("s", 1, 0.0).turns[0]
    session = Session(
        "s",
        64,
        tuple(
            replace(first, index=index, after=after, gap_ns=round(gap_s * NS))
            for index, (after, gap_s) in enumerate(turns)
        ),
    )
    rules = replace(WORKLOAD, duration_s=19.3)
    client = replace(fakes.CLIENT, stop_failed_share=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fakes, "CLIENT", client)
        without, following = both(
            lambda: FakeWorkload(session),
            rules,
            1,
            lambda r: 0.3 if r.turn == 2 else 1.0,
            lambda r: Status.IN_BAND if r.turn == 2 else Status.OK,
        )
    assert what(following) == what(without)
    assert {r.turn for r in following.records} == {0, 1, 2}
    assert {request.turn for request in following.transport.sent} == {0, 1, 2}
    assert following.transport.begun
