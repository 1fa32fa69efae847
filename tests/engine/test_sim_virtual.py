"""The engine inside a virtual event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

import numpy as np
import pytest

from inferometer.clock import NS, VirtualClock, VirtualLoop, run_virtual
from inferometer.core import Exchange, Phase, Prompt, Request, Status
from inferometer.engine.simulated.assembly import assemble
from inferometer.engine.simulated.options import EngineOptions, parse_options
from inferometer.engine.simulated.virtual import VirtualEngine
from inferometer.errors import EngineError, InputError

T = TypeVar("T")
Play = Callable[[VirtualEngine, VirtualClock], Awaitable[T]]


def options(*argv: str) -> EngineOptions:
    return parse_options(["--model", "Qwen/Qwen3-8B", "--gpu", "h200", *argv])


def request(
    id: str, blocks: int = 10, output: int = 50, family: int = 0, size: int = 64
) -> Request:
    ids = np.arange(blocks, dtype=np.int64) + 10_000 * family
    return Request(
        id=id,
        phase=Phase.MEASURED,
        lane=0,
        play=0,
        turn=0,
        session=id,
        agent="root",
        parent_agent=None,
        affinity=id,
        prompt=Prompt(ids, size, 5, 0),
        max_tokens=output,
        ready_ns=0,
        scheduled_ns=0,
    )


def play(main: Play[T], *argv: str) -> T:
    loop = VirtualLoop()
    clock = VirtualClock(loop)
    engine = VirtualEngine(options(*argv), clock)

    async def run() -> T:
        return await main(engine, clock)

    return run_virtual(run(), loop)


def burst(draw: np.random.Generator, count: int) -> list[tuple[int, Request]]:
    at = np.cumsum(draw.integers(0, 200_000_000, count))
    return [
        (
            int(at[i]),
            request(
                f"r{i}",
                int(draw.integers(1, 60)),
                int(draw.integers(1, 80)),
                int(draw.integers(0, 4)),
            ),
        )
        for i in range(count)
    ]


async def play_burst(
    engine: VirtualEngine, clock: VirtualClock, asked: list[tuple[int, Request]]
) -> list[Exchange]:
    async def one(at: int, what: Request) -> Exchange:
        await clock.sleep_until(at)
        return await engine.send(what)

    return list(await asyncio.gather(*(one(at, what) for at, what in asked)))


def test_an_exchange_is_complete() -> None:
    async def main(engine: VirtualEngine, clock: VirtualClock) -> Exchange:
        await clock.sleep_until(NS)
        return await engine.send(request("a", output=7))

    exchange = play(main)
    assert exchange.status is Status.OK
    assert exchange.sent_ns == exchange.connected_ns == NS
    assert exchange.arrivals.tokens is not None
    assert exchange.arrivals.tokens.tolist() == [1] * 7
    assert exchange.first_byte_ns == int(exchange.arrivals.at_ns[0]) > NS
    assert exchange.end_ns == int(exchange.arrivals.at_ns[-1])
    assert (exchange.prompt_tokens, exchange.cached_tokens) == (645, 0)
    assert exchange.completion_tokens == 7
    assert (exchange.token_source, exchange.stamp_source) == ("usage_per_chunk", "virtual")


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("--num-gpu-blocks-override", "70"),
        ("--speculative-tokens", "2", "--acceptance-length", "1.8"),
    ],
)
def test_the_same_seed_gives_the_same_arrays_and_the_driver_cuts_nothing_away(
    argv: tuple[str, ...],
) -> None:
    asked = burst(np.random.default_rng(1), 40)

    async def main(engine: VirtualEngine, clock: VirtualClock) -> list[list[int]]:
        return [e.arrivals.at_ns.tolist() for e in await play_burst(engine, clock, asked)]

    assert play(main, *argv) == play(main, *argv) == step_by_step(asked, *argv)


def step_by_step(asked: list[tuple[int, Request]], *argv: str) -> list[list[int]]:
    """The same load on the bare scheduler, one step at a time."""
    engine, now = assemble(options(*argv)), 0
    pending, found = deque(asked), dict[str, list[int]]()
    while pending or not engine.idle:
        while pending and pending[0][0] <= now:
            at, what = pending.popleft()
            engine.submit(what.id, what.prompt, what.max_tokens, at)
        segment = engine.next_segment(now, max_steps=1)
        if segment is None:
            now = pending[0][0]
            continue
        for sequence in engine.commit(1).finished:
            found[sequence.id] = engine.arrivals(sequence).at_ns.tolist()
        now = int(segment.ends_ns[0])
    return [found[what.id] for _, what in asked]


def test_an_engine_that_was_idle_wakes_again() -> None:
    async def main(engine: VirtualEngine, clock: VirtualClock) -> tuple[Exchange, Exchange]:
        first = await engine.send(request("a", output=1))
        await clock.sleep_until(clock.now_ns() + NS)
        return first, await engine.send(request("b", output=1, family=1))

    first, second = play(main)
    assert first.sent_ns is not None
    assert second.sent_ns is not None
    assert second.end_ns - second.sent_ns == first.end_ns - first.sent_ns


def test_what_arrives_together_is_prefilled_together() -> None:
    async def main(engine: VirtualEngine, clock: VirtualClock) -> list[Exchange]:
        asked = [(0, request("a", family=1)), (0, request("b", family=2))]
        return await play_burst(engine, clock, asked)

    first, second = play(main)
    assert first.arrivals.at_ns[0] == second.arrivals.at_ns[0]


def test_totals_and_gauges_count_the_steps_that_are_over() -> None:
    async def main(
        engine: VirtualEngine, clock: VirtualClock
    ) -> tuple[dict[str, float], dict[str, float], Exchange]:
        task = asyncio.ensure_future(engine.send(request("a", output=2000)))
        await clock.sleep_until(5 * NS)
        during = engine.gauges()
        return during, engine.gauges(), await task

    during, again, exchange = play(main)
    seen = int((exchange.arrivals.at_ns <= 5 * NS).sum())
    assert 0 < seen < 2000
    assert during["vllm:generation_tokens_total"] == seen
    assert during == again
    assert during["vllm:num_requests_running"] == 1
    assert during["vllm:prompt_tokens_total"] == 645


def test_totals_are_exact_at_the_end() -> None:
    asked = burst(np.random.default_rng(2), 20)

    async def main(engine: VirtualEngine, clock: VirtualClock) -> VirtualEngine:
        await play_burst(engine, clock, asked)
        return engine

    engine = play(main)
    totals, gauges = engine.totals(), engine.gauges()
    assert totals.requests == 20
    assert totals.prompt_tokens == sum(what.prompt.tokens for _, what in asked)
    assert totals.generation_tokens == sum(what.max_tokens for _, what in asked)
    assert totals.lateness_p99_ms == 0
    assert gauges["vllm:kv_cache_usage_perc"] == 0
    assert gauges["vllm:prefix_cache_hits_total"] > 0


def test_cancelling_the_caller_cancels_the_sequence() -> None:
    async def main(engine: VirtualEngine, clock: VirtualClock) -> tuple[float, float]:
        task = asyncio.ensure_future(engine.send(request("a", output=5000)))
        await clock.sleep_until(NS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await engine.send(request("b", output=1))
        generated = engine.totals().generation_tokens
        assert generated is not None
        return engine.gauges()["vllm:num_requests_running"], generated

    running, generated = play(main)
    assert running == 0
    assert 100 < generated < 400  # one second's worth, not 5,000


def test_refusals_are_exchanges_and_a_wrong_block_size_is_an_error() -> None:
    async def main(engine: VirtualEngine, clock: VirtualClock) -> Exchange:
        with pytest.raises(InputError, match="set --block-size 16"):
            await engine.send(request("a", size=16))
        return await engine.send(request("b", blocks=1000))

    exchange = play(main)
    assert (exchange.status, exchange.http_status) == (Status.HTTP_STATUS, 400)
    assert exchange.error is not None
    assert "maximum model length of 40960" in exchange.error
    assert len(exchange.arrivals) == 0
    assert exchange.completion_tokens is None


def test_injected_status_and_never_ready() -> None:
    async def main(engine: VirtualEngine, clock: VirtualClock) -> Exchange:
        return await engine.send(request("a"))

    assert play(main, "--fail-status", "429").http_status == 429
    assert play(main, "--never-ready").http_status == 503


def test_an_engine_that_dies_breaks_off_what_is_under_way() -> None:
    async def main(engine: VirtualEngine, clock: VirtualClock) -> list[Exchange]:
        first = asyncio.ensure_future(engine.send(request("a", output=5000)))
        await clock.sleep_until(NS)
        second = asyncio.ensure_future(engine.send(request("b", blocks=100, family=1)))
        await clock.sleep_until(NS + 15_000_000)  # the prefill of b is under way
        third, fourth = await engine.send(request("c")), await engine.send(request("d"))
        with pytest.raises(EngineError):
            engine.gauges()
        return [await first, await second, third, fourth]

    first, second, third, fourth = play(main, "--fail-after-requests", "2")
    assert [e.status for e in (first, second, third)] == [Status.TRUNCATED] * 3
    assert fourth.status is Status.CONNECT
    assert 100 < len(first.arrivals) < 400
    assert first.completion_tokens == len(first.arrivals)
    assert (len(second.arrivals), second.completion_tokens) == (0, 0)
