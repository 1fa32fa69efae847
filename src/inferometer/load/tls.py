"""TLS over a socket that we read ourselves, so that the kernel's arrival stamps stay readable."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

_READ_BYTES = 65_536


class TlsChannel:
    """The client's side of one TLS connection, between two memory buffers."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)

    async def handshake(self, sock: socket.socket) -> None:
        """Negotiate on a connected socket that nobody else reads yet. Raises OSError."""
        loop = asyncio.get_running_loop()
        done = False
        while not done:
            # Wanting more bytes is how a handshake goes on, not a fault of it.
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                done = True
            if outgoing := self._outgoing.read():
                await loop.sock_sendall(sock, outgoing)
            if not done:
                data = await loop.sock_recv(sock, _READ_BYTES)
                if not data:
                    raise ConnectionResetError("closed by the server during the TLS handshake")
                self._incoming.write(data)

    def encrypt(self, data: memoryview) -> bytes:
        """Bytes to send for these bytes of plain text."""
        while data:
            data = data[self._tls.write(data) :]
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """The plain text that these bytes complete, maybe none. Raises OSError."""
        self._incoming.write(data)
        pieces = []
        while True:
            try:
                piece = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            if not piece:
                break  # the server's closing alert; the socket's own end follows
            pieces.append(piece)
        return b"".join(pieces)
