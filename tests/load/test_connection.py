"""Which idle connections are used again, and which address is tried first."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from inferometer.clock import NS, RealClock
from inferometer.load.connection import Connection, ConnectionPool
from inferometer.load.http import Server
from inferometer.load.stamps import ArrivalStamps, WallOffset
from referee import free_port

pytestmark = pytest.mark.sockets
KEEP_ALIVE_S = 4.0


class HandClock(RealClock):
    """A clock that is moved by hand."""

    at_ns = 0

    def now_ns(self) -> int:
        return self.at_ns


@contextmanager
def pool_with(
    count: int, keep_alive_s: float = KEEP_ALIVE_S
) -> Iterator[tuple[ConnectionPool, HandClock, list[socket.socket]]]:
    """A pool of `count` idle connections, oldest first, and their other ends."""
    clock = HandClock()
    pool = ConnectionPool(Server("h", 80, tls=False), clock, keep_alive_s)
    peers = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stamps = ArrivalStamps(WallOffset(clock.now_ns))
        pool.put(Connection(ours, None, stamps, clock))
        peers.append(theirs)
        clock.at_ns += NS
    try:
        yield pool, clock, peers
    finally:
        pool.close()
        for peer in peers:
            peer.close()


def test_the_most_recently_used_is_first() -> None:
    async def main() -> None:
        with pool_with(2) as (pool, _, peers):
            taken = [pool.take(), pool.take(), pool.take()]
            for connection in taken[:2]:
                assert connection is not None
                await connection.write(b"x")
                connection.close()
            assert taken[2] is None
            assert [peer.recv(9) for peer in peers] == [b"x", b"x"]

    async def first() -> bytes:
        with pool_with(2) as (pool, _, peers):
            connection = pool.take()
            assert connection is not None
            await connection.write(b"newest")
            connection.close()
            return peers[1].recv(9)

    asyncio.run(main())
    assert asyncio.run(first()) == b"newest"


def test_one_that_has_idled_too_long_is_closed() -> None:
    async def main() -> None:
        with pool_with(2) as (pool, clock, peers):
            clock.at_ns = round(KEEP_ALIVE_S * NS) + NS // 2  # since 0 s: stale, since 1 s: not
            fresh = pool.take()
            assert fresh is not None
            fresh.close()
            assert pool.take() is None
            assert peers[0].recv(1) == b"", "closed by us"

    asyncio.run(main())


def test_nothing_is_kept_where_nothing_may_idle() -> None:
    async def main() -> None:
        with pool_with(1, keep_alive_s=0) as (pool, clock, _peers):
            clock.at_ns += 1
            assert pool.take() is None

    asyncio.run(main())


@pytest.mark.parametrize("sent", [b"", b"junk"])
def test_one_that_the_server_gave_up_is_not_taken_even_before_the_loop_sees_it(
    sent: bytes,
) -> None:
    async def main() -> None:
        with pool_with(1) as (pool, _, peers):
            peers[0].sendall(sent)
            peers[0].close()
            assert pool.take() is None

    asyncio.run(main())


def test_an_idle_connection_that_is_written_to_is_closed() -> None:
    async def main() -> None:
        with pool_with(1) as (pool, _, peers):
            ((connection, _),) = pool._idle
            peers[0].sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
            while connection.open:
                await asyncio.sleep(0)
            assert pool.take() is None

    asyncio.run(main())


def test_the_address_that_answered_is_tried_first() -> None:
    async def main() -> None:
        pool = ConnectionPool(Server("h", 80, tls=False), RealClock(), KEEP_ALIVE_S)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            dead = (socket.AF_INET, ("127.0.0.1", free_port()))
            live = (socket.AF_INET, listener.getsockname())
            pool._addresses = [dead, live]
            (await pool.connect()).close()
            assert pool._addresses == [live, dead]
        pool.close()

    asyncio.run(main())
