"""What coordinator and worker say to each other: a few messages, in frames over a socket pair.

A frame is its length and a pickled list. One message a request in each direction, none a token.
Both ends are ours and of one build; nothing else ever holds the socket.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from inferometer.load.dial import Address
from inferometer.load.http import Server
from inferometer.load.reply import How
from inferometer.load.sheet import Stored

if TYPE_CHECKING:
    from inferometer.core.record import TokenSource

_LENGTH = struct.Struct("=Q")
_READ_BYTES = 262_144
MAX_SENDS = 8
"""In one go, each of what the socket's buffer holds."""


class Limits(NamedTuple):
    """The deadlines of a request, in seconds."""

    connect_s: float
    first_byte_s: float
    between_bytes_s: float
    total_s: float


class Target(NamedTuple):
    """Whom the next requests go to, and how the answers are read."""

    server: Server
    addresses: list[Address]
    limits: Limits
    reader: str
    """Of `chunks.READERS`."""
    keep_alive_s: float
    """How long a connection may have been idle and be used again."""


class Post(NamedTuple):
    """One request: head and body in one piece, or where that lies. `key` is the coordinator's name
    for it.
    """

    key: int
    payload: bytes | Stored
    max_tokens: int
    keep_text: bool = False
    """The answer's text is needed."""
    after: int | None = None
    """Leaves by itself as soon as this one has ended well, and not at all if that has ended
    already, or ends otherwise, or at `until_ns` or later."""
    until_ns: int | None = None
    start_ns: int = 0
    """When it is due: it is held until then."""


class Abort(NamedTuple):
    """End an open request with this status."""

    key: int
    status: How


class Recall(NamedTuple):
    """What was to leave by itself does not, unless it has."""


class Recalled(NamedTuple):
    """The answer to that: all that has left by itself was told before."""


class Release(NamedTuple):
    """End what is open, and let go of every connection. The next is a `Target`."""


class Outcome(NamedTuple):
    """All that was seen of one request. Stamps are CLOCK_MONOTONIC ns.

    `at_ns`: int64 of each token event, native byte order; `tokens`: int64 likewise, None where the
    server did not count each; `coalesced`: the indices of marked events, int64.
    """

    key: int
    connected_ns: int | None
    sent_ns: int | None
    body_sent_ns: int | None
    first_byte_ns: int | None
    first_visible_ns: int | None
    end_ns: int
    at_ns: bytes
    tokens: bytes | None
    coalesced: bytes
    status: How
    error: str | None
    http_status: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    token_source: TokenSource
    kernel_stamps: bool
    reused: bool
    said: tuple[str, int] | None = None
    """Visible text, and the token events without any; None where nobody asked."""
    followed: tuple[int, int] | None = None
    """Key of the request that left by itself after this one, and when that was begun."""


class Pulse(NamedTuple):
    """A worker's account of itself, a few times a second."""

    at_ns: int
    cpu_s: float
    """CPU seconds of the process so far."""
    tokens: int
    """Token-bearing events so far."""
    peak_rss: int
    """Bytes of memory that it has held at most."""
    lags_ns: list[tuple[int, int]]
    """(when, how late) of each wake-up of the probe since the last pulse."""


class FrameReader:
    """Frames from a non-blocking socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._data = bytearray()

    def read(self) -> list[Any] | None:
        """Messages that are whole now; None when the other end is gone."""
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        self._data += data
        messages: list[Any] = []
        at = 0
        while len(self._data) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data, at)
            end = at + _LENGTH.size + length
            if len(self._data) < end:
                break
            messages += pickle.loads(memoryview(self._data)[at + _LENGTH.size : end])
            at = end
        if at:
            del self._data[:at]
        return messages


class FrameWriter:
    """Frames to a non-blocking socket, as it takes them."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._left: deque[memoryview] = deque()

    def add(self, messages: list[Any]) -> None:
        """One more frame, behind those that wait."""
        data = pickle.dumps(messages, protocol=5)
        self._left.append(memoryview(_LENGTH.pack(len(data)) + data))

    def flush(self) -> bool:
        """Write what the socket takes now; True when nothing is left. Raises OSError.

        A large prompt leaves in turns, between which the caller does other work.
        """
        for _ in range(MAX_SENDS):
            if not self._left:
                break
            try:
                sent = self._sock.send(self._left[0])
            except BlockingIOError:
                return False
            if sent == len(self._left[0]):
                self._left.popleft()
            else:
                self._left[0] = self._left[0][sent:]
        return not self._left
