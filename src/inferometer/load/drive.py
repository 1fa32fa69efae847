"""One load, start to end: warm up, open the window without draining, close it, follow the rest.

    start lanes → all warm → window opens → declared time (or count) → stop sending → grace → report

The composer gives it a workload, a transport and a clock, and takes the records as they finish.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from inferometer.clock import NS, Clock, RealClock
from inferometer.core import ClientReport, Prompt, Record, Sample, Status, Window
from inferometer.load.lane import LanesConfig
from inferometer.load.lanes import Lanes
from inferometer.load.progress import Progress
from inferometer.load.selfwatch import SelfWatch
from inferometer.load.transport import Following, Transport
from inferometer.load.workload import Workload


class Drive:
    """Runs one load. `progress` may be read at any time; `stop` ends it early, keeping records."""

    def __init__(
        self,
        config: LanesConfig,
        workload: Workload,
        transport: Transport,
        clock: Clock,
        on_record: Callable[[Record], None],
        prepare: Callable[[Prompt], None] | None = None,
        following: Following | None = None,
    ) -> None:
        self._config = config
        self._workload = workload
        self._transport = transport
        self._clock = clock
        self._on_record = on_record
        self._phase = "warm-up"
        self._since_ns = clock.now_ns()
        self._ttft_s: float | None = None
        self._stamp_source = "virtual"
        self._arrivals: tuple[int, int] | None = None
        """(due, not sent) in the window of an open loop."""
        self._lanes = Lanes(config, workload, transport, clock, self._take, prepare, following)
        window_s = config.workload.duration_s or 60.0
        self._watch = SelfWatch(
            clock,
            lambda: len(self._lanes.open),
            # About three hundred samples a window: enough to hold against Little's law.
            gauge_mean_s=min(2.0, max(0.02, window_s / 300)),
            seed=config.workload.seed,
            probe=isinstance(clock, RealClock),
        )
        self._anchor = (time.time_ns(), clock.now_ns())

    @property
    def samples(self) -> list[Sample]:
        """The gauge of open requests."""
        return self._watch.samples

    def progress(self) -> Progress:
        """A snapshot."""
        tally = self._lanes.tally
        return Progress(
            phase=self._phase,
            elapsed_s=(self._clock.now_ns() - self._since_ns) / NS,
            of_s=self._config.workload.duration_s if self._phase == "window" else None,
            sent=tally.sent,
            ok=tally.ok,
            failed=tally.failed,
            in_flight=len(self._lanes.open),
            tokens=self._transport.tokens_seen,
            ttft_s=self._ttft_s,
        )

    def stop(self, reason: str) -> None:
        """End early; what was measured is kept."""
        self._lanes.stop(reason)

    async def run(self) -> ClientReport:
        """The whole load."""
        self._watch.start()
        self._lanes.start()
        grace_s = self._config.workload.warmup_grace_s
        await self._until(self._lanes.all_warm, grace_s)
        start_ns = self._enter("window")
        if self._lanes.window_start_ns is None:
            self._lanes.stop(f"warm-up took longer than its grace of {grace_s:g} s")
        else:
            start_ns = self._since_ns = self._lanes.window_start_ns
        await self._window(start_ns)
        waiting = (due for _, due in self._lanes.timers.pending())
        pending = tuple((due.lane.index, due.ready.ready_ns) for due in waiting)
        end_ns = self._enter("grace")
        self._arrivals = self._lanes.close_arrivals(end_ns)
        # A stop from here on cuts the grace period short, and takes nothing from the window.
        stop_reason = self._lanes.stop_reason
        await self._drain(stop_reason is not None)
        await self._watch.stop()
        self._enter("done")
        if self._lanes.window_start_ns is None:
            start_ns = end_ns
        return self._report(start_ns, end_ns, pending, stop_reason)

    def _enter(self, phase: str) -> int:
        self._phase, self._since_ns = phase, self._clock.now_ns()
        return self._since_ns

    async def _window(self, start_ns: int) -> None:
        """Until the declared time is over, or the declared count is done, or someone gave up."""
        duration_s = self._config.workload.duration_s
        if duration_s is None:
            await self._until(self._lanes.drained, None)
        else:
            left_s = duration_s - (self._clock.now_ns() - start_ns) / NS
            await self._until(self._lanes.stopped, left_s)
        self._lanes.stop_sending()

    async def _drain(self, stopped: bool) -> None:
        """Follow what is open; past the grace period it is censored, after a stop cancelled."""
        if not stopped:
            self._lanes.stopped.clear()
            await self._until(self._lanes.drained, self._config.client.grace_s)
        # More than once only where a request left by itself before it heard of the end.
        while left := list(self._lanes.open.items()):
            for request_id, _ in left:
                self._transport.abort(request_id, Status.CANCELLED if stopped else Status.CENSORED)
            await asyncio.gather(*(task for _, task in left))
        self._lanes.file()

    async def _until(self, event: asyncio.Event, timeout_s: float | None) -> None:
        """Wait for an event, for a stop, or for a time, whichever is first."""
        waits = [asyncio.ensure_future(e.wait()) for e in (event, self._lanes.stopped)]
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _take(self, record: Record) -> None:
        first_ns, sent_ns = record.first_token_ns, record.exchange.sent_ns
        if first_ns is not None and sent_ns is not None:
            self._ttft_s = (first_ns - sent_ns) / NS
        # One stamp taken by a late reader, and the kernel's no longer speak for all.
        if self._stamp_source != "read" and record.exchange.sent_ns is not None:
            self._stamp_source = record.exchange.stamp_source
        self._on_record(record)

    def _report(
        self,
        start_ns: int,
        end_ns: int,
        pending: tuple[tuple[int, int], ...],
        stop_reason: str | None,
    ) -> ClientReport:
        workload = self._config.workload
        lag = self._watch.lag_ms(start_ns, end_ns)
        window = Window(
            kind="duration" if workload.duration_s is not None else "requests",
            start_ns=start_ns,
            end_ns=end_ns,
            declared_s=workload.duration_s,
            complete=stop_reason is None,
            stop_reason=stop_reason,
        )
        return ClientReport(
            lanes=self._config.lanes,
            window=window,
            wall_anchor_ns=self._anchor[0],
            mono_anchor_ns=self._anchor[1],
            stamp_source=self._stamp_source,
            loop_lag_p50_ms=lag[0] if lag else None,
            loop_lag_p99_ms=lag[1] if lag else None,
            loop_lag_max_ms=lag[2] if lag else None,
            cpu_share=self._watch.cpu_share(start_ns, end_ns),
            tree_idle_shift_s=self._lanes.timers.tree_shift_ns / NS,
            system_idle_shift_s=self._lanes.timers.system_shift_ns / NS,
            wrapped_lanes=0 if workload.open_loop else self._workload.wrapped_lanes,
            context_overflows=self._lanes.context_overflows,
            pending_gaps=pending,
            workload_notes=self._workload.notes(),
            arrivals_due=self._arrivals[0] if self._arrivals else None,
            arrivals_unsent=self._arrivals[1] if self._arrivals else 0,
        )
