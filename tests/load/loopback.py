"""What the socket tests share: a transport's settings and requests, and a server by script."""

from __future__ import annotations

import asyncio
import atexit
import socket
import ssl
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest

from inferometer.clock import NS, RealClock
from inferometer.core import ClientSettings, Exchange, Phase, Prompt, Request
from inferometer.load.crew import Crew
from inferometer.load.dial import SETTLED_NS
from inferometer.load.endpoints import ENDPOINTS
from inferometer.load.sheet import Sheet
from inferometer.load.stamps import ANCILLARY_BYTES, enable_kernel_stamps
from inferometer.load.worker_transport import WorkerTransport

SETTINGS = ClientSettings(
    endpoint="chat",
    connect_timeout_s=20.0,
    first_byte_timeout_s=20.0,
    between_bytes_timeout_s=20.0,
    total_timeout_s=60.0,
    usage_every_chunk=False,
    ignore_eos=True,
    temperature=0.0,
    affinity_header=None,
    stop_failed_share=0.1,
    grace_s=1.0,
)

SETTLED_S = 1.2 * SETTLED_NS / NS
"""After so long a connection that was kept once is used again."""

CREW = Crew()
"""One worker serves the tests, one transport after the other; closed when they end."""
atexit.register(CREW.close)


@contextmanager
def stamping() -> Iterator[None]:
    """Where the kernel stamps, it does so from the first packet on, as long as this lasts.

    It begins some ms after a first socket has asked. TCP is what tells: a datagram without a stamp
    is given the time of its read.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as theirs,
        listener.accept()[0] as ours,
    ):
        stamped = not enable_kernel_stamps(ours)
        end_s = time.monotonic() + 60
        while not stamped:
            assert time.monotonic() < end_s, "the kernel does not begin to stamp"
            theirs.send(b"x")
            stamped = bool(ours.recvmsg(1, ANCILLARY_BYTES)[1])
        yield


def make_request(request_id: str, max_tokens: int = 32, affinity: str = "play-1") -> Request:
    return Request(
        id=request_id,
        phase=Phase.MEASURED,
        lane=0,
        play=0,
        turn=0,
        session="s",
        agent="root",
        parent_agent=None,
        affinity=affinity,
        prompt=Prompt(np.zeros(0, dtype=np.int64), 64, 5, 1),
        max_tokens=max_tokens,
        ready_ns=0,
        scheduled_ns=0,
    )


def make_transport(
    url: str,
    model: str = "m",
    encode: Callable[[Request], bytes | Awaitable[Sheet]] | None = None,
    headers: dict[str, str] | None = None,
    crew: Crew = CREW,
    workers: int = 1,
    **changes: Any,
) -> WorkerTransport:
    """For the running loop; one at a time of each crew."""
    settings = replace(SETTINGS, **changes)

    def body(request: Request) -> bytes:
        return ENDPOINTS["chat"].body(model, "hello", request, settings)

    ends = crew.muster(workers)
    return WorkerTransport(url, encode or body, settings, headers or {}, RealClock(), ends)


def run_one(url: str, model: str = "m", request_id: str = "r1", **changes: Any) -> Exchange:
    """Send one request on a transport of its own."""

    async def main() -> Exchange:
        transport = make_transport(url, model, **changes)
        try:
            return await transport.send(make_request(request_id))
        finally:
            await transport.close()

    return asyncio.run(main())


Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Answer = Callable[[Reader, Writer], Awaitable[None]]


@dataclass
class Script:
    """A server that gives each connection the next answer of a list, and keeps what it was sent.

    An answer may serve several requests. When it returns, the connection is closed.
    """

    answers: list[Answer]
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    closed: int = 0

    async def read_request(self, reader: Reader) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.splitlines() if "content-length" in line
        )
        self.heads.append(head)
        self.bodies.append(await reader.readexactly(length))

    async def serve(self, reader: Reader, writer: Writer) -> None:
        answer = self.answers[self.connections]
        self.connections += 1
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went first
        finally:
            writer.close()
            self.closed += 1


async def with_script(
    script: Script, client: Callable[[str], Awaitable[list[Exchange]]], host: str = "127.0.0.1"
) -> list[Exchange]:
    """Run a client against a scripted server and close both."""
    server = await asyncio.start_server(script.serve, host, 0)
    port = server.sockets[0].getsockname()[1]
    try:
        name = f"[{host}]" if ":" in host else host
        return await client(f"http://{name}:{port}")
    finally:
        server.close()
        await server.wait_closed()


def server_context(folder: Path) -> ssl.SSLContext:
    """Of a certificate for 127.0.0.1 that nobody trusts but who reads `cert.pem` in the folder."""
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
