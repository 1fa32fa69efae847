"""How close the client's stamps are to the truth, what a chunk costs it, and what it can hold.

Builds the truthserver (C, one file), drives it with closed-loop streams, and compares every record
with the server's own log by request id. Needs a C compiler and the source; Linux.

    python bench/truth_accuracy.py --source truthserver.c
    python bench/truth_accuracy.py --source truthserver.c --idle 4000 --short 60
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from inferometer.core import Exchange
from inferometer.load.ceiling import (
    Carried,
    Load,
    Times,
    carry,
    coalesced,
    stamp_errors_ns,
    ttft_error_ns,
)
from inferometer.observe.processes import family, memory

MODEL = "ttft=500+itl=20+n=300+jit=0.5"
IDLE_MODEL = "ttft=1000+itl=1000+n=60"
SHORT_MODEL = "ttft=1+n=1"
SOURCE = Path(__file__).resolve().parents[2] / "shared" / "tools" / "truthserver.c"
US = 1e3
SLOPE = (64, 256)
"""Streams between which the cost of a chunk is taken: what every run costs cancels out."""


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """When the server had read a request, and when it wrote each token-bearing chunk."""

    request_ns: int
    chunk_ns: Times


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One load, and the server's account of it."""

    streams: int
    carried: Carried
    truths: dict[str, Truth]

    @property
    def cpu_s(self) -> float:
        """Of every process of the client."""
        return self.carried.workers_cpu_s + self.carried.coordinator_cpu_s


def main() -> None:
    """Build, drive, compare, print."""
    options = parse_arguments()
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        binary = build(options.source, Path(folder))
        rounds = []
        for number in range(options.rounds if options.streams else 0):
            console.print(f"round {number + 1} of {options.rounds}", style="dim")
            rounds.append([truth_run(binary, n, options) for n in options.streams])
        if rounds:
            console.print(accuracy_table(rounds))
            console.print(cost_table(rounds))
        if options.idle:
            console.print(idle_table(binary, options))
        if options.short:
            console.print(asyncio.run(short_table(binary, options.short, options.workers)))


def parse_arguments() -> argparse.Namespace:
    """Command line; the defaults are the run that is quoted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, default=SOURCE, help="truthserver.c")
    parser.add_argument("--model", default=MODEL, help="the server's plan of a stream")
    parser.add_argument(
        "--streams", type=int, nargs="*", default=[64, 256, 1000], help="closed-loop streams"
    )
    parser.add_argument("--requests", type=int, default=3, help="requests a stream")
    parser.add_argument("--rounds", type=int, default=3, help="medians are over these")
    parser.add_argument("--workers", type=int, default=1, help="processes that send")
    parser.add_argument("--idle", type=int, default=0, help="memory of so many slow streams")
    parser.add_argument(
        "--idle-requests", type=int, default=3, help="of a minute each, one after the other"
    )
    parser.add_argument("--short", type=float, default=0, help="one-token requests for so long, s")
    options = parser.parse_args()
    if not options.source.is_file():
        parser.error(f"{options.source} is not a file; name the source with --source")
    return options


def build(source: Path, folder: Path) -> Path:
    """Compile the truthserver."""
    binary = folder / "truthserver"
    subprocess.run(["cc", "-O2", "-o", str(binary), str(source)], check=True)
    return binary


@contextmanager
def truthserver(binary: Path, log: Path | None = None) -> Iterator[str]:
    """Run it; its log is whole when the context ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [str(binary), "--port", str(port), *(["--log", str(log)] if log else [])]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()  # printed once it listens
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)


def truth_run(binary: Path, streams: int, options: argparse.Namespace) -> Run:
    """Each stream sends its next request when the last one is answered."""
    log = binary.parent / "truth.csv"
    load = Load(streams, options.requests, max_tokens=450, workers=options.workers)
    with truthserver(binary, log) as url:
        carried = asyncio.run(carry(url, options.model, load))
    return Run(streams, carried, read_log(log))


def read_log(log: Path) -> dict[str, Truth]:
    """The server's account, by request id."""
    truths = {}
    for line in log.read_text().splitlines()[1:]:
        _, request_id, _, _, request_ns, chunks, _ = line.split(",")
        chunk_ns = np.array([int(stamp) for stamp in chunks.split(";")], dtype=np.int64)
        truths[request_id] = Truth(int(request_ns), chunk_ns)
    return truths


