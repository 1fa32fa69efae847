"""The transport on real sockets: connections kept and broken, large bodies, gzip, TLS, streams."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import zlib
from collections.abc import Awaitable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from loopback import (
    Reader,
    Script,
    Writer,
    make_request,
    make_transport,
    server_context,
    stamping,
)
from replies import (
    DONE,
    END,
    FINISH,
    HEAD,
    TOKEN,
    WHOLE,
    answers,
    chunk,
    one_after_the_other,
    serves,
    talk,
)

from inferometer.core import Exchange, Request, Status
from inferometer.load.crew import Crew
from inferometer.load.sheet import Sheet
from inferometer.load.worker import FEW_FLIGHTS
from inferometer.load.worker_transport import WorkerTransport

pytestmark = pytest.mark.sockets


def test_a_kept_connection_is_used_again() -> None:
    script = Script([])
    script.answers.append(answers(script, WHOLE, WHOLE, WHOLE))
    exchanges = talk(script, one_after_the_other(3))
    assert [e.status for e in exchanges] == [Status.OK] * 3
    assert [e.reused_connection for e in exchanges] == [False, True, True]
    assert script.connections == 1


def test_the_answer_does_not_wait_for_the_end_of_the_body() -> None:
    """The server holds back the last bytes until it is told that the answer has been taken."""
    script = Script([])
    taken = asyncio.Event()

    async def answer(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(HEAD + chunk(TOKEN, DONE))
        await taken.wait()
        writer.write(END)
        await script.read_request(reader)
        writer.write(WHOLE)
        await writer.drain()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        first = await transport.send(make_request("r0"))
        taken.set()
        return [first]

    script.answers.append(answer)
    (first,) = talk(script, client)
    assert first.status is Status.OK
    assert taken.is_set()


def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    script = Script([])
    script.answers += [answers(script, WHOLE), answers(script, WHOLE)]

    async def client(transport: WorkerTransport) -> list[Exchange]:
        first = await transport.send(make_request("r0"))
        while script.closed == 0:
            await asyncio.sleep(0)
        return [first, await transport.send(make_request("r1"))]

    exchanges = talk(script, client)
    assert [e.status for e in exchanges] == [Status.OK] * 2
    assert [e.reused_connection for e in exchanges] == [False, False]


def test_a_request_of_which_a_byte_has_left_is_not_sent_again() -> None:
    """A body too large for the socket's buffers meets a reset half-way."""
    script = Script([])

    async def reset_the_second(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(WHOLE)
        await reader.readuntil(b"\r\n\r\n")
        reset(writer)

    script.answers += [reset_the_second, answers(script, WHOLE)]
    bodies = {"r0": b"{}", "r1": b"x" * 20_000_000}
    first, second = talk(script, one_after_the_other(2), encode=lambda request: bodies[request.id])
    assert (first.status, second.status) == (Status.OK, Status.TRUNCATED)
    assert second.reused_connection
    assert second.body_sent_ns is None
    assert script.connections == 1


def test_a_request_that_the_server_may_have_seen_is_not_sent_again() -> None:
    script = Script([])

    async def close_after_the_second(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(WHOLE)
        await script.read_request(reader)

    script.answers += [close_after_the_second, answers(script, WHOLE)]
    first, second = talk(script, one_after_the_other(2))
    assert first.status is Status.OK
    assert second.status is Status.TRUNCATED
    assert second.reused_connection
    assert script.connections == 1


def test_a_new_connection_that_breaks_under_the_request_is_a_failure() -> None:
    script = Script([])

    async def reset_at_once(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reset(writer)

    script.answers.append(reset_at_once)
    (exchange,) = talk(script, one_after_the_other(1), encode=lambda request: b"x" * 20_000_000)
    assert exchange.status is Status.TRUNCATED
    assert exchange.sent_ns is not None
    assert exchange.body_sent_ns is None


def test_an_early_answer_to_a_large_request_is_heard() -> None:
    script = Script([])

    async def refuse(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()
        await reader.read()

    script.answers.append(refuse)
    (exchange,) = talk(script, one_after_the_other(1), encode=lambda request: b"x" * 20_000_000)
    assert exchange.status is Status.HTTP_STATUS
    assert exchange.error == "HTTP 413: big"


def test_a_large_body_arrives_whole() -> None:
    script = Script([])
    script.answers.append(answers(script, WHOLE))
    body = bytes(range(256)) * 20_000
    (exchange,) = talk(script, one_after_the_other(1), encode=lambda request: body)
    assert exchange.status is Status.OK
    assert script.bodies == [body]


def test_a_body_until_the_connection_closes() -> None:
    script = Script([])
    script.answers.append(answers(script, b"HTTP/1.1 200 OK\r\n\r\n" + TOKEN + FINISH))
    (exchange,) = talk(script, one_after_the_other(1))
    assert exchange.status is Status.OK


def test_gzip_that_was_not_asked_for_is_undone_as_it_comes() -> None:
    script = Script([])
    packer = zlib.compressobj(wbits=31)
    pieces = [
        packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in (TOKEN, TOKEN, DONE)
    ]
    head = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")

    async def answer(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(head)
        for piece in pieces:
            writer.write(chunk(piece))
            await writer.drain()
        writer.write(END)

    script.answers.append(answer)
    (exchange,) = talk(script, one_after_the_other(1))
    assert (exchange.status, exchange.error) == (Status.OK, None)
    assert len(exchange.arrivals) == 2


def test_a_large_body_to_a_slow_reader_delays_nobody_else() -> None:
    """The slow reader takes nothing until the other request, sent later, has been answered, and
    answers when the worker has sent a third one since.
    """
    script = Script([])
    answered, whole, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(reader: Reader, writer: Writer) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await answered.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await script.read_request(reader)
        whole.set()
        await go.wait()
        writer.write(WHOLE)
        await writer.drain()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        large = asyncio.ensure_future(transport.send(make_request("large")))
        while script.connections == 0:
            await asyncio.sleep(0.001)
        small = await transport.send(make_request("small"))
        answered.set()
        await whole.wait()
        third = await transport.send(make_request("third"))
        go.set()
        return [small, third, await large]

    bodies = {"large": b"x" * 20_000_000, "small": b"{}", "third": b"[]"}
    script.answers += [slow, serves(script, WHOLE), serves(script, WHOLE)]
    small, third, large = talk(script, client, encode=lambda request: bodies[request.id])
    assert [e.status for e in (small, third, large)] == [Status.OK] * 3
    assert [len(body) for body in script.bodies] == [2, 20_000_000, 2]
    assert large.sent_ns is not None
    assert large.body_sent_ns is not None
    assert large.first_byte_ns is not None
    assert large.sent_ns < small.end_ns < large.body_sent_ns < large.first_byte_ns


def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = server_context(tmp_path)
    script = Script([])
    script.answers.append(answers(script, WHOLE, WHOLE))
    body = b"x" * 3_000_000

    async def ask(url: str, crew: Crew, count: int) -> list[Exchange]:
        def encode(request: Request) -> bytes | Awaitable[Sheet]:
            return body if request.id == "r0" else on_a_sheet(body)

        transport = make_transport(url, encode=encode, crew=crew)
        exchanges = await one_after_the_other(count)(transport)
        await transport.close()
        return exchanges

    async def main() -> list[Exchange]:
        server = await asyncio.start_server(script.serve, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        exchanges = []
        for count in (1, 2):  # the second worker trusts the certificate
            with closing(Crew()) as crew:
                exchanges += await ask(url, crew, count)
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        server.close()
        await server.wait_closed()
        return exchanges

    with stamping():
        untrusted, first, second = asyncio.run(main())
    assert untrusted.status is Status.CONNECT
    assert untrusted.error is not None
    assert "CERTIFICATE_VERIFY_FAILED" in untrusted.error
    for exchange in (first, second):
        assert (exchange.status, exchange.error) == (Status.OK, None)
        assert len(exchange.arrivals) == 2
        assert exchange.stamp_source == ("kernel" if sys.platform == "linux" else "read")
    assert second.reused_connection
    assert script.bodies == [body, body]


async def on_a_sheet(body: bytes) -> Sheet:
    sheet = Sheet(len(body))

    def write(memory: memoryview) -> None:
        memory[:] = body

    sheet.write(write)
    return sheet


def reset(writer: Writer) -> None:
    """Close with a reset instead of a goodbye."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


def test_answers_that_begin_while_their_requests_are_sent() -> None:
    """More than a worker needs to gather streams: tokens come, then the rest of the body leaves."""
    count = 2 * FEW_FLIGHTS
    script = Script([])
    all_heard = asyncio.Event()

    async def eager(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(TOKEN) + chunk(TOKEN))
        await writer.drain()
        await all_heard.wait()
        await reader.readexactly(4_000_000)
        writer.write(chunk(TOKEN) + chunk(TOKEN, DONE) + END)
        await writer.drain()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        sends = [transport.send(make_request(f"r{n}", max_tokens=99)) for n in range(count)]
        sending = [asyncio.ensure_future(send) for send in sends]
        while transport.tokens_seen < 2 * count:
            await asyncio.sleep(0.001)
        all_heard.set()
        return await asyncio.gather(*sending)

    script.answers += [eager] * count
    exchanges = talk(script, client, encode=lambda request: b"x" * 4_000_000)
    assert {(e.status, len(e.arrivals)) for e in exchanges} == {(Status.OK, 4)}


def test_a_reset_is_told_from_a_goodbye_while_streams_are_gathered() -> None:
    """A socket tells its error once: asked again it says that the server closed properly."""
    count = 2 * FEW_FLIGHTS
    script = Script([])
    first_heard, all_heard = asyncio.Event(), asyncio.Event()

    async def breaks(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(HEAD + chunk(TOKEN))
        await writer.drain()
        await first_heard.wait()
        writer.write(chunk(TOKEN))  # a chunk alone: the next read is known by its bytes
        await writer.drain()
        await all_heard.wait()
        reset(writer)

    async def client(transport: WorkerTransport) -> list[Exchange]:
        sends = [transport.send(make_request(f"r{n}", max_tokens=99)) for n in range(count)]
        sending = [asyncio.ensure_future(send) for send in sends]
        for seen, heard in ((count, first_heard), (2 * count, all_heard)):
            while transport.tokens_seen < seen:
                await asyncio.sleep(0.001)
            heard.set()
        return await asyncio.gather(*sending)

    script.answers += [breaks] * count
    exchanges = talk(script, client)
    text = "connection lost (Connection reset by peer) before the end of the answer"
    assert {(e.status, e.error) for e in exchanges} == {(Status.TRUNCATED, text)}
    assert {len(e.arrivals) for e in exchanges} == {2}


def test_the_text_of_an_answer_comes_back_where_it_is_wanted() -> None:
    async def client(transport: WorkerTransport) -> list[Exchange]:
        plain = make_request("r0")
        return [
            await transport.send(plain),
            await transport.send(replace(plain, id="r1", recorded_tokens=5)),
        ]

    script = Script([])
    script.answers += [answers(script, WHOLE), answers(script, WHOLE)]
    without, with_text = talk(script, client)
    assert without.answer is None
    assert with_text.answer is not None
    assert (with_text.answer.text, with_text.answer.hidden_events) == ("aa", 0)
    assert len(with_text.arrivals) == len(without.arrivals) == 2


def test_an_end_that_comes_with_a_chunk_is_told_while_streams_are_gathered() -> None:
    """One read takes the chunk and leaves the end, of which a gathered socket has told already."""
    count = 2 * FEW_FLIGHTS
    script = Script([])
    first_heard = asyncio.Event()

    async def leaves(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(HEAD + chunk(TOKEN))
        await writer.drain()
        await first_heard.wait()
        writer.write(chunk(TOKEN))
        writer.close()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        sends = [transport.send(make_request(f"r{n}", max_tokens=99)) for n in range(count)]
        sending = [asyncio.ensure_future(send) for send in sends]
        while transport.tokens_seen < count:
            await asyncio.sleep(0.001)
        first_heard.set()
        return await asyncio.gather(*sending)

    script.answers += [leaves] * count
    exchanges = talk(script, client)
    text = "connection closed before the end of the answer"
    assert {(e.status, e.error) for e in exchanges} == {(Status.TRUNCATED, text)}
    assert {len(e.arrivals) for e in exchanges} == {2}
