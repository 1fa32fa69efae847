"""A gathered stream as the drain sees it: all that one plain read touches, in one place.

Between two ticks a machine forgets what it has not used, and half of what a read costs is to fetch
that again. So what streams have in common is held once, and little is held of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from inferometer.load.flight import Flight

T = TypeVar("T", bytes, int)

MAX_SHARED = 1_024
"""Values that are held once for all streams; what comes later is held by each."""

_shared: dict[bytes | int, bytes | int] = {}


class Strand:
    """One stream, from when it is gathered until it is singled out."""

    __slots__ = ("after", "at_ns", "before", "connection", "flight", "hurry_at", "reply", "sock")

    def __init__(self, flight: Flight) -> None:
        assert flight.connection is not None  # of a flight that is gathered
        self.flight = flight
        self.connection = flight.connection
        self.sock = flight.connection.sock
        self.reply = flight.reply
        self.at_ns = flight.reply.at_ns
        """Of its token events; of those that are gathered there is one."""
        self.hurry_at = shared(flight.hurry_at)
        self.renew()

    def renew(self) -> None:
        """After a read that was parsed: another read may be the likely one now."""
        plain = None if self.connection.encrypted else self.reply.plain
        self.before = b"" if plain is None else plain.before
        """What precedes the text of the likely read; empty where every read is parsed."""
        self.after = b"" if plain is None or plain.counts else shared(plain.after)
        """What follows the text; empty where tokens are counted there."""

    def settle(self) -> None:
        """The connection knows again what it was stamped last."""
        self.connection.floor_ns = max(self.connection.floor_ns, self.at_ns[-1])

    def take_counted(self, buffer: bytearray, text_at: int, size: int, at_ns: int) -> bool:
        """Take the read with the text at `text_at` where it counts its tokens, and likely."""
        plain = self.reply.plain
        if plain is None or not plain.counts:
            return False
        count = plain.count(buffer, text_at, size)
        return count >= 0 and self.reply.take_plain(at_ns, count)


def shared(value: T) -> T:
    """The same value, and mostly the same object for all that ask."""
    if len(_shared) < MAX_SHARED:
        return _shared.setdefault(value, value)  # type: ignore[return-value]
    return _shared.get(value, value)  # type: ignore[return-value]
