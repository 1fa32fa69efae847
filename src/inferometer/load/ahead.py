"""Requests that a worker has before they are due, so that each leaves then and not a hop later."""

from __future__ import annotations

import heapq

from inferometer.load.wire import Post


class Ahead:
    """Holds them until `Post.start_ns`, in its order."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._posts: dict[int, Post] = {}

    @property
    def next_ns(self) -> int | None:
        """When the next of them is due."""
        while self._heap and self._heap[0][1] not in self._posts:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def wait_s(self, now_ns: int, most_s: float | None) -> float | None:
        """Until the next of them is due, or at most so long; None: for ever."""
        if (next_ns := self.next_ns) is None:
            return most_s
        wait_s = max(0.0, (next_ns - now_ns) / 1e9)
        return wait_s if most_s is None else min(wait_s, most_s)

    def hold(self, post: Post) -> None:
        """Keep it until it is due."""
        self._posts[post.key] = post
        heapq.heappush(self._heap, (post.start_ns, post.key))

    def due(self, now_ns: int) -> list[Post]:
        """Take those that are due by now."""
        found = []
        while (next_ns := self.next_ns) is not None and next_ns <= now_ns:
            found.append(self._posts.pop(heapq.heappop(self._heap)[1]))
        return found

    def take(self, key: int) -> Post | None:
        """Take it whether or not it is due."""
        return self._posts.pop(key, None)

    def clear(self) -> list[Post]:
        """Take all."""
        found = list(self._posts.values())
        self._posts.clear()
        self._heap.clear()
        return found
