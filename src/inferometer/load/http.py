"""HTTP/1.1 as a client needs it: the head of a request, and an incremental parser of responses.

Bytes may be split anywhere. Bodies are chunked (extensions and trailers are read over), of a
stated length, or until the connection closes (RFC 9112 §6, §7). No content coding is asked for;
gzip, which some proxies apply all the same, is undone as it comes, any other is refused.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

MAX_HEAD_BYTES = 65_536
"""Of a status line with its headers, and again of trailers."""
MAX_CHUNK_LINE_BYTES = 4_096

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*)?\Z")
_FIELD_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}\Z")
_NO_BODY = frozenset({204, 304})


class HttpError(Exception):
    """The response is not the HTTP that it claims to be."""

    body = b""
    """What the same feed held of the body before the fault."""


class Server(NamedTuple):
    """Whom to talk to."""

    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        """The Host header: brackets around an IPv6 address, no port where it is the scheme's."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def request_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """Request line and headers, with the blank line that ends them."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class ResponseParser:
    """One response. `feed` returns body bytes as they come; the rest is in the attributes."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        """Names in lower case; repeated fields joined by a comma."""
        self.keep_alive = False
        self._step: _Step | None = ResponseParser._read_head
        """What the next bytes are read as; None when the response is complete."""
        self._rest = b""
        self._left = 0
        self._trailer_bytes = 0
        self._gzip: zlib._Decompress | None = None
        self._fault: HttpError | None = None

    @property
    def complete(self) -> bool:
        """The response has come to its proper end."""
        return self._step is None

    @property
    def reusable(self) -> bool:
        """Complete, with nothing behind it, and the server keeps the connection open."""
        return self.complete and self.keep_alive and not self._rest

    @property
    def between_chunks(self) -> bool:
        """In a chunked body of no content coding, exactly before the header of the next chunk."""
        return self._step is ResponseParser._read_size and not self._rest and self._gzip is None

    @property
    def ends_inside_framing(self) -> bool:
        """Bytes of the next chunk's header, or the end of the body, followed the last body byte."""
        if self.complete or self._fault is not None:
            return True
        return self._step is ResponseParser._read_size and bool(self._rest)

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes and return those of the body.

        Raises HttpError, which holds the body's bytes before the fault, and again ever after.
        """
        if self._fault is not None:
            self._fault.body = b""
            raise self._fault
        body: list[bytes] = []
        try:
            self._advance(self._rest + data if self._rest else data, body)
        except HttpError as fault:
            self._fault = fault
        whole = body[0] if len(body) == 1 else b"".join(body)
        if self._gzip is not None:
            whole = self._inflate(self._gzip, whole)
        if self._fault is not None:
            self._fault.body = whole
            raise self._fault
        return whole

    def _advance(self, buffer: bytes, body: list[bytes]) -> None:
        at = 0
        while self._step is not None:
            after = self._step(self, buffer, at, body)
            if after < 0:
                break
            at = after
        self._rest = buffer[at:]

    def _inflate(self, stream: zlib._Decompress, data: bytes) -> bytes:
        try:
            return stream.decompress(data)
        except zlib.error as error:
            text = f"the body is not the gzip that its head says ({error})"
            self._fault = self._fault or HttpError(text)
            return b""

    def eof(self) -> bool:
        """The connection was closed. True when that is a proper end of this response."""
        if self._step is ResponseParser._read_until_close:
            self._step = None
        return self.complete

    # Each step returns the position behind what it took, or -1 when it needs more bytes.

    def _read_head(self, buffer: bytes, at: int, _: list[bytes]) -> int:
        lines = []
        start = at
        while True:
            end = buffer.find(b"\n", start)
            if (end if end >= 0 else len(buffer)) - at > MAX_HEAD_BYTES:
                raise HttpError(f"the response's head is longer than {MAX_HEAD_BYTES} bytes")
            if end < 0:
                _check_start(buffer[at:])
                return -1
            line = buffer[start:end].removesuffix(b"\r")
            start = end + 1
            if line:
                lines.append(line)
            elif lines:
                break
        self._take_head(lines)
        return start

    def _take_head(self, lines: list[bytes]) -> None:
        head = _parse_head(tuple(lines))
        if 100 <= head.status < 200:
            if head.status == 101:
                raise HttpError("the server switched protocols unasked")
            return  # an interim response: the real one follows
        self.status, self.headers, self.keep_alive = head
        self._step = self._framing()

    def _framing(self) -> _Step | None:
        """How the body's end is known (RFC 9112 §6.3)."""
        coding = self.headers.get("content-encoding", "identity").strip().lower()
        if coding in ("gzip", "x-gzip"):
            self._gzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif coding != "identity":
            raise HttpError(f"content-encoding {coding!r} was not asked for")
        if self.status in _NO_BODY:
            return None
        transfer = self.headers.get("transfer-encoding")
        if transfer is not None:
            if transfer.strip().lower() != "chunked":
                raise HttpError(f"unknown transfer-encoding {transfer!r}")
            return ResponseParser._read_size
        length = self.headers.get("content-length")
        if length is None:
            self.keep_alive = False
            return ResponseParser._read_until_close
        values = {item.strip() for item in length.split(",")}
        value = values.pop()
        if values or not (value.isascii() and value.isdigit() and len(value) < 16):
            raise HttpError(f"bad content-length {length!r}")
        self._left = int(value)
        return ResponseParser._read_length if self._left else None

    def _read_size(self, buffer: bytes, at: int, _: list[bytes]) -> int:
        end = buffer.find(b"\n", at)
        if (end if end >= 0 else len(buffer)) - at > MAX_CHUNK_LINE_BYTES:
            raise HttpError(f"a chunk header is longer than {MAX_CHUNK_LINE_BYTES} bytes")
        if end < 0:
            return -1
        size = buffer[at:end].partition(b";")[0].strip()
        if _CHUNK_SIZE.match(size) is None:
            raise HttpError(f"bad chunk size {size[:40]!r}")
        self._left = int(size, 16)
        self._step = ResponseParser._read_chunk if self._left else ResponseParser._read_trailer
        return end + 1

    def _read_chunk(self, buffer: bytes, at: int, body: list[bytes]) -> int:
        after = self._take_body(buffer, at, body)
        if after >= 0 and not self._left:
            self._step = ResponseParser._read_chunk_end
        return after

    def _read_chunk_end(self, buffer: bytes, at: int, _: list[bytes]) -> int:
        end = buffer[at : at + 2]
        if not b"\r\n".startswith(end):
            raise HttpError(f"a chunk is not followed by CRLF but by {end!r}")
        if len(end) < 2:
            return -1
        self._step = ResponseParser._read_size
        return at + 2

    def _read_trailer(self, buffer: bytes, at: int, _: list[bytes]) -> int:
        end = buffer.find(b"\n", at)
        length = (end + 1 if end >= 0 else len(buffer)) - at
        if self._trailer_bytes + length > MAX_HEAD_BYTES:
            raise HttpError(f"the trailers are longer than {MAX_HEAD_BYTES} bytes")
        if end < 0:
            return -1
        self._trailer_bytes += length
        line = buffer[at:end].removesuffix(b"\r")
        if not line:
            self._step = None
        elif line[:1] not in b" \t":  # else it goes on with the one before
            _parse_fields([line])
        return end + 1

    def _read_length(self, buffer: bytes, at: int, body: list[bytes]) -> int:
        after = self._take_body(buffer, at, body)
        if not self._left:
            self._step = None
        return after

    def _read_until_close(self, buffer: bytes, at: int, body: list[bytes]) -> int:
        self._left = len(buffer) - at
        return self._take_body(buffer, at, body)

    def _take_body(self, buffer: bytes, at: int, body: list[bytes]) -> int:
        piece = buffer[at : at + self._left]
        if not piece:
            return -1
        body.append(piece)
        self._left -= len(piece)
        return at + len(piece)


