"""What an end and the next send cost a worker where many streams end together: its CPU time alone.

Server and worker share this process. Each round every stream is ended, and the worker runs until
the next request of each has left, which lay with it before, as in a closed loop.

    python bench/ends_cost.py --streams 32 128 1000
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import statistics
import time

from drain_cost import chunk, streaming

from inferometer.load.wire import Post
from inferometer.load.worker import Worker

FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
DONE = b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUEST = b"POST / HTTP/1.1\r\n\r\n" + b"x" * 5_000


def piece(body: bytes) -> bytes:
    """A chunk of the body."""
    return b"%x\r\n%b\r\n" % (len(body), body)


ENDING = piece(FINISH) + piece(DONE) + b"0\r\n\r\n"


def turn(worker: Worker) -> None:
    """One of the worker's loop, without a wait; the sleeps in it cost no CPU."""
    worker._sent = 0
    worker._poller.dispatch(0)
    if worker._followers.waiting:
        worker._followers.start(time.monotonic_ns())
    worker._outbox._messages.clear()
    worker._drain(time.monotonic_ns())
    worker._outbox._messages.clear()


def costs(streams: int, rounds: int, profile: cProfile.Profile | None) -> list[float]:
    """CPU us of an end with the send that follows, of each round."""
    worker, peers = streaming(streams, counted=False)
    assert worker._pool is not None
    worker._pool._keeps = True  # as after the first request of a load
    found = []
    for number in range(rounds):
        first = number * streams
        for key in range(first, first + streams):
            worker._take(Post(key + streams, REQUEST, 1_000_000, after=key))
        for peer in peers:
            peer.sendall(ENDING)
        begun = time.thread_time_ns()
        if profile is not None:
            profile.enable()
        while any(key in worker._flights for key in range(first, first + streams)):
            turn(worker)
        if profile is not None:
            profile.disable()
        found.append((time.thread_time_ns() - begun) / streams / 1e3)
        for stream, peer in enumerate(peers):
            while len(peer.recv(65_536)) == 65_536:
                pass
            peer.sendall(HEAD + chunk(stream, 1, counted=False))
        for _ in range(streams // 100 + 3):
            turn(worker)
        for stream, peer in enumerate(peers):
            peer.sendall(chunk(stream, 2, counted=False))
        for _ in range(streams // 100 + 3):
            turn(worker)
    return found


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    gc.disable()
    for streams in options.streams:
        profile = cProfile.Profile() if options.profile else None
        found = costs(streams, options.rounds, profile)
        print(f"{streams:,} streams: {min(found):.0f} / {statistics.median(found):.0f} µs an end")
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    main()
