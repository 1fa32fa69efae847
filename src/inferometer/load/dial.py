"""Connections to one server: kept ones first, else a new one, with its TLS handshake.

Nothing here waits: an address after the other is tried as the poller tells, and a callback hears
the outcome. Names are looked up before, by others.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from inferometer.deferred import Deferred
from inferometer.load.connection import Connection, Link
from inferometer.load.http import Server
from inferometer.load.poller import READ, WRITE
from inferometer.load.stamps import NS, enable_kernel_stamps
from inferometer.load.tls import TlsChannel

if TYPE_CHECKING:
    import ssl
else:
    ssl = Deferred("ssl")  # a worker without TLS starts without it

_READ_BYTES = 65_536
UNSENT_BYTES = 524_288
"""What the kernel takes of a request beyond what is on its way to the server: it would take some
megabytes, and a large body would seem to have been sent at once. It asks for more when half of it
is left, so a fast link does not run dry between two turns of the loop."""

SETTLED_NS = NS // 100
"""After so long a connection is kept that the server does not close right behind its answer. Some
do (llama.cpp's), and promise `Keep-Alive` in that very answer."""

Address = tuple[int, Any]
"""(family, address) as sockets take them."""
Done = Callable[["Connection | OSError"], None]


class Dial:
    """One attempt to connect: every address in turn, until one answers. `cancel` ends it."""

    def __init__(self, pool: Pool, done: Done) -> None:
        self._pool = pool
        self._done = done
        self._left = list(pool.addresses)
        self._failure: OSError | None = None
        self._sock: socket.socket | None = None
        self._tls: TlsChannel | None = None
        self._outgoing = b""

    def start(self) -> None:
        """Try the next address; with none left, tell of the first failure."""
        while self._left:
            family, address = self._left[0]
            try:
                sock = self._sock = socket.socket(family, socket.SOCK_STREAM)
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                enable_kernel_stamps(sock)
                _leave_little_unsent(sock)
                code = sock.connect_ex(address)
            except OSError as error:
                self._next(error)
                continue
            if code in (0, errno.EINPROGRESS):
                self._pool.link.poller.watch(sock.fileno(), self._on_connected, WRITE)
                return
            self._next(OSError(code, os.strerror(code)))
        self._done(self._failure or OSError(f"{self._pool.server.host} has no address"))

    def cancel(self) -> None:
        """Give up."""
        if self._sock is not None:
            self._pool.link.poller.forget(self._sock.fileno())
            self._sock.close()
            self._sock = None

    def _next(self, error: OSError) -> None:
        self._failure = self._failure or error
        self.cancel()
        self._left.pop(0)

    def _fail(self, error: OSError) -> None:
        self._next(error)
        self.start()

    def _on_connected(self, _: int) -> None:
        assert self._sock is not None
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._fail(OSError(code, os.strerror(code)))
        elif self._pool.context is None:
            self._succeed()
        else:
            self._tls = TlsChannel(self._pool.context, self._pool.server.host)
            self._shake(b"")

    def _shake(self, data: bytes) -> None:
        """One step of the TLS handshake."""
        assert self._sock is not None
        assert self._tls is not None
        try:
            outgoing, done = self._tls.handshake(data)
            self._outgoing += outgoing
            if self._outgoing:
                self._outgoing = self._outgoing[self._sock.send(self._outgoing) :]
        except BlockingIOError:
            done = False
        except OSError as error:
            self._fail(error)
            return
        if done and not self._outgoing:
            self._succeed()
            return
        wanted = READ | WRITE if self._outgoing else READ
        self._pool.link.poller.watch(self._sock.fileno(), self._on_shaking, wanted)

    def _on_shaking(self, events: int) -> None:
        assert self._sock is not None
        data = b""
        if events & ~WRITE:
            try:
                data = self._sock.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(error)
                return
            if not data:
                text = "closed by the server during the TLS handshake"
                self._fail(ConnectionResetError(errno.ECONNRESET, text))
                return
        self._shake(data)

    def _succeed(self) -> None:
        assert self._sock is not None
        sock, self._sock = self._sock, None
        self._pool.prefer(self._left[0])
        self._done(Connection(sock, self._tls, self._pool.link))


class Pool:
    """Connections to one server: the most recently used idle one first, else a new one. None that
    has been idle for more than `keep_alive_s` is used again, and, until the server has been seen to
    keep one, and once it has closed one, none that it may be about to close.
    """

    def __init__(
        self, server: Server, addresses: list[Address], link: Link, keep_alive_s: float
    ) -> None:
        self.server = server
        self.addresses = addresses
        self.link = link
        self._keep_alive_ns = round(keep_alive_s * NS)
        self.context = ssl.create_default_context() if server.tls else None
        self._idle: list[tuple[Connection, int]] = []
        self._keeps: bool | None = None
        """Whether the server leaves open what it says it keeps; None: not seen yet."""

    def take(self) -> Connection | None:
        """A live idle connection, or None."""
        now_ns = self.link.now_ns()
        for at in reversed(range(len(self._idle))):
            connection, since_ns = self._idle[at]
            idle_ns = now_ns - since_ns
            if idle_ns < SETTLED_NS and not self._keeps:
                continue
            del self._idle[at]
            if idle_ns <= self._keep_alive_ns:
                if connection.open and connection.is_idle():
                    if self._keeps is None:
                        self._keeps = True
                    return connection
                self._keeps = False
            connection.close()
        return None

    def dial(self, done: Done) -> Dial:
        """An attempt at a new one, to be started; `done` hears how it went."""
        return Dial(self, done)

    def put(self, connection: Connection) -> None:
        """Keep a connection whose response is complete."""
        connection.receiver = None
        self.link.poller.single_out(connection.fd)
        self._idle.append((connection, self.link.now_ns()))

    def prefer(self, address: Address) -> None:
        """This one answered: it is tried first from now on."""
        if address != self.addresses[0]:
            self.addresses = sorted(self.addresses, key=lambda known: known != address)

    def close(self) -> None:
        """Close the idle ones."""
        for connection, _ in self._idle:
            connection.close()
        self._idle.clear()


def _leave_little_unsent(sock: socket.socket) -> None:
    """Where the system can bound it."""
    option: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)


def reason(error: OSError) -> str:
    """The system's own words; TLS and look-ups have their own."""
    if error.errno is None or isinstance(error, ssl.SSLError | socket.gaierror):
        return error.strerror or str(error)
    with contextlib.suppress(ValueError):
        return os.strerror(error.errno)
    return str(error)
