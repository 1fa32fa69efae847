"""Seconds of one core for an hour of agentic replay on the virtual engine.

    python bench/virtual_engine.py [--lanes 64] [--hours 1.0] [--drafts 0] [--profile]

Each lane plays sessions whose prompts grow from about 30,000 to 150,000 tokens; a turn adds a few
thousand tokens to the prefix of the turn before, asks for about 400, and follows after a short gap.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time

import numpy as np

from inferometer.clock import NS, VirtualClock, VirtualLoop, run_virtual
from inferometer.core import Phase, Prompt, Request
from inferometer.engine.simulated.options import parse_options
from inferometer.engine.simulated.virtual import VirtualEngine

BLOCK = 64


def request(lane: int, play: int, turn: int, blocks: int, output: int) -> Request:
    """A turn whose prompt is the first `blocks` blocks of its session."""
    ids = np.arange(blocks, dtype=np.int64) + ((lane * 1000 + play) << 20)
    name = f"{lane}/{play}/{turn}"
    return Request(
        id=name,
        phase=Phase.MEASURED,
        lane=lane,
        play=play,
        turn=turn,
        session=name,
        agent="root",
        parent_agent=None,
        affinity=f"{lane}/{play}",
        prompt=Prompt(ids, BLOCK, 17, 0),
        max_tokens=output,
        ready_ns=0,
        scheduled_ns=0,
    )


async def play_lane(engine: VirtualEngine, clock: VirtualClock, lane: int, end_ns: int) -> int:
    """Play sessions until the end; returns the requests done."""
    draw = np.random.default_rng(lane)
    done = play = 0
    while clock.now_ns() < end_ns:
        blocks, turn = int(draw.integers(300, 800)), 0
        while blocks < 2400 and clock.now_ns() < end_ns:
            output = int(min(4000, draw.exponential(400) + 20))
            exchange = await engine.send(request(lane, play, turn, blocks, output))
            assert exchange.completion_tokens == output
            done, turn = done + 1, turn + 1
            blocks += int(draw.exponential(40))
            await clock.sleep_until(clock.now_ns() + int(draw.exponential(2.0) * NS))
        play += 1
    return done


def main() -> None:
    """Run, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--drafts", type=int, default=0)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    argv = ["--model", "Qwen/Qwen3.5-397B-A17B", "--gpu", "b200", "-tp", "8"]
    argv += ["--precision", "fp4", "--num-gpu-blocks-override", "160000"]
    if given.drafts:
        argv += ["--speculative-tokens", str(given.drafts)]
        argv += ["--acceptance-length", str(1 + 0.6 * given.drafts)]
    loop = VirtualLoop()
    clock = VirtualClock(loop)
    engine = VirtualEngine(parse_options(argv), clock)
    end_ns = int(given.hours * 3600 * NS)

    async def lanes() -> int:
        plays = (play_lane(engine, clock, lane, end_ns) for lane in range(given.lanes))
        return sum(await asyncio.gather(*plays))

    profile = cProfile.Profile()
    began = time.process_time()
    if given.profile:
        profile.enable()
    done = run_virtual(lanes(), loop)
    profile.disable()
    spent = time.process_time() - began
    totals, gauges = engine.totals(), engine.gauges()
    hit = gauges["vllm:prefix_cache_hits_total"] / gauges["vllm:prefix_cache_queries_total"]
    print(f"{spent / given.hours:.1f} s of CPU per simulated hour; {done:,} requests, ", end="")
    print(f"{totals.generation_tokens:,.0f} tokens, {hit:.1%} prefix hits, ", end="")
    print(f"{gauges['vllm:num_preemptions_total']:.0f} preemptions")
    if given.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
