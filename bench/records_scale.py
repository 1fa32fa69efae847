"""How records scale: writes and analyzes N synthetic requests of T tokens, and tells what it took.

    python bench/records_scale.py [--requests 100000] [--tokens 1000] [--folder DIR]

Writing and analysis run in a process each, so that the peak of memory is its own. The stamps have
a jitter of 0.5 ms, which does not compress: real ones are no larger.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inferometer.analyze import PointInputs, Versions, analyze_point
from inferometer.clock import NS
from inferometer.core import (
    Arrivals,
    ClientReport,
    ClientSettings,
    Exchange,
    FixedSeqLen,
    KvOffload,
    LaunchPlan,
    Parallelism,
    Phase,
    Point,
    Record,
    Status,
    Window,
    WorkloadSettings,
)
from inferometer.store import FORMAT, PointDir, record_row

IN_FLIGHT = 1000
GAP_NS = 20_000_000
JITTER_NS = 500_000
SAMPLE = 1000
"""Requests made and thrown away, to know what making one costs: that is none of the store's."""
TTFT_NS = 500_000_000


@dataclass(frozen=True)
class Took:
    """One process: wall and CPU seconds, and the most memory it had, in MB."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    note: str


def records(count: int, tokens: int) -> Iterator[Record]:
    """A closed loop of `IN_FLIGHT` streams."""
    random = np.random.default_rng(0)
    length_ns = TTFT_NS + (tokens + 1) * GAP_NS
    ones = np.ones(tokens, np.int32)
    for number in range(count):
        play, lane = divmod(number, IN_FLIGHT)
        sent_ns = NS + play * length_ns + lane * length_ns // IN_FLIGHT
        gaps_ns = GAP_NS + random.integers(-JITTER_NS, JITTER_NS, tokens)
        at_ns = sent_ns + TTFT_NS + np.cumsum(gaps_ns)
        yield Record(
            request_id=f"scale-{lane:04d}-{play:04d}-00000",
            phase=Phase.MEASURED,
            lane=lane,
            play=play,
            turn=0,
            session=f"fixed-{lane}-{play}",
            agent="root",
            parent_agent=None,
            ready_ns=sent_ns,
            scheduled_ns=sent_ns,
            dequeued_ns=sent_ns,
            input_tokens=1000,
            max_tokens=tokens,
            exchange=Exchange(
                connected_ns=sent_ns,
                sent_ns=sent_ns,
                body_sent_ns=sent_ns,
                first_byte_ns=int(at_ns[0]),
                first_visible_ns=int(at_ns[0]),
                end_ns=int(at_ns[-1]),
                arrivals=Arrivals(at_ns, ones, None),
                status=Status.OK,
                error=None,
                http_status=200,
                prompt_tokens=1000,
                cached_tokens=0,
                completion_tokens=tokens,
                token_source="usage_per_chunk",
                stamp_source="kernel",
                reused_connection=True,
            ),
        )


def write(folder: Path, count: int, tokens: int) -> str:
    """What the load does: rows, the journal, its segments; then the end."""
    before = time.thread_time()
    drawn = sum(1 for _ in records(SAMPLE, tokens))
    draw_s = (time.thread_time() - before) / drawn
    begun, cpu = time.perf_counter(), time.process_time()
    loop_cpu = time.thread_time()
    with PointDir(folder).record_journal() as journal:
        for record in records(count, tokens):
            journal.append(record_row(record))
        wrote, loop_s = time.perf_counter() - begun, time.thread_time() - loop_cpu
        during_s = time.process_time() - cpu
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        journal.seal()
    sealed = time.perf_counter() - begun - wrote
    size = (folder / "records.parquet").stat().st_size
    return (
        f"{wrote:.1f} s to write (peak {peak_mb:.0f} MB), {sealed:.1f} s to seal; of CPU a request "
        f"{(loop_s / count - draw_s) * 1e6:.0f} µs in the loop, "
        f"{(during_s / count - draw_s) * 1e6:.0f} with the segments; "
        f"{size / 1e6:.0f} MB, {size / count / tokens:.2f} bytes a token"
    )


def analyze(folder: Path, count: int, tokens: int) -> str:
    """What the judge does."""
    result = analyze_point(inputs(folder, count, tokens))
    found = result.metrics
    assert result.counts["ok"] == count
    return f"tpot p50 {found['tpot_p50_s']}, chunk gap p99 {found['chunk_gap_p99_s']}"


def inputs(folder: Path, count: int, tokens: int) -> PointInputs:
    """A point of these records."""
    length_ns = TTFT_NS + (tokens + 1) * GAP_NS
    window = Window("requests", NS, NS + (count // IN_FLIGHT + 2) * length_ns, None, True, None)
    client = ClientReport(
        lanes=IN_FLIGHT,
        window=window,
        wall_anchor_ns=0,
        mono_anchor_ns=0,
        stamp_source="kernel",
        loop_lag_p50_ms=None,
        loop_lag_p99_ms=None,
        loop_lag_max_ms=None,
        cpu_share=None,
        tree_idle_shift_s=0.0,
        system_idle_shift_s=0.0,
        wrapped_lanes=0,
        context_overflows=0,
        pending_gaps=(),
        workload_notes={},
    )
    workload = WorkloadSettings(
        "fixed", None, count, 0, 1000, tokens, 1.0, None, None, "none", 0, 60.0, 0, 0, 0, 0
    )
    plan = LaunchPlan(
        image="scale",
        argv=(),
        env={},
        files={},
        router=None,
        client=ClientSettings("chat", 1, 1, 1, 1, True, True, 0.0, None, 0.1, 1.0),
        workload=workload,
        origins={},
    )
    point = Point(
        config="scale",
        image="scale",
        model="m",
        model_prefix="m",
        precision="p",
        framework="f",
        runner="r",
        hardware="h",
        scenario=FixedSeqLen(1000, tokens),
        parallelism=Parallelism(1, 1, 1, 1, 1, dp_attn=False),
        spec_decoding="none",
        kv_offload=KvOffload("none", None, None, 0),
        router=None,
        conc=IN_FLIGHT,
        max_model_len=None,
        repeat=0,
    )
    return PointInputs(
        point=point,
        plan=plan,
        digest="d",
        records=PointDir(folder).requests(sessions=False),
        samples=(),
        client=client,
        totals=None,
        gpus=None,
        provenance="simulated",
        clock="virtual",
        engine_died=None,
        versions=Versions(FORMAT, "0", 0),
    )


def apart(work: Callable[..., str], *given: Any) -> Took:
    """Do it in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work, given))
    process.start()
    theirs.close()
    try:
        took: Took = ours.recv()
    except EOFError:
        raise SystemExit(f"{work.__name__}: failed, as said above") from None
    finally:
        process.join()
    return took


def _serve(pipe: Any, work: Callable[..., str], given: tuple[Any, ...]) -> None:
    begun = time.perf_counter()
    note = work(*given)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = used.ru_utime + used.ru_stime
    pipe.send(Took(time.perf_counter() - begun, cpu_s, used.ru_maxrss / 1024, note))


def main() -> None:
    """Both, and a line of each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="records-", dir=given.folder))
    try:
        print(f"{given.requests:,} requests of {given.tokens:,} tokens")
        for name, work in (("write", write), ("analyze", analyze)):
            took = apart(work, folder, given.requests, given.tokens)
            print(
                f"{name:8} {took.wall_s:8.1f} s  {took.cpu_s:8.1f} CPU s  "
                f"peak {took.peak_mb:6.0f} MB  {took.note}",
                flush=True,
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
