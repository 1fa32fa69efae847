"""The plug point between the lanes and whatever answers: real sockets, or the built-in engine.

Structural: an implementation needs no import from here.
"""

from __future__ import annotations

from typing import Protocol

from inferometer.core import Exchange, Request, Status


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
