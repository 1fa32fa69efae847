"""One non-blocking connection of a worker: read as soon as it is told to, written as it drains.

Stamp first, parse after: all that waits in the socket is read and stamped before any of it is
handed on. What the bytes mean is for others. Nothing here waits.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

from inferometer.load.poller import READ, WRITE, Poller
from inferometer.load.stamps import ANCILLARY_BYTES, ArrivalStamps
from inferometer.load.tls import TlsChannel

READ_BYTES = 65_536
MAX_READS = 16
"""In one go; a faster sender waits for the other connections' turn."""
WRITE_BYTES = 262_144
"""In one go, for the same reason."""


_NOTHING = memoryview(b"")


class Receiver(Protocol):
    """Takes what a connection brings."""

    def received(self, data: bytes, at_ns: int, kernel: bool, followed: bool = False) -> None:
        """Bytes of one read, in order, and whether the stamp is the kernel's. `followed`: the read
        held more behind them, which is none of the answer yet.
        """
        ...

    def written(self) -> None:
        """The kernel has taken the last byte of what was to be sent."""
        ...

    def lost(self, error: OSError | None) -> None:
        """No more will come: closed by the server (None), or broken. Called at most once."""
        ...


class Link:
    """What all connections of a worker share."""

    def __init__(self, poller: Poller, stamps: ArrivalStamps, now_ns: Callable[[], int]) -> None:
        self.poller = poller
        self.stamps = stamps
        self.now_ns = now_ns
        self.buffer = bytearray(READ_BYTES)
        self.buffers = [self.buffer]


class Connection:
    """A connected socket. Without a receiver, anything that comes closes it."""

    __slots__ = (
        "_link",
        "_plain",
        "_raw",
        "_tls",
        "_writing",
        "at_end",
        "encrypted",
        "fd",
        "floor_ns",
        "open",
        "receiver",
        "sock",
        "wrote",
    )

    def __init__(self, sock: socket.socket, tls: TlsChannel | None, link: Link) -> None:
        self.receiver: Receiver | None = None
        self.open = True
        self.at_end = False
        """The server has closed its side, or the connection broke."""
        self.floor_ns = link.now_ns()
        """No read is stamped before this: the last stamp, or when the request was sent."""
        self.wrote = False
        """Some byte of the last `write` has left."""
        self.encrypted = tls is not None
        """What is read has to be decrypted."""
        self.fd = sock.fileno()
        self.sock = sock
        self._tls = tls
        self._link = link
        self._raw = self._plain = _NOTHING
        self._writing = False
        link.poller.watch(self.fd, self._on_ready)

    def is_idle(self) -> bool:
        """Nothing waits to be read, not even the server's goodbye that has yet to be told of."""
        try:
            self.sock.recv(1, socket.MSG_PEEK)
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
        self._link.poller.forget(self.fd)
        self.sock.close()

    def write(self, data: bytes | memoryview) -> None:
        """Send all of `data`, as the kernel takes it. The receiver hears when that is done."""
        self.wrote = False
        if self._tls is None:
            self._raw = memoryview(data)
        else:
            self._plain = memoryview(data)
        self._write_on()

    def read_all(self) -> None:
        """Read and stamp what waits, then hand it on."""
        reads, end = self._read_all()
        for data, at_ns, kernel in reads:
            self._hand_on(data, at_ns, kernel)
        if end is not None and self.open:
            self._end(None if isinstance(end, EOFError) else end)

    def failed(self, error: OSError) -> None:
        """Somebody else's read of this socket met this error."""
        if self.open and not isinstance(error, BlockingIOError):
            self._end(error)

    def _on_ready(self, events: int) -> None:
        if events & WRITE and self._writing:
            self._write_on()
        if events & ~WRITE and self.open:
            self.read_all()

    def _write_on(self) -> None:
        sent = 0
        try:
            if not self._raw and self._plain:
                self._encrypt_next()
            sent = self.sock.send(self._raw[:WRITE_BYTES])
        except BlockingIOError:
            pass  # the buffer is full: the poller tells when there is room
        except OSError as error:
            self._write_failed(error)
            return
        self.wrote = self.wrote or sent > 0
        self._raw = self._raw[sent:]
        wanted = bool(self._raw or self._plain)
        if wanted != self._writing:
            self._writing = wanted
            self._link.poller.watch(self.fd, self._on_ready, READ | WRITE if wanted else READ)
        if not wanted:
            self._raw = self._plain = _NOTHING  # an empty rest would hold the memory of the whole
            if self.receiver is not None:
                self.receiver.written()

    def _write_failed(self, error: OSError) -> None:
        """What the server still said tells more than that it no longer listens."""
        self._raw = self._plain = _NOTHING
        self.read_all()
        if self.open and not self.at_end:
            self._end(error)

    def _encrypt_next(self) -> None:
        assert self._tls is not None
        self._raw = memoryview(self._tls.encrypt(self._plain[:WRITE_BYTES]))
        self._plain = self._plain[WRITE_BYTES:]

    def _read_all(self) -> tuple[list[tuple[bytes, int, bool]], OSError | EOFError | None]:
        """All that waits, each read with its stamp, and why nothing more will come if so.

        A read that does not fill its buffer has emptied the socket: to ask once more costs a call
        that fails on every chunk, and what arrives meanwhile is told of again.
        """
        reads: list[tuple[bytes, int, bool]] = []
        link = self._link
        link.stamps.refresh(link.now_ns())
        for _ in range(MAX_READS):
            try:
                size, ancillary, _, _ = self.sock.recvmsg_into(link.buffers, ANCILLARY_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                return reads, error
            if not size:
                return reads, EOFError()
            now_ns = link.now_ns()
            at_ns = link.stamps.kernel_ns(ancillary, self.floor_ns, now_ns)
            self.floor_ns = at_ns or now_ns
            reads.append((bytes(memoryview(link.buffer)[:size]), self.floor_ns, at_ns > 0))
            if size < READ_BYTES:
                break
        return reads, None

    def _hand_on(self, data: bytes, at_ns: int, kernel: bool) -> None:
        if not self.open:
            return
        followed = False
        if self._tls is not None:
            try:
                data, followed = self._tls.decrypt(data)
            except OSError as error:
                self._end(error)
                return
        if not data:
            return
        if self.receiver is None:
            self.close()
        else:
            self.receiver.received(data, at_ns, kernel, followed)

    def _end(self, error: OSError | None) -> None:
        self.at_end = True
        self._link.poller.forget(self.fd)
        if self.receiver is None:
            self.close()
        else:
            self.receiver.lost(error)
