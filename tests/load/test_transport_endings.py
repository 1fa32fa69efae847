"""How a request ends: by its answer, by a timeout, by whoever sent it."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any

import pytest
from loopback import (
    Reader,
    Script,
    Writer,
    make_request,
    run_one,
)
from replies import (
    DONE,
    END,
    FINISH,
    HEAD,
    TOKEN,
    answers,
    chunk,
    holds,
    one_after_the_other,
    talk,
)

from inferometer.core import Exchange, Status
from inferometer.load.worker_transport import WorkerTransport
from referee import refused_port

pytestmark = pytest.mark.sockets


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
    (exchange,) = talk(script, one_after_the_other(1))
    assert exchange.status in (Status.MALFORMED, Status.IN_BAND)
    assert exchange.error is not None
    assert re.search(error, exchange.error)


def test_nobody_listens() -> None:
    with refused_port() as port:
        exchange = run_one(f"http://127.0.0.1:{port}")
    assert exchange.status is Status.CONNECT
    assert exchange.error == f"cannot connect to 127.0.0.1:{port}: Connection refused"
    assert (exchange.connected_ns, exchange.sent_ns, exchange.http_status) == (None, None, None)
    assert len(exchange.arrivals) == 0


def test_a_host_without_an_address(no_address: str) -> None:
    exchange = run_one(f"http://{no_address}")
    assert exchange.status is Status.CONNECT
    assert exchange.error == f"cannot connect to {no_address}: Name or service not known"


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
