"""The engine inside a virtual event loop: requests in, exchanges out, no socket and no text.

The scheduler runs ahead a segment at a time; an arrival or a cancellation cuts the segment at the
step under way. The network takes no time here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np

from inferometer.clock import NS, VirtualClock
from inferometer.core import Arrivals, EngineTotals, Exchange, Request, Status
from inferometer.engine.simulated.assembly import assemble
from inferometer.engine.simulated.options import EngineOptions
from inferometer.engine.simulated.scheduler import Segment
from inferometer.engine.simulated.sequence import Sequence
from inferometer.errors import EngineError, InputError


@dataclass(slots=True, eq=False)
class _Open:
    """A request under way: its sequence, when it came, and where its exchange is awaited."""

    sequence: Sequence
    sent_ns: int
    done: asyncio.Future[Exchange]


class VirtualEngine:
    """The built-in engine on virtual time. One engine a `run_virtual`."""

    def __init__(self, options: EngineOptions, clock: VirtualClock) -> None:
        self._options = options
        self._clock = clock
        self._scheduler = assemble(options)
        self._open: dict[str, _Open] = {}
        self._segment: Segment | None = None
        self._steps = 0  # of the segment, that will be committed
        self._timer: asyncio.Handle | None = None
        self._accepted = 0
        self._dead = False

    async def send(self, request: Request) -> Exchange:
        """Serve one request to its last token; cancelling the caller cancels the sequence.

        InputError when the prompt's block size is not the engine's; a request that the engine
        refuses is an exchange with status 400, as over HTTP.
        """
        now = self._clock.now_ns()
        if request.prompt.block_size != self._options.block_size:
            raise InputError(
                f"prompts have blocks of {request.prompt.block_size} tokens and the engine of "
                f"{self._options.block_size}: set --block-size {request.prompt.block_size}"
            )
        if (failed := self._injected_fault(now)) is not None:
            return failed
        try:
            sequence = self._scheduler.submit(
                request.id, request.prompt, request.max_tokens, now
            )
        except InputError as error:
            return _failed(now, Status.HTTP_STATUS, str(error), 400)
        entry = _Open(sequence, now, asyncio.get_running_loop().create_future())
        self._open[request.id] = entry
        self._cut(now)
        try:
            return await entry.done
        except asyncio.CancelledError:
            self._leave(request.id)
            raise

    def totals(self) -> EngineTotals:
        """Counters of steps complete by now."""
        self._catch_up()
        counters = self._scheduler.counters
        return EngineTotals(
            requests=float(counters.finished),
            prompt_tokens=float(counters.prompt_tokens),
            generation_tokens=float(counters.generation_tokens),
            lateness_p99_ms=0.0,
        )

    def gauges(self) -> dict[str, float]:
        """What /metrics of the server would show now, by vLLM's names."""
        if self._dead:
            raise EngineError("the built-in engine has ended (--fail-after-requests)")
        self._catch_up()
        scheduler = self._scheduler
        counters, cache = scheduler.counters, scheduler.cache
        return {
            "vllm:num_requests_running": float(scheduler.running),
            "vllm:num_requests_waiting": float(scheduler.waiting),
            "vllm:kv_cache_usage_perc": cache.used / cache.total,
            "vllm:prefix_cache_queries_total": float(counters.prefix_queries),
            "vllm:prefix_cache_hits_total": float(counters.prefix_hits),
            "vllm:prompt_tokens_total": float(counters.prompt_tokens),
            "vllm:generation_tokens_total": float(counters.generation_tokens),
            "vllm:num_preemptions_total": float(counters.preemptions),
            "vllm:spec_decode_num_drafts_total": float(counters.drafts),
            "vllm:spec_decode_num_draft_tokens_total": float(counters.draft_tokens),
            "vllm:spec_decode_num_accepted_tokens_total": float(counters.accepted_tokens),
        }

    # The driver: one timer, at the end of the steps that will be committed.

    def _plan(self, now_ns: int) -> None:
        self._segment = self._scheduler.next_segment(now_ns)
        if self._segment is not None:
            self._steps = len(self._segment.ends_ns)
            self._arm()

    def _arm(self) -> None:
        assert self._segment is not None
        if self._timer is not None:
            self._timer.cancel()
        at = int(self._segment.ends_ns[self._steps - 1])
        self._timer = asyncio.get_running_loop().call_at(at / NS, self._step_ended)

    def _step_ended(self) -> None:
        assert self._segment is not None
        end = int(self._segment.ends_ns[self._steps - 1])
        self._commit(self._steps)
        self._plan(end)

    def _commit(self, steps: int) -> None:
        outcome = self._scheduler.commit(steps)
        for sequence in outcome.finished:
            entry = self._open.pop(sequence.id, None)
            if entry is not None and not entry.done.done():
                arrivals = self._scheduler.arrivals(sequence)
                entry.done.set_result(_exchange(entry, arrivals, Status.OK, None))

    def _cut(self, now_ns: int) -> None:
        """Something came or went: end the segment with the step under way, or start one."""
        if self._segment is None:
            # The call runs once all that happens at this instant has happened: what arrives
            # together is admitted together.
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_soon(self._wake)
            return
        steps = self._segment.steps_until(now_ns)
        if steps < self._steps:
            self._steps = steps
            self._arm()

    def _wake(self) -> None:
        self._timer = None
        self._plan(self._clock.now_ns())

    def _leave(self, id: str) -> None:
        if self._open.pop(id, None) is not None and not self._dead:
            self._scheduler.cancel(id)
            self._cut(self._clock.now_ns())

    def _catch_up(self) -> None:
        """Commit the steps that are over. The rest of an uncut segment is planned again, the same;
        a cut one has at most one step to go and is left.
        """
        segment = self._segment
        if segment is None or self._steps < len(segment.ends_ns):
            return
        done = segment.steps_done(self._clock.now_ns())
        if 0 < done < self._steps:
            self._commit(done)
            self._plan(int(segment.ends_ns[done - 1]))

    # Fault injection.

    def _injected_fault(self, now_ns: int) -> Exchange | None:
        options = self._options
        if self._dead:
            return _failed(now_ns, Status.CONNECT, "connection refused", None)
        if options.never_ready:
            return _failed(now_ns, Status.HTTP_STATUS, "not ready", 503)
        if options.fail_status is not None:
            status = options.fail_status
            return _failed(now_ns, Status.HTTP_STATUS, f"injected status {status}", status)
        if options.fail_after_requests is not None:
            self._accepted += 1
            if self._accepted > options.fail_after_requests:
                self._die(now_ns)
                return _failed(now_ns, Status.TRUNCATED, "connection closed", None)
        return None

    def _die(self, now_ns: int) -> None:
        """As if the process had ended: what is under way breaks off with the tokens it has."""
        self._dead = True
        if self._timer is not None:
            self._timer.cancel()
        if self._segment is not None and (done := self._segment.steps_done(now_ns)):
            self._commit(min(done, self._steps))
        for id in list(self._open):
            self._scheduler.cancel(id)
        for entry in self._open.values():
            if not entry.done.done():
                arrivals = self._scheduler.arrivals(entry.sequence)
                broken = _exchange(entry, arrivals, Status.TRUNCATED, "connection closed")
                entry.done.set_result(broken)
        self._open.clear()


