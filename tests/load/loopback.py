"""Servers on loopback for the socket tests: a referee with a log, and one that follows a script."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest

from inferometer.clock import RealClock
from inferometer.core import ClientSettings, Exchange, Phase, Prompt, Request
from inferometer.load.endpoints import chat_body
from inferometer.load.socket_transport import SocketTransport

SOURCE = Path(__file__).resolve().parents[3] / "shared" / "tools" / "truthserver.c"


@dataclass(frozen=True)
class Truth:
    """What the referee wrote of one stream; times on CLOCK_MONOTONIC."""

    request_ns: int
    chunk_ns: tuple[int, ...]


@dataclass
class Referee:
    """A running truthserver. Its log is complete once it has stopped."""

    port: int
    log: Path
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> dict[str, Truth]:
        """End the server and read its log, by request id."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=10)
        truths = {}
        for line in self.log.read_text().splitlines()[1:]:
            _, request_id, _, _, request_ns, chunks, _ = line.split(",")
            stamps = tuple(int(stamp) for stamp in chunks.split(";") if stamp)
            truths[request_id] = Truth(int(request_ns), stamps)
        return truths


def build_referee(folder: Path) -> Path:
    """Compile the truthserver; the test is skipped where that cannot be."""
    if not SOURCE.is_file():
        pytest.skip("no truthserver source beside this checkout (shared/tools)")
    if which("cc") is None:
        pytest.skip("no C compiler to build the truthserver with")
    binary = folder / "truthserver"
    subprocess.run(["cc", "-O2", "-o", str(binary), str(SOURCE)], check=True)
    return binary


@contextmanager
def running_referee(binary: Path, log: Path) -> Iterator[Referee]:
    """Start it on a free port, and end it."""
    for _ in range(5):  # another process may take the free port first
        port = free_port()
        argv = [str(binary), "--port", str(port), "--log", str(log)]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        if process.stderr.readline().startswith("truthserver: http"):
            break
        process.communicate()
    else:
        pytest.fail("the truthserver found no free port")
    with process:
        yield Referee(port, log, process)
        process.terminate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
    encode: Callable[[Request], bytes] | None = None,
    headers: dict[str, str] | None = None,
    **changes: Any,
) -> SocketTransport:
    settings = replace(SETTINGS, **changes)

    def body(request: Request) -> bytes:
        return chat_body(model, "hello", request, settings)

    return SocketTransport(url, encode or body, settings, headers or {}, RealClock())


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
