"""Requests of megabytes: whole, in shared memory, apart from the server's time, in nobody's way."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from loopback import SETTLED_S, Reader, Script, Writer, make_request, make_transport

from inferometer.core import Exchange, Request, Status
from inferometer.load.crew import Crew
from inferometer.load.dial import UNSENT_BYTES
from inferometer.load.sheet import Sheet
from inferometer.load.worker_transport import WorkerTransport

pytestmark = pytest.mark.sockets

SIZE = 5_000_000
RECEIVE_BYTES = 16_384
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
CLOCKS_NS = 2_000_000
"""For the offset between wall clock and monotonic clock."""


def chunk(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


WHOLE = HEAD + chunk(TOKEN) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


async def large_sheet(fill: bytes = b"x") -> Sheet:
    sheet = Sheet(SIZE)

    def write(memory: memoryview) -> None:
        memory[:] = fill * SIZE

    sheet.write(write)
    sheet.enclose(b"<", b">")
    return sheet


def encode(request: Request) -> bytes | Awaitable[Sheet]:
    return large_sheet() if request.id.startswith("large") else b"{}"


async def slow_server(script: Script) -> tuple[asyncio.Server, str]:
    """A small receive window, and little read ahead of who asks for it."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    server = await asyncio.start_server(script.serve, sock=listener, limit=RECEIVE_BYTES)
    return server, f"http://127.0.0.1:{listener.getsockname()[1]}"


def talk(
    script: Script, client: Callable[[WorkerTransport], Awaitable[list[Exchange]]], **changes: Any
) -> list[Exchange]:
    async def main() -> list[Exchange]:
        server, url = await slow_server(script)
        transport = make_transport(url, encode=encode, **changes)
        try:
            return await client(transport)
        finally:
            await transport.close()
            server.close()
            await server.wait_closed()

    return asyncio.run(main())


def test_a_large_request_arrives_whole_on_a_connection_that_is_kept() -> None:
    script = Script([])

    async def answer(reader: Reader, writer: Writer) -> None:
        for _ in range(3):
            await script.read_request(reader)
            writer.write(WHOLE)
            await writer.drain()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        exchanges = []
        for name in ("small", "large-1", "large-2"):
            exchanges.append(await transport.send(make_request(name)))
            await asyncio.sleep(SETTLED_S)
        return exchanges

    script.answers.append(answer)
    exchanges = talk(script, client)
    assert [e.status for e in exchanges] == [Status.OK] * 3
    assert [e.reused_connection for e in exchanges] == [False, True, True]
    assert script.bodies == [b"{}", *[b"<" + b"x" * SIZE + b">"] * 2]


