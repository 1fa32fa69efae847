"""Recorded gaps that are running, and the two idle caps that cut them short. Pure; no clock.

A tree (one session play) with nothing open is idle; a tree is never idle for longer than its cap,
the whole system never longer than its own. When a cap bites, all timers concerned shift together,
so that the next fires at the cap and the recorded order is kept (docs/replay.md). Both shifts are
applied when idleness begins, since nothing but these timers can end it.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Tree = TypeVar("Tree", bound=Hashable)
Item = TypeVar("Item")


class Timers(Generic[Tree, Item]):
    """Pending timers by tree; `pop_due` yields them in due order."""

    def __init__(self) -> None:
        self.tree_shift_ns = 0
        self.system_shift_ns = 0
        self._lead_ns = 0
        self._until_ns: int | None = None
        self._serial = 0
        self._heap: list[tuple[int, int, Tree]] = []
        self._pending: dict[Tree, dict[int, tuple[int, Item]]] = {}

    def lead(self, by_ns: int, until_ns: int | None) -> None:
        """From now on what is due before `until_ns` may be taken out so long before its time."""
        self._lead_ns, self._until_ns = by_ns, until_ns

    def lead_ns(self, at_ns: int) -> int:
        """How long before `at_ns` that is; 0 where it would reach across the end."""
        end_ns = self._until_ns
        return 0 if end_ns is not None and at_ns + self._lead_ns >= end_ns else self._lead_ns

    def add(self, tree: Tree, due_ns: int, item: Item) -> None:
        """Set a timer."""
        self._serial += 1
        self._pending.setdefault(tree, {})[self._serial] = (due_ns, item)
        heapq.heappush(self._heap, (due_ns, self._serial, tree))

    def waits(self, tree: Tree) -> bool:
        """Some timer of the tree runs."""
        return tree in self._pending

    def next_due_ns(self) -> int | None:
        """When the next timer fires; None when there is none."""
        while self._heap and not self._live(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int) -> list[tuple[int, Item]]:
        """Take out every (due_ns, item) that is due by now."""
        due: list[tuple[int, Item]] = []
        while (next_ns := self.next_due_ns()) is not None and next_ns <= now_ns:
            _, serial, tree = heapq.heappop(self._heap)
            due.append(self._pending[tree].pop(serial))
            if not self._pending[tree]:
                del self._pending[tree]
        return due

    def cap_tree(self, tree: Tree, idle_since_ns: int, cap_ns: int) -> None:
        """The tree has just become idle: bring its next timer to the cap at the latest."""
        pending = self._pending.get(tree)
        if not pending:
            return
        excess = min(due for due, _ in pending.values()) - (idle_since_ns + cap_ns)
        if excess > 0:
            self._shift(tree, excess)
            self.tree_shift_ns += excess

    def cap_system(self, idle_since_ns: int, cap_ns: int) -> None:
        """Nothing at all is open: bring the next timer of any tree to the cap at the latest."""
        next_ns = self.next_due_ns()
        if next_ns is None or next_ns <= idle_since_ns + cap_ns:
            return
        excess = next_ns - (idle_since_ns + cap_ns)
        for tree in list(self._pending):
            self._shift(tree, excess)
        self.system_shift_ns += excess

    def pending(self) -> list[tuple[Tree, Item]]:
        """What is still waiting."""
        return [(tree, item) for tree, items in self._pending.items() for _, item in items.values()]

    def _shift(self, tree: Tree, by_ns: int) -> None:
        moved = sorted(self._pending.pop(tree).items())
        for _, (due_ns, item) in moved:
            self.add(tree, due_ns - by_ns, item)

    def _live(self, entry: tuple[int, int, Tree]) -> bool:
        _, serial, tree = entry
        return serial in self._pending.get(tree, ())
