"""A request that follows an answer whose body has yet to end: on the same connection, or on another
when that takes too long. A worker without its loop, so that no clock decides.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from replies import DONE, END, HEAD, TOKEN, chunk

from inferometer.load import dial, followers
from inferometer.load import worker as module
from inferometer.load.http import Server
from inferometer.load.wire import Limits, Post, Target
from inferometer.load.worker import Worker

pytestmark = pytest.mark.sockets

REQUEST = b"POST / HTTP/1.1\r\n\r\n"
PATIENCE_NS = 1 << 60


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60.0)
        yield listening


@pytest.fixture
def worker(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """It knows the server, and has a request for it and one that is to follow."""
    monkeypatch.setattr(followers, "BODY_END_NS", PATIENCE_NS)
    monkeypatch.setattr(dial, "SETTLED_NS", 0)  # what is idle may be used at once
    ours, theirs = socket.socketpair()
    with ours, theirs:
        made = Worker(theirs)
        address = listener.getsockname()
        server, limits = Server(address[0], address[1], tls=False), Limits(60.0, 60.0, 60.0, 60.0)
        made._take(Target(server, [(int(socket.AF_INET), address)], limits, "openai", 4.0))
        made._take(Post(1, REQUEST, 1))
        made._take(Post(2, REQUEST, 1, after=1))
        yield made
        made._release()
        made._poller.close()
        made._stamping.close()


def answered(worker: Worker, listener: socket.socket) -> socket.socket:
    """The first answer has ended, its body has not; the connection as the server has it."""
    peer = listener.accept()[0]
    peer.settimeout(60.0)
    while not worker._flights[1].posted:
        worker._poller.dispatch(0.05)
    assert peer.recv(len(REQUEST), socket.MSG_WAITALL) == REQUEST
    peer.sendall(HEAD + chunk(TOKEN) + chunk(DONE))
    while 1 in worker._flights:
        worker._poller.dispatch(0.05)
    worker._followers.start(module._now_ns())
    assert worker._followers.waiting
    return peer


def test_the_end_of_a_body_that_comes_behind_is_waited_for(
    worker: Worker, listener: socket.socket
) -> None:
    """A connection that is free in a moment is better than a new one."""
    with closing(answered(worker, listener)) as peer:
        peer.sendall(END)
        worker._poller.dispatch(60.0)  # nothing else comes
        worker._followers.start(module._now_ns())
        assert not worker._followers.waiting
        assert peer.recv(len(REQUEST), socket.MSG_WAITALL) == REQUEST
        assert worker._flights[2].posted


def test_it_is_not_waited_for_for_ever(worker: Worker, listener: socket.socket) -> None:
    with closing(answered(worker, listener)):
        worker._followers.start(module._now_ns() + PATIENCE_NS)
        assert not worker._followers.waiting
        with closing(listener.accept()[0]) as other:
            other.settimeout(60.0)
            while not worker._flights[2].posted:
                worker._poller.dispatch(0.05)
            assert other.recv(len(REQUEST), socket.MSG_WAITALL) == REQUEST
