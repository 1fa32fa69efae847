"""When a worker tells what it has to tell."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from replies import DONE, END, HEAD, TOKEN, chunk

from inferometer.load import worker as module
from inferometer.load.http import Server
from inferometer.load.outbox import Outbox
from inferometer.load.wire import (
    Abort,
    FrameReader,
    Limits,
    Outcome,
    Post,
    Pulse,
    Recall,
    Recalled,
    Target,
)
from inferometer.load.worker import Worker

pytestmark = pytest.mark.sockets

REQUEST = b"POST / HTTP/1.1\r\n\r\n"


def pulse(at_ns: int) -> Pulse:
    return Pulse(at_ns, 0.0, 0, 0, [])


def test_what_nobody_waits_for_goes_with_what_somebody_waits_for_and_before_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reader = FrameReader(ours)
        outbox = Outbox(theirs, lambda _: None, lambda: None)
        outbox.add(pulse(1), urgent=False)
        outbox.tell()
        assert reader.read() == []
        outbox.add(pulse(2))
        outbox.add(pulse(3), urgent=False)
        outbox.tell()
        assert reader.read() == [pulse(1), pulse(2), pulse(3)]
        outbox.hasten()
        outbox.tell()
        assert reader.read() == []
        outbox.add(pulse(4), urgent=False)
        outbox.hasten()
        outbox.tell()
        assert reader.read() == [pulse(4)]


def test_what_the_socket_does_not_take_is_sent_on_and_a_lost_end_is_told_of() -> None:
    room: list[bool] = []
    got: list[object] = []
    lost: list[bool] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        outbox = Outbox(theirs, room.append, lambda: lost.append(True))
        large = Pulse(1, 0.0, 0, 0, [(n, n) for n in range(300_000)])
        outbox.add(large)
        outbox.tell()
        assert room == [True]
        reader = FrameReader(ours)
        while not got:
            got += reader.read() or []
            outbox.flush()
        assert (got, room, lost) == ([large], [True, False], [])
        ours.close()
        outbox.add(pulse(2))
        outbox.tell()
        assert lost == [True]


@pytest.fixture
def told() -> Iterator[tuple[Worker, FrameReader]]:
    """A worker, and what comes from it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        worker = Worker(theirs)
        yield worker, FrameReader(ours)
        worker._release()
        worker._poller.close()
        worker._stamping.close()


@pytest.mark.parametrize(
    ("long", "then", "heard"),
    [
        (False, None, True),
        (True, None, False),
        (True, Recall(), True),
        (True, Abort(1, "cancelled"), True),
        (True, "probes", True),
    ],
)
def test_that_a_long_request_has_left_by_itself_is_told_with_the_next_pulse(
    told: tuple[Worker, FrameReader],
    monkeypatch: pytest.MonkeyPatch,
    long: bool,
    then: object,
    heard: bool,
) -> None:
    monkeypatch.setattr(module, "LONG_NS", 0 if long else 1 << 62)
    worker, reader = told
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        limits = Limits(60.0, 60.0, 60.0, 60.0)
        server = Server(address[0], address[1], tls=False)
        worker._take(Target(server, [(int(socket.AF_INET), address)], limits, "openai", 4.0))
        worker._take(Post(1, REQUEST, 1))
        worker._take(Post(2, REQUEST, 1, after=1))
        worker._poller.dispatch(0.05)
        peer = listener.accept()[0]
        with closing(peer):
            worker._outbox.tell()
            assert [type(message) for message in reader.read() or []] == [Pulse]
            peer.sendall(HEAD + chunk(TOKEN) + chunk(DONE) + END)
            while 1 in worker._flights:
                worker._poller.dispatch(0.05)
            assert 2 in worker._flights
            if then == "probes":
                for _ in range(module.PULSE_EVERY):
                    worker._probe(module._now_ns())
            elif then is not None:
                worker._take(then)
            worker._outbox.tell()
    messages = reader.read() or []
    assert isinstance(then, Recall) == (messages[-1:] == [Recalled()]), "behind all that has left"
    outcomes = [message for message in messages if isinstance(message, Outcome)]
    assert [outcome.key for outcome in outcomes] == ([1] if heard else [])
    assert all(outcome.followed is not None for outcome in outcomes)
