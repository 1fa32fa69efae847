"""One request under way: takes what its connection brings and watches its deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from inferometer.clock import NS, Clock
from inferometer.core import ClientSettings, Exchange, Status
from inferometer.load.connection import Connection
from inferometer.load.reply import Ending, Reply
from inferometer.load.stamps import Arrival

DRAIN_S = 1.0
"""How long the end of a body may follow its [DONE] before the connection is given up."""


class Flight:
    """A request from the start of its connection to its ending. A `Receiver`."""

    def __init__(
        self, settings: ClientSettings, clock: Clock, count_tokens: Callable[[int], None]
    ) -> None:
        self.reply = Reply()
        self.connection: Connection | None = None
        self.body_sent_ns: int | None = None
        self._settings = settings
        self._clock = clock
        self._count_tokens = count_tokens
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Ending] = self._loop.create_future()
        self._started_ns = clock.now_ns()
        self._connected_ns: int | None = None
        self._sent_ns: int | None = None
        self._reused = False
        self._ending: Ending | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._check_deadline()

    @property
    def answered(self) -> bool:
        """Something of a response has come."""
        return self.reply.first_byte_ns is not None

    @property
    def ended_well(self) -> bool:
        """The server ended a whole answer itself, so that the connection may outlive it."""
        ending = self.reply.ending
        return (
            ending is not None
            and ending is self._ending
            and ending.status in (Status.OK, Status.EMPTY, Status.HTTP_STATUS)
            and self.body_sent_ns is not None
            and self.connection is not None
            and not self.connection.at_end
        )

    def start_on(self, connection: Connection, reused: bool) -> None:
        """The request's first byte is written next, on this connection."""
        self.connection = connection
        self._reused = reused
        connection.receiver = self
        self._connected_ns = self._sent_ns = self._clock.now_ns()
        self._check_deadline()
        self._sent_ns = connection.floor_ns = self._clock.now_ns()  # the write is next

    def drop_connection(self) -> None:
        """It proved dead before anything was sent; the request is as it was before."""
        if self.connection is not None:
            self.connection.close()
        self.connection = self._connected_ns = self._sent_ns = None

    def posted(self, posting: asyncio.Future[None]) -> None:
        """Writing is over; a fault in it that is no fault of the network is ours, and raised."""
        if not posting.cancelled() and (fault := posting.exception()) and not self.ended.done():
            self.ended.set_exception(fault)

    def received(self, data: bytes, arrival: Arrival) -> None:
        """Bytes of one read."""
        reply = self.reply
        if self._ending is not None:
            if self._ending is reply.ending:
                reply.feed(data, arrival)  # the rest of the body, behind its [DONE]
            return
        first = reply.first_byte_ns is None
        before = reply.token_events
        reply.feed(data, arrival)
        self._count_tokens(reply.token_events - before)
        if reply.ending is not None:
            self._finish(reply.ending)
        elif first:
            self._check_deadline()

    def lost(self, error: OSError | None) -> None:
        """The connection is gone. Before the request is written, whoever writes it decides."""
        if self.body_sent_ns is not None or self.answered:
            self.broke(error)

    def broke(self, error: OSError | None) -> None:
        """The connection is gone, and with it the request."""
        self.reply.lost(error, self._clock.now_ns())
        if self.reply.ending is not None:
            self._finish(self.reply.ending)

    def end(self, status: Status, error: str | None) -> None:
        """End it from our side."""
        self._finish(Ending(status, error, self._clock.now_ns()))

    def stop_watching(self) -> None:
        """No deadline counts any more."""
        if self._watch is not None:
            self._watch.cancel()

    def exchange(self, ending: Ending, error: str | None) -> Exchange:
        """What was seen, as far as it came."""
        reply = self.reply
        return Exchange(
            connected_ns=self._connected_ns,
            sent_ns=self._sent_ns,
            body_sent_ns=self.body_sent_ns,
            first_byte_ns=reply.first_byte_ns,
            first_visible_ns=reply.first_visible_ns,
            end_ns=ending.at_ns,
            arrivals=reply.arrivals(),
            status=ending.status,
            error=error,
            http_status=reply.http_status,
            prompt_tokens=reply.usage.prompt_tokens,
            cached_tokens=reply.usage.cached_tokens,
            completion_tokens=reply.usage.completion_tokens,
            token_source=reply.token_source,
            stamp_source=reply.stamp_source,
            reused_connection=self._reused,
        )

    def _finish(self, ending: Ending) -> None:
        """The first ending counts."""
        if not self.ended.done():
            self._ending = ending
            self.ended.set_result(ending)

    def _check_deadline(self) -> None:
        """End when a deadline is past, else look again when the nearest is due.

        Only a new phase of the request sets the timer anew; bytes merely move the deadline.
        """
        self.stop_watching()
        if self.ended.done():
            return
        due_ns, text = min(self._phase_deadline(), self._total_deadline())
        wait_ns = due_ns - self._clock.now_ns()
        if wait_ns <= 0:
            self.end(Status.TIMEOUT, text)
        else:
            self._watch = self._loop.call_later(wait_ns / NS, self._check_deadline)

    def _phase_deadline(self) -> tuple[int, str]:
        settings, last_byte_ns = self._settings, self.reply.last_byte_ns
        if last_byte_ns is not None:
            limit_s = settings.between_bytes_timeout_s
            return _after(last_byte_ns, limit_s), f"between bytes: nothing came for {limit_s:g} s"
        if self._sent_ns is not None:
            limit_s = settings.first_byte_timeout_s
            return _after(self._sent_ns, limit_s), f"first byte: none within {limit_s:g} s"
        limit_s = settings.connect_timeout_s
        return _after(self._started_ns, limit_s), f"connect: no connection within {limit_s:g} s"

    def _total_deadline(self) -> tuple[int, str]:
        limit_s = self._settings.total_timeout_s
        return _after(self._started_ns, limit_s), f"total: not complete within {limit_s:g} s"


class Drain:
    """Follows a body from its [DONE] to its end, when the answer has already been handed over.

    Servers often write the end of a chunked body apart. A `Receiver`; `release` is called once,
    with the drain itself, when its connection is free or has been closed.
    """

    def __init__(
        self, connection: Connection, reply: Reply, release: Callable[[Drain], None]
    ) -> None:
        self.connection = connection
        self.reply = reply
        self._release = release
        self._timer = asyncio.get_running_loop().call_later(DRAIN_S, self.stop)
        connection.receiver = self

    def received(self, data: bytes, arrival: Arrival) -> None:
        """Bytes of one read."""
        self.reply.feed(data, arrival)
        if self.reply.body_complete:
            self._timer.cancel()
            self._release(self)

    def lost(self, error: OSError | None) -> None:  # noqa: ARG002 (how it was lost is no matter)
        """The connection is gone; the answer was complete."""
        self.stop()

    def stop(self) -> None:
        """Give the connection up."""
        self._timer.cancel()
        self.connection.close()
        self._release(self)


def _after(start_ns: int, limit_s: float) -> int:
    return start_ns + round(limit_s * NS)
