"""The transport of real loads: hands each request to a worker, and gives back what it saw.

No proxy, no redirect, no retry of a request of which a byte has left: each would change what is
measured. No socket to the server is held here; names are looked up once, before the first request.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from urllib.parse import quote

import numpy as np

from inferometer.clock import NS, Clock
from inferometer.core import Answer, Arrivals, ClientSettings, Exchange, Request, Status
from inferometer.errors import InputError, Problem, without
from inferometer.load.crew import WorkerEnd
from inferometer.load.dial import Address, reason
from inferometer.load.endpoints import ENDPOINTS, parse_base_url
from inferometer.load.http import Server, request_head
from inferometer.load.sheet import NOT_MAPPED, Sheet, Taken
from inferometer.load.wire import Abort, Limits, Outcome, Post, Pulse, Release, Target

MAX_ERROR_CHARS = 500

_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110 §5.6.2."""


class Account:
    """What one worker said of itself during a load."""

    def __init__(self) -> None:
        self.pulses: list[Pulse] = []
        self.finished_tokens = 0

    @property
    def tokens(self) -> int:
        """Token-bearing events, as of the last pulse or the last outcome."""
        return max(self.finished_tokens, self.pulses[-1].tokens if self.pulses else 0)

    @property
    def peak_rss(self) -> int:
        """Bytes of memory that the process has held at most; 0 before the first pulse."""
        return self.pulses[-1].peak_rss if self.pulses else 0

    def cpu_share(self, start_ns: int, end_ns: int) -> float | None:
        """CPU seconds over wall seconds of the window; None where it was not sampled twice."""
        inside = [pulse for pulse in self.pulses if start_ns <= pulse.at_ns <= end_ns]
        if len(inside) < 2:
            return None
        first, last = inside[0], inside[-1]
        return (last.cpu_s - first.cpu_s) / ((last.at_ns - first.at_ns) / NS)

    def lags_ms(self, start_ns: int, end_ns: int) -> list[float]:
        """How late each wake-up of the worker's probe in the window was."""
        lags = (lag for pulse in self.pulses for lag in pulse.lags_ns)
        return [late_ns / 1e6 for at_ns, late_ns in lags if start_ns <= at_ns < end_ns]


