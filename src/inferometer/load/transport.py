"""The plug point between the lanes and whatever answers: real sockets, or the built-in engine.

Structural: an implementation needs no import from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from inferometer.core import Exchange, Request, Status

LARGE_TOKENS = 32_768
"""From here on a prompt is made by a thread, when it is due or before: its body takes about a
millisecond, which is more than a thread costs."""


class Transport(Protocol):
    """Sends requests, any number at a time, and says what came back and when."""

    @property
    def tokens_seen(self) -> int:
        """Running count of token-bearing events, for live progress."""
        ...

    async def send(self, request: Request) -> Exchange:
        """Send one request and follow its answer to the end, whatever that is.

        A failure is a status of the exchange, never an exception.
        """
        ...

    def abort(self, request_id: str, status: Status) -> None:
        """End an open request with this status; its `send` returns what had come so far.

        Does nothing when the request has ended or is unknown.
        """
        ...

    async def close(self) -> None:
        """Give up what is open and let go of every connection."""
        ...


class Follower(Protocol):
    """A request that lies ready, and leaves by itself as soon as the one before it has ended well.

    What became of it is known when `send` of the one before returns.
    """

    @property
    def request(self) -> Request:
        """As it was handed over: its times are not known yet."""
        ...

    @property
    def begun_ns(self) -> int | None:
        """When it was taken up; None where it was not, and will not be."""
        ...

    async def exchange(self) -> Exchange:
        """Of one that has begun: as `Transport.send`."""
        ...


class Following(Protocol):
    """What some transports can do beside."""

    def follow(self, request: Request, after: str, until_ns: int | None) -> Follower | None:
        """Have this request sent once the open one `after` has ended well, before `until_ns`.

        None where there is no place for it. Its prompt has fewer than `LARGE_TOKENS`.
        """
        ...

    def recall(self, done: Callable[[], None]) -> None:
        """None that has not begun will. `done` is told when it is known which have: soon."""
        ...
