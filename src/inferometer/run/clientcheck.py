"""What this machine's client can be trusted for: the same workers as in a run, against a server
that only writes, level by level; every stamp held against the server's own.

Times in the units of their names. Bounds are those of a run's verdict, and one of the stamps. How
late requests may leave depends on the TTFT that is measured, so a level says from which one on it
holds. One machine and one moment: server and client share its cores, as an engine on it would.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import numpy as np
import numpy.typing as npt

from inferometer import metrics
from inferometer.analyze.selfcheck import LAG_PERCENTS
from inferometer.analyze.verdict_load import (
    CLIENT_CPU_DEGRADED,
    COALESCED_FIRST_DEGRADED,
    loop_lag_bound_ms,
    ttft_for_lag_ms,
)
from inferometer.clock import NS
from inferometer.core import Exchange, Status
from inferometer.engine.nullplan import Account, Timetable
from inferometer.errors import InputError
from inferometer.load.bare import start_bare
from inferometer.load.ceiling import Carried, Load, carry, coalesced, stamp_errors_ns
from inferometer.load.headcount import workers_for
from inferometer.run.loadprocess import check_open_files

STAMP_DEGRADED_MS = 1.0
"""Error of a first token's stamp, p99, from which on a level is not trusted."""
LONGEST_TTFT_S = 10.0
"""A lag that only a longer median TTFT would excuse is of use to nobody: a run whose half of the
requests wait longer measures its own queue."""
PATIENCE = 2.0
CLOSE_S = 5.0
MS = 1e6
US = 1e3
S_MS = 1e3


@dataclass(frozen=True, slots=True)
class Step:
    """`streams` at a time, each with `requests` answers of `table`, one after the other."""

    streams: int
    requests: int
    table: Timetable

    @property
    def answer_s(self) -> float:
        """What one answer takes at most where nothing is late."""
        return (2 * self.table.ttft_ns + self.table.chunks * self.table.gap_ns) / NS

    @property
    def longest_s(self) -> float:
        """What all of it takes: as in a run the streams are spread over a whole answer."""
        return (self.requests + 1) * self.answer_s


def _step(streams: int, requests: int, ttft_ms: int, chunks: int) -> Step:
    return Step(streams, requests, Timetable(ttft_ms * 1_000_000, 20_000_000, chunks))


# Of few streams more and shorter answers: the p99 of a lag needs a hundred sends.
FULL = (
    _step(1, 21, 50, 10),
    _step(16, 8, 150, 20),
    _step(64, 3, 300, 60),
    _step(256, 2, 300, 90),
    _step(1000, 2, 300, 90),
)
QUICK = (_step(16, 8, 100, 15), _step(128, 2, 200, 40))


@dataclass(frozen=True, slots=True)
class Level:
    """One number of streams. `faults` say why a run of that size would not be trusted; none: it is.

    Stamp errors are arrival minus the server's write; None where no answer came whole. Schedule lag
    is from the arrival of an answer's end to the next send.
    """

    streams: int
    workers: int
    requests: int
    ok: int
    failure: str | None
    """Of those that failed: what most of them say."""
    chunks_per_s: float
    cpu_us_per_chunk: float | None
    first_error_p50_us: float | None
    first_error_p99_us: float | None
    last_error_p50_us: float | None
    last_error_p99_us: float | None
    coalesced_share: float
    coalesced_first_share: float | None
    schedule_lag_p50_ms: float | None
    schedule_lag_ms: float | None
    schedule_lag_percent: int | None
    """Which percentile `schedule_lag_ms` is: the highest that the number of sends supports."""
    trusted_from_ttft_ms: float | None
    """The median TTFT of a run from which on such a lag is within its verdict's bound."""
    loop_lag_p99_ms: float | None
    busiest_cpu_share: float | None
    kernel_stamps: bool
    server_late_p99_ms: float | None
    """How late the server's own writes were: what the machine had no time for."""
    faults: tuple[str, ...]


def examine(plan: Sequence[Step], told: Callable[[str], None]) -> tuple[Level, ...]:
    """Every level in turn; `told` hears what is under way.

    Ends early after a level that took `PATIENCE` times its time: a higher one would take longer.
    Raises InputError where this user may not open as many files as the lowest level needs; higher
    ones are left out.
    """
    check_open_files(plan[0].streams, 1)
    found = []
    with null_server() as server:
        for step in plan:
            try:
                check_open_files(step.streams, 1)
            except InputError as error:
                told(f"{step.streams:,} streams are left out: {error}")
                break
            told(f"{step.streams:,} streams, up to {step.longest_s:.0f} s")
            workers = workers_for(step.streams)
            load = Load(
                step.streams,
                step.requests,
                step.table.chunks,
                workers,
                stagger_s=step.answer_s,
            )
            server.give(step.table)
            carried = asyncio.run(carry(server.url, "null", load))
            found.append(level_of(load, carried, server.account()))
            if carried.wall_s > PATIENCE * step.longest_s:
                told(f"no higher level is tried: this one took {carried.wall_s:.0f} s")
                break
    return tuple(found)


