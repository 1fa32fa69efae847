"""One response, fed read by read: its stamps, its token events, its counts, and how it ended.

No I/O and no clock: HTTP, SSE and chunks are put together here, and a request is judged. A success
needs a terminal marker ([DONE], or a finish_reason and then the proper end of the body), a
token-bearing event, and no fewer tokens in the usage than such events, where usage is given.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Literal, NamedTuple

from inferometer.load.chunks import (
    DONE,
    READERS,
    TEXT_READERS,
    Chunk,
    ChunkError,
    TextReader,
    Usage,
)
from inferometer.load.http import HttpError, ResponseParser
from inferometer.load.plain import Plain, learn
from inferometer.load.sse import Event, SseError, SseParser

if TYPE_CHECKING:  # a worker starts without the value types, at a third of the cost
    from inferometer.core.record import TokenSource

How = Literal[
    "ok",
    "censored",
    "cancelled",
    "connect",
    "timeout",
    "http_status",
    "in_band",
    "truncated",
    "malformed",
    "empty",
]
"""The values of `core.Status`."""

MAX_ERROR_BODY_BYTES = 2_000
"""What is kept of a body that is not an event stream."""


class Ending(NamedTuple):
    """How an exchange ended, and when."""

    status: How
    error: str | None
    at_ns: int


class Reply:
    """What one response says. Read the attributes at any time: a partial answer is an answer."""

    def __init__(self, reader: str = "openai", keep_text: bool = False) -> None:
        self.ending: Ending | None = None
        self.first_byte_ns: int | None = None
        self.first_visible_ns: int | None = None
        self._parsed_ns: int | None = None
        """Stamp of the last read that was parsed."""
        self._prompt: int | None = None
        self._cached: int | None = None
        self._completion: int | None = None
        self._http = ResponseParser()
        self._sse = SseParser()
        self._chunks = (TEXT_READERS if keep_text else READERS)[reader]()
        self.kernel_stamps = True
        """Every read so far bore the kernel's stamp."""
        self.plain: Plain | None = None
        """What the next read most likely is; None where it must be parsed whatever it is."""
        self._shape = self._chunks.shape
        self._alone = False
        """The last read of the body held one event."""
        self._events_seen = False
        self._finished = False
        self._stray_body = b""
        self.at_ns = array("q")
        """Stamp of each token event so far."""
        self.coalesced = array("q")
        """Indices of those that were not the last of their read."""
        self._tokens = array("q")
        self._counted = 0
        """Completion tokens that the server had counted at the last token event."""

    @property
    def http_status(self) -> int | None:
        """Status code, once the head is there."""
        return self._http.status

    @property
    def last_byte_ns(self) -> int | None:
        """Stamp of the last read."""
        parsed_ns = self._parsed_ns
        return parsed_ns if parsed_ns is None or not self.at_ns else max(parsed_ns, self.at_ns[-1])

    @property
    def body_complete(self) -> bool:
        """Nothing more of this response is to come."""
        return self._http.complete

    @property
    def connection_reusable(self) -> bool:
        """The response is complete and its connection can carry another."""
        return self._http.reusable

    @property
    def usage(self) -> Usage:
        """The server's latest counts."""
        return Usage(self._prompt, self._cached, self._completion)

    @property
    def said(self) -> tuple[str, int] | None:
        """The visible text so far, and the token events without any; None where not kept."""
        chunks = self._chunks
        return ("".join(chunks.text), chunks.hidden) if isinstance(chunks, TextReader) else None

    @property
    def token_source(self) -> TokenSource:
        """What the counts of tokens rest on."""
        if self.tokens is not None:
            return "usage_per_chunk"
        return "assumed" if self._completion is None else "usage_final"

    @property
    def tokens(self) -> array[int] | None:
        """Tokens of each token event, where the server counted each.

        Counts that are fewer than the events are not the sums that they should be.
        """
        events = len(self.at_ns)
        return self._tokens if 0 < events == len(self._tokens) <= self._counted else None

    def feed(self, data: bytes, at_ns: int, kernel: bool, followed: bool = False) -> None:
        """Take the bytes of one read. After the ending only the HTTP body is followed.

        `followed`: the read held more behind them, which is none of the answer yet.
        """
        plain = self.plain
        if plain is not None:
            counts, end = plain.run(data)
            if counts == sorted(counts) and (not counts or counts[0] >= self._least()):
                self._take_run(counts, at_ns, followed or end < len(data))
                if end == len(data):
                    self.kernel_stamps &= kernel
                    return
                data = data[end:]
        self._parse(data, at_ns, kernel, followed)

    def take_plain(self, at_ns: int, count: int) -> bool:
        """Take one read that `plain` matched with this count: one more token event, alone in its
        read. False, and not taken, where the count makes no sense.
        """
        if self.plain is not None and self.plain.counts:
            if count < self._least():
                return False
            self._tokens.append(count - self._counted)
            self._counted = count
            self._completion = count
        self.at_ns.append(at_ns)
        return True

    def _take_run(self, counts: list[int], at_ns: int, more_followed: bool) -> None:
        for left, count in zip(range(len(counts), 0, -1), counts, strict=True):
            if left > 1 or more_followed:
                self.coalesced.append(len(self.at_ns))
            self.take_plain(at_ns, count)

    def _least(self) -> int:
        """Completion tokens do not become fewer."""
        assert self.plain is not None
        return (self._completion or 0) if self.plain.counts else 0

    def _parse(self, data: bytes, at_ns: int, kernel: bool, followed: bool) -> None:
        if self.ending is None:
            self.kernel_stamps &= kernel
            self._parsed_ns = at_ns
            if self.first_byte_ns is None:
                self.first_byte_ns = at_ns
        try:
            body, fault = self._body_of(data)
            if self.ending is None and body:
                self._take_body(body, at_ns, followed)
            if fault is not None:
                raise fault
        except (HttpError, SseError, ChunkError) as error:
            self._end_broken(str(error), at_ns)
        if self.ending is None and self._http.complete:
            self._body_ended(at_ns)
        self._learn(data)

    def _body_of(self, data: bytes) -> tuple[bytes, HttpError | None]:
        """What a read holds of the body, and what is wrong behind it: both happened."""
        try:
            return self._http.feed(data), None
        except HttpError as fault:
            return fault.body, fault

    def _learn(self, data: bytes) -> None:
        """Whether the next read may be known by its bytes, and by which."""
        shape = self._chunks.shape
        whole = self._http.between_chunks and self._sse.between_events
        if self.ending is not None or shape is None or not whole:
            self.plain = None
        elif self._alone and (self.plain is None or shape is not self._shape):
            self.plain, self._shape = learn(data, shape), shape

    def lost(self, error: OSError | None, at_ns: int) -> None:
        """The connection is gone: closed by the server, or broken with `error`."""
        if self.ending is not None:
            return
        if error is None and self._http.eof():
            self._body_ended(at_ns)
        elif self.http_status is not None and self.http_status != 200:
            self._end("http_status", self._status_text(), at_ns)
        else:
            how = "closed" if error is None else f"lost ({error.strerror or error})"
            self._end("truncated", f"connection {how} before the end of the answer", at_ns)

    def _end_broken(self, text: str, at_ns: int) -> None:
        """A status that is no success says more than that its body is broken."""
        if self._http.status in (None, 200):
            self._end("malformed", text, at_ns)
        else:
            self._end("http_status", self._status_text(), at_ns)

    def _take_body(self, body: bytes, at_ns: int, followed: bool) -> None:
        if self._http.status != 200:
            self._keep_stray(body)
            if len(self._stray_body) == MAX_ERROR_BODY_BYTES:
                self._end("http_status", self._status_text(), at_ns)
            return
        if not self._events_seen:
            self._keep_stray(body)
        more_followed = followed or self._http.ends_inside_framing
        events = self._sse.feed(body, at_ns, more_followed)
        self._alone = len(events) == 1
        for event in events:
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
            self._end("in_band", _text(data[:MAX_ERROR_BODY_BYTES]), event.at_ns)
            return
        chunk = self._chunks.read(data)
        if chunk.error is not None:
            self._end("in_band", chunk.error, event.at_ns)
            return
        if chunk.token:
            self._take_token(chunk, event)
        if chunk.usage is not None:
            self._take_usage(chunk.usage, chunk.token)
        self._finished |= chunk.finished

    def _take_token(self, chunk: Chunk, event: Event) -> None:
        if event.coalesced:
            self.coalesced.append(len(self.at_ns))
        self.at_ns.append(event.at_ns)
        if chunk.visible and self.first_visible_ns is None:
            self.first_visible_ns = event.at_ns

    def _take_usage(self, usage: Usage, token: bool) -> None:
        """The latest counts are the true ones; a chunk's tokens are their growth since the last
        token event, so tokens that showed no text yet go to the event that shows it.
        """
        completion, before = usage.completion_tokens, self._completion
        if completion is not None:
            if before is not None and completion < before:
                raise ChunkError(f"usage: completion_tokens fell from {before} to {completion}")
            if token:
                self._tokens.append(completion - self._counted)
                self._counted = completion
            self._completion = completion
        if usage.prompt_tokens is not None:
            self._prompt = usage.prompt_tokens
        if usage.cached_tokens is not None:
            self._cached = usage.cached_tokens

    def _body_ended(self, at_ns: int) -> None:
        if self._http.status != 200:
            self._end("http_status", self._status_text(), at_ns)
        elif self._finished:
            self._judge(at_ns)
        elif self._stray_body and not self._events_seen:
            kind = self._http.headers.get("content-type", "no content type")
            text = f"not an event stream ({kind}): {_text(self._stray_body)}"
            self._end("malformed", text, at_ns)
        else:
            text = "the body ended without [DONE] and without a finish_reason"
            self._end("truncated", text, at_ns)

    def _judge(self, at_ns: int) -> None:
        """The stream said that it was complete; is it a success?"""
        completion = self._completion
        if not self.at_ns:
            self._end("empty", "the stream ended without a token", at_ns)
        elif completion is not None and completion < len(self.at_ns):
            text = f"usage counts {completion} tokens, {len(self.at_ns)} token events came"
            self._end("malformed", text, at_ns)
        else:
            self._end("ok", None, at_ns)

    def _end(self, status: How, error: str | None, at_ns: int) -> None:
        if self.ending is None:
            self.ending = Ending(status, error, at_ns)

    def _keep_stray(self, body: bytes) -> None:
        self._stray_body += body[: MAX_ERROR_BODY_BYTES - len(self._stray_body)]

    def _status_text(self) -> str:
        """With where a redirect points to, without its query, which may hold a secret."""
        location = self._http.headers.get("location", "").partition("?")[0]
        to = f" to {location}" if location else ""
        return f"HTTP {self._http.status}{to}: {_text(self._stray_body)}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
