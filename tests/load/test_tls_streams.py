"""Many encrypted streams at once, more than a worker needs to gather them: whole, in order, stamped
on arrival.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from loopback import Reader, Writer, make_request, make_transport, server_context, stamping

from inferometer.core import Exchange, Status
from inferometer.load.crew import Crew
from inferometer.load.worker import FEW_FLIGHTS

pytestmark = pytest.mark.sockets

COUNT = 2 * FEW_FLIGHTS
TOKENS = 12
CLOCKS_NS = 2_000_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


def test_encrypted_streams_have_the_stamps_of_their_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = server_context(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    wrote_ns: dict[str, list[int]] = {}

    async def serve(reader: Reader, writer: Writer) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        name = next(line[14:] for line in head.splitlines() if line.startswith("x-request-id: "))
        await reader.readuntil(b"}}")
        writer.write(HEAD)
        times = wrote_ns[name] = []
        for number in range(TOKENS):
            await asyncio.sleep(0.005)
            times.append(time.monotonic_ns())
            writer.write(chunk(b'data: {"choices":[{"delta":{"content":"%d"}}]}\n\n' % number))
        times.append(time.monotonic_ns())
        writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> list[Exchange]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with closing(Crew()) as crew:
            transport = make_transport(url, encode=lambda _: b'{"a":{}}', crew=crew)
            sends = (transport.send(make_request(f"r{n}", max_tokens=99)) for n in range(COUNT))
            exchanges = await asyncio.gather(*sends)
            await transport.close()
        server.close()
        await server.wait_closed()
        return exchanges

    with stamping():
        exchanges = asyncio.run(main())
    assert {(e.status, e.error, len(e.arrivals)) for e in exchanges} == {(Status.OK, None, TOKENS)}
    kernel = sys.platform == "linux"
    assert {e.stamp_source for e in exchanges} == {"kernel" if kernel else "read"}
    for number, exchange in enumerate(exchanges):
        marks = exchange.arrivals.coalesced
        times = wrote_ns[f"r{number}"]
        for index, stamp in enumerate(exchange.arrivals.at_ns.tolist()):
            assert stamp >= times[index] - CLOCKS_NS
            if kernel and (marks is None or not marks[index]):
                assert stamp <= times[index + 1] + CLOCKS_NS