class NullServerEnd:
    """A null server, seen from here."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.url = f"http://127.0.0.1:{pipe.recv()}"

    def give(self, table: Timetable) -> None:
        """What it is to write from now on."""
        self._pipe.send(table)

    def account(self) -> Account:
        """What it wrote since."""
        self._pipe.send(None)
        account: Account = self._pipe.recv()
        return account


@contextlib.contextmanager
def null_server() -> Iterator[NullServerEnd]:
    """One in a process of its own."""
    pipe, theirs = Pipe()
    with theirs:
        process = start_bare("inferometer.engine.nullserver", theirs.fileno())
    try:
        yield NullServerEnd(pipe)
    finally:
        pipe.close()
        try:
            process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def level_of(load: Load, carried: Carried, account: Account) -> Level:
    """What one load came to, held against the server's account."""
    exchanges = carried.exchanges
    first, last = _errors_ns(exchanges, account)
    lags = _lags_ns(load, exchanges)
    percent = metrics.highest_supported(len(lags), LAG_PERCENTS)
    lag_ms = None if percent is None else _at(lags, percent, MS)
    marks = [bool(coalesced(e)[0]) for e in exchanges.values() if len(e.arrivals)]
    cpu_s, chunks = carried.loaded_cpu_s, carried.chunks
    late = np.frombuffer(account.late_ns, dtype=np.int64)
    level = Level(
        streams=load.streams,
        workers=load.workers,
        requests=len(exchanges),
        ok=carried.ok,
        failure=_commonest(exchanges.values()),
        chunks_per_s=carried.chunks / carried.wall_s,
        cpu_us_per_chunk=None if cpu_s is None or not chunks else cpu_s * 1e6 / chunks,
        first_error_p50_us=_at(first, 50, US),
        first_error_p99_us=_at(first, 99, US),
        last_error_p50_us=_at(last, 50, US),
        last_error_p99_us=_at(last, 99, US),
        coalesced_share=carried.coalesced_share,
        coalesced_first_share=sum(marks) / len(marks) if marks else None,
        schedule_lag_p50_ms=_at(lags, 50, MS),
        schedule_lag_ms=lag_ms,
        schedule_lag_percent=percent,
        trusted_from_ttft_ms=None if lag_ms is None else ttft_for_lag_ms(lag_ms),
        loop_lag_p99_ms=carried.loop_lag_p99_ms,
        busiest_cpu_share=max(carried.cpu_share or 0.0, carried.coordinator_cpu_share),
        kernel_stamps=all(
            e.stamp_source == "kernel" for e in exchanges.values() if len(e.arrivals)
        ),
        server_late_p99_ms=_at(late, 99, MS),
        faults=(),
    )
    return replace(level, faults=tuple(faults(level)))


def _commonest(exchanges: Iterable[Exchange]) -> str | None:
    said = Counter(e.error or e.status.value for e in exchanges if e.status is not Status.OK)
    return said.most_common(1)[0][0] if said else None


def _errors_ns(
    exchanges: dict[str, Exchange], account: Account
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Arrival minus write of first and last tokens, of every answer that both sides saw whole."""
    first, last = [], []
    for name, exchange in exchanges.items():
        wrote = np.frombuffer(account.wrote_ns.get(name, b""), dtype=np.int64)
        if len(wrote) and len(wrote) == len(exchange.arrivals):
            errors = stamp_errors_ns(exchange, wrote)
            first.append(errors[0])
            last.append(errors[-1])
    return np.array(first, dtype=np.int64), np.array(last, dtype=np.int64)


def _lags_ns(load: Load, exchanges: dict[str, Exchange]) -> npt.NDArray[np.int64]:
    """From the end of each answer to the send of its stream's next request."""
    lags = []
    for stream in range(load.streams):
        turns = [exchanges.get(f"{stream}-{turn}") for turn in range(load.requests)]
        for before, after in pairwise(turns):
            if before is None or after is None or after.sent_ns is None:
                continue
            if before.status is Status.OK:
                lags.append(after.sent_ns - before.end_ns)
    return np.array(lags, dtype=np.int64)


def _at(values: npt.NDArray[np.int64], percent: float, unit: float) -> float | None:
    return float(np.percentile(values, percent)) / unit if len(values) else None


def faults(level: Level) -> Iterator[str]:
    """Why a run of this size would not be trusted, each with the value seen and its bound."""
    if level.ok < level.requests:
        why = "" if level.failure is None else f": {level.failure}"
        yield f"{level.requests - level.ok} of {level.requests} requests failed{why}"
    if not level.kernel_stamps:
        yield "arrivals have no kernel stamps: whatever delays the client delays them too"
    first_ms = None if level.first_error_p99_us is None else level.first_error_p99_us / 1e3
    if _above(first_ms, STAMP_DEGRADED_MS):
        yield f"first tokens are off by {first_ms:.2f} ms (p99; bound {STAMP_DEGRADED_MS:g} ms)"
    if _above(level.coalesced_first_share, COALESCED_FIRST_DEGRADED):
        yield f"{level.coalesced_first_share:.0%} of first tokens came in one read with later ones"
    floor_ms = level.trusted_from_ttft_ms
    if _above(floor_ms, LONGEST_TTFT_S * S_MS):
        assert floor_ms is not None
        yield (
            f"sends are late by {level.schedule_lag_ms:.0f} ms (p{level.schedule_lag_percent}), "
            f"1 % of a TTFT of {floor_ms / S_MS:.0f} s (bound {LONGEST_TTFT_S:g} s)"
        )
    bound_ms = loop_lag_bound_ms(level.kernel_stamps)
    if _above(level.loop_lag_p99_ms, bound_ms):
        late = f"{level.loop_lag_p99_ms:.0f} ms"
        yield f"a worker's loop is late by {late} (p99; bound {bound_ms:g} ms)"
    if _above(level.busiest_cpu_share, CLIENT_CPU_DEGRADED):
        share = f"{level.busiest_cpu_share:.0%}"
        yield f"a process takes {share} of a core (bound {CLIENT_CPU_DEGRADED:.0%})"


def _above(value: float | None, bound: float) -> bool:
    return value is not None and value > bound


def trusted(levels: Sequence[Level]) -> Level | None:
    """The highest level with no fault at it or below it; None where the lowest has one."""
    best = None
    for level in levels:
        if level.faults:
            break
        best = level
    return best
