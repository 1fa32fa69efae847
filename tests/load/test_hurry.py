"""Which streams a worker reads at once: those near their end, and of many only some."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from loopback import stamping
from replies import DONE, END, HEAD, TOKEN, chunk

from inferometer.load import worker as module
from inferometer.load.flight import OVERDUE
from inferometer.load.http import Server
from inferometer.load.nearend import FEW
from inferometer.load.wire import Limits, Outcome, Post, Target
from inferometer.load.worker import FEW_FLIGHTS, Worker

pytestmark = pytest.mark.sockets

STREAMS = FEW_FLIGHTS + 4


@pytest.fixture
def worker() -> Iterator[Worker]:
    ours, theirs = socket.socketpair()
    with ours, theirs, stamping():
        made = Worker(theirs)
        try:
            if not made._poller.gathers:
                pytest.skip("nothing is gathered without kernel stamps")
            yield made
        finally:
            made._release()
            made._poller.close()
            made._stamping.close()


def begin(worker: Worker, listener: socket.socket, max_tokens: int) -> list[socket.socket]:
    """Streams that are gathered after three events, seen from the server."""
    address = listener.getsockname()
    limits = Limits(60.0, 60.0, 60.0, 60.0)
    server = Server(address[0], address[1], tls=False)
    if worker._target is None:
        target = Target(server, [(int(socket.AF_INET), address)], limits, "openai", 4.0)
        worker._take(target)
    peers = []
    first = max(worker._flights, default=-1) + 1
    for key in range(first, first + STREAMS):
        worker._take(Post(key, b"POST / HTTP/1.1\r\n\r\n", max_tokens))
        worker._poller.dispatch(0.05)
        peers.append(listener.accept()[0])
        peers[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for count in range(3):
        say(worker, peers, HEAD + chunk(TOKEN) if count == 0 else chunk(TOKEN))
    return peers


def say(worker: Worker, peers: list[socket.socket], data: bytes) -> None:
    """The server writes to every stream, and the worker reads."""
    for peer in peers:
        peer.sendall(data)
    for peer in peers:
        arrive(peer)
    for _ in range(3):
        worker._poller.dispatch(0.005)
        worker._drain(module._now_ns())


def arrive(peer: socket.socket) -> None:
    """Wait until all that was written lies at the other side."""
    left, end_s = 1, time.monotonic() + 60
    while left:
        assert time.monotonic() < end_s, "what was written does not arrive"
        (left,) = struct.unpack("i", fcntl.ioctl(peer, termios.TIOCOUTQ, b"\0" * 4))


def gathered(worker: Worker) -> int:
    return sum(flight.gathered for flight in worker._flights.values())


@pytest.mark.parametrize("most", [3, 64])
def test_streams_near_their_end_are_read_at_once_unless_there_are_many(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "MOST_HURRIED", most)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60.0)
        peers = begin(worker, listener, max_tokens=8)
        assert gathered(worker) == STREAMS
        for _ in range(2):
            say(worker, peers, chunk(TOKEN))
        assert gathered(worker) == STREAMS - min(most, STREAMS)
        say(worker, peers, chunk(DONE) + END)
        assert worker._flights == {}
        assert worker._hurried == 0
        for peer in peers:
            peer.close()


def test_an_end_with_fewer_events_than_tokens_is_foretold_from_the_second_time_on(
    worker: Worker,
) -> None:
    assert STREAMS >= FEW
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(listener):
        listener.settimeout(60.0)
        peers = begin(worker, listener, max_tokens=100)
        for _ in range(6):
            say(worker, peers, chunk(TOKEN))
        assert gathered(worker) == STREAMS  # nobody knows
        say(worker, peers, chunk(DONE) + b"0\r\nConnection: close\r\n\r\n")
        outcomes = [o for o in worker._outbox._messages if isinstance(o, Outcome)]
        assert [outcome.status for outcome in outcomes] == ["ok"] * STREAMS
        worker._pool.close()  # type: ignore[union-attr]
        for peer in peers:
            peer.close()
        peers = begin(worker, listener, max_tokens=100)
        for _ in range(3):
            say(worker, peers, chunk(TOKEN))
        assert gathered(worker) == 0
        for peer in peers:
            peer.close()


def test_an_answer_longer_than_asked_for_is_no_longer_near_its_end(worker: Worker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(listener):
        listener.settimeout(60.0)
        peers = begin(worker, listener, max_tokens=8)
        for _ in range(3):
            say(worker, peers, chunk(TOKEN))
        assert gathered(worker) == 0
        for _ in range(8 + OVERDUE - 6 + 1):
            say(worker, peers, chunk(TOKEN))
        assert gathered(worker) == STREAMS
        assert worker._hurried == 0
        for _ in range(3):
            say(worker, peers, chunk(TOKEN))
        assert gathered(worker) == STREAMS
        assert {len(f.reply.at_ns) for f in worker._flights.values()} == {8 + OVERDUE + 4}
        for peer in peers:
            peer.close()
