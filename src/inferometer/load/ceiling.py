"""What this client can carry: closed-loop streams against a server that costs nothing.

For `doctor` and for benches. The caller brings the server and, where stamps are to be judged, what
the server wrote and when; this measures the same workers and the same transport as a run does.
Units are in the names; nothing is judged here.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from inferometer.clock import NS, RealClock
from inferometer.core import ClientSettings, Exchange, Phase, Prompt, Request, Status
from inferometer.load.crew import Crew
from inferometer.load.endpoints import ENDPOINTS
from inferometer.load.transport import Follower
from inferometer.load.worker_transport import Account, WorkerTransport

LATER_S = 0.001
"""As the lanes: what follows is made when what is due has left."""

SETTINGS = ClientSettings(
    endpoint="chat",
    connect_timeout_s=30.0,
    first_byte_timeout_s=60.0,
    between_bytes_timeout_s=60.0,
    total_timeout_s=3_600.0,
    usage_every_chunk=False,
    ignore_eos=True,
    temperature=0.0,
    affinity_header=None,
    stop_failed_share=1.0,
    grace_s=0.0,
)
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Load:
    """`streams` at a time, each `requests` one after the other of `max_tokens` tokens."""

    streams: int
    requests: int
    max_tokens: int
    workers: int
    text: str = "x"
    stagger_s: float = 0.0
    """Over which the streams begin, evenly: those of one length would end together ever after."""


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """What a load came to. CPU counts whole processes, user and kernel, start-up and all."""

    exchanges: dict[str, Exchange]
    wall_s: float
    workers_cpu_s: float
    coordinator_cpu_s: float
    loaded_cpu_s: float | None
    """Of all of them while the load went on: neither start-up nor end."""
    cpu_share: float | None
    """Of the busiest worker, one core = 1, while it was under load."""
    coordinator_cpu_share: float
    """The same of this process."""
    loop_lag_p99_ms: float | None
    """Of the latest worker."""
    peak_rss: int
    """Bytes that the largest worker held at most."""

    @property
    def chunks(self) -> int:
        """Token-bearing events."""
        return sum(len(exchange.arrivals) for exchange in self.exchanges.values())

    @property
    def ok(self) -> int:
        """Requests that ended well."""
        return sum(exchange.status is Status.OK for exchange in self.exchanges.values())

    @property
    def coalesced_share(self) -> float:
        """Of chunks: those that were not the last of their read."""
        marked = sum(int(coalesced(e).sum()) for e in self.exchanges.values())
        return marked / self.chunks if self.chunks else 0.0


async def carry(
    url: str, model: str, load: Load, keep: Callable[[str, Exchange], None] | None = None
) -> Carried:
    """Carry the load and measure the carrying. Failures are in the exchanges.

    `keep` takes each exchange, and then none is held. Raises InputError for a bad URL.
    """
    exchanges: dict[str, Exchange] = {}
    take = exchanges.__setitem__ if keep is None else keep
    before = _cpu_s()
    with closing(Crew()) as crew:
        transport = _transport(url, model, load, crew)

        async def stream(number: int) -> None:
            await asyncio.sleep(load.stagger_s * number / load.streams)
            follower: Follower | None = None
            for turn in range(load.requests):
                request = make_request(number, turn, load.max_tokens)
                if follower is not None and follower.begun_ns is not None:
                    going = asyncio.ensure_future(follower.exchange())
                else:
                    going = asyncio.ensure_future(transport.send(request))
                await asyncio.sleep(LATER_S)
                follower = None
                if turn + 1 < load.requests:
                    coming = make_request(number, turn + 1, load.max_tokens)
                    follower = transport.follow(coming, request.id, None)
                take(request.id, await going)

        await transport.ready()
        begun_ns, own_s = time.monotonic_ns(), time.process_time()
        await asyncio.gather(*(stream(number) for number in range(load.streams)))
        ended_ns, own_s = time.monotonic_ns(), time.process_time() - own_s
        await transport.close()
    after = _cpu_s()
    cpu_share, lag_ms = _worst(transport.accounts, begun_ns, ended_ns)
    return Carried(
        exchanges=exchanges,
        wall_s=(ended_ns - begun_ns) / NS,
        workers_cpu_s=after[1] - before[1],
        coordinator_cpu_s=after[0] - before[0],
        loaded_cpu_s=_loaded(transport.accounts, begun_ns, ended_ns, own_s),
        cpu_share=cpu_share,
        coordinator_cpu_share=own_s * NS / max(1, ended_ns - begun_ns),
        loop_lag_p99_ms=lag_ms,
        peak_rss=max(account.peak_rss for account in transport.accounts),
    )


def _transport(url: str, model: str, load: Load, crew: Crew) -> WorkerTransport:
    body = ENDPOINTS[SETTINGS.endpoint].body

    def encode(request: Request) -> bytes:
        return body(model, load.text, request, SETTINGS)

    return WorkerTransport(url, encode, SETTINGS, {}, RealClock(), crew.muster(load.workers))


def _worst(
    accounts: Sequence[Account], begun_ns: int, ended_ns: int
) -> tuple[float | None, float | None]:
    """(CPU share, loop lag p99 in ms) of the worker that has the most of it."""
    shares = [account.cpu_share(begun_ns, ended_ns) for account in accounts]
    lags = [account.lags_ms(begun_ns, ended_ns) for account in accounts]
    return (
        max((share for share in shares if share is not None), default=None),
        max((float(np.percentile(lag, 99)) for lag in lags if lag), default=None),
    )


def _loaded(
    accounts: Sequence[Account], begun_ns: int, ended_ns: int, own_s: float
) -> float | None:
    """CPU seconds of workers and coordinator under load; None where a worker did not say."""
    shares = [account.cpu_share(begun_ns, ended_ns) for account in accounts]
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return None
    return own_s + sum(known) * (ended_ns - begun_ns) / NS


def _cpu_s() -> tuple[float, float]:
    """CPU seconds of this process, and of its children that have ended."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def make_request(stream: int, turn: int, max_tokens: int) -> Request:
    """The request `STREAM-TURN`; its prompt matters to nobody."""
    return Request(
        id=f"{stream}-{turn}",
        phase=Phase.MEASURED,
        lane=stream,
        play=0,
        turn=turn,
        session=str(stream),
        agent="root",
        parent_agent=None,
        affinity=str(stream),
        prompt=Prompt(np.zeros(0, dtype=np.int64), 64, 1, stream),
        max_tokens=max_tokens,
        ready_ns=0,
        scheduled_ns=0,
    )


def stamp_errors_ns(exchange: Exchange, wrote_ns: Sequence[int] | Times) -> Times:
    """Each arrival minus the server's write of the same chunk, both CLOCK_MONOTONIC of one host.

    Raises ValueError where the counts differ.
    """
    wrote: Times = np.asarray(wrote_ns, dtype=np.int64)
    if len(wrote) != len(exchange.arrivals):
        raise ValueError(f"{len(exchange.arrivals)} chunks came of {len(wrote)} written")
    errors: Times = exchange.arrivals.at_ns - wrote
    return errors


def ttft_error_ns(exchange: Exchange, request_ns: int, first_wrote_ns: int) -> int:
    """TTFT as the client has it minus the server's own, from the whole request to the write."""
    assert exchange.sent_ns is not None
    return int(exchange.arrivals.at_ns[0]) - exchange.sent_ns - (first_wrote_ns - request_ns)


def coalesced(exchange: Exchange) -> npt.NDArray[np.bool_]:
    """The mark of each token event."""
    marks = exchange.arrivals.coalesced
    return np.zeros(len(exchange.arrivals), dtype=np.bool_) if marks is None else marks
