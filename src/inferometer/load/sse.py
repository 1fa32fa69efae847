"""Server-sent events, byte by byte as the HTML standard has them (§9.2.5 and §9.2.6 there).

Lines end in LF, CRLF or CR; `data:` comes with or without its space; comments and unknown fields
are read over; several data lines are joined by LF; an event that its blank line does not end is
none. Bytes may be split anywhere, inside a UTF-8 character too: nothing is decoded here.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_EVENT_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_LF, _CR = 0x0A, 0x0D


class SseError(Exception):
    """The stream cannot be server-sent events."""


class Event(NamedTuple):
    """One event: its data, its type (empty when unnamed), and the stamp of the read that ended it.

    `coalesced`: more bytes followed in the same read, so the stamp may be theirs.
    """

    data: bytes
    type: bytes
    at_ns: int
    coalesced: bool


class SseParser:
    """One event stream, fed read by read."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._type = b""
        self._size = 0
        self._skip_lf = False
        self._at_start = True

    @property
    def between_events(self) -> bool:
        """Nothing of an event has come yet: the next byte begins one."""
        return not (self._pieces or self._data or self._type or self._skip_lf or self._at_start)

    def feed(self, data: bytes, at_ns: int, more_followed: bool = False) -> list[Event]:
        """Events that these bytes end, all of them with the stamp of this read. Raises SseError.

        `more_followed`: the read held further bytes behind these that were not of the stream.
        """
        if self._skip_lf and data:
            self._skip_lf = False
            data = data[1:] if data[0] == _LF else data
        self._size += len(data)
        if b"\n" not in data and b"\r" not in data:
            if data:
                self._pieces.append(data)
            self._check_size()
            return []
        lines = self._lines(data)
        ended: list[tuple[bytes, bytes]] = []
        last_end = 0
        for number, line in enumerate(lines, 1):
            if line:
                self._field(line)
                continue
            if self._data:
                ended.append((b"\n".join(self._data), self._type))
                last_end = number
            self._data, self._type, self._size = [], b"", 0
        self._check_size()
        alone = last_end == len(lines) and not self._pieces and not more_followed
        last = len(ended) - 1
        return [
            Event(text, kind, at_ns, coalesced=index < last or not alone)
            for index, (text, kind) in enumerate(ended)
        ]

    def _lines(self, data: bytes) -> list[bytes]:
        """The lines that are whole now; the rest is held. `data` holds at least one line end."""
        if self._pieces:
            self._pieces.append(data)
            data = b"".join(self._pieces)
            self._pieces = []
        if self._at_start:
            self._at_start = False
            data = data.removeprefix(_BOM)
        lines = data.splitlines()  # of bytes: ends at LF, CR and CRLF, nothing else
        last = data[-1]
        if last == _CR:
            self._skip_lf = True  # it may be the first half of a CRLF
        elif last != _LF:
            self._pieces = [lines.pop()]
        return lines

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value

    def _check_size(self) -> None:
        """`_size` counts the bytes since the last blank line, or a little less."""
        if self._size > MAX_EVENT_BYTES:
            raise SseError(f"an event is longer than {MAX_EVENT_BYTES} bytes")