def accuracy_table(rounds: Sequence[Sequence[Run]]) -> Table:
    """Client minus server by streams: each cell the median over the rounds."""
    table = Table(title="Client minus server, us")
    for heading in ("", "streams", "n", "min", "p50", "p99", "max"):
        table.add_column(heading, justify="right" if heading else "left")
    for runs in zip(*rounds, strict=True):
        found = [errors(run) for run in runs]
        for name in found[0]:
            cells = [summary(error[name]) for error in found if len(error[name])]
            if cells:
                median = np.median(np.array(cells), axis=0)
                count = statistics.median(len(error[name]) for error in found)
                table.add_row(
                    name, str(runs[0].streams), f"{count:.0f}", *(f"{cell:.1f}" for cell in median)
                )
        table.add_section()
    return table


def errors(run: Run) -> dict[str, Times]:
    """Every kind of error of one run, in ns."""
    pairs = [
        (exchange, run.truths[key])
        for key, exchange in run.carried.exchanges.items()
        if len(exchange.arrivals) == len(run.truths[key].chunk_ns)
    ]
    late = [stamp_errors_ns(exchange, truth.chunk_ns) for exchange, truth in pairs]
    marks = [coalesced(exchange) for exchange, _ in pairs]
    ttft = [
        ttft_error_ns(exchange, truth.request_ns, int(truth.chunk_ns[0]))
        for exchange, truth in pairs
    ]
    every, marked = np.concatenate(late), np.concatenate(marks)
    return {
        "TTFT": np.array(ttft),
        "first token": np.array([each[0] for each in late]),
        "last token": np.array([each[-1] for each in late]),
        "not coalesced": every[~marked],
        "coalesced": every[marked],
        "gap between chunks": np.concatenate([gap_errors(e, t) for e, t in pairs]),
    }


def gap_errors(exchange: Exchange, truth: Truth) -> Times:
    """Absolute error of each gap between chunks, in ns."""
    found: Times = np.abs(np.diff(exchange.arrivals.at_ns) - np.diff(truth.chunk_ns))
    return found


def summary(values: Times) -> npt.NDArray[np.float64]:
    """Minimum, p50, p99, maximum in us."""
    found: npt.NDArray[np.float64] = np.percentile(values / US, [0, 50, 99, 100])
    return found


def cost_table(rounds: Sequence[Sequence[Run]]) -> Table:
    """What the client did and what it cost; each cell the median over the rounds."""
    table = Table(title="The client")
    columns = [statistics_of(runs) for runs in zip(*rounds, strict=True)]
    table.add_column("")
    for runs in rounds[0]:
        table.add_column(f"{runs.streams} streams", justify="right")
    for name in columns[0]:
        table.add_row(name, *(column[name] for column in columns))
    slopes = [slope for runs in rounds if (slope := cpu_slope(runs)) is not None]
    if slopes:
        text = f"{min(slopes):.1f} / {statistics.median(slopes):.1f} us"
        table.add_row(f"CPU a chunk, slope {SLOPE[0]} to {SLOPE[1]}: least / median", text)
    return table


def statistics_of(runs: Sequence[Run]) -> dict[str, str]:
    """One column of the table."""
    first = runs[0].carried

    def median(values: Sequence[float | None], scale: float, unit: str) -> str:
        known = [value * scale for value in values if value is not None]
        return f"{statistics.median(known):.2f}{unit}" if known else "-"

    carried = [run.carried for run in runs]
    return {
        "requests ok / all": f"{first.ok} / {len(first.exchanges)}",
        "kernel stamps only": str(
            Counter(e.stamp_source for e in first.exchanges.values())["kernel"]
        ),
        "chunks a second": median([c.chunks / c.wall_s for c in carried], 1, ""),
        "coalesced share of chunks": median([c.coalesced_share for c in carried], 100, " %"),
        "coalesced share of first tokens": median(
            [
                statistics.mean([float(coalesced(e)[0]) for e in c.exchanges.values()])
                for c in carried
            ],
            100,
            " %",
        ),
        "CPU of the busiest worker, of a core": median([c.cpu_share for c in carried], 100, " %"),
        "loop lag p99 of a worker": median([c.loop_lag_p99_ms for c in carried], 1, " ms"),
        "CPU a chunk, all processes, start-up too": median(
            [run.cpu_s / run.carried.chunks for run in runs], 1e6, " us"
        ),
    }