def _exchange(entry: _Open, arrivals: Arrivals, status: Status, error: str | None) -> Exchange:
    sequence, at = entry.sequence, arrivals.at_ns
    first = int(at[0]) if len(at) else None
    return Exchange(
        connected_ns=entry.sent_ns,
        sent_ns=entry.sent_ns,
        body_sent_ns=entry.sent_ns,
        first_byte_ns=first,
        first_visible_ns=first,
        end_ns=int(at[-1]) if len(at) else entry.sent_ns,
        arrivals=arrivals,
        status=status,
        error=error,
        http_status=200,
        prompt_tokens=sequence.prompt.tokens,
        cached_tokens=sequence.cached_tokens,
        completion_tokens=sequence.generated,
        token_source="usage_per_chunk",
        stamp_source="virtual",
        reused_connection=True,
    )


def _failed(now_ns: int, status: Status, error: str, http_status: int | None) -> Exchange:
    """An exchange without a token."""
    connected = None if status is Status.CONNECT else now_ns
    nothing = Arrivals(
        np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.bool_)
    )
    return Exchange(
        connected_ns=connected,
        sent_ns=connected,
        body_sent_ns=connected,
        first_byte_ns=None if http_status is None else now_ns,
        first_visible_ns=None,
        end_ns=now_ns,
        arrivals=nothing,
        status=status,
        error=error,
        http_status=http_status,
        prompt_tokens=None,
        cached_tokens=None,
        completion_tokens=None,
        token_source="usage_per_chunk",
        stamp_source="virtual",
        reused_connection=True,
    )
