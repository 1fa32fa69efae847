"""Readiness of sockets: some are told of at once, streams are gathered and drained once a tick.

Nested: streams lie in an epoll of their own that nobody sleeps on, so that an arrival wakes no
one. That makes a read late by up to a tick, which is harmless where the kernel stamps arrivals.
Where it does not, or where there is no epoll, every socket is told of at once.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Protocol

READ, WRITE = select.POLLIN, select.POLLOUT
"""Equal to those of epoll. Errors and hang-ups are told without asking."""
_GATHERED = READ | getattr(select, "EPOLLET", 0) | getattr(select, "EPOLLRDHUP", 0)
"""Told of once an arrival: telling until all is read takes a second look at every socket. That the
other side has closed is told apart from that something came.
"""

SLICE = 128
"""Gathered descriptors told of in one go: a ms or two of reading, so that nothing waits longer."""

Handler = Callable[[int], None]


class _Set(Protocol):
    def register(self, fd: int, eventmask: int, /) -> None: ...
    def modify(self, fd: int, eventmask: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...
    def poll(
        self, timeout: float | None = None, maxevents: int = -1, /
    ) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class _PollSet:
    """`poll` in the manner of `epoll`, for systems that have only the first."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register, self.modify = self._poll.register, self._poll.modify
        self.unregister = self._poll.unregister

    def poll(self, timeout: float | None = None, _: int = -1, /) -> list[tuple[int, int]]:
        return self._poll.poll(None if timeout is None else timeout * 1e3)

    def close(self) -> None:
        """Nothing is held."""


def _new_set() -> _Set:
    return select.epoll() if hasattr(select, "epoll") else _PollSet()


class Poller:
    """Watches file descriptors. `gathers` says whether streams may be told of once a tick."""

    def __init__(self, kernel_stamps: bool) -> None:
        self.gathers = kernel_stamps and hasattr(select, "epoll")
        self._direct = _new_set()
        self._gathered = _new_set()
        self._handlers: dict[int, Handler] = {}
        self._streams: set[int] = set()

    @property
    def gathering(self) -> bool:
        """Some descriptor waits for the tick."""
        return bool(self._streams)

    def watch(self, fd: int, handler: Handler, events: int = READ) -> None:
        """Call `handler` with what is ready, from `dispatch`; a second call changes both."""
        if fd in self._handlers:
            self._direct.modify(fd, events)
        else:
            self._direct.register(fd, events)
        self._handlers[fd] = handler

    def gather(self, fd: int) -> None:
        """Tell of this watched descriptor in `gathered` from now on."""
        if self.gathers and fd not in self._streams:
            self._direct.unregister(fd)
            self._gathered.register(fd, _GATHERED)
            self._streams.add(fd)

    def tell_again(self, fd: int) -> None:
        """Of a gathered descriptor that may not have been read to its end."""
        if fd in self._streams:
            self._gathered.modify(fd, _GATHERED)

    def single_out(self, fd: int) -> None:
        """Tell of a gathered descriptor at once again."""
        if fd in self._streams:
            self._streams.remove(fd)
            self._gathered.unregister(fd)
            self._direct.register(fd, READ)

    def forget(self, fd: int) -> None:
        """Before the descriptor is closed."""
        if self._handlers.pop(fd, None) is None:
            return
        if fd in self._streams:
            self._streams.remove(fd)
            self._gathered.unregister(fd)
        else:
            self._direct.unregister(fd)

    def dispatch(self, timeout_s: float | None, *, exact: bool = False) -> None:
        """Wait for what is told of at once, and tell; a handler may forget other descriptors.

        epoll's own waits end up to 1 ms late: where one has to be `exact`, select() waits for it.
        """
        if exact and isinstance(self._direct, select.epoll):
            select.select((self._direct,), (), (), timeout_s)
            timeout_s = 0.0
        for fd, events in self._direct.poll(timeout_s):
            handler = self._handlers.get(fd)
            if handler is not None:
                handler(events)

    def gathered(self) -> list[tuple[int, int]]:
        """Gathered descriptors to which something came since they were told of, at most `SLICE`;
        the next call has others. `READ` alone says that no end has come.
        """
        return self._gathered.poll(0, SLICE)

    def close(self) -> None:
        """Let go of the sets."""
        self._direct.close()
        self._gathered.close()