def test_what_the_upload_took_is_told_apart_from_the_server() -> None:
    """The last byte is stamped as sent when the server has nearly all, not when the kernel of the
    client could hold the rest. The answer comes when the worker has done something else since.
    """
    if not hasattr(socket, "TCP_NOTSENT_LOWAT"):
        pytest.skip("this system takes what it likes of a body")
    script = Script([])
    nearly_ns = 0
    whole, go = asyncio.Event(), asyncio.Event()
    rest = UNSENT_BYTES + 500_000  # and what is on its way

    async def answer(reader: Reader, writer: Writer) -> None:
        nonlocal nearly_ns
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(SIZE - rest)
        nearly_ns = time.monotonic_ns()
        await reader.readexactly(2 + rest)
        whole.set()
        await go.wait()
        writer.write(WHOLE)
        await writer.drain()

    async def other(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(WHOLE)
        await writer.drain()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        sending = asyncio.ensure_future(transport.send(make_request("large")))
        await whole.wait()
        await transport.send(make_request("small"))
        go.set()
        return [await sending]

    script.answers += [answer, other]
    (exchange,) = talk(script, client)
    assert exchange.status is Status.OK
    assert exchange.sent_ns is not None
    assert exchange.body_sent_ns is not None
    assert exchange.first_byte_ns is not None
    assert exchange.sent_ns < nearly_ns < exchange.body_sent_ns < exchange.first_byte_ns


def test_streams_beside_an_upload_have_the_stamps_of_their_writes() -> None:
    script = Script([])
    wrote_ns: list[int] = []
    begun, over = asyncio.Event(), asyncio.Event()

    async def upload(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        left = SIZE + 2
        begun.set()
        while left:
            # A little at a time, and the last of it when the stream beside it is over.
            if left <= SIZE // 2:
                await over.wait()
            left -= len(await reader.read(min(left, RECEIVE_BYTES)))
            await asyncio.sleep(0)
        writer.write(WHOLE)
        await writer.drain()

    async def stream(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(HEAD)
        for _ in range(40):
            await asyncio.sleep(0.005)
            wrote_ns.append(time.monotonic_ns())
            writer.write(chunk(TOKEN))
        wrote_ns.append(time.monotonic_ns())
        over.set()
        writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        large = asyncio.ensure_future(transport.send(make_request("large")))
        await begun.wait()
        return [await transport.send(make_request("small", max_tokens=99)), await large]

    script.answers += [upload, stream]
    small, large = talk(script, client)
    assert (small.status, large.status) == (Status.OK, Status.OK)
    at_ns = small.arrivals.at_ns.tolist()
    assert len(at_ns) == 40
    assert large.sent_ns is not None
    assert large.body_sent_ns is not None
    assert large.sent_ns < at_ns[0] < at_ns[-1] < large.body_sent_ns
    marks = small.arrivals.coalesced
    for index, (stamp, (wrote, next_ns)) in enumerate(zip(at_ns, pairwise(wrote_ns), strict=True)):
        assert stamp >= wrote - CLOCKS_NS
        if small.stamp_source == "kernel" and (marks is None or not marks[index]):
            assert stamp <= next_ns + CLOCKS_NS, (index, stamp - wrote, stamp - next_ns)


def test_an_upload_may_be_broken_off() -> None:
    script = Script([])
    reached = asyncio.Event()

    async def deaf(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reached.set()
        await asyncio.sleep(60)

    async def answer(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(WHOLE)
        await writer.drain()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        sending = asyncio.ensure_future(transport.send(make_request("large")))
        await reached.wait()
        transport.abort("large", Status.CENSORED)
        exchanges = [await sending, await transport.send(make_request("large-2"))]
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # the deaf one
        return exchanges

    script.answers += [deaf, answer]
    broken, whole = talk(script, client)
    assert (broken.status, whole.status) == (Status.CENSORED, Status.OK)
    assert broken.sent_ns is not None
    assert broken.body_sent_ns is None
    assert [len(body) for body in script.bodies] == [SIZE + 2]


def test_an_upload_that_nobody_takes_meets_its_deadline() -> None:
    script = Script([])
    over = asyncio.Event()

    async def deaf(reader: Reader, writer: Writer) -> None:
        await over.wait()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        exchange = await transport.send(make_request("large"))
        over.set()
        return [exchange]

    script.answers.append(deaf)
    (exchange,) = talk(script, client, first_byte_timeout_s=0.1)
    assert exchange.status is Status.TIMEOUT
    assert exchange.error == "first byte: none within 0.1 s"
    assert exchange.body_sent_ns is None


def test_neither_side_holds_a_large_request_once_it_has_been_sent() -> None:
    """While its answer still streams."""
    if not Path("/proc/self/maps").exists():
        pytest.skip("no /proc on this system")
    script = Script([])
    looked = asyncio.Event()

    async def answer(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(HEAD + chunk(TOKEN))
        await looked.wait()
        writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()

    def mapped(pid: int | str) -> int:
        return Path(f"/proc/{pid}/maps").read_text().count("memfd:inferometer")

    async def main() -> tuple[list[bool], Exchange]:
        before = mapped("self")  # of other tests, which may not have been let go of yet
        server, url = await slow_server(script)
        with closing(Crew()) as crew:
            (worker,) = crew.muster(1)
            transport = make_transport(url, encode=encode, crew=crew)
            sending = asyncio.ensure_future(transport.send(make_request("large")))
            while not transport.tokens_seen:
                await asyncio.sleep(0.001)
            held = [mapped(worker.pid) > 0, mapped("self") > before]
            looked.set()
            exchange = await sending
            await transport.close()
        server.close()
        await server.wait_closed()
        return held, exchange

    script.answers.append(answer)
    held, exchange = asyncio.run(main())
    assert exchange.status is Status.OK
    assert held == [False, False]


def test_what_no_worker_can_map_goes_with_the_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a sandbox that shows no files of other processes: asked once, then no more."""
    script = Script([])
    asked: list[bool] = []

    async def answer(reader: Reader, writer: Writer) -> None:
        for _ in range(2):
            await script.read_request(reader)
            writer.write(WHOLE)
            await writer.drain()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        return [await transport.send(make_request(f"large-{n}")) for n in range(2)]

    posted = Sheet.posted

    def gone(sheet: Sheet, shared: bool = True) -> object:
        asked.append(shared)
        found = posted(sheet, shared)
        return found if isinstance(found, bytes) else found._replace(path="/proc/self/fd/99999")

    monkeypatch.setattr(Sheet, "posted", gone)
    script.answers.append(answer)
    exchanges = talk(script, client)
    assert [(e.status, e.error) for e in exchanges] == [(Status.OK, None)] * 2
    assert [len(body) for body in script.bodies] == [SIZE + 2] * 2
    assert asked in ([True, False, False], [True, True])  # the second: no shared memory here
