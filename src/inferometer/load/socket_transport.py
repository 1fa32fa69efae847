"""The transport over real sockets: posts a request, follows its event stream, stamps everything.

No proxy, no redirect, no retry of a request that the server may have seen: each would change what
is measured. The one exception is a kept connection that breaks before the request is sent on it.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import quote

from inferometer.clock import Clock
from inferometer.core import ClientSettings, Exchange, Request, Status
from inferometer.errors import InputError, Problem
from inferometer.load.connection import Connection, ConnectionPool
from inferometer.load.endpoints import parse_base_url
from inferometer.load.flight import Drain, Flight
from inferometer.load.http import Server, request_head
from inferometer.load.reply import Reply

MAX_ERROR_CHARS = 500

_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110 §5.6.2."""


class SocketTransport:
    """A `Transport` to one OpenAI-compatible server.

    `encode` gives the JSON body of a request; `headers` go with every request. An API key is taken
    from OPENAI_API_KEY, sent, and kept out of everything else. Raises InputError. To be closed.
    """

    def __init__(
        self,
        base_url: str,
        encode: Callable[[Request], bytes],
        settings: ClientSettings,
        headers: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self.tokens_seen = 0
        self._server, self._path = parse_base_url(base_url, settings.endpoint)
        self._encode = encode
        self._settings = settings
        self._api_key = os.environ.get("OPENAI_API_KEY", "").strip()
        self._headers = _fixed_headers(self._server, headers, self._api_key)
        self._affinity_header = _affinity_header(settings)
        self._clock = clock
        self._pool = ConnectionPool(self._server, clock, settings.keep_alive_s)
        self._open: dict[str, Flight] = {}
        self._drains: set[Drain] = set()
        self._aborted: dict[str, Status] = {}

    async def send(self, request: Request) -> Exchange:
        """Post one request and follow its answer to the end, whatever that is."""
        payload = self._payload(request)
        flight = Flight(self._settings, self._clock, self._count_tokens)
        self._open[request.id] = flight
        if request.id in self._aborted:
            self.abort(request.id, self._aborted.pop(request.id))
        posting = asyncio.ensure_future(self._post(flight, payload))
        posting.add_done_callback(flight.posted)
        try:
            ending = await flight.ended
        finally:
            del self._open[request.id]
            posting.cancel()
            flight.stop_watching()
            self._settle(flight)
        return flight.exchange(ending, self._error_text(ending.error))

    def abort(self, request_id: str, status: Status) -> None:
        """End an open request with this status; one not yet begun ends when it begins."""
        flight = self._open.get(request_id)
        if flight is None:
            self._aborted[request_id] = status
        else:
            flight.end(status, None)

    async def close(self) -> None:
        """Cancel what is open and let go of every connection."""
        for flight in self._open.values():
            flight.end(Status.CANCELLED, None)
        while self._open:
            await asyncio.sleep(0)  # until each `send` has let go of its own
        for drain in list(self._drains):
            drain.stop()
        self._pool.close()

    def _count_tokens(self, events: int) -> None:
        self.tokens_seen += events

    def _payload(self, request: Request) -> bytes:
        """Head and body in one piece, so that they leave in one write."""
        body = self._encode(request)
        affinity = _quoted(request.affinity)
        headers = {
            **self._headers,
            "x-request-id": _quoted(request.id),
            "x-correlation-id": affinity,
        }
        if self._affinity_header is not None:
            headers[self._affinity_header] = affinity
        headers["content-length"] = str(len(body))
        return request_head("POST", self._path, headers) + body

    async def _post(self, flight: Flight, payload: bytes) -> None:
        """Connect and write; again when a kept connection breaks before it is all written."""
        while True:
            kept = self._pool.take()
            try:
                connection = kept or await self._pool.connect()
            except OSError as error:
                text = f"cannot connect to {self._server.authority}: {_reason(error)}"
                flight.end(Status.CONNECT, text)
                return
            flight.start_on(connection, reused=kept is not None)
            try:
                await connection.write(payload)
            except OSError as error:
                if flight.answered:
                    return  # an early answer: what was read of it, or its end, tells more
                if kept is None:
                    flight.broke(error)
                    return
                flight.drop_connection()
                continue
            flight.body_sent_ns = self._clock.now_ns()
            return

    def _settle(self, flight: Flight) -> None:
        """Keep the connection if it can carry another request, else close it."""
        connection = flight.connection
        if connection is None:
            return
        if not flight.ended_well:
            connection.close()
        elif flight.reply.body_complete:
            self._keep(connection, flight.reply)
        else:
            self._drains.add(Drain(connection, flight.reply, self._drained))

    def _drained(self, drain: Drain) -> None:
        self._drains.discard(drain)
        self._keep(drain.connection, drain.reply)

    def _keep(self, connection: Connection, reply: Reply) -> None:
        if connection.open and reply.connection_reusable:
            self._pool.put(connection)
        else:
            connection.close()

    def _error_text(self, error: str | None) -> str | None:
        if error is None:
            return None
        if self._api_key:
            error = error.replace(self._api_key, "[API key]")
        return error[:MAX_ERROR_CHARS]


def _fixed_headers(server: Server, extra: Mapping[str, str], api_key: str) -> dict[str, str]:
    """Headers of every request, names in lower case; the caller's win. Raises InputError."""
    headers = {
        "host": server.authority,
        "user-agent": "inferometer",
        "accept": "text/event-stream",
        "content-type": "application/json",
    }
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    headers |= {name.lower(): text for name, text in extra.items()}
    problems = [
        Problem("a header is a name of letters, digits and '-', and one line of ASCII", key=name)
        for name, text in headers.items()
        if not (_FIELD_NAME.fullmatch(name) and _is_line(text))
    ]
    if problems:
        raise InputError(*problems)
    return headers


def _affinity_header(settings: ClientSettings) -> str | None:
    """The header's name in lower case. Raises InputError for what is no name of a header."""
    name = settings.affinity_header
    if name is None:
        return None
    if not _FIELD_NAME.fullmatch(name):
        text = f"{name!r} is not the name of a header: letters, digits and '-'"
        raise InputError(Problem(text, key="affinity_header"))
    return name.lower()


def _quoted(text: str) -> str:
    """One line of ASCII: what is not is percent-encoded."""
    return quote(text, safe=_PRINTABLE, errors="replace")


def _reason(error: OSError) -> str:
    """The system's own words, which asyncio replaces; TLS and look-ups have their own."""
    if error.errno is None or isinstance(error, ssl.SSLError | socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)


def _is_line(text: str) -> bool:
    return text.isascii() and text.isprintable()
