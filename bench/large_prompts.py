"""What prompts of a million tokens do to the requests beside them: how late loops and sends were.

64 streams of a null server go on, while some lanes send prompts of 1,000,000 tokens (5 MB) one
after the other (`threads`); the same with bodies made in the loop itself and handed over in
messages, as small ones are (`loop`); and without large ones (`none`). They take turns; each figure
is the least over the rounds, because every other process of the machine makes it larger. Linux.

    python bench/large_prompts.py [--tokens 1000000] [--lanes 2] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

from inferometer.clock import NS, RealClock
from inferometer.core import Exchange, Prompt, Request, Status
from inferometer.engine.nullplan import Timetable
from inferometer.load.ceiling import SETTINGS, make_request
from inferometer.load.crew import Crew
from inferometer.load.endpoints import ENDPOINTS
from inferometer.load.sheet import Sheet
from inferometer.load.worker_transport import WorkerTransport
from inferometer.run.bodies import Bodies
from inferometer.run.clientcheck import null_server
from inferometer.workload import WORDS, PromptText

PROBE_S = 0.001
BLOCK = 64
Encode = Callable[[Request], bytes | Awaitable[Sheet]]


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one run, ms: CPU of the coordinator's loop; the latest that it was, and a worker's; p99 of
    small sends after the ends before them; median of a large body's first byte to its last.
    """

    cpu_ms: float
    loop_ms: float
    worker_ms: float
    send_ms: float
    upload_ms: float
    large: int


def main() -> None:
    """Both ways in turn, and a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--lanes", type=int, default=2, help="that send large prompts")
    parser.add_argument("--streams", type=int, default=64, help="beside them")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[Seen]] = {"threads": [], "loop": [], "none": []}
    for _ in range(options.rounds):
        for name, seen in found.items():
            seen.append(asyncio.run(run(options, name)))
    table = Table(title=f"{options.streams} streams beside {options.lanes} of {options.tokens:,}")
    headings = ("loop's CPU", "loop late", "worker late", "sends late", "upload", "large")
    table.add_column("ms", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, seen in found.items():
        cells = (
            min(getattr(each, field) for each in seen)
            for field in ("cpu_ms", "loop_ms", "worker_ms", "send_ms", "upload_ms")
        )
        table.add_row(name, *(f"{cell:.1f}" for cell in cells), str(seen[0].large))
    Console().print(table)


async def run(options: argparse.Namespace, how: str) -> Seen:
    """One load."""
    prompts = PromptText(WORDS)
    bodies = Bodies("null", prompts, SETTINGS)

    def in_the_loop(request: Request) -> bytes:
        content = prompts.take(request.prompt)
        return ENDPOINTS["chat"].body("null", content, request, SETTINGS)

    encode: Encode = bodies.encode if how == "threads" else in_the_loop
    table = Timetable(ttft_ns=100_000_000, gap_ns=20_000_000, chunks=20)
    with null_server() as server, closing(Crew()) as crew, closing(bodies):
        server.give(table)
        transport = WorkerTransport(server.url, encode, SETTINGS, {}, RealClock(), crew.muster(1))
        await transport.ready()
        end_ns = time.monotonic_ns() + round(options.seconds * NS)
        lanes = 0 if how == "none" else options.lanes
        begun_ns, cpu_s = time.monotonic_ns(), time.thread_time()
        small, large, lags = await asyncio.gather(
            streams(transport, options.streams, end_ns, 0),
            streams(transport, lanes, end_ns, options.tokens),
            probe(end_ns),
        )
        cpu_s = time.thread_time() - cpu_s
        await transport.close()
    every = [each for lane in large for each in lane]
    assert all(each.status is Status.OK for lane in (*small, *large) for each in lane)
    uploads = [each.body_sent_ns - each.sent_ns for each in every if each.sent_ns]  # type: ignore[operator]
    late = [
        after.sent_ns - before.end_ns
        for lane in small
        for before, after in pairwise(lane)
        if after.sent_ns
    ]
    workers = [lag for a in transport.accounts for lag in a.lags_ms(begun_ns, end_ns)]
    return Seen(
        cpu_ms=cpu_s * 1e3,
        loop_ms=max(lags),
        worker_ms=max(workers),
        send_ms=float(np.percentile(late, 99)) / 1e6,
        upload_ms=float(np.median(uploads)) / 1e6 if uploads else 0.0,
        large=len(every),
    )


async def streams(
    transport: WorkerTransport, count: int, end_ns: int, tokens: int
) -> list[list[Exchange]]:
    """Closed-loop lanes until the end; prompts of so many tokens, 0 for a short one."""

    async def lane(number: int) -> list[Exchange]:
        seen: list[Exchange] = []
        while time.monotonic_ns() < end_ns:
            request = make_request(number, len(seen), 20)
            request = replace(request, id=f"{tokens}-{request.id}")
            if tokens:
                ids = np.arange(tokens // BLOCK, dtype=np.int64) + (number << 40)
                prompt = Prompt(ids, BLOCK, tokens % BLOCK, (number << 20) + len(seen))
                request = replace(request, prompt=prompt)
            seen.append(await transport.send(request))
        return seen

    return await asyncio.gather(*(lane(number) for number in range(count)))


async def probe(end_ns: int) -> list[float]:
    """How late this loop wakes, ms."""
    lags = []
    while (now_ns := time.monotonic_ns()) < end_ns:
        await asyncio.sleep(PROBE_S)
        lags.append((time.monotonic_ns() - now_ns) / 1e6 - PROBE_S * 1e3)
    return lags


if __name__ == "__main__":
    main()
