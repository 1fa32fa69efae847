"""The transport of real loads: hands each request to a worker, and gives back what it saw.

No proxy, no redirect, no retry of a request of which a byte has left: each would change what is
measured. No socket to the server is held here; names are looked up once, before the first request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from inferometer.clock import NS, Clock
from inferometer.core import ClientSettings, Exchange, Request, Status
from inferometer.load.crew import WorkerEnd
from inferometer.load.dial import Address, reason
from inferometer.load.endpoints import ENDPOINTS, parse_base_url
from inferometer.load.heads import Heads
from inferometer.load.outbox import Message
from inferometer.load.outcomes import exchange_of, nothing_but, unsent
from inferometer.load.sheet import NOT_MAPPED, Sheet, Taken
from inferometer.load.transport import Follower
from inferometer.load.wire import (
    Abort,
    Limits,
    Outcome,
    Post,
    Pulse,
    Recall,
    Recalled,
    Release,
    Target,
)

FOLLOWING_BYTES = 64 * 1024 * 1024
"""Of requests that lie in workers and wait for the one before."""


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


class _Follower:
    """A `Follower` in a worker, known to it as `key`; `before` is the key of the one it follows."""

    def __init__(
        self, request: Request, key: int, payload: bytes, transport: WorkerTransport
    ) -> None:
        self.request = request
        self.key = key
        self.payload = payload
        self.begun_ns: int | None = None
        self._transport = transport

    async def exchange(self) -> Exchange:
        """Follow it to its end."""
        return await self._transport.followed(self.request, self.key)


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
        self._server, path = parse_base_url(base_url, settings.endpoint)
        self._encode = encode
        self._settings = settings
        self._heads = Heads(self._server, path, settings, headers)
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
        self._followers: dict[int, _Follower] = {}
        """What lies in a worker, by the key of the request it waits for."""
        self._following_bytes = 0
        self._made: dict[str, bytes] = {}
        """Requests that were made, and did not leave by themselves, by id."""
        self._aborted: dict[str, Status] = {}
        self._recalling: set[WorkerEnd] = set()
        """Workers that have yet to say what has left by itself."""
        self._on_recalled: Callable[[], None] = _nothing
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
            payload: bytes | Sheet | None = self._made.pop(request.id, None)
            if payload is None:
                made = self._encode(request)
                body = made if isinstance(made, bytes) else await made
            failure = await self._known()
            if (status := self._aborted.pop(request.id, None)) is not None:
                return unsent(status, None, self._clock.now_ns())
            if failure is not None:
                text = f"cannot connect to {self._server.authority}: {reason(failure)}"
                return unsent(
                    Status.CONNECT, self._heads.without_secrets(text), self._clock.now_ns()
                )
            if payload is None:
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

    def follow(self, request: Request, after: str, until_ns: int | None) -> Follower | None:
        """Leave it with the worker that has the one before."""
        place = self._places.get(after)
        if place is None or self._following_bytes > FOLLOWING_BYTES:
            return None
        before, end = place
        if before in self._followers or self._waiting[before].done():
            return None
        body = self._encode(request)
        assert isinstance(body, bytes)  # it is not large
        payload = self._heads.of(request, len(body)) + body
        key = self._new_key()
        self._followers[before] = follower = _Follower(request, key, payload, self)
        self._following_bytes += len(payload)
        end.send(Post(key, payload, request.max_tokens, after=before, until_ns=until_ns))
        return follower

    def recall(self, done: Callable[[], None]) -> None:
        """What has not left by itself does not; the outcome of the one before says which."""
        living = [end for end in self._workers if end.alive]
        self._recalling, self._on_recalled = set(living), done
        for end in living:
            end.send(Recall())
        if not living:
            done()

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
        while self._open or not all(wait.done() for wait in self._waiting.values()):
            await asyncio.sleep(0.001)  # until each request has its outcome
        for end in workers:
            end.detach()

    async def _carried(self, request: Request, payload: bytes | Sheet) -> Exchange:
        living = [end for end in self._workers if end.alive]
        if not living:
            return unsent(Status.CANCELLED, "no worker is left", self._clock.now_ns())
        end = min(living, key=lambda end: end.open)
        key = self._new_key()
        self._begin(request, key, end)
        if isinstance(payload, Sheet):
            self._sheets[key] = payload
        posted = payload if isinstance(payload, bytes) else payload.posted(self._sharing)
        start_ns = request.scheduled_ns
        end.send(Post(key, posted, request.max_tokens, request.wants_answer, start_ns=start_ns))
        return await self._heard(request, key, end)

    async def followed(self, request: Request, key: int) -> Exchange:
        """Follow to its end what has left by itself."""
        self._open.add(request.id)
        try:
            return await self._heard(request, key, self._places[request.id][1])
        finally:
            self._open.discard(request.id)

    def _new_key(self) -> int:
        self._next_key += 1
        return self._next_key

    def _begin(self, request: Request, key: int, end: WorkerEnd) -> None:
        self._waiting[key] = asyncio.get_running_loop().create_future()
        self._places[request.id] = (key, end)
        end.open += 1

    async def _heard(self, request: Request, key: int, end: WorkerEnd) -> Exchange:
        waiting = self._waiting[key]
        try:
            outcome = await waiting
        finally:
            end.open -= 1
            del self._places[request.id]
            self._sheets.pop(key, None)
            if not waiting.done() or waiting.cancelled():
                self._give_up(key, end)
            self._waiting.pop(key, None)
        return exchange_of(outcome, self._heads.without_secrets(outcome.error))

    def _give_up(self, key: int, end: WorkerEnd) -> None:
        """Nobody waits for it any more, nor for what follows it."""
        if (follower := self._followers.pop(key, None)) is not None:
            self._following_bytes -= len(follower.payload)
        if end.alive:
            end.send(Abort(key, "cancelled"))

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

    def _take(self, end: WorkerEnd, account: Account, message: Message) -> None:
        if isinstance(message, Recalled):
            self._is_recalled(end)
            return
        if isinstance(message, Taken):
            if (sheet := self._sheets.pop(message.key, None)) is not None:
                sheet.close()  # it is the worker's now, until it has been sent
            return
        if isinstance(message, Pulse):
            account.pulses.append(message)
            self._is_ready(end)
            return
        account.finished_tokens += len(message.at_ns) // 8
        self._end(message, end)

    def _end(self, outcome: Outcome, end: WorkerEnd) -> None:
        """A request has ended, and another may have left by itself."""
        follower = self._followers.pop(outcome.key, None)
        if follower is not None:
            self._following_bytes -= len(follower.payload)
        if outcome.followed is not None:
            key, begun_ns = outcome.followed
            if follower is None:
                end.send(Abort(key, "cancelled"))
            else:
                follower.begun_ns = begun_ns
                self._begin(follower.request, key, end)
        elif follower is not None:
            self._made[follower.request.id] = follower.payload
        waiting = self._waiting.get(outcome.key)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)

    def _is_ready(self, end: WorkerEnd) -> None:
        self._unready.discard(end)
        if not self._unready:
            self._ready_or_dead.set()

    def _is_recalled(self, end: WorkerEnd) -> None:
        if end in self._recalling:
            self._recalling.remove(end)
            if not self._recalling:
                # Behind those who wait for what was told before.
                asyncio.get_running_loop().call_soon(self._on_recalled)

    def _lost(self, end: WorkerEnd) -> None:
        """A worker died: what it had is over, and so is the load."""
        why, now_ns = end.why_it_ended(), self._clock.now_ns()
        for key, place in list(self._places.values()):
            if place is end:
                self._end(nothing_but(key, why, now_ns, Status.CANCELLED), end)
        self._is_ready(end)
        self._is_recalled(end)
        self.on_fault(why)

    def _payload(self, request: Request, body: bytes | Sheet) -> bytes | Sheet:
        """Head and body in one piece, so that they leave in one write."""
        if isinstance(body, bytes):
            return self._heads.of(request, len(body)) + body
        body.enclose(self._heads.of(request, body.size), b"")
        return body


def _ignore(_: str) -> None:
    """Nobody is there to be told."""


def _nothing() -> None:
    """Nobody waits."""
