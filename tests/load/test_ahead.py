"""Requests that are with a worker before they are due: in virtual time, and on sockets."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from fakes import MS, WORKLOAD, FakeStart, FakeWorkload, Outcome, chain, drive
from loopback import Script, make_request
from replies import WHOLE, serves, talk

from inferometer.core import Exchange, Phase, Record, Request, Status
from inferometer.load.ahead import Ahead
from inferometer.load.wire import Post
from inferometer.load.worker_transport import WorkerTransport

LEAD_NS = 3 * MS
FAR_NS = 10**12


def what(run: Outcome) -> list[tuple[object, ...]]:
    def said(record: Record) -> tuple[object, ...]:
        exchange = record.exchange
        times = (record.scheduled_ns, record.dequeued_ns, exchange.sent_ns, exchange.end_ns)
        return (record.request_id, record.phase, *times, exchange.status)

    return sorted(map(said, run.records), key=str)


def uneven(request: Request) -> float:
    return 0.3 + (request.turn * 7 + request.play * 3 + request.lane) % 11 / 9


@pytest.mark.parametrize("gap_s", [0.001, 0.7, 25.0])
@pytest.mark.parametrize("duration_s", [30.0, 30.001, None])
def test_a_load_is_the_same_whether_turns_are_handed_over_ahead(
    gap_s: float, duration_s: float | None
) -> None:
    requests = 40 if duration_s is None else None
    rules = replace(WORKLOAD, duration_s=duration_s, requests=requests)
    plain, ahead = (
        drive(
            FakeWorkload(chain("s", 5, gap_s), FakeStart(warmup=2)),
            rules,
            lanes=3,
            seconds=uneven,
            lead_ns=lead_ns,
        )
        for lead_ns in (0, LEAD_NS)
    )
    assert what(ahead) == what(plain)
    early = [
        record.scheduled_ns - ahead.transport.handed_ns[record.request_id]
        for record in ahead.records
        if record.phase is Phase.MEASURED
    ]
    assert max(early) == min(LEAD_NS, round(gap_s * 1000) * MS)
    assert all(
        plain.transport.handed_ns[record.request_id] >= record.scheduled_ns
        for record in plain.records
    )


def test_posts_are_held_until_they_are_due() -> None:
    held = Ahead()
    posts = {key: Post(key, b"", 1, start_ns=at) for key, at in ((1, 30), (2, 10), (3, 20))}
    for post in posts.values():
        held.hold(post)
    assert held.next_ns == 10
    assert held.due(9) == []
    assert held.take(3) == posts[3]
    assert held.take(3) is None
    assert held.due(20) == [posts[2]]
    assert held.next_ns == 30
    assert held.clear() == [posts[1]]
    assert held.due(FAR_NS) == []


@pytest.mark.sockets
def test_none_leaves_before_it_is_due() -> None:
    script = Script([])
    # None is closed: the next one may leave on it at any time.
    script.answers += [serves(script, WHOLE)] * 3

    async def client(transport: WorkerTransport) -> list[Exchange]:
        await transport.ready()
        now_ns = time.monotonic_ns()
        due = [replace(make_request(f"r{n}"), scheduled_ns=now_ns + n * 20 * MS) for n in (2, 0, 1)]
        exchanges = await asyncio.gather(*map(transport.send, due))
        for request, exchange in zip(due, exchanges, strict=True):
            assert exchange.sent_ns is not None
            assert exchange.sent_ns >= request.scheduled_ns
        return exchanges

    exchanges = talk(script, client)
    assert [e.status for e in exchanges] == [Status.OK] * 3
    ids = [head.split("x-request-id: ")[1].split("\r\n")[0] for head in script.heads]
    assert ids == ["r0", "r1", "r2"]


@pytest.mark.sockets
@pytest.mark.parametrize("how", ["aborted", "closed"])
def test_what_is_held_can_be_ended(how: str) -> None:
    script = Script([])

    async def client(transport: WorkerTransport) -> list[Exchange]:
        await transport.ready()
        far = replace(make_request("r0"), scheduled_ns=time.monotonic_ns() + FAR_NS)
        going = asyncio.ensure_future(transport.send(far))
        await asyncio.sleep(0.02)
        if how == "aborted":
            transport.abort("r0", Status.CENSORED)
        else:
            await transport.close()
        return [await going]

    (exchange,) = talk(script, client)
    assert exchange.status is (Status.CENSORED if how == "aborted" else Status.CANCELLED)
    assert exchange.sent_ns is None
    assert (script.heads, script.connections) == ([], 0)
