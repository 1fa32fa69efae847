"""One response, fed read by read: its stamps, its token events, its counts, and how it ended.

No I/O and no clock: HTTP, SSE and chunks are put together here, and a request is judged. A success
needs a terminal marker ([DONE], or a finish_reason and then the proper end of the body), a
token-bearing event, and no fewer tokens in the usage than such events, where usage is given.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from inferometer.core import Arrivals, Status
from inferometer.core.record import StampSource, TokenSource
from inferometer.load.chunks import DONE, Chunk, ChunkError, ChunkReader, Usage
from inferometer.load.http import HttpError, ResponseParser
from inferometer.load.sse import Event, SseError, SseParser
from inferometer.load.stamps import Arrival

MAX_ERROR_BODY_BYTES = 2_000
"""What is kept of a body that is not an event stream."""


class Ending(NamedTuple):
    """How an exchange ended, and when."""

    status: Status
    error: str | None
    at_ns: int


class Reply:
    """What one response says. Read the attributes at any time: a partial answer is an answer."""

    def __init__(self) -> None:
        self.ending: Ending | None = None
        self.first_byte_ns: int | None = None
        self.last_byte_ns: int | None = None
        self.first_visible_ns: int | None = None
        self.usage = Usage(None, None, None)
        self._http = ResponseParser()
        self._sse = SseParser()
        self._chunks = ChunkReader()
        self._kernel_stamps = True
        self._events_seen = False
        self._finished = False
        self._stray_body = b""
        self._at_ns = array("q")
        self._coalesced = bytearray()
        self._tokens = array("q")
        self._counted = 0
        """Completion tokens that the server had counted at the last token event."""

    @property
    def http_status(self) -> int | None:
        """Status code, once the head is there."""
        return self._http.status

    @property
    def body_complete(self) -> bool:
        """Nothing more of this response is to come."""
        return self._http.complete

    @property
    def connection_reusable(self) -> bool:
        """The response is complete and its connection can carry another."""
        return self._http.reusable

    @property
    def token_events(self) -> int:
        """Token-bearing events so far."""
        return len(self._at_ns)

    @property
    def stamp_source(self) -> StampSource:
        """`kernel` when every read so far bore the kernel's stamp."""
        return "kernel" if self._kernel_stamps and self.first_byte_ns is not None else "read"

    @property
    def token_source(self) -> TokenSource:
        """What the counts of tokens rest on."""
        if self.token_events and len(self._tokens) == self.token_events:
            return "usage_per_chunk"
        return "assumed" if self.usage.completion_tokens is None else "usage_final"

    def arrivals(self) -> Arrivals:
        """The token-bearing events so far."""
        coalesced = np.frombuffer(bytes(self._coalesced), dtype=np.bool_)
        counted = self.token_source == "usage_per_chunk"
        return Arrivals(
            at_ns=np.array(self._at_ns, dtype=np.int64),
            tokens=np.array(self._tokens, dtype=np.int32) if counted else None,
            coalesced=coalesced if coalesced.any() else None,
        )

    def feed(self, data: bytes, arrival: Arrival) -> None:
        """Take the bytes of one read. After the ending only the HTTP body is followed."""
        at_ns = arrival.at_ns
        if self.ending is None:
            self._kernel_stamps &= arrival.kernel
            self.last_byte_ns = at_ns
            if self.first_byte_ns is None:
                self.first_byte_ns = at_ns
        try:
            body = self._http.feed(data)
            if self.ending is None and body:
                self._take_body(body, at_ns)
        except (HttpError, SseError, ChunkError) as error:
            self._end(Status.MALFORMED, str(error), at_ns)
        if self.ending is None and self._http.complete:
            self._body_ended(at_ns)

    def lost(self, error: OSError | None, at_ns: int) -> None:
        """The connection is gone: closed by the server, or broken with `error`."""
        if self.ending is not None:
            return
        if error is None and self._http.eof():
            self._body_ended(at_ns)
        elif self.http_status is not None and self.http_status != 200:
            self._end(Status.HTTP_STATUS, self._status_text(), at_ns)
        else:
            how = "closed" if error is None else f"lost ({error.strerror or error})"
            self._end(Status.TRUNCATED, f"connection {how} before the end of the answer", at_ns)

    def _take_body(self, body: bytes, at_ns: int) -> None:
        if self._http.status != 200:
            self._keep_stray(body)
            if len(self._stray_body) == MAX_ERROR_BODY_BYTES:
                self._end(Status.HTTP_STATUS, self._status_text(), at_ns)
            return
        if not self._events_seen:
            self._keep_stray(body)
        for event in self._sse.feed(body, at_ns, self._http.ends_inside_framing):
            self._events_seen = True
            self._take_event(event)
            if self.ending is not None:
                return

    def _take_event(self, event: Event) -> None:
        data = event.data.strip()
        if not data:
            return  # sent by some servers to keep a connection open
        if data == DONE:
            self._judge(event.at_ns)
            return
        if event.type == b"error":
            self._end(Status.IN_BAND, _text(data[:MAX_ERROR_BODY_BYTES]), event.at_ns)
            return
        chunk = self._chunks.read(data)
        if chunk.error is not None:
            self._end(Status.IN_BAND, chunk.error, event.at_ns)
            return
        if chunk.token:
            self._take_token(chunk, event)
        if chunk.usage is not None:
            self._take_usage(chunk.usage, chunk.token)
        self._finished |= chunk.finished

    def _take_token(self, chunk: Chunk, event: Event) -> None:
        self._at_ns.append(event.at_ns)
        self._coalesced.append(event.coalesced)
        if chunk.visible and self.first_visible_ns is None:
            self.first_visible_ns = event.at_ns

    def _take_usage(self, usage: Usage, token: bool) -> None:
        """The latest counts are the true ones; a chunk's tokens are their growth since the last
        token event, so tokens that showed no text yet go to the event that shows it.
        """
        completion, before = usage.completion_tokens, self.usage.completion_tokens
        if completion is not None and before is not None and completion < before:
            raise ChunkError(f"usage: completion_tokens fell from {before} to {completion}")
        if completion is not None and token:
            self._tokens.append(completion - self._counted)
            self._counted = completion
        merged = (
            new if new is not None else old for new, old in zip(usage, self.usage, strict=True)
        )
        self.usage = Usage(*merged)

    def _body_ended(self, at_ns: int) -> None:
        if self._http.status != 200:
            self._end(Status.HTTP_STATUS, self._status_text(), at_ns)
        elif self._finished:
            self._judge(at_ns)
        elif self._stray_body and not self._events_seen:
            kind = self._http.headers.get("content-type", "no content type")
            text = f"not an event stream ({kind}): {_text(self._stray_body)}"
            self._end(Status.MALFORMED, text, at_ns)
        else:
            text = "the body ended without [DONE] and without a finish_reason"
            self._end(Status.TRUNCATED, text, at_ns)

    def _judge(self, at_ns: int) -> None:
        """The stream said that it was complete; is it a success?"""
        completion = self.usage.completion_tokens
        if not self.token_events:
            self._end(Status.EMPTY, "the stream ended without a token", at_ns)
        elif completion is not None and completion < self.token_events:
            text = f"usage counts {completion} tokens, {self.token_events} token events came"
            self._end(Status.MALFORMED, text, at_ns)
        else:
            self._end(Status.OK, None, at_ns)

    def _end(self, status: Status, error: str | None, at_ns: int) -> None:
        if self.ending is None:
            self.ending = Ending(status, error, at_ns)

    def _keep_stray(self, body: bytes) -> None:
        self._stray_body += body[: MAX_ERROR_BODY_BYTES - len(self._stray_body)]

    def _status_text(self) -> str:
        return f"HTTP {self._http.status}: {_text(self._stray_body)}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
