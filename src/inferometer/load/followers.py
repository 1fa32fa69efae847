"""Requests that lie in a worker and leave by themselves when the one before them has ended well.

So an end and the send that it makes due are one turn of one loop. Which requests may lie here is
the coordinator's to say; it hears what became of each with the outcome of the one before.
"""

from __future__ import annotations

from inferometer.load.flight import Flight
from inferometer.load.stamps import NS
from inferometer.load.wire import Post

BODY_END_NS = NS // 1000
"""How long a request waits for the connection of the one before, whose answer has ended but not its
body: most servers write that at once. A new connection would take longer."""


class Followers:
    """Holds them; and flights that have begun and wait for their connection."""

    def __init__(self) -> None:
        self._posts: dict[int, Post] = {}
        self._begun: list[tuple[int, Flight, Flight]] = []

    @property
    def waiting(self) -> bool:
        """Some flight has begun and waits for its connection."""
        return bool(self._begun)

    def hold(self, post: Post) -> None:
        """It leaves after `post.after`."""
        assert post.after is not None
        self._posts[post.after] = post

    def take(self, ended: Flight, now_ns: int) -> Post | None:
        """What is to leave now that this flight has ended."""
        post = self._posts.pop(ended.key, None)
        if post is None or ended.ending is None or ended.ending.status != "ok":
            return None
        return post if post.until_ns is None or now_ns < post.until_ns else None

    def clear(self) -> None:
        """Forget those that have not begun."""
        self._posts.clear()

    def begin(self, flight: Flight, before: Flight, now_ns: int) -> None:
        """Start the flight, at once or when the body of the one before has ended too."""
        if _has_let_go(before):
            flight.start()
        else:
            self._begun.append((now_ns + BODY_END_NS, flight, before))

    def start(self, now_ns: int) -> None:
        """Start those whose connection is free, or has been waited for long enough."""
        waiting, self._begun = self._begun, []
        for due_ns, flight, before in waiting:
            if flight.ending is not None:
                continue
            if _has_let_go(before) or due_ns <= now_ns:
                flight.start()
            else:
                self._begun.append((due_ns, flight, before))


def _has_let_go(ended: Flight) -> bool:
    """Its connection can carry another by now, or never will."""
    return ended.connection is None or not ended.connection.open