def cpu_slope(runs: Sequence[Run]) -> float | None:
    """CPU us a chunk of every process, from one number of streams to the other."""
    by_streams = {run.streams: run for run in runs}
    if not set(SLOPE) <= set(by_streams):
        return None
    few, many = (by_streams[streams] for streams in SLOPE)
    return 1e6 * (many.cpu_s - few.cpu_s) / (many.carried.chunks - few.carried.chunks)


def idle_table(binary: Path, options: argparse.Namespace) -> Table:
    """Memory of slow streams: a stream, from an eighth of them to all, and over the time."""
    streams, requests = options.idle, options.idle_requests
    few, many = (
        idle_run(binary, count, options.workers, requests) for count in (streams // 8, streams)
    )
    title = f"{streams} streams of a token a second, {requests} requests of 60 s each"
    table = Table(title=title)
    for heading in ("", "value"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, seen in many.resident.items():
        slope = (max(seen)[0] - max(few.resident[name])[0]) / (streams - streams // 8) / 1e3
        table.add_row(f"memory a stream, {name}", f"{slope:.1f} kB")
        text = " ".join(f"{size / 1e6:.1f}" for size in by_minute(seen))
        table.add_row(f"resident, minute by minute, {name}", f"{text} MB")
    table.add_row("requests ok / all", f"{many.counts['ok']} / {many.counts.total()}")
    return table


@dataclass(frozen=True, slots=True, eq=False)
class Idle:
    """(bytes, s since the start) by process, and requests by status."""

    resident: dict[str, list[tuple[float, float]]]
    counts: Counter[str]


def by_minute(seen: Sequence[tuple[float, float]]) -> list[float]:
    """The median of each minute that was had."""
    minutes: dict[int, list[float]] = {}
    for size, at_s in seen:
        minutes.setdefault(int(at_s // 60), []).append(size)
    return [statistics.median(sizes) for _, sizes in sorted(minutes.items())]


def idle_run(binary: Path, streams: int, workers: int, requests: int) -> Idle:
    """Resident bytes once a second, of the workers together and of this process. No exchange is
    held, as no run holds any.
    """
    resident: dict[str, list[tuple[float, float]]] = {"workers": [], "coordinator": []}
    counts: Counter[str] = Counter()
    over = threading.Event()
    with truthserver(binary) as url:
        own = frozenset([os.getpid()])
        others = family({os.getpid()})
        begun = time.monotonic()

        def watch() -> None:
            while not over.wait(1.0):
                at_s = time.monotonic() - begun
                if size := memory(family({os.getpid()}) - others)["resident"]:
                    resident["workers"].append((size, at_s))
                    resident["coordinator"].append((memory(own)["resident"], at_s))

        thread = threading.Thread(target=watch)
        thread.start()
        load = Load(streams, requests, max_tokens=60, workers=workers)
        try:
            keep = lambda _, exchange: counts.update((exchange.status.value,))  # noqa: E731
            asyncio.run(carry(url, IDLE_MODEL, load, keep))
        finally:
            over.set()
            thread.join()
    return Idle(resident, counts)


async def short_table(binary: Path, seconds: float, workers: int) -> Table:
    """One-token requests as fast as 64 streams go, counted on both sides."""
    counts: Counter[str] = Counter()
    with truthserver(binary) as url:
        load = Load(64, 200, max_tokens=1, workers=workers)
        probe = await carry(url, SHORT_MODEL, load)
        each = max(1, round(seconds * len(probe.exchanges) / probe.wall_s / load.streams))
        carried = await carry(
            url,
            SHORT_MODEL,
            replace(load, requests=each),
            lambda _, exchange: counts.update((exchange.status.value,)),
        )
        served = await asyncio.to_thread(streams_served, url)
    table = Table(title=f"One-token requests, 64 streams, {carried.wall_s:.0f} s")
    for heading in ("", "value"):
        table.add_column(heading, justify="right" if heading else "left")
    total = sum(counts.values())
    table.add_row("requests, ok", f"{total}, {counts['ok']}")
    table.add_row("requests that the server counted", str(served - len(probe.exchanges)))
    table.add_row("requests a second", f"{total / carried.wall_s:.0f}")
    table.add_row("CPU a request, workers", f"{carried.workers_cpu_s / total * 1e6:.0f} us")
    table.add_row("CPU a request, coordinator", f"{carried.coordinator_cpu_s / total * 1e6:.0f} us")
    return table


def streams_served(url: str) -> int:
    """The server's own count."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"{url}/metrics") as page:
        line = next(line for line in page if line.startswith(b"vllm:request_success_total"))
    return int(float(line.split()[-1]))


if __name__ == "__main__":
    main()