class _Head(NamedTuple):
    """What the lines of a head say; shared by the responses that have the same lines."""

    status: int
    headers: Mapping[str, str]
    keep_alive: bool


@lru_cache(maxsize=64)
def _parse_head(lines: tuple[bytes, ...]) -> _Head:
    """A server's heads differ in little but the second of their date: most are known already."""
    _check_start(lines[0])
    match = _STATUS_LINE.match(lines[0])
    if match is None:
        raise HttpError(f"bad status line {lines[0][:80]!r}")
    headers = _parse_fields(lines[1:])
    options = {item.strip() for item in headers.get("connection", "").lower().split(",")}
    keep_alive = "close" not in options and (match[1] == b"1" or "keep-alive" in options)
    return _Head(int(match[2]), headers, keep_alive)


def _check_start(head: bytes) -> None:
    """Refuse at once what cannot become a status line, rather than wait for its end."""
    start = head.lstrip(b"\r\n")[:7]
    if not b"HTTP/1.".startswith(start):
        raise HttpError(f"not an HTTP/1.1 response: it starts with {start!r}")


def _parse_fields(lines: Sequence[bytes]) -> dict[str, str]:
    """A line that begins with a space goes on with the one before (RFC 9112 §5.2)."""
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if name and line[:1] in (b" ", b"\t"):
            fields[name] += " " + line.strip(b" \t").decode("latin-1")
            continue
        raw_name, colon, raw_value = line.partition(b":")
        if not colon or _FIELD_NAME.match(raw_name) is None:
            raise HttpError(f"bad header line {line[:80]!r}")
        name = raw_name.decode("ascii").lower()
        value = raw_value.strip(b" \t").decode("latin-1")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


_Step = Callable[[ResponseParser, bytes, int, list[bytes]], int]
