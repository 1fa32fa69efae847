"""Who is told at once, who once a tick, and who no longer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from inferometer.load.poller import READ, WRITE, Poller

pytestmark = pytest.mark.sockets


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_gathered_socket_wakes_nobody(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    poller, told = Poller(kernel_stamps=True), list[int]()
    if not poller.gathers:
        pytest.skip("no epoll here")
    poller.watch(ours.fileno(), told.append)
    poller.gather(ours.fileno())
    theirs.send(b"x")
    poller.dispatch(0)
    before = (list(told), poller.gathering)
    assert before == ([], True)
    assert [fd for fd, _ in poller.gathered()] == [ours.fileno()]
    poller.single_out(ours.fileno())
    poller.dispatch(5)
    assert (told, poller.gathering) == ([READ], False)
    poller.close()


def test_without_kernel_stamps_everybody_is_told_at_once(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    poller, told = Poller(kernel_stamps=False), list[int]()
    poller.watch(ours.fileno(), told.append)
    poller.gather(ours.fileno())
    theirs.send(b"x")
    poller.dispatch(5)
    assert told == [READ]
    assert not poller.gathering
    poller.close()


def test_what_is_forgotten_is_not_told_and_interests_change(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    poller, told = Poller(kernel_stamps=True), list[int]()
    poller.watch(ours.fileno(), told.append, READ | WRITE)
    poller.dispatch(5)
    assert told == [WRITE]
    poller.watch(ours.fileno(), told.append)
    theirs.send(b"x")
    poller.dispatch(5)
    assert told == [WRITE, READ]
    poller.forget(ours.fileno())
    poller.forget(ours.fileno())
    poller.dispatch(0)
    assert told == [WRITE, READ]
    poller.close()


def test_an_arrival_is_told_of_once_and_an_end_apart(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    poller = Poller(kernel_stamps=True)
    if not poller.gathers:
        pytest.skip("no epoll here")
    poller.watch(ours.fileno(), list[int]().append)
    theirs.send(b"before")
    poller.gather(ours.fileno())
    told = [poller.gathered(), poller.gathered()]
    theirs.send(b"x")
    told += [poller.gathered(), poller.gathered()]
    poller.tell_again(ours.fileno())  # as one does who may not have read it all
    told.append(poller.gathered())
    assert [[events for _, events in each] for each in told] == [[READ], [], [READ], [], [READ]]
    theirs.shutdown(socket.SHUT_WR)
    ((_, events),) = poller.gathered()
    assert events & READ
    assert events != READ
    poller.close()
