"""Which idle connections are used again, and which address is tried first."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from inferometer.load.connection import Connection, Link
from inferometer.load.dial import SETTLED_NS, Address, Pool
from inferometer.load.http import Server
from inferometer.load.poller import Poller
from inferometer.load.stamps import NS, ArrivalStamps, WallOffset
from referee import refused_port

pytestmark = pytest.mark.sockets

KEEP_ALIVE_S = 4.0


class Hand:
    """A clock that is moved by hand."""

    at_ns = 0

    def now_ns(self) -> int:
        return self.at_ns


@contextmanager
def pool_to(*addresses: Address, keep_alive_s: float = KEEP_ALIVE_S) -> Iterator[Pool]:
    poller = Poller(kernel_stamps=False)
    link = Link(poller, ArrivalStamps(WallOffset(time.monotonic_ns)), time.monotonic_ns)
    pool = Pool(Server("h", 80, tls=False), list(addresses), link, keep_alive_s)
    try:
        yield pool
    finally:
        pool.close()
        poller.close()


@contextmanager
def pool_with(
    count: int, keep_alive_s: float = KEEP_ALIVE_S
) -> Iterator[tuple[Pool, Hand, list[socket.socket]]]:
    """A pool of `count` idle connections, oldest first, and their other ends."""
    with pool_to(keep_alive_s=keep_alive_s) as pool:
        clock = Hand()
        pool.link.now_ns = clock.now_ns
        peers = []
        for _ in range(count):
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            pool.put(Connection(ours, None, pool.link))
            peers.append(theirs)
            clock.at_ns += NS
        try:
            yield pool, clock, peers
        finally:
            for peer in peers:
                peer.close()


def test_the_most_recently_used_is_first() -> None:
    with pool_with(2) as (pool, _, peers):
        for text in (b"newest", b"other"):
            connection = pool.take()
            assert connection is not None
            connection.write(text)
            connection.close()
        assert pool.take() is None
        assert [peer.recv(9) for peer in peers] == [b"other", b"newest"]


def test_one_that_has_idled_too_long_is_closed() -> None:
    with pool_with(2) as (pool, clock, peers):
        clock.at_ns = round(KEEP_ALIVE_S * NS) + NS // 2  # since 0 s: stale, since 1 s: not
        fresh = pool.take()
        assert fresh is not None
        fresh.close()
        assert pool.take() is None
        assert peers[0].recv(1) == b"", "closed by us"


def test_nothing_is_kept_where_nothing_may_idle() -> None:
    with pool_with(1, keep_alive_s=0) as (pool, clock, _):
        clock.at_ns += 1
        assert pool.take() is None


@pytest.mark.parametrize("sent", [b"", b"junk"])
def test_one_that_the_server_gave_up_is_not_taken_even_before_it_is_told_of(sent: bytes) -> None:
    with pool_with(1) as (pool, _, peers):
        peers[0].sendall(sent)
        peers[0].close()
        assert pool.take() is None


def test_an_idle_connection_that_is_written_to_is_closed() -> None:
    with pool_with(1) as (pool, _, peers):
        peers[0].sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        pool.link.poller.dispatch(5.0)
        assert peers[0].recv(1) == b"", "closed by us"
        assert pool.take() is None


def test_the_address_that_answered_is_tried_first() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, refused_port() as port:
        dead: Address = (socket.AF_INET, ("127.0.0.1", port))
        live: Address = (socket.AF_INET, listener.getsockname())
        with pool_to(dead, live) as pool:
            outcomes: list[Any] = []
            pool.dial(outcomes.append).start()
            while not outcomes:
                pool.link.poller.dispatch(1.0)
            assert isinstance(outcomes[0], Connection)
            outcomes[0].close()
            assert pool.addresses == [live, dead]


def test_the_first_failure_is_told_when_no_address_answers() -> None:
    with (
        refused_port() as one,
        refused_port() as other,
        pool_to(*((int(socket.AF_INET), ("127.0.0.1", port)) for port in (one, other))) as pool,
    ):
        outcomes: list[Any] = []
        pool.dial(outcomes.append).start()
        while not outcomes:
            pool.link.poller.dispatch(1.0)
        assert isinstance(outcomes[0], ConnectionRefusedError | OSError)
        assert "refused" in str(outcomes[0])


def put_back(pool: Pool, connection: Connection | None) -> Connection:
    assert connection is not None
    pool.put(connection)
    return connection


def test_what_was_just_answered_on_is_used_at_once_only_after_one_was_seen_to_stay() -> None:
    with pool_with(1) as (pool, clock, _):
        clock.at_ns -= NS  # its answer has this moment ended
        assert pool.take() is None
        clock.at_ns += SETTLED_NS - 1
        assert pool.take() is None
        clock.at_ns += 1
        kept = put_back(pool, pool.take())
        assert put_back(pool, pool.take()) is kept


def test_a_server_that_closed_one_gets_no_request_on_another_that_it_may_be_closing() -> None:
    """Also after connections that it did keep."""
    with pool_with(3) as (pool, clock, peers):
        kept = pool.take()
        assert kept is not None
        peers[1].close()
        other = pool.take()
        assert other is not None  # the first: the second was found closed
        pool.put(kept)
        assert pool.take() is None
        clock.at_ns += SETTLED_NS
        assert put_back(pool, pool.take()) is kept
        pool.put(other)
