"""How close the client's stamps are to the truth, and what a chunk costs it.

Builds the truthserver (C, one file), drives it with closed-loop streams, and compares every record
with the server's own log by request id. Needs a C compiler and the source; Linux.

    python bench/truth_accuracy.py --source truthserver.c --streams 64 --requests 3
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from inferometer.clock import RealClock
from inferometer.core import ClientSettings, Exchange, Phase, Prompt, Request, Status
from inferometer.load.endpoints import chat_body
from inferometer.load.socket_transport import SocketTransport

MODEL = "ttft=500+itl=20+n=300+jit=0.5"
SOURCE = Path(__file__).resolve().parents[2] / "shared" / "tools" / "truthserver.c"
SETTINGS = ClientSettings(
    endpoint="chat",
    connect_timeout_s=10.0,
    first_byte_timeout_s=60.0,
    between_bytes_timeout_s=60.0,
    total_timeout_s=600.0,
    usage_every_chunk=False,
    ignore_eos=True,
    temperature=0.0,
    affinity_header=None,
    stop_failed_share=0.1,
    grace_s=0.0,
)
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """When the server had read a request, and when it wrote each token-bearing chunk."""

    request_ns: int
    chunk_ns: Times


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What the client saw, by request id, and the CPU time of its process."""

    exchanges: dict[str, Exchange]
    user_s: float
    system_s: float
    wall_s: float


def main() -> None:
    """Build, drive, compare, print."""
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "truth.csv"
        with truthserver(options.source, Path(folder), log) as url:
            run = asyncio.run(drive(url, options.model, options.streams, options.requests))
        report(run, read_log(log), options)


def parse_arguments() -> argparse.Namespace:
    """Command line; the defaults are the run that is quoted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, default=SOURCE, help="truthserver.c")
    parser.add_argument("--model", default=MODEL, help="the server's plan of a stream")
    parser.add_argument("--streams", type=int, default=64, help="closed-loop streams")
    parser.add_argument("--requests", type=int, default=3, help="requests a stream")
    options = parser.parse_args()
    if not options.source.is_file():
        parser.error(f"{options.source} is not a file; name the source with --source")
    return options


@contextmanager
def truthserver(source: Path, folder: Path, log: Path) -> Iterator[str]:
    """Compile it and run it; its log is whole when the context ends."""
    binary = folder / "truthserver"
    subprocess.run(["cc", "-O2", "-o", str(binary), str(source)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [str(binary), "--port", str(port), "--log", str(log)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()  # printed once it listens
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)


async def drive(url: str, model: str, streams: int, requests: int) -> Run:
    """Each stream sends its next request when the last one is answered."""
    transport = SocketTransport(
        url, lambda request: chat_body(model, "x", request, SETTINGS), SETTINGS, {}, RealClock()
    )
    exchanges: dict[str, Exchange] = {}

    async def lane(number: int) -> None:
        for turn in range(requests):
            request = make_request(number, turn)
            exchanges[request.id] = await transport.send(request)

    before, wall_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    await asyncio.gather(*(lane(number) for number in range(streams)))
    after, wall_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - wall_s
    await transport.close()
    user_s, system_s = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Run(exchanges, user_s, system_s, wall_s)


def make_request(lane: int, turn: int) -> Request:
    """One request; its prompt does not matter to the server."""
    return Request(
        id=f"{lane}-{turn}",
        phase=Phase.MEASURED,
        lane=lane,
        play=0,
        turn=turn,
        session=str(lane),
        agent="root",
        parent_agent=None,
        affinity=str(lane),
        prompt=Prompt(np.zeros(0, dtype=np.int64), 64, 1, lane),
        max_tokens=32,
        ready_ns=0,
        scheduled_ns=0,
    )


def read_log(log: Path) -> dict[str, Truth]:
    """The server's account, by request id."""
    truths = {}
    for line in log.read_text().splitlines()[1:]:
        _, request_id, _, _, request_ns, chunks, _ = line.split(",")
        chunk_ns = np.array([int(stamp) for stamp in chunks.split(";")], dtype=np.int64)
        truths[request_id] = Truth(int(request_ns), chunk_ns)
    return truths


