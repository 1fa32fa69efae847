"""When bytes arrived: the kernel's own stamp of a read, on the monotonic clock.

Linux stamps every segment on arrival (SO_TIMESTAMPNS) on the wall clock, and a read carries the
stamp of its newest segment. So a reader that comes late does not make the data late. Where the
kernel gives no stamp the time of the read stands in, and the exchange says so.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

NS = 1_000_000_000
SO_TIMESTAMPNS = 35  # Linux, asm-generic/socket.h; the socket module has no name for it
ANCILLARY_BYTES = socket.CMSG_SPACE(16)
_SOCKET = socket.SOL_SOCKET
RESAMPLE_NS = 100_000_000
PAIRED_READINGS = 5

_unpack = struct.Struct("@ll").unpack_from

AncillaryData = Iterable[tuple[int, int, bytes]]


class Arrival(NamedTuple):
    """When a read's newest byte arrived; `kernel` is False where the time of the read stands in."""

    at_ns: int
    kernel: bool


def enable_kernel_stamps(sock: socket.socket) -> bool:
    """Ask for arrival stamps on this socket. Where there are none (False), its reads come bare."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def stamping_socket() -> socket.socket:
    """A socket that asks for stamps and does nothing else; the caller closes it.

    Linux begins to stamp a moment after the first socket asked, and stops when none does: while
    this one is open, the first reads of a new connection are stamped too.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    enable_kernel_stamps(sock)
    return sock


class WallOffset:
    """Wall clock minus monotonic clock, sampled anew every 100 ms while it is used.

    Each sample is the best of several paired readings: the wall clock is read between two readings
    of the monotonic clock, and the closest pair wins. Its error is at most half that distance.
    """

    def __init__(
        self, monotonic_ns: Callable[[], int], wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self.now_ns = self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns
        self._offset_ns = 0
        self._due_ns: int | None = None

    def at(self, now_ns: int) -> int:
        """The offset, no older than 100 ms at `now_ns`."""
        if self._due_ns is None or now_ns >= self._due_ns:
            self.resample()
        return self._offset_ns

    def resample(self) -> int:
        """Sample now, because it is due or because the wall clock may have been set."""
        closest = -1
        before = self._monotonic_ns()
        for _ in range(PAIRED_READINGS):
            wall = self._wall_ns()
            after = self._monotonic_ns()
            if closest < 0 or after - before < closest:
                closest = after - before
                self._offset_ns = wall - (before + after) // 2
            before = after
        self._due_ns = before + RESAMPLE_NS
        return self._offset_ns


class ArrivalStamps:
    """Turns the ancillary data of reads into monotonic stamps. One serves all sockets."""

    def __init__(self, offset: WallOffset) -> None:
        self._offset = offset
        self._offset_ns = 0

    def refresh(self, now_ns: int) -> None:
        """Before `kernel_ns` is asked: the offset is no older than 100 ms at `now_ns`."""
        self._offset_ns = self._offset.at(now_ns)

    def kernel_ns(self, ancillary: AncillaryData, floor_ns: int, read_ns: int) -> int:
        """Stamp of one read, never before `floor_ns` (the previous stamp) nor after the read.

        `read_ns` is any time since the read was due; the clock is asked only where the stamp is
        after it. 0 where the kernel gave none. A stamp outside these bounds means that the wall
        clock was set since the last sample, or an error of the offset's size; it is converted once
        more with a fresh one, then clipped.
        """
        # One item, as a rule: what was asked for. Linux gives it the type of the option.
        for level, kind, data in ancillary:
            if kind == SO_TIMESTAMPNS and level == _SOCKET and len(data) >= 16:
                seconds, nanoseconds = _unpack(data)
                wall_ns: int = seconds * NS + nanoseconds
                at_ns = wall_ns - self._offset_ns
                if floor_ns <= at_ns <= read_ns:
                    return at_ns
                read_ns = max(read_ns, self._offset.now_ns())
                if floor_ns <= at_ns <= read_ns:
                    return at_ns
                self._offset_ns = self._offset.resample()
                return min(max(wall_ns - self._offset_ns, floor_ns), read_ns)
        return 0

    def arrival(self, ancillary: AncillaryData, floor_ns: int, read_ns: int) -> Arrival:
        """The same, with the time of the read where the kernel gave no stamp."""
        self.refresh(read_ns)
        at_ns = self.kernel_ns(ancillary, floor_ns, read_ns)
        return Arrival(at_ns, kernel=True) if at_ns else Arrival(read_ns, kernel=False)
