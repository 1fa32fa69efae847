"""Reads that hold one whole chunk which says nothing new: seen by their bytes, not parsed.

Most reads of a stream are one chunk of a chunked body, with one event, with JSON that equals the
last one but for its text. `learn` takes the frame around that text from a read that was parsed;
`matches` says that another read is the same frame around another text, `run` that a late read
holds several. All else is parsed.
"""

from __future__ import annotations

import re

from inferometer.load.chunks import Shape, is_text

MAX_HEADER = 10
"""Bytes of a chunk header with its CRLF, of which one may be plain."""
MAX_SIZES = 64
"""Of chunks, for which the frame's start is kept ready."""


_CHUNK_SIZE = re.compile(rb"[1-9a-f][0-9a-f]*\Z")


class Plain:
    """The frame of one stream's plain reads."""

    __slots__ = ("_after", "_before", "_overhead", "_starts")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after + b"\r\n"
        self._overhead = len(self._after)
        self._starts: dict[int, bytes] = {}
        """By the size of a read: its chunk header, and what follows up to the text."""

    def matches(self, buffer: bytes | bytearray, size: int) -> bool:
        """The first `size` bytes are such a read, whole, with a text that is not empty."""
        start = self._starts.get(size) or self._start(size)
        end = size - self._overhead
        return (
            buffer.startswith(start)
            and buffer.startswith(self._after, end)
            and is_text(buffer, len(start), end) is not None
        )

    def run(self, data: bytes) -> tuple[int, int]:
        """How many such chunks `data` begins with, and where they end: of a read that came late."""
        count = at = 0
        while (head_end := data.find(b"\r\n", at, at + MAX_HEADER)) > 0:
            header = data[at:head_end]
            if _CHUNK_SIZE.match(header) is None:
                break
            end = head_end + 2 + int(header, 16) + 2
            text_at, text_end = head_end + 2 + len(self._before), end - self._overhead
            if not (
                end <= len(data)
                and data.startswith(self._before, head_end + 2)
                and data.startswith(self._after, text_end)
                and is_text(data, text_at, text_end)
            ):
                break
            count, at = count + 1, end
        return count, at

    def _start(self, size: int) -> bytes:
        digits = 1
        while size - digits - 4 >= 16**digits:  # 4: CRLF after the header and after the chunk
            digits += 1
        header = b"%x\r\n" % max(size - digits - 4, 0)
        # Between fff and 1000 lies a size that no single chunk has: nothing starts with LF.
        start = header + self._before if len(header) == digits + 2 else b"\n"
        if len(self._starts) < MAX_SIZES:
            self._starts[size] = start
        return start


def learn(read: bytes, shape: Shape) -> Plain | None:
    """The frame around a shape's text in `read`, which held one event; None unless one chunk."""
    header, mark, body = read.partition(b"\r\n")
    if not mark or body[-2:] != b"\r\n" or header != b"%x" % (len(body) - 2):
        return None
    body = body[:-2]
    at, end = body.find(shape.before), body.rfind(shape.after)
    if at < 0 or not is_text(body, at + len(shape.before), end):
        return None
    tail = end + len(shape.after)
    return Plain(body[:at] + shape.before, shape.after + body[tail:])
