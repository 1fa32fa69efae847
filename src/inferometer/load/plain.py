"""Reads that hold one whole chunk which says nothing new: seen by their bytes, not parsed.

Most reads of a stream are one chunk of a chunked body, with one event, with JSON that equals the
last one but for its text and counts. `learn` takes the frame around them from a read that was
parsed; `match` says that another read is the same frame, `run` that a late read holds several.
All else is parsed.
"""

from __future__ import annotations

import re

from inferometer.load.chunks import Shape, is_text

MAX_HEADER = 10
"""Bytes of a chunk header with its CRLF, of which one may be plain."""
MAX_SIZES = 4_096
"""Of chunks, for which the header is kept ready."""

_ONE_MORE = (1).__add__
_CHUNK_SIZE = re.compile(rb"[1-9a-f][0-9a-f]*\Z")


class Plain:
    """The frame of one stream's plain reads. `counts`: each says how many tokens there are."""

    __slots__ = ("_frame", "_next", "_tail", "after", "before", "counts")

    def __init__(self, frame: Shape) -> None:
        self.counts = len(frame.pieces) > 1
        self.before = frame.before
        """Between the chunk header and the text; not empty."""
        self.after = frame.pieces[-1]
        """Behind the text and the counts, to the end of the read."""
        self._frame = frame
        self._tail = b"%d".join(piece.replace(b"%", b"%%") for piece in frame.pieces)
        """What follows the text, without its counts."""
        self._next: tuple[int, ...] = ()
        """The counts of the next read where each is one more; empty until there was a read."""

    def match(self, buffer: bytes | bytearray, size: int) -> int:
        """Whether the first `size` bytes are such a read, whole, with a text that is not empty.

        -1 where they are not, else the completion tokens, 0 where none are counted.
        """
        header = chunk_header(size)
        if not (buffer.startswith(header) and buffer.startswith(self.before, len(header))):
            return -1
        return self.count(buffer, len(header) + len(self.before), size)

    def count(self, buffer: bytes | bytearray, text_at: int, end: int) -> int:
        """`Shape.match` of what has `before` up to the text."""
        if numbers := self._next:
            tail = self._tail % numbers
            text_end = end - len(tail)
            if buffer.startswith(tail, text_end) and is_text(buffer, text_at, text_end):
                self._next = tuple(map(_ONE_MORE, numbers))
                return numbers[self._frame.counted]
        found = self._frame.numbers(buffer, text_at, end)
        if found is None:
            return -1
        self._next = tuple(map(_ONE_MORE, found))
        return found[self._frame.counted] if found else 0

    def run(self, data: bytes) -> tuple[list[int], int]:
        """What `match` says of each such chunk that `data` begins with, and where the last ends."""
        counts: list[int] = []
        at, before = 0, self._frame.before
        while (head_end := data.find(b"\r\n", at, at + MAX_HEADER)) > 0:
            header = data[at:head_end]
            if _CHUNK_SIZE.match(header) is None or not data.startswith(before, head_end + 2):
                break
            end = head_end + 2 + int(header, 16) + 2
            count = self.count(data, head_end + 2 + len(before), end)
            if end > len(data) or count < 0:
                break
            counts.append(count)
            at = end
        return counts, at


class _Headers(dict[int, bytes]):
    """By the size of a read; one that is not known yet is made."""

    def __missing__(self, size: int) -> bytes:
        header = _make_header(size)
        if len(self) < MAX_SIZES:
            self[size] = header
        return header


def _make_header(size: int) -> bytes:
    digits = 1
    while size - digits - 4 >= 16**digits:  # 4: CRLF after the header and after the chunk
        digits += 1
    header = b"%x\r\n" % max(size - digits - 4, 0)
    # Between fff and 1000 lies a size that no single chunk has.
    return header if len(header) == digits + 2 else b"\n"


chunk_header = _Headers().__getitem__
"""The header of the one chunk that fills a read of so many bytes, with its CRLF."""


def learn(read: bytes, shape: Shape) -> Plain | None:
    """The frame around a shape in `read`, which held one event; None unless it is one chunk."""
    header, mark, body = read.partition(b"\r\n")
    if not mark or body[-2:] != b"\r\n" or header != b"%x" % (len(body) - 2):
        return None
    at = body.find(shape.before)
    end = body.rfind(shape.pieces[-1]) + len(shape.pieces[-1])
    if at < 0 or shape.match(body, at + len(shape.before), end) < 0:
        return None
    pieces = (*shape.pieces[:-1], shape.pieces[-1] + body[end:])
    return Plain(Shape(body[:at] + shape.before, pieces, shape.counted))
