"""Requests that lie in a worker and leave by themselves, on real sockets."""

from __future__ import annotations

import asyncio
import time

import pytest
from loopback import SETTLED_S, Reader, Script, Writer, make_request
from replies import DONE, END, FINISH, HEAD, TOKEN, WHOLE, answers, chunk, holds, talk

from inferometer.core import Exchange, Status
from inferometer.load.outcomes import nothing_but
from inferometer.load.transport import Follower
from inferometer.load.wire import Recalled
from inferometer.load.worker_transport import WorkerTransport

pytestmark = pytest.mark.sockets

FAILS = b"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\nno"


async def led(
    transport: WorkerTransport,
    until_ns: int | None = None,
    go: asyncio.Event | None = None,
    *,
    kept: bool = True,
) -> tuple[Exchange, Follower]:
    """`r0`, and `r1` that is to follow it; the server answers when it may. If connections are kept,
    an earlier answer has shown it.
    """
    if kept:
        await transport.send(make_request("before"))
        await asyncio.sleep(SETTLED_S)
    first = asyncio.ensure_future(transport.send(make_request("r0")))
    follower = None
    while follower is None:
        await asyncio.sleep(0.001)
        follower = transport.follow(make_request("r1"), "r0", until_ns)
    if go is not None:
        go.set()
    return await first, follower