def report(run: Run, truths: dict[str, Truth], options: argparse.Namespace) -> None:
    """Print the errors, then what the client did and what it cost."""
    pairs = [(exchange, truths[key]) for key, exchange in run.exchanges.items()]
    whole = [(e, t) for e, t in pairs if len(e.arrivals) == len(t.chunk_ns)]
    late = np.concatenate([e.arrivals.at_ns - t.chunk_ns for e, t in whole])
    marks = np.concatenate([coalesced(e) for e, _ in whole])
    errors = {
        "TTFT": [ttft_error(e, t) for e, t in whole],
        "TTFT, first token not coalesced": [
            ttft_error(e, t) for e, t in whole if not coalesced(e)[0]
        ],
        "stamp of the first token": [e.arrivals.at_ns[0] - t.chunk_ns[0] for e, t in whole],
        "stamp of the last token": [e.arrivals.at_ns[-1] - t.chunk_ns[-1] for e, t in whole],
        "stamp of every token": late,
        "stamps not coalesced": late[~marks],
        "stamps coalesced": late[marks],
        "gap between chunks, absolute": np.concatenate([gap_errors(e, t) for e, t in whole]),
    }
    table = Table(title=f"Client minus server, us ({options.streams} x {options.requests})")
    for heading in ("", "n", "min", "p50", "p99", "max"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, values in errors.items():
        us = np.asarray(values, dtype=np.float64) / 1e3
        if not len(us):
            continue
        cells = (us.min(), np.percentile(us, 50), np.percentile(us, 99), us.max())
        table.add_row(name, str(len(us)), *(f"{cell:.1f}" for cell in cells))
    console = Console()
    console.print(table)
    console.print(totals(run, pairs, len(whole)))


def totals(run: Run, pairs: list[tuple[Exchange, Truth]], whole: int) -> Table:
    """Counts, coalesced share, stamp source and CPU."""
    exchanges = [exchange for exchange, _ in pairs]
    chunks = sum(len(e.arrivals) for e in exchanges)
    marked = sum(int(coalesced(e).sum()) for e in exchanges)
    ok = sum(e.status is Status.OK for e in exchanges)
    kernel = sum(e.stamp_source == "kernel" for e in exchanges)
    table = Table(title="The client", show_header=False)
    for name, text in (
        (
            "requests: ok / with the server's count of chunks / all",
            f"{ok} / {whole} / {len(pairs)}",
        ),
        ("chunks, chunks per second", f"{chunks}, {chunks / run.wall_s:.0f}"),
        ("coalesced share of chunks", f"{marked / chunks:.2%}"),
        ("requests with kernel stamps only", f"{kernel}"),
        ("requests on a kept connection", f"{sum(e.reused_connection for e in exchanges)}"),
        ("CPU per chunk in Python", f"{run.user_s / chunks * 1e6:.1f} us"),
        ("CPU per chunk in the kernel", f"{run.system_s / chunks * 1e6:.1f} us"),
        ("CPU share of one core", f"{(run.user_s + run.system_s) / run.wall_s:.1%}"),
    ):
        table.add_row(name, text)
    return table


def ttft_error(exchange: Exchange, truth: Truth) -> int:
    """First token minus `sent`, against first write minus whole request read, in ns."""
    assert exchange.sent_ns is not None
    seen = int(exchange.arrivals.at_ns[0]) - exchange.sent_ns
    return seen - (int(truth.chunk_ns[0]) - truth.request_ns)


def gap_errors(exchange: Exchange, truth: Truth) -> Times:
    """Absolute error of each gap between chunks, in ns."""
    errors: Times = np.abs(np.diff(exchange.arrivals.at_ns) - np.diff(truth.chunk_ns))
    return errors


def coalesced(exchange: Exchange) -> npt.NDArray[np.bool_]:
    """The mark of each token event."""
    marks = exchange.arrivals.coalesced
    return np.zeros(len(exchange.arrivals), dtype=np.bool_) if marks is None else marks


if __name__ == "__main__":
    main()
