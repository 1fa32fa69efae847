"""What one chunk costs a worker, by itself: CPU of a drain against the same reads done bare.

Server and worker share this process, so that no other process and no sleep is in the figure. Each
round a chunk is written to every stream, then all are drained; the CPU time of the thread counts.

    python bench/drain_cost.py --streams 32 128 512
"""

from __future__ import annotations

import argparse
import gc
import socket
import statistics
import time
from collections.abc import Callable
from functools import partial

from rich.console import Console
from rich.table import Table

from inferometer.load.http import Server
from inferometer.load.stamps import ANCILLARY_BYTES
from inferometer.load.wire import Limits, Post, Target
from inferometer.load.worker import Worker

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = (
    '{{"id":"t{0}","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    '[{{"index":0,"delta":{{"content":" tok"}},"finish_reason":null}}]{1}}}'
)
USAGE = ',"usage":{{"prompt_tokens":100,"completion_tokens":{0},"total_tokens":{1}}}'


def chunk(stream: int, count: int, counted: bool) -> bytes:
    """One chunk of the body with one event."""
    usage = USAGE.format(count, 100 + count) if counted else ""
    body = f"data: {CHUNK.format(stream, usage)}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(body), body)


def streaming(streams: int, counted: bool) -> tuple[Worker, list[socket.socket]]:
    """A worker that gathers so many streams, and the server's ends of them."""
    _ours, theirs = socket.socketpair()
    worker = Worker(theirs)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(streams)
        listener.settimeout(5.0)
        address = listener.getsockname()
        server = Server(address[0], address[1], tls=False)
        limits = Limits(60.0, 600.0, 600.0, 3_600.0)
        worker._take(Target(server, [(int(socket.AF_INET), address)], limits, "openai", 4.0))
        peers = []
        for key in range(streams):
            worker._take(Post(key, b"POST / HTTP/1.1\r\n\r\n", 1_000_000))
            worker._poller.dispatch(0.01)
            peers.append(listener.accept()[0])
            peers[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    worker._poller.dispatch(0.1)
    for count in range(1, 4):
        for stream, peer in enumerate(peers):
            peer.sendall((HEAD if count == 1 else b"") + chunk(stream, count, counted))
        for _ in range(3):
            worker._poller.dispatch(0.01)
            drain_once(worker)
    assert sum(strand is not None for strand in worker._streams) == streams
    _kept.append(_ours)
    return worker, peers


_kept: list[socket.socket] = []
"""Other ends of control sockets: while they are open, so is their worker."""


def cost_us(work: Callable[[], None], peers: list[socket.socket], counted: bool) -> list[float]:
    """CPU us a chunk of each round of `work`."""
    costs = []
    for count in range(4, 304):
        for stream, peer in enumerate(peers):
            peer.send(chunk(stream, count, counted))
        begun = time.thread_time_ns()
        work()
        costs.append((time.thread_time_ns() - begun) / len(peers) / 1e3)
    return costs


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, nargs="+", default=[32, 128, 512])
    options = parser.parse_args()
    gc.disable()
    table = Table(title="CPU us a chunk: least / median of 300 rounds")
    for heading in ("streams", "bare recvmsg_into", "drain", "drain, usage on every chunk"):
        table.add_column(heading, justify="right")
    for streams in options.streams:
        cells = []
        for counted in (False, True):
            worker, peers = streaming(streams, counted)
            drain = cost_us(partial(drain_once, worker), peers, counted)
            taken = sum(len(flight.reply.at_ns) for flight in worker._flights.values())
            assert taken == streams * 303, "every chunk was a token"
            cells.append(f"{min(drain):.1f} / {statistics.median(drain):.1f}")
        bare = cost_us(partial(read_bare, worker), peers, counted=True)
        table.add_row(str(streams), f"{min(bare):.1f} / {statistics.median(bare):.1f}", *cells)
    Console().print(table)


def drain_once(worker: Worker) -> None:
    """What a worker does at each tick."""
    while not worker._drain(time.monotonic_ns()):
        pass


def read_bare(worker: Worker) -> None:
    """The same reads, with nothing made of them."""
    for flight in worker._flights.values():
        assert flight.connection is not None
        flight.connection.sock.recvmsg_into(worker._link.buffers, ANCILLARY_BYTES)


if __name__ == "__main__":
    main()