class WorkerTransport:
    """A `Transport` to one OpenAI-compatible server, over living workers.

    `encode` gives the JSON body of a request, or promises a sheet with a large one on it; `headers`
    go with every request. An API key is taken from OPENAI_API_KEY, sent, and kept out of everything
    else. Raises InputError. `on_fault` hears once why the load cannot go on. Made on the running
    loop, to be closed.
    """

    def __init__(
        self,
        base_url: str,
        encode: Callable[[Request], bytes | Awaitable[Sheet]],
        settings: ClientSettings,
        headers: Mapping[str, str],
        clock: Clock,
        workers: Sequence[WorkerEnd],
    ) -> None:
        self.on_fault: Callable[[str], None] = _ignore
        self.accounts = [Account() for _ in workers]
        """What each worker said of itself."""
        self._server, self._path = parse_base_url(base_url, settings.endpoint)
        self._encode = encode
        self._settings = settings
        api_key = os.environ.get("OPENAI_API_KEY", "").strip()
        self._headers = _fixed_headers(self._server, headers, api_key)
        self._secrets = _secrets(headers, api_key)
        self._affinity_header = _affinity_header(settings)
        self._clock = clock
        self._workers = list(workers)
        self._unready = set(self._workers)
        self._ready_or_dead = asyncio.Event()
        self._lookup: asyncio.Future[list[Address] | OSError] | None = None
        self._next_key = 0
        self._waiting: dict[int, asyncio.Future[Outcome]] = {}
        self._places: dict[str, tuple[int, WorkerEnd]] = {}
        """Key and worker of each open request, by id."""
        self._open: set[str] = set()
        self._aborted: dict[str, Status] = {}
        self._sharing = True
        """Workers can map what is on a sheet."""
        self._sheets: dict[int, Sheet] = {}
        """Of requests that no worker has mapped yet, by key."""
        for end, account in zip(self._workers, self.accounts, strict=True):
            end.open = 0
            end.attach(partial(self._take, end, account), self._lost)

    @property
    def tokens_seen(self) -> int:
        """Token-bearing events, as the workers told last."""
        return sum(account.tokens for account in self.accounts)

    async def ready(self) -> None:
        """Return when every worker is up and knows the server: before, nothing leaves in time.

        To start a process and to look a name up takes long; neither is a schedule's fault.
        """
        if await self._known() is None:
            await self._ready_or_dead.wait()

    async def send(self, request: Request) -> Exchange:
        """Post one request and follow its answer to the end, whatever that is."""
        self._open.add(request.id)
        body: bytes | Sheet = b""
        try:
            made = self._encode(request)
            body = made if isinstance(made, bytes) else await made
            failure = await self._known()
            if (status := self._aborted.pop(request.id, None)) is not None:
                return _unsent(status, None, self._clock.now_ns())
            if failure is not None:
                text = f"cannot connect to {self._server.authority}: {reason(failure)}"
                return _unsent(Status.CONNECT, self._error_text(text), self._clock.now_ns())
            payload = self._payload(request, body)
            exchange = await self._carried(request, payload)
            if self._sharing and (exchange.error or "").startswith(NOT_MAPPED):
                self._sharing = False  # nothing of it has left: it goes with the message
                exchange = await self._carried(request, payload)
            return exchange
        finally:
            self._open.discard(request.id)
            if isinstance(body, Sheet):
                body.close()

    def abort(self, request_id: str, status: Status) -> None:
        """End an open request with this status; one not yet begun ends when it begins."""
        place = self._places.get(request_id)
        if place is None:
            self._aborted[request_id] = status
        else:
            key, end = place
            end.send(Abort(key, status.value))

    async def close(self) -> None:
        """Cancel what is open, let go of every connection and of the workers; once is enough."""
        workers, self._workers = self._workers, []
        for end in workers:
            if end.alive:
                end.send(Release())
        while self._open:
            await asyncio.sleep(0.001)  # until each `send` has its outcome
        for end in workers:
            end.detach()

    async def _carried(self, request: Request, payload: bytes | Sheet) -> Exchange:
        living = [end for end in self._workers if end.alive]
        if not living:
            return _unsent(Status.CANCELLED, "no worker is left", self._clock.now_ns())
        end = min(living, key=lambda end: end.open)
        key = self._next_key
        self._next_key += 1
        waiting = self._waiting[key] = asyncio.get_running_loop().create_future()
        self._places[request.id] = (key, end)
        end.open += 1
        if isinstance(payload, Sheet):
            self._sheets[key] = payload
        posted = payload if isinstance(payload, bytes) else payload.posted(self._sharing)
        end.send(Post(key, posted, request.max_tokens, request.wants_answer))
        try:
            outcome = await waiting
        finally:
            end.open -= 1
            del self._places[request.id]
            self._sheets.pop(key, None)
            if self._waiting.pop(key, None) is not None and end.alive:
                end.send(Abort(key, "cancelled"))  # nobody waits for it any more
        return _exchange(outcome, self._error_text(outcome.error))

    async def _known(self) -> OSError | None:
        """The workers were told of the server: looked up once, by whoever is first."""
        if self._lookup is None:
            self._lookup = asyncio.ensure_future(self._look_up())
        found = await asyncio.shield(self._lookup)
        return found if isinstance(found, OSError) else None

    async def _look_up(self) -> list[Address] | OSError:
        limit_s = self._settings.connect_timeout_s
        asked = asyncio.get_running_loop().getaddrinfo(
            self._server.host, self._server.port, type=socket.SOCK_STREAM
        )
        try:
            found = await asyncio.wait_for(asked, limit_s)
        except TimeoutError:
            return OSError(f"its name was not looked up within {limit_s:g} s")
        except OSError as error:
            return error
        addresses = [(int(family), address) for family, _, _, _, address in found]
        settings = self._settings
        limits = Limits(
            settings.connect_timeout_s,
            settings.first_byte_timeout_s,
            settings.between_bytes_timeout_s,
            settings.total_timeout_s,
        )
        reader = ENDPOINTS[settings.endpoint].reader
        for end in self._workers:
            if end.alive:
                end.send(Target(self._server, addresses, limits, reader, settings.keep_alive_s))
        return addresses

    def _take(self, end: WorkerEnd, account: Account, message: Outcome | Pulse | Taken) -> None:
        if isinstance(message, Taken):
            if (sheet := self._sheets.pop(message.key, None)) is not None:
                sheet.close()  # it is the worker's now, until it has been sent
            return
        if isinstance(message, Pulse):
            account.pulses.append(message)
            self._is_ready(end)
            return
        account.finished_tokens += len(message.at_ns) // 8
        waiting = self._waiting.pop(message.key, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def _is_ready(self, end: WorkerEnd) -> None:
        self._unready.discard(end)
        if not self._unready:
            self._ready_or_dead.set()

    def _lost(self, end: WorkerEnd) -> None:
        """A worker died: what it had is over, and so is the load."""
        why, now_ns = end.why_it_ended(), self._clock.now_ns()
        for key, place in list(self._places.values()):
            if place is end and (waiting := self._waiting.pop(key, None)) is not None:
                waiting.set_result(_nothing_but(key, why, now_ns, Status.CANCELLED))
        self._is_ready(end)
        self.on_fault(why)

    def _payload(self, request: Request, body: bytes | Sheet) -> bytes | Sheet:
        """Head and body in one piece, so that they leave in one write."""
        if isinstance(body, bytes):
            return self._head(request, len(body)) + body
        body.enclose(self._head(request, body.size), b"")
        return body

    def _head(self, request: Request, length: int) -> bytes:
        affinity = _quoted(request.affinity)
        headers = {
            **self._headers,
            "x-request-id": _quoted(request.id),
            "x-correlation-id": affinity,
        }
        if self._affinity_header is not None:
            headers[self._affinity_header] = affinity
        headers["content-length"] = str(length)
        return request_head("POST", self._path, headers)

    def _error_text(self, error: str | None) -> str | None:
        if error is None:
            return None
        return without(error, self._secrets)[:MAX_ERROR_CHARS]


def _fixed_headers(server: Server, extra: Mapping[str, str], api_key: str) -> dict[str, str]:
    """Headers of every request, names in lower case; the caller's win. Raises InputError."""
    headers = {
        "host": server.authority,
        "user-agent": "inferometer",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
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


def _secrets(headers: Mapping[str, str], api_key: str) -> dict[str, str]:
    """What no record may hold, and what stands for it: the key; texts of headers, and words of them
    as in `Bearer KEY`.
    """
    found: dict[str, str] = {}
    for text in headers.values():
        words = (word for word in text.split() if len(word) > len("Bearer"))
        found |= dict.fromkeys((text, *words), "[header]")
    return found | {api_key: "[API key]"}


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


def _is_line(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _exchange(outcome: Outcome, error: str | None) -> Exchange:
    at_ns = np.frombuffer(outcome.at_ns, dtype=np.int64)
    coalesced = None
    if outcome.coalesced:
        coalesced = np.zeros(len(at_ns), dtype=np.bool_)
        coalesced[np.frombuffer(outcome.coalesced, dtype=np.int64)] = True
    tokens = outcome.tokens
    counts = None if tokens is None else np.frombuffer(tokens, dtype=np.int64).astype(np.int32)
    return Exchange(
        connected_ns=outcome.connected_ns,
        sent_ns=outcome.sent_ns,
        body_sent_ns=outcome.body_sent_ns,
        first_byte_ns=outcome.first_byte_ns,
        first_visible_ns=outcome.first_visible_ns,
        end_ns=outcome.end_ns,
        arrivals=Arrivals(at_ns=at_ns, tokens=counts, coalesced=coalesced),
        status=Status(outcome.status),
        error=error,
        http_status=outcome.http_status,
        prompt_tokens=outcome.prompt_tokens,
        cached_tokens=outcome.cached_tokens,
        completion_tokens=outcome.completion_tokens,
        token_source=outcome.token_source,
        stamp_source="kernel" if outcome.kernel_stamps else "read",
        reused_connection=outcome.reused,
        answer=None if outcome.said is None else Answer(*outcome.said),
    )


def _nothing_but(key: int, error: str | None, end_ns: int, status: Status) -> Outcome:
    """Of a request of which nothing is known but how it ended."""
    return Outcome(
        key=key,
        connected_ns=None,
        sent_ns=None,
        body_sent_ns=None,
        first_byte_ns=None,
        first_visible_ns=None,
        end_ns=end_ns,
        at_ns=b"",
        tokens=None,
        coalesced=b"",
        status=status.value,
        error=error,
        http_status=None,
        prompt_tokens=None,
        cached_tokens=None,
        completion_tokens=None,
        token_source="assumed",
        kernel_stamps=False,
        reused=False,
    )


def _unsent(status: Status, error: str | None, end_ns: int) -> Exchange:
    return _exchange(_nothing_but(-1, error, end_ns, status), error)


def _ignore(_: str) -> None:
    """Nobody is there to be told."""
