"""TLS between two memory buffers: the socket is read elsewhere, so that stamps stay readable.

No I/O here. Bytes go in and out; certificates are verified by what the context says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferometer.deferred import Deferred

if TYPE_CHECKING:
    import ssl
else:
    ssl = Deferred("ssl")  # a worker without TLS starts without it

_READ_BYTES = 65_536


class TlsChannel:
    """The client's side of one TLS connection, between two memory buffers."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)

    def handshake(self, data: bytes) -> tuple[bytes, bool]:
        """Take what the server sent (nothing at first): what to send it, and whether it is done.

        Raises OSError.
        """
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._outgoing.read(), False
        return self._outgoing.read(), True

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
