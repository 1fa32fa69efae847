"""The transport on real sockets: reuse, retries, timeouts, aborts, headers, TLS."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import zlib
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from loopback import (
    Answer,
    Reader,
    Script,
    Writer,
    make_request,
    make_transport,
    run_one,
    with_script,
)

from inferometer.core import Exchange, Status
from inferometer.errors import InputError
from inferometer.load.crew import Crew
from inferometer.load.worker import FEW_FLIGHTS
from inferometer.load.worker_transport import WorkerTransport
from referee import free_port

pytestmark = pytest.mark.sockets

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
FINISH = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"


def chunk(*events: bytes) -> bytes:
    body = b"".join(events)
    return b"%x\r\n%b\r\n" % (len(body), body)


WHOLE = HEAD + chunk(TOKEN, TOKEN, DONE) + END


def answers(script: Script, *replies: bytes) -> Answer:
    """Answer as many requests on one connection, then close it."""

    async def answer(reader: Reader, writer: Writer) -> None:
        for reply in replies:
            await script.read_request(reader)
            writer.write(reply)
            await writer.drain()

    return answer


def holds(script: Script, reply: bytes = b"") -> Answer:
    """Answer one request with these bytes, then wait until the client goes."""

    async def answer(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(reply)
        await writer.drain()
        await reader.read()

    return answer


def talk(
    script: Script,
    client: Callable[[WorkerTransport], Awaitable[list[Exchange]]],
    host: str = "127.0.0.1",
    **changes: Any,
) -> list[Exchange]:
    async def main(url: str) -> list[Exchange]:
        transport = make_transport(url, **changes)
        try:
            return await client(transport)
        finally:
            await transport.close()

    return asyncio.run(with_script(script, main, host))


def one_after_the_other(
    count: int,
) -> Callable[[WorkerTransport], Awaitable[list[Exchange]]]:
    async def client(transport: WorkerTransport) -> list[Exchange]:
        return [await transport.send(make_request(f"r{n}")) for n in range(count)]

    return client


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


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (b"", Status.TRUNCATED),
        (HEAD + chunk(TOKEN), Status.TRUNCATED),
        (HEAD + chunk(TOKEN, FINISH), Status.TRUNCATED),
        (HEAD + chunk(TOKEN) + END, Status.TRUNCATED),
        (HEAD + chunk(TOKEN, FINISH) + END, Status.OK),
        (HEAD + chunk(TOKEN, DONE), Status.OK),
        (b"220 mail.example ESMTP\r\n", Status.MALFORMED),
    ],
)
def test_how_an_answer_ends(reply: bytes, status: Status) -> None:
    script = Script([])
    script.answers.append(answers(script, reply))
    (exchange,) = talk(script, one_after_the_other(1))
    assert exchange.status is status


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (
            b'{"choices":[{"text":"a"}],"usage":{"completion_tokens":%d}}' % (2**64 - 1),
            "holds 1844",
        ),
        (b'{"error":%b}' % (b"[" * 300 + b"]" * 300), r'\{"error":\[\['),
    ],
)
def test_what_a_server_may_say_ends_the_request(event: bytes, error: str) -> None:
    """The connection stays open: only what came can end it."""
    script = Script([])
    script.answers.append(holds(script, HEAD + chunk(b"data: " + event + b"\n\n")))
    (exchange,) = talk(script, one_after_the_other(1), first_byte_timeout_s=5.0)
    assert exchange.status in (Status.MALFORMED, Status.IN_BAND)
    assert exchange.error is not None
    assert re.search(error, exchange.error)


def test_nobody_listens() -> None:
    port = free_port()
    exchange = run_one(f"http://127.0.0.1:{port}")
    assert exchange.status is Status.CONNECT
    assert exchange.error == f"cannot connect to 127.0.0.1:{port}: Connection refused"
    assert (exchange.connected_ns, exchange.sent_ns, exchange.http_status) == (None, None, None)
    assert len(exchange.arrivals) == 0


def test_a_host_without_an_address() -> None:
    exchange = run_one("http://no-such-host.invalid", connect_timeout_s=30.0)
    assert exchange.status is Status.CONNECT


def test_no_connection_in_time() -> None:
    with socket.socket() as listener:  # its queue is full, so that a further connection hangs
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        queued = [socket.socket() for _ in range(4)]
        for other in queued:
            other.setblocking(False)
            other.connect_ex(("127.0.0.1", port))
        exchange = run_one(f"http://127.0.0.1:{port}", connect_timeout_s=0.05)
        for other in queued:
            other.close()
    assert exchange.status is Status.TIMEOUT
    assert exchange.error == "connect: no connection within 0.05 s"
    assert exchange.sent_ns is None


@pytest.mark.parametrize(
    ("reply", "changes", "error"),
    [
        (b"", {"first_byte_timeout_s": 0.05}, "first byte: none within 0.05 s"),
        (b"", {"total_timeout_s": 0.05}, "total: not complete within 0.05 s"),
        (HEAD, {"between_bytes_timeout_s": 0.05}, "between bytes: nothing came for 0.05 s"),
    ],
)
def test_timeouts_say_which(reply: bytes, changes: dict[str, Any], error: str) -> None:
    script = Script([])
    script.answers.append(holds(script, reply))
    (exchange,) = talk(script, one_after_the_other(1), **changes)
    assert exchange.status is Status.TIMEOUT
    assert exchange.error == error


@pytest.mark.parametrize("status", [Status.CENSORED, Status.CANCELLED])
def test_an_aborted_request_returns_what_had_come(status: Status) -> None:
    script = Script([])
    script.answers.append(holds(script, HEAD + chunk(TOKEN, TOKEN)))

    async def client(transport: WorkerTransport) -> list[Exchange]:
        sending = asyncio.ensure_future(transport.send(make_request("r0")))
        while transport.tokens_seen < 2:
            await asyncio.sleep(0)
        transport.abort("r0", status)
        return [await sending]

    (exchange,) = talk(script, client)
    assert (exchange.status, exchange.error) == (status, None)
    assert len(exchange.arrivals) == 2
    assert exchange.http_status == 200
    assert exchange.end_ns >= exchange.arrivals.at_ns[-1]


def test_a_request_aborted_before_it_began_is_not_sent() -> None:
    script = Script([])

    async def client(transport: WorkerTransport) -> list[Exchange]:
        transport.abort("r0", Status.CANCELLED)
        return [await transport.send(make_request("r0"))]

    (exchange,) = talk(script, client)
    assert exchange.status is Status.CANCELLED
    assert exchange.sent_ns is None
    assert script.heads == []


def test_close_cancels_what_is_open() -> None:
    script = Script([])
    script.answers.append(holds(script, HEAD + chunk(TOKEN)))

    async def client(transport: WorkerTransport) -> list[Exchange]:
        sending = asyncio.ensure_future(transport.send(make_request("r0")))
        while not transport.tokens_seen:
            await asyncio.sleep(0)
        await transport.close()
        return [await sending]

    (exchange,) = talk(script, client)
    assert exchange.status is Status.CANCELLED
    assert len(exchange.arrivals) == 1


def test_a_cancelled_task_lets_go_of_its_connection() -> None:
    script = Script([])
    gone = asyncio.Event()

    async def answer(reader: Reader, writer: Writer) -> None:
        await script.read_request(reader)
        writer.write(HEAD + chunk(TOKEN))
        await reader.read()
        gone.set()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        sending = asyncio.ensure_future(transport.send(make_request("r0")))
        while not transport.tokens_seen:
            await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await asyncio.wait_for(gone.wait(), 10)
        return []

    script.answers.append(answer)
    assert talk(script, client) == []
    assert gone.is_set()


def test_a_fault_of_the_encoder_is_raised_and_leaves_nothing_open() -> None:
    def encode(request: object) -> bytes:
        raise KeyError("model")

    with pytest.raises(KeyError):
        talk(Script([]), one_after_the_other(1), encode=encode)


def test_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    script = Script([])
    script.answers.append(answers(script, WHOLE))

    async def client(transport: WorkerTransport) -> list[Exchange]:
        return [await transport.send(make_request("id 1", affinity="play\r\n7 é"))]

    talk(script, client, headers={"X-Extra": "1"}, affinity_header="X-Session-ID")
    lines = script.heads[0].split("\r\n")
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert re.fullmatch(r"host: 127\.0\.0\.1:\d+", lines[1])
    assert lines[2:-2] == [
        "user-agent: inferometer",
        "accept: text/event-stream",
        "accept-encoding: identity",
        "content-type: application/json",
        "authorization: Bearer sk-secret",
        "x-extra: 1",
        "x-request-id: id 1",
        "x-correlation-id: play%0D%0A7 %C3%A9",
        "x-session-id: play%0D%0A7 %C3%A9",
        f"content-length: {len(script.bodies[0])}",
    ]
    assert json.loads(script.bodies[0])["model"] == "m"


def test_the_api_key_is_kept_out_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    script = Script([])
    page = b"HTTP/1.1 401 x\r\nContent-Length: 19\r\n\r\nbad key: sk-secret."
    script.answers.append(answers(script, page))
    (exchange,) = talk(script, one_after_the_other(1))
    assert exchange.error == "HTTP 401: bad key: [API key]."


def test_headers_that_cannot_be_sent_are_the_users_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk\nsecret")
    with pytest.raises(InputError) as caught:
        make_transport("http://h", headers={"a b": "x", "ok": "y", "c": "1\r\n2"})
    assert [problem.key for problem in caught.value.problems] == ["authorization", "a b", "c"]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "X-Session\r\nX", "X-Größe", "a:b", "x\n"])
def test_an_affinity_header_is_a_token(name: str) -> None:
    with pytest.raises(InputError, match="is not the name of a header") as caught:
        make_transport("http://h", affinity_header=name)
    assert [problem.key for problem in caught.value.problems] == ["affinity_header"]


def test_ipv6() -> None:
    script = Script([])
    script.answers.append(answers(script, WHOLE))
    try:
        (exchange,) = talk(script, one_after_the_other(1), host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    assert exchange.status is Status.OK
    assert re.search(r"host: \[::1\]:\d+", script.heads[0])


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
    """The slow reader takes nothing until the other request, sent later, has been answered."""
    script = Script([])
    answered = asyncio.Event()

    async def slow(reader: Reader, writer: Writer) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await answered.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await script.read_request(reader)
        writer.write(WHOLE)
        await writer.drain()

    async def client(transport: WorkerTransport) -> list[Exchange]:
        large = asyncio.ensure_future(transport.send(make_request("large")))
        while script.connections == 0:
            await asyncio.sleep(0.001)
        small = await transport.send(make_request("small"))
        answered.set()
        return [small, await large]

    bodies = {"large": b"x" * 20_000_000, "small": b"{}"}
    script.answers += [slow, answers(script, WHOLE)]
    small, large = talk(script, client, encode=lambda request: bodies[request.id])
    assert (small.status, large.status) == (Status.OK, Status.OK)
    assert [len(body) for body in script.bodies] == [2, 20_000_000]
    assert large.sent_ns is not None
    assert large.body_sent_ns is not None
    assert large.first_byte_ns is not None
    assert large.sent_ns < small.end_ns < large.body_sent_ns < large.first_byte_ns


def test_a_worker_that_dies_ends_its_requests_and_says_so() -> None:
    script = Script([])
    script.answers += [holds(script, HEAD + chunk(TOKEN)), answers(script, WHOLE)]
    told: list[str] = []

    async def main(url: str) -> list[Exchange]:
        with closing(Crew()) as crew:
            (worker,) = crew.muster(1)
            transport = make_transport(url, crew=crew)
            transport.on_fault = told.append
            sending = asyncio.ensure_future(transport.send(make_request("r0")))
            while not transport.tokens_seen:
                await asyncio.sleep(0.001)
            os.kill(worker.pid, signal.SIGKILL)
            exchanges = [await sending, await transport.send(make_request("r1"))]
            await transport.close()
            again = make_transport(url, crew=crew)  # the next point has a living one
            exchanges.append(await again.send(make_request("r2")))
            await again.close()
        return exchanges

    lost, after, revived = asyncio.run(with_script(script, main))
    assert told == ["a worker of the load ended by itself (exit code -9)"]
    assert (lost.status, lost.error) == (Status.CANCELLED, told[0])
    assert (after.status, after.error) == (Status.CANCELLED, "no worker is left")
    assert revived.status is Status.OK


def test_ready_is_when_every_worker_is_up_and_knows_the_server() -> None:
    script = Script([])
    script.answers.append(answers(script, WHOLE))

    async def main(url: str) -> list[Exchange]:
        with closing(Crew()) as crew:
            transport = make_transport(url, crew=crew, workers=2)
            await transport.ready()
            assert [len(account.pulses) for account in transport.accounts] == [1, 1]
            exchange = await transport.send(make_request("r0"))
            await transport.close()
        return [exchange]

    (exchange,) = asyncio.run(with_script(script, main))
    assert exchange.status is Status.OK


def test_ready_does_not_wait_for_the_dead_or_the_unknown() -> None:
    async def main() -> list[Exchange]:
        with closing(Crew()) as crew:
            (worker,) = crew.muster(1)
            os.kill(worker.pid, signal.SIGKILL)
            transport = make_transport("http://127.0.0.1:9", crew=crew)
            await transport.ready()
            await transport.close()
        unknown = make_transport("http://no-such-host.invalid", connect_timeout_s=30.0)
        await unknown.ready()
        exchange = await unknown.send(make_request("r0"))
        await unknown.close()
        return [exchange]

    (exchange,) = asyncio.run(main())
    assert exchange.status is Status.CONNECT


def test_several_workers_share_the_load() -> None:
    script = Script([])
    script.answers += [answers(script, WHOLE), answers(script, WHOLE)]

    async def main(url: str) -> list[Exchange]:
        with closing(Crew()) as crew:
            transport = make_transport(url, crew=crew, workers=2)
            sends = (transport.send(make_request(f"r{n}")) for n in range(2))
            exchanges = await asyncio.gather(*sends)
            assert [account.finished_tokens for account in transport.accounts] == [2, 2]
            await transport.close()
        return exchanges

    exchanges = asyncio.run(with_script(script, main))
    assert [e.status for e in exchanges] == [Status.OK] * 2


def test_localhost_finds_the_address_that_answers() -> None:
    script = Script([])
    script.answers += [answers(script, WHOLE), answers(script, WHOLE)]

    async def client(url: str) -> list[Exchange]:
        transport = make_transport(url.replace("127.0.0.1", "localhost"))
        exchanges = await asyncio.gather(*(transport.send(make_request(f"r{n}")) for n in range(2)))
        await transport.close()
        return exchanges

    exchanges = asyncio.run(with_script(script, client))
    assert [e.status for e in exchanges] == [Status.OK] * 2


def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = server_context(tmp_path)
    script = Script([])
    script.answers.append(answers(script, WHOLE, WHOLE))
    body = b"x" * 3_000_000

    async def ask(url: str, crew: Crew, count: int) -> list[Exchange]:
        transport = make_transport(url, encode=lambda request: body, crew=crew)
        exchanges = [await transport.send(make_request(f"r{n}")) for n in range(count)]
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


def server_context(folder: Path) -> ssl.SSLContext:
    if which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=loopback"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


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
    exchanges = talk(script, client, between_bytes_timeout_s=5.0)
    text = "connection closed before the end of the answer"
    assert {(e.status, e.error) for e in exchanges} == {(Status.TRUNCATED, text)}
    assert {len(e.arrivals) for e in exchanges} == {2}
