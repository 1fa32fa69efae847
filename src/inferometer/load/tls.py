"""TLS between two memory buffers: the socket is read elsewhere, so that stamps stay readable.

No I/O here. Bytes go in and out; certificates are verified by what the context says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from inferometer.deferred import Deferred

if TYPE_CHECKING:
    import ssl
else:
    ssl = Deferred("ssl")  # a worker without TLS starts without it

_READ_BYTES = 65_536
_HEADER_BYTES = 5
"""Of a record: its type, its version, and two bytes for its length (RFC 8446 §5.1)."""


class TlsChannel:
    """The client's side of one TLS connection, between two memory buffers."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._header = b""
        """What has come of the next record's header."""
        self._left = 0
        """Bytes of the current record that have yet to come."""

    def handshake(self, data: bytes) -> tuple[bytes, bool]:
        """Take what the server sent (nothing at first): what to send it, and whether it is done.

        Raises OSError.
        """
        for piece in self._cut(data):
            self._incoming.write(piece)
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

    def decrypt(self, data: bytes) -> tuple[bytes, bool]:
        """The plain text that these bytes complete, maybe none, and whether bytes followed it: the
        start of another record, or a record that holds no text. Raises OSError.
        """
        found: list[bytes] = []
        followed = False
        for piece in self._cut(data):
            self._incoming.write(piece)
            texts = self._texts()
            found += texts
            followed = not texts
        return found[0] if len(found) == 1 else b"".join(found), followed

    def _cut(self, data: bytes) -> Iterator[bytes]:
        """The same bytes, cut behind every record that ends in them."""
        start = at = 0
        while at < len(data):
            if not self._left:
                header = self._header + data[at : at + _HEADER_BYTES - len(self._header)]
                at += len(header) - len(self._header)
                self._header = header
                if len(header) < _HEADER_BYTES:
                    break
                self._header, self._left = b"", int.from_bytes(header[3:], "big")
            step = min(self._left, len(data) - at)
            at += step
            self._left -= step
            if not self._left:
                yield data[start:at]
                start = at
        if start < len(data):
            yield data[start:]

    def _texts(self) -> list[bytes]:
        """What the records so far hold that was not read yet."""
        pieces = []
        while True:
            try:
                piece = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            if not piece:
                break  # the server's closing alert; the socket's own end follows
            pieces.append(piece)
        return pieces
