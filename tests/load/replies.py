"""Answers on the wire, by hand, and a client that asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from loopback import (
    SETTLED_S,
    Answer,
    Reader,
    Script,
    Writer,
    make_request,
    make_transport,
    with_script,
)

from inferometer.core import Exchange
from inferometer.load.worker_transport import WorkerTransport

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


def serves(script: Script, reply: bytes) -> Answer:
    """Answer whatever comes on one connection, until the client goes."""

    async def answer(reader: Reader, writer: Writer) -> None:
        while True:
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
        exchanges = []
        for n in range(count):
            await asyncio.sleep(SETTLED_S if n else 0)
            exchanges.append(await transport.send(make_request(f"r{n}")))
        return exchanges

    return client
