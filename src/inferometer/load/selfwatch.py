"""The client's account of itself: loop lag, CPU, and an independent count of open requests.

The lag probe asks to be woken every 50 ms and notes how late it was: a busy loop shows here before
it shows in a latency. Open requests are sampled at random times (Poisson, seeded), so that their
mean can be held against Little's law without sharing its arithmetic.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np

from inferometer.clock import NS, Clock
from inferometer.core import Sample

PROBE_NS = 50_000_000


class SelfWatch:
    """Runs beside the load, in its loop; `stop` ends it.

    `gauge_mean_s` is the mean time between two samples of the open requests. `probe` is off in
    virtual time, where a loop is never late.
    """

    def __init__(
        self,
        clock: Clock,
        open_requests: Callable[[], int],
        gauge_mean_s: float,
        seed: int,
        probe: bool,
    ) -> None:
        self.samples: list[Sample] = []
        self._clock = clock
        self._open_requests = open_requests
        self._gauge_mean_ns = gauge_mean_s * NS
        self._probing = probe
        self._random = np.random.default_rng(seed)
        self._lags_ns: list[tuple[int, int]] = []
        self._cpu: list[tuple[int, float]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin both probes."""
        self._tasks = [asyncio.create_task(self._gauge())]
        if self._probing:
            self._tasks.append(asyncio.create_task(self._probe()))

    async def stop(self) -> None:
        """End both probes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def lag_ms(self, start_ns: int, end_ns: int) -> tuple[float, float, float] | None:
        """(p50, p99, maximum) of the loop's lag in the window, in ms; None without a probe."""
        lags = [lag for at, lag in self._lags_ns if start_ns <= at < end_ns]
        if not lags:
            return None
        p50, p99, top = np.percentile(np.array(lags) / 1e6, [50, 99, 100])
        return float(p50), float(p99), float(top)

    def cpu_share(self, start_ns: int, end_ns: int) -> float | None:
        """CPU seconds of this thread, the loop's, over wall seconds of the window: 1 is all
        that one loop can have.
        """
        inside = [(at, cpu) for at, cpu in self._cpu if start_ns <= at <= end_ns]
        if len(inside) < 2:
            return None
        (first_ns, first_cpu), (last_ns, last_cpu) = inside[0], inside[-1]
        return (last_cpu - first_cpu) / ((last_ns - first_ns) / NS)

    async def _probe(self) -> None:
        deadline = self._clock.now_ns()
        while True:
            deadline += PROBE_NS
            await self._clock.sleep_until(deadline)
            now = self._clock.now_ns()
            self._lags_ns.append((now, now - deadline))
            self._cpu.append((now, time.thread_time()))
            # A lag longer than the period is one late wake-up, not several.
            deadline = max(deadline, now - PROBE_NS)

    async def _gauge(self) -> None:
        at_ns = self._clock.now_ns()
        while True:
            at_ns += round(self._random.exponential(self._gauge_mean_ns))
            await self._clock.sleep_until(at_ns)
            # The count belongs to the time it is read at, late or not.
            at_ns = self._clock.now_ns()
            self.samples.append(Sample(at_ns, "client.in_flight", "", float(self._open_requests())))