def waits(script: Script, go: asyncio.Event, *replies: bytes, end: bytes = b"") -> None:
    """One connection: the first answer waits for the word, but for one before all others."""

    async def answer(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        script.heads.clear()
        script.bodies.clear()
        writer.write(WHOLE)
        for reply in replies:
            await script.read_request(reader)
            await go.wait()
            writer.write(reply)
            await writer.drain()
        writer.write(end)
        await reader.read()

    script.answers.append(answer)


def test_it_leaves_on_the_same_connection_as_soon_as_the_answer_has_ended() -> None:
    script, go = Script([]), asyncio.Event()
    waits(script, go, WHOLE, WHOLE, WHOLE)

    async def client(transport: WorkerTransport) -> list[Exchange]:
        first, follower = await led(transport, go=go)
        assert follower.begun_ns is not None
        assert first.end_ns <= follower.begun_ns
        second = await follower.exchange()
        assert second.sent_ns is not None
        assert follower.begun_ns <= second.sent_ns
        # What has ended can be followed by nothing.
        assert transport.follow(make_request("r2"), "r1", None) is None
        return [first, second, await transport.send(make_request("r2"))]

    exchanges = talk(script, client)
    assert [e.status for e in exchanges] == [Status.OK] * 3
    assert [e.reused_connection for e in exchanges] == [True] * 3
    assert [head.count("x-request-id: r") for head in script.heads] == [1, 1, 1]
    assert ["r0" in script.heads[0], "r1" in script.heads[1]] == [True, True]


@pytest.mark.parametrize("why", ["failed", "late", "recalled", "aborted"])
def test_what_may_not_leave_does_not_and_can_be_sent_all_the_same(why: str) -> None:
    script, go = Script([]), asyncio.Event()
    waits(script, go, FAILS if why == "failed" else WHOLE, WHOLE)
    script.answers.append(answers(script, WHOLE))  # an abort closes the connection

    async def client(transport: WorkerTransport) -> list[Exchange]:
        until_ns = time.monotonic_ns() - 1 if why == "late" else None
        if why in ("late", "failed"):
            first, follower = await led(transport, until_ns, go)
        else:
            leading = asyncio.ensure_future(led(transport, until_ns))
            while not script.heads:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            if why == "recalled":
                transport.recall(lambda: None)
            else:
                transport.abort("r0", Status.CANCELLED)
            await asyncio.sleep(0.01)
            go.set()
            first, follower = await leading
        assert follower.begun_ns is None
        sent = len(script.heads)
        second = await transport.send(make_request("r1"))
        assert len(script.heads) == sent + 1 == 2
        return [first, second]

    first, second = talk(script, client)
    ends = {"failed": Status.HTTP_STATUS, "aborted": Status.CANCELLED}
    assert first.status is ends.get(why, Status.OK)
    assert second.status is Status.OK
    assert script.bodies[0] == script.bodies[1]


def test_who_recalls_hears_of_it_behind_all_that_had_left() -> None:
    script, order = Script([]), list[str]()
    script.answers.append(holds(script, HEAD))

    async def client(transport: WorkerTransport) -> list[Exchange]:
        async def lead() -> Exchange:
            exchange = await transport.send(make_request("r0"))
            order.append("ended")
            return exchange

        leading = asyncio.ensure_future(lead())
        while not script.heads:
            await asyncio.sleep(0.001)
        assert transport.follow(make_request("r1"), "r0", None) is not None
        (end,), (account,) = transport._workers, transport.accounts
        transport.recall(lambda: order.append("recalled"))
        outcome = nothing_but(1, "", 0, Status.OK)._replace(error=None, followed=(2, 1))
        for message in (outcome, Recalled(), nothing_but(2, "", 0, Status.CANCELLED)):
            transport._take(end, account, message)
        first = await leading
        await asyncio.sleep(0.01)
        return [first]

    assert [exchange.status for exchange in talk(script, client)] == [Status.OK]
    assert order == ["ended", "recalled"]


def test_the_end_of_a_body_that_does_not_come_holds_nothing_up() -> None:
    script, go, answered = Script([]), asyncio.Event(), asyncio.Event()

    async def withholds(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        await go.wait()
        writer.write(HEAD + chunk(TOKEN, DONE))
        await writer.drain()
        await answered.wait()
        writer.write(END)

    script.answers += [withholds, answers(script, WHOLE)]

    async def client(transport: WorkerTransport) -> list[Exchange]:
        first, follower = await led(transport, go=go, kept=False)
        second = await follower.exchange()
        answered.set()
        return [first, second]

    exchanges = talk(script, client)
    assert [e.status for e in exchanges] == [Status.OK] * 2
    assert [e.reused_connection for e in exchanges] == [False, False]
    assert script.connections == 2


def test_of_a_request_that_nobody_waits_for_any_more_nothing_follows() -> None:
    script, go = Script([]), asyncio.Event()
    waits(script, go, WHOLE, WHOLE)
    script.answers.append(answers(script, WHOLE))

    async def client(transport: WorkerTransport) -> list[Exchange]:
        leading = asyncio.ensure_future(led(transport))
        while not script.heads:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        first = next(t for t in asyncio.all_tasks() if t.get_coro().__name__ == "send")  # type: ignore[union-attr]
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leading
        go.set()
        return [await transport.send(make_request("r2"))]

    (exchange,) = talk(script, client)
    assert exchange.status is Status.OK
    assert not any("r1" in head for head in script.heads)


def test_closing_ends_what_has_left_by_itself() -> None:
    script, go = Script([]), asyncio.Event()
    waits(script, go, WHOLE, HEAD + chunk(TOKEN))

    async def client(transport: WorkerTransport) -> list[Exchange]:
        first, follower = await led(transport, go=go)
        following = asyncio.ensure_future(follower.exchange())
        while len(script.heads) < 2:
            await asyncio.sleep(0.001)
        await transport.close()
        return [first, await following]

    first, second = talk(script, client)
    assert (first.status, second.status) == (Status.OK, Status.CANCELLED)


def test_many_follow_one_another() -> None:
    """Each in the turn in which the one before has ended; none is sent twice or left out."""
    script, count = Script([]), 30
    reply = HEAD + chunk(TOKEN, FINISH) + chunk(DONE) + END

    async def answer(reader: Reader, writer: Writer) -> None:
        while True:
            await script.read_request(reader)
            await asyncio.sleep(0.003)
            writer.write(reply)
            await writer.drain()

    script.answers += [answer] * 5  # until it is seen that the server keeps them

    async def client(transport: WorkerTransport) -> list[Exchange]:
        found, begun = [], 0
        going = asyncio.ensure_future(transport.send(make_request("r0")))
        for number in range(1, count + 1):
            await asyncio.sleep(0)
            await asyncio.sleep(0.0005)
            follower = transport.follow(make_request(f"r{number}"), f"r{number - 1}", None)
            found.append(await going)
            if follower is not None and follower.begun_ns is not None:
                begun += 1
                going = asyncio.ensure_future(follower.exchange())
            else:
                going = asyncio.ensure_future(transport.send(make_request(f"r{number}")))
        found.append(await going)
        assert begun > 0
        return found

    exchanges = talk(script, client)
    assert [e.status for e in exchanges] == [Status.OK] * (count + 1)
    ids = [head.split("x-request-id: ")[1].split("\r\n")[0] for head in script.heads]
    assert ids == [f"r{n}" for n in range(count + 1)]
