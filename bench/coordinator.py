"""What the coordinator of a load costs a request: lanes, records and the journal, in virtual time.

    python bench/coordinator.py [--requests 100000] [--lanes 256] [--rate R] [--profile]

The transport answers every request with one token after 10 ms of virtual time and costs nearly
nothing, so that what is left is the coordinator's own.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from inferometer.clock import VirtualClock, VirtualLoop, run_virtual
from inferometer.core import (
    Arrivals,
    ClientSettings,
    Exchange,
    FixedSeqLen,
    KvOffload,
    LaunchPlan,
    Parallelism,
    Point,
    Record,
    Request,
    Status,
    WorkloadSettings,
)
from inferometer.load.drive import Drive
from inferometer.load.lane import LanesConfig
from inferometer.run.binding import bind_workload
from inferometer.run.job import Job
from inferometer.store import PointDir, record_row

ANSWER_S = 0.01
CLIENT = ClientSettings("chat", 1, 1, 1, 1, True, True, 0.0, None, 0.1, 5.0)


class Instant:
    """A transport that answers after a fixed time with one token."""

    def __init__(self, clock: VirtualClock) -> None:
        self.tokens_seen = 0
        self._clock = clock
        self._loop = asyncio.get_running_loop()

    async def send(self, request: Request) -> Exchange:
        """One token."""
        sent_ns = self._clock.now_ns()
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._loop.call_later(ANSWER_S, waiter.set_result, None)
        await waiter
        now_ns = self._clock.now_ns()
        return Exchange(
            connected_ns=sent_ns,
            sent_ns=sent_ns,
            body_sent_ns=sent_ns,
            first_byte_ns=now_ns,
            first_visible_ns=now_ns,
            end_ns=now_ns,
            arrivals=Arrivals(np.array([now_ns], np.int64), np.array([1], np.int32), None),
            status=Status.OK,
            error=None,
            http_status=200,
            prompt_tokens=request.prompt.tokens,
            cached_tokens=0,
            completion_tokens=1,
            token_source="usage_per_chunk",
            stamp_source="virtual",
            reused_connection=True,
        )

    def abort(self, request_id: str, status: Status) -> None:
        """Nothing is open for long."""

    async def close(self) -> None:
        """Nothing to let go of."""


def job(requests: int, lanes: int, rate: float | None) -> Job:
    """Prompts and answers of one token."""
    workload = WorkloadSettings(
        "fixed", None, requests, 0, 1, 1, 1.0, None, None, "none", 0, 60.0, 0, 0, 0, 0
    )
    if rate is not None:
        workload = WorkloadSettings(
            *("fixed", None, requests, 0, 1, 1, 1.0, None, None, "none", 0, 60.0, 0, 0, 0, 0),
            arrival="poisson",
            rate=rate,
        )
    plan = LaunchPlan("i", (), {}, {}, None, CLIENT, workload, {})
    point = Point(
        config="coordinator",
        image="i",
        model="m",
        model_prefix="m",
        precision="p",
        framework="f",
        runner="r",
        hardware="h",
        scenario=FixedSeqLen(1, 1),
        parallelism=Parallelism(1, 1, 1, 1, 1, dp_attn=False),
        spec_decoding="none",
        kv_offload=KvOffload("none", None, None, 0),
        router=None,
        conc=lanes,
        max_model_len=None,
        repeat=0,
    )
    return Job(point, plan, "0" * 64)


def carry(given: Job, folder: Path) -> int:
    """The whole load; how many requests it recorded."""
    loop = VirtualLoop()
    clock = VirtualClock(loop)
    config = LanesConfig(given.point.conc, "0" * 8, None, CLIENT, given.plan.workload)
    count = 0
    with PointDir(folder).record_journal() as journal:

        def keep(record: Record) -> None:
            nonlocal count
            count += 1
            journal.append(record_row(record))

        async def main() -> None:
            await Drive(config, bind_workload(given), Instant(clock), clock, keep).run()

        run_virtual(main(), loop)
    return count


def main() -> None:
    """One line; with --profile where it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--lanes", type=int, default=256)
    parser.add_argument("--rate", type=float, help="an open loop of so many requests a second")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory() as folder:
        gc.collect()
        gc.freeze()
        gc.disable()  # as in a load
        before = time.thread_time()
        if given.profile:
            profile.enable()
        count = carry(job(given.requests, given.lanes, given.rate), Path(folder))
        profile.disable()
        cpu_s = time.thread_time() - before
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} requests: {cpu_s / count * 1e6:.1f} µs of CPU each, peak {peak_mb:.0f} MB")
    if given.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(28)


if __name__ == "__main__":
    main()
