"""One request under way in a worker: its connection, its deadlines, its answer, its outcome.

It is told what happens (connected, written, received, lost, the time) and tells its owner once
that it has ended. Nothing here waits. All `_ns` are CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from inferometer.load.connection import Connection
from inferometer.load.dial import Dial, Done, reason
from inferometer.load.reply import Ending, How, Reply
from inferometer.load.sheet import NOT_MAPPED, Stored
from inferometer.load.stamps import NS
from inferometer.load.wire import Limits, Outcome, Post, Target

DRAIN_NS = NS
"""How long the end of a body may follow its [DONE] before the connection is given up."""

OVERDUE = 3
"""Events beyond the length that was asked for, after which an answer may have any length."""
NEVER = 1 << 62
"""Events that no answer has."""


class Connections(Protocol):
    """Where connections come from and go to: `dial.Pool`."""

    def take(self) -> Connection | None: ...

    def put(self, connection: Connection) -> None: ...

    def dial(self, done: Done) -> Dial: ...


class Owner(Protocol):
    """Who is told what becomes of a flight."""

    def sending(self) -> None:
        """A request is about to leave; what takes time before it, takes it now."""
        ...

    def heard(self, flight: Flight) -> None:
        """Bytes came, and it goes on."""
        ...

    def ended(self, flight: Flight) -> None:
        """Once: from now on `outcome` holds, and `follow` is next."""
        ...


class Flight:
    """A request from the start of its connection to its ending. A `Receiver`."""

    def __init__(
        self,
        post: Post,
        target: Target,
        pool: Connections,
        now_ns: Callable[[], int],
        owner: Owner,
        hurry_at: int,
    ) -> None:
        self.key = post.key
        self.reply = Reply(target.reader, post.keep_text)
        self.connection: Connection | None = None
        self.max_tokens = post.max_tokens
        self.hurry_at = hurry_at
        """Token events from which on its end is near."""
        self.due_ns = 0
        """No deadline passes before this."""
        self.gathered = False
        """Its connection is read once a tick."""
        self.hurried = False
        """It was gathered, until its end was near."""
        self.ending: Ending | None = None
        self._payload: bytes | memoryview | Stored = post.payload
        self._target = target
        self._pool = pool
        self._now_ns = now_ns
        self._owner = owner
        self._dial: Dial | None = None
        self._reused = False
        self._started_ns = now_ns()
        self._connected_ns: int | None = None
        self._sent_ns: int | None = None
        self._body_sent_ns: int | None = None

    @property
    def posted(self) -> bool:
        """The request has left whole."""
        return self._body_sent_ns is not None

    @property
    def overdue(self) -> bool:
        """It has had more events than its end was expected after, and is taken to be near it."""
        return len(self.reply.at_ns) > max(self.max_tokens, self.hurry_at) + OVERDUE

    def go_on(self) -> None:
        """When it ends cannot be told any more."""
        self.hurry_at = NEVER
        self.hurried = False

    def start(self) -> None:
        """Take a kept connection, or make a new one."""
        if isinstance(self._payload, Stored):
            try:
                self._payload = self._payload.opened()
            except OSError as error:
                self.end("cancelled", f"{NOT_MAPPED}: {reason(error)}")
                return
        self._watch_deadlines()
        kept = self._pool.take()
        if kept is not None:
            self._send_on(kept, reused=True)
        else:
            self._dial = self._pool.dial(self._dialed)
            self._dial.start()

    def received(self, data: bytes, at_ns: int, kernel: bool, followed: bool = False) -> None:
        """Bytes of one read, which held more behind them where they are `followed`."""
        reply = self.reply
        first = reply.first_byte_ns is None
        reply.feed(data, at_ns, kernel, followed)
        if self.ending is not None:
            if reply.body_complete:
                self.follow()
        elif reply.ending is not None:
            self._end(reply.ending)
        else:
            if first:
                self._watch_deadlines()
            self._owner.heard(self)

    def written(self) -> None:
        """The request has left; a large one is let go of."""
        self._body_sent_ns = self._now_ns()
        self._payload = b""

    def lost(self, error: OSError | None) -> None:
        """The connection is gone, and with it the request, unless nothing of it had left."""
        if self.ending is not None:
            self.let_go()
            return
        connection = self.connection
        assert connection is not None
        if self._reused and not connection.wrote and self.reply.first_byte_ns is None:
            connection.close()
            self.connection = self._connected_ns = self._sent_ns = None
            self._reused = False
            self.start()
            return
        self.reply.lost(error, self._now_ns())
        if self.reply.ending is not None:
            self._end(self.reply.ending)

    def end(self, status: How, error: str | None) -> None:
        """End it from our side."""
        if self.ending is None:
            self._end(Ending(status, error, self._now_ns()))

    def check(self, now_ns: int) -> None:
        """End when a deadline is past, else find the next. For when `due_ns` is past."""
        due_ns, text = self._deadline()
        if due_ns <= now_ns:
            self._end(Ending("timeout", text, now_ns))
        else:
            self.due_ns = due_ns

    def follow(self) -> bool:
        """After the ending: keep the connection, or close it. True while its body is followed.

        Servers often write the end of a chunked body apart from its [DONE].
        """
        connection, ending = self.connection, self.ending
        assert ending is not None
        if self._dial is not None:
            self._dial.cancel()
        if connection is None or not connection.open:
            return False
        whole = (
            ending is self.reply.ending
            and ending.status in ("ok", "empty", "http_status")
            and self._body_sent_ns is not None
            and not connection.at_end
        )
        if whole and not self.reply.body_complete:
            self.due_ns = ending.at_ns + DRAIN_NS
            return True
        if whole and self.reply.connection_reusable:
            self._pool.put(connection)
            self.connection = None
        else:
            self.let_go()
        return False

    def done(self, now_ns: int) -> bool:
        """Of one that `follow` follows: its body has ended, or will not be waited for."""
        if self.connection is not None and self.due_ns <= now_ns:
            self.let_go()
        return self.connection is None

    def let_go(self) -> None:
        """Give the connection up."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def lasted_ns(self, max_tokens: int) -> float:
        """How long it would have taken with so many tokens. Only of a flight that has ended."""
        assert self.ending is not None
        return (self.ending.at_ns - self._started_ns) * max_tokens / self.max_tokens

    def outcome(self, followed: tuple[int, int] | None = None) -> Outcome:
        """What was seen, as far as it came. Only of a flight that has ended."""
        reply, usage, ending = self.reply, self.reply.usage, self.ending
        assert ending is not None
        tokens = reply.tokens
        return Outcome(
            key=self.key,
            connected_ns=self._connected_ns,
            sent_ns=self._sent_ns,
            body_sent_ns=self._body_sent_ns,
            first_byte_ns=reply.first_byte_ns,
            first_visible_ns=reply.first_visible_ns,
            end_ns=ending.at_ns,
            at_ns=reply.at_ns.tobytes(),
            tokens=None if tokens is None else tokens.tobytes(),
            coalesced=reply.coalesced.tobytes(),
            status=ending.status,
            error=ending.error,
            http_status=reply.http_status,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            token_source=reply.token_source,
            kernel_stamps=reply.kernel_stamps and reply.first_byte_ns is not None,
            reused=self._reused,
            said=reply.said,
            followed=followed,
        )

    def _dialed(self, outcome: Connection | OSError) -> None:
        self._dial = None
        if isinstance(outcome, Connection):
            self._send_on(outcome, reused=False)
        else:
            authority = self._target.server.authority
            self.end("connect", f"cannot connect to {authority}: {reason(outcome)}")

    def _send_on(self, connection: Connection, reused: bool) -> None:
        self.connection = connection
        self._reused = reused
        connection.receiver = self
        self._connected_ns = self._sent_ns = self._now_ns()
        self._watch_deadlines()
        self._owner.sending()
        self._sent_ns = connection.floor_ns = self._now_ns()  # the write is next
        assert not isinstance(self._payload, Stored)  # opened at the start
        connection.write(self._payload)

    def _end(self, ending: Ending) -> None:
        self.ending = ending
        self._owner.ended(self)

    def _watch_deadlines(self) -> None:
        """Only a new phase finds the nearest deadline anew; bytes merely move it on."""
        self.due_ns = self._deadline()[0]

    def _deadline(self) -> tuple[int, str]:
        limits = self._target.limits
        total_s = limits.total_s
        total = _after(self._started_ns, total_s), f"total: not complete within {total_s:g} s"
        return min(self._phase_deadline(limits), total)

    def _phase_deadline(self, limits: Limits) -> tuple[int, str]:
        last_byte_ns = self.reply.last_byte_ns
        if last_byte_ns is not None:
            limit_s = limits.between_bytes_s
            return _after(last_byte_ns, limit_s), f"between bytes: nothing came for {limit_s:g} s"
        if self._sent_ns is not None:
            limit_s = limits.first_byte_s
            return _after(self._sent_ns, limit_s), f"first byte: none within {limit_s:g} s"
        limit_s = limits.connect_s
        return _after(self._started_ns, limit_s), f"connect: no connection within {limit_s:g} s"


def _after(start_ns: int, limit_s: float) -> int:
    return start_ns + round(limit_s * NS)
