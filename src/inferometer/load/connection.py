"""One non-blocking connection, read as soon as it is readable, and the pool of idle ones.

Stamp first, parse after: all that waits in the socket is read and stamped before any of it is
handed on. What the bytes mean is for others.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any, Protocol

from inferometer.clock import NS, Clock
from inferometer.load.http import Server
from inferometer.load.stamps import (
    ANCILLARY_BYTES,
    Arrival,
    ArrivalStamps,
    WallOffset,
    enable_kernel_stamps,
    stamping_socket,
)
from inferometer.load.tls import TlsChannel

READ_BYTES = 65_536
MAX_READS = 16
"""In one go; a faster sender waits for the other connections' turn."""
TLS_WRITE_BYTES = 262_144


class Receiver(Protocol):
    """Takes what a connection brings."""

    def received(self, data: bytes, arrival: Arrival) -> None:
        """Bytes of one read, in order."""
        ...

    def lost(self, error: OSError | None) -> None:
        """No more will come: closed by the server (None), or broken. Called at most once."""
        ...


class Connection:
    """A connected socket on the running loop. Without a receiver, anything that comes closes it."""

    def __init__(
        self, sock: socket.socket, tls: TlsChannel | None, stamps: ArrivalStamps, clock: Clock
    ) -> None:
        self.receiver: Receiver | None = None
        self.open = True
        self.at_end = False
        """The server has closed its side, or the connection broke."""
        self.floor_ns = clock.now_ns()
        """No read is stamped before this: the last stamp, or when the request was sent."""
        self._sock = sock
        self._fd = sock.fileno()
        self._tls = tls
        self._stamps = stamps
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._writable: asyncio.Future[None] | None = None
        self._loop.add_reader(self._fd, self._on_readable)

    def is_idle(self) -> bool:
        """Nothing waits to be read, not even the server's goodbye that the loop has yet to see."""
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Let go of the socket; harmless when done twice."""
        if not self.open:
            return
        self.open = False
        self.receiver = None
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._sock.close()

    async def write(self, data: bytes) -> None:
        """Hand all of `data` to the kernel without blocking the loop. Raises OSError."""
        view = memoryview(data)
        if self._tls is None:
            await self._write_raw(view)
            return
        while view:
            await self._write_raw(memoryview(self._tls.encrypt(view[:TLS_WRITE_BYTES])))
            view = view[TLS_WRITE_BYTES:]

    async def _write_raw(self, view: memoryview) -> None:
        while view:
            try:
                view = view[self._sock.send(view) :]
            except BlockingIOError:
                await self._until_writable()

    async def _until_writable(self) -> None:
        self._writable = self._loop.create_future()
        self._loop.add_writer(self._fd, _wake, self._writable)
        try:
            await self._writable
        finally:
            self._writable = None
            if self.open:
                self._loop.remove_writer(self._fd)

    def _on_readable(self) -> None:
        reads, end = self._read_all()
        for data, arrival in reads:
            self._hand_on(data, arrival)
        if end is not None and self.open:
            self._end(None if isinstance(end, EOFError) else end)

    def _read_all(self) -> tuple[list[tuple[bytes, Arrival]], OSError | EOFError | None]:
        """All that waits, each read with its stamp, and why nothing more will come if so.

        A read that does not fill its buffer has emptied the socket: to ask once more costs a call
        that fails on every chunk, and the loop reports again what arrives meanwhile.
        """
        reads: list[tuple[bytes, Arrival]] = []
        for _ in range(MAX_READS):
            try:
                data, ancillary, _, _ = self._sock.recvmsg(READ_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                return reads, error
            if not data:
                return reads, EOFError()
            arrival = self._stamps.arrival(ancillary, self.floor_ns, self._clock.now_ns())
            self.floor_ns = arrival.at_ns
            reads.append((data, arrival))
            if len(data) < READ_BYTES:
                break
        return reads, None

    def _hand_on(self, data: bytes, arrival: Arrival) -> None:
        if not self.open:
            return
        if self._tls is not None:
            try:
                data = self._tls.decrypt(data)
            except OSError as error:
                self._end(error)
                return
        if not data:
            return
        if self.receiver is None:
            self.close()
        else:
            self.receiver.received(data, arrival)

    def _end(self, error: OSError | None) -> None:
        self.at_end = True
        self._loop.remove_reader(self._fd)
        if self._writable is not None and not self._writable.done():
            self._writable.set_exception(error or ConnectionResetError("closed by the server"))
        if self.receiver is None:
            self.close()
        else:
            self.receiver.lost(error)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class ConnectionPool:
    """Connections to one server: the most recently used idle one first, else a new one. None that
    has been idle for more than `keep_alive_s` is used again.
    """

    def __init__(self, server: Server, clock: Clock, keep_alive_s: float) -> None:
        self._server = server
        self._clock = clock
        self._keep_alive_ns = round(keep_alive_s * NS)
        self._stamps = ArrivalStamps(WallOffset(clock.now_ns))
        self._stamping = stamping_socket()
        self._context = ssl.create_default_context() if server.tls else None
        self._idle: list[tuple[Connection, int]] = []
        self._addresses: list[tuple[int, Any]] = []
        self._resolving = asyncio.Lock()

    def take(self) -> Connection | None:
        """A live idle connection, or None."""
        oldest_ns = self._clock.now_ns() - self._keep_alive_ns
        while self._idle:
            connection, since_ns = self._idle.pop()
            if connection.open and since_ns >= oldest_ns and connection.is_idle():
                return connection
            connection.close()
        return None

    def put(self, connection: Connection) -> None:
        """Keep a connection whose response is complete."""
        connection.receiver = None
        self._idle.append((connection, self._clock.now_ns()))

    def close(self) -> None:
        """Close the idle ones, and ask for stamps no longer."""
        self._stamping.close()
        for connection, _ in self._idle:
            connection.close()
        self._idle.clear()

    async def connect(self) -> Connection:
        """A new connection, at the first of the server's addresses that answers. Raises OSError."""
        failure: OSError | None = None
        for address in await self._resolve():
            try:
                connection = await self._connect(*address)
            except OSError as error:
                failure = failure or error
                continue
            if address != self._addresses[0]:
                self._addresses = sorted(self._addresses, key=lambda known: known != address)
            return connection
        raise failure or OSError(f"{self._server.host} has no address")

    async def _connect(self, family: int, address: Any) -> Connection:
        with contextlib.ExitStack() as cleanup:
            sock = socket.socket(family, socket.SOCK_STREAM)
            cleanup.callback(sock.close)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            enable_kernel_stamps(sock)
            await asyncio.get_running_loop().sock_connect(sock, address)
            tls = None
            if self._context is not None:
                tls = TlsChannel(self._context, self._server.host)
                await tls.handshake(sock)
            cleanup.pop_all()
            return Connection(sock, tls, self._stamps, self._clock)

    async def _resolve(self) -> list[tuple[int, Any]]:
        """(family, address) of the server, looked up once."""
        async with self._resolving:
            if not self._addresses:
                found = await asyncio.get_running_loop().getaddrinfo(
                    self._server.host, self._server.port, type=socket.SOCK_STREAM
                )
                self._addresses = [(family, address) for family, _, _, _, address in found]
            return self._addresses
