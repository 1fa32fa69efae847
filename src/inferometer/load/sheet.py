"""A large request in memory that coordinator and worker share, so that nobody copies it.

The body is written by whoever makes it, in a thread; what encloses it, and the head, are put around
it in place. A worker maps the same memory. Where the system has no such memory (memfd, /proc) the
bytes go with the message, as those of small requests do. Bytes of memory throughout.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MARGIN = 65_536
"""Room in front of the body for the head and what encloses it; pages nobody writes cost nothing."""
TAIL = 16_384
"""The same behind it."""


NOT_MAPPED = "the request could not be mapped"
"""What an outcome begins with where a worker has no way to the memory: some sandboxes have none."""


class Stored(NamedTuple):
    """Where a request lies: `size` bytes from `at` on, in the memory that `path` opens."""

    path: str
    at: int
    size: int

    def opened(self) -> memoryview:
        """Map it. The memory lives as long as the view, whatever the other side does. Raises
        OSError.
        """
        with Path(self.path).open("r+b", buffering=0) as file:
            mapped = mmap.mmap(file.fileno(), 0)
        return memoryview(mapped)[self.at : self.at + self.size]


class Taken(NamedTuple):
    """A worker has mapped the request `key`: the other side may let go of it."""

    key: int


class Sheet:
    """Memory for one request with a body of `size` bytes or a little more. To be closed."""

    def __init__(self, size: int) -> None:
        self._length = MARGIN + size + TAIL
        self._path: str | None = None
        self._close: Callable[[], object] = _nothing
        self._map = self._mapped()
        self._begin, self._end = MARGIN, MARGIN + size

    @property
    def size(self) -> int:
        """Bytes of what has been put together so far."""
        return self._end - self._begin

    def write(self, fill: Callable[[memoryview], None]) -> None:
        """Have the inside of the body written. What `fill` is given holds all of it."""
        with memoryview(self._map) as whole, whole[self._begin : self._end] as inside:
            fill(inside)

    def trim(self, first: int, last: int) -> None:
        """Leave bytes of the inside out: they are overwritten by what comes around it."""
        self._begin += first
        self._end -= last

    def enclose(self, before: bytes, after: bytes) -> None:
        """Put bytes in front and behind. Raises ValueError where they are too many."""
        begin, end = self._begin - len(before), self._end + len(after)
        if begin < 0 or end > self._length:
            raise ValueError(f"{len(before)} and {len(after)} bytes around a body are too many")
        self._map[begin : self._begin] = before
        self._map[self._end : end] = after
        self._begin, self._end = begin, end

    def posted(self, shared: bool = True) -> Stored | bytes:
        """What a message holds of it: where it lies, if that may be `shared`, or all of it."""
        if shared and self._path is not None and Path(self._path).exists():
            return Stored(self._path, self._begin, self.size)
        return self._map[self._begin : self._end]

    def close(self) -> None:
        """Let go of it; once is enough."""
        self._close()
        self._map.close()

    def _mapped(self) -> mmap.mmap:
        try:
            descriptor = os.memfd_create("inferometer", os.MFD_CLOEXEC)
        except (AttributeError, OSError):  # another system, or no file may be opened any more
            return mmap.mmap(-1, self._length)
        self._close = weakref.finalize(self, os.close, descriptor)
        os.ftruncate(descriptor, self._length)
        self._path = f"/proc/{os.getpid()}/fd/{descriptor}"
        return mmap.mmap(descriptor, self._length)


def _nothing() -> None:
    """There is nothing to close."""
