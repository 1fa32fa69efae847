"""The KV block pool and its prefix cache: a radix tree over runs of block ids.

Only whole blocks of a prompt are shared. Generated tokens are never put into the tree: a canned
replay sends the recorded reply in the next prompt, not the generated one, so they could not hit.

Every block is in one of three places: free, held by a sequence (in the tree or private to it), or
cached (in the tree, held by nobody, evicted least recently used first, from the tail of its run).
used + free + cached == total, always.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Blocks = npt.NDArray[np.int64]
_SWEEP_EVERY = 1 << 16
"""Entries after which stale ones are dropped, so that a pool that never evicts stays small."""
_NO_BLOCKS: Blocks = np.empty(0, dtype=np.int64)


class _Node:
    """A run of block ids below its parent; `holders` counts the holds on it or below it."""

    __slots__ = ("blocks", "children", "holders", "last_used", "parent", "start")

    def __init__(self, blocks: Blocks, parent: _Node | None, start: int) -> None:
        self.blocks = blocks
        self.parent = parent
        self.start = start
        """Blocks above this run: it ends at start + len(blocks)."""
        self.children: dict[int, _Node] = {}
        self.holders = 0
        self.last_used = 0

    @property
    def end(self) -> int:
        return self.start + len(self.blocks)


@dataclass(slots=True, eq=False)
class Hold:
    """The blocks one sequence keeps from eviction: a path of the tree, then private blocks."""

    node: _Node
    private: int

    @property
    def shared(self) -> int:
        """Blocks of the prompt in the tree."""
        return self.node.end

    @property
    def blocks(self) -> int:
        """All blocks held."""
        return self.node.end + self.private


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """How far a prompt is in the tree: `blocks` of it, of which `cached` are held by nobody."""

    node: _Node
    blocks: int
    cached: int


class PrefixCache:
    """A pool of `total` blocks. With `enabled` false it shares nothing and only counts."""

    def __init__(self, total: int, *, enabled: bool = True) -> None:
        self.total = total
        self.free = total
        self.cached = 0
        self._enabled = enabled
        self._root = _Node(_NO_BLOCKS, None, 0)
        self._uses = 0
        # (last_used, serial, node) of nodes that were unheld leaves; stale entries are skipped.
        self._evictable: list[tuple[int, int, _Node]] = []
        self._serial = 0

    @property
    def used(self) -> int:
        """Blocks held by sequences, a shared one counted once."""
        return self.total - self.free - self.cached

    @property
    def available(self) -> int:
        """Blocks that can be had: free, or cached and so evictable."""
        return self.free + self.cached

    def match(self, blocks: Blocks, limit: int) -> Match:
        """The longest prefix of blocks[:limit] in the tree. Changes nothing."""
        node, count, cached = self._root, 0, 0
        while self._enabled and count < limit:
            child = node.children.get(int(blocks[count]))
            if child is None:
                break
            agree = _agreement(child.blocks, blocks[count:limit])
            node, count = child, count + agree
            cached += agree if child.holders == 0 else 0
            if agree < len(child.blocks):
                break
        return Match(node, count, cached)

    def acquire(self, match: Match) -> Hold:
        """Hold the matched blocks. The match must be the latest: nothing may have changed since."""
        node = match.node
        if match.blocks < node.end:
            node = self._split(node, match.blocks - node.start)
        self._hold(node)
        return Hold(node, 0)

    def grow(self, hold: Hold, blocks: int) -> None:
        """Take private blocks until the hold has `blocks`; the caller made sure they can be had."""
        more = blocks - hold.blocks
        if more <= 0:
            return
        if more > self.free:
            self._evict(more - self.free)
        self.free -= more
        hold.private += more

    def publish(self, hold: Hold, blocks: Blocks, upto: int) -> None:
        """Put the prompt's blocks[:upto], which the hold has, into the tree for others to hit.

        Where another sequence was faster, its blocks are held and our private copies are freed.
        """
        if not self._enabled or upto <= hold.shared:
            return
        before, held = hold.shared, hold.node
        match = self._descend(held, blocks[:upto])
        node = match.node
        if match.blocks < node.end:
            node = self._split(node, match.blocks - node.start)
        if match.blocks < upto:
            child = _Node(blocks[match.blocks : upto].copy(), node, match.blocks)
            node.children[int(child.blocks[0])] = child
            self.cached += len(child.blocks)
            self.free -= len(child.blocks)
            node = child
        # Hold the deeper path first: the shallower one must never be unheld in between.
        self._hold(node)
        self._let_go(held)
        hold.node = node
        hold.private -= upto - before
        self.free += upto - before

    def release(self, hold: Hold) -> None:
        """Free the private blocks; the shared ones stay cached unless others hold them."""
        self.free += hold.private
        hold.private = 0
        self._touch(hold.node)
        self._let_go(hold.node)
        self._join(hold.node)
        hold.node = self._root

    def _descend(self, node: _Node, blocks: Blocks) -> Match:
        """As match, from a node whose path is known to agree."""
        count = node.end
        while count < len(blocks):
            child = node.children.get(int(blocks[count]))
            if child is None:
                break
            agree = _agreement(child.blocks, blocks[count:])
            node, count = child, count + agree
            if agree < len(child.blocks):
                break
        return Match(node, count, 0)

    def _split(self, node: _Node, at: int) -> _Node:
        """Cut a run in two and return the upper part; the node itself, which holds point at, stays
        the lower one.
        """
        parent = node.parent
        assert parent is not None
        upper = _Node(node.blocks[:at], parent, node.start)
        upper.holders, upper.last_used = node.holders, node.last_used
        parent.children[int(node.blocks[0])] = upper
        node.blocks, node.parent, node.start = node.blocks[at:], upper, node.start + at
        upper.children[int(node.blocks[0])] = node
        return upper

    def _hold(self, node: _Node) -> None:
        self._touch(node)
        step: _Node | None = node
        while step is not None:
            if step.holders == 0:
                self.cached -= len(step.blocks)
            step.holders += 1
            step = step.parent

    def _let_go(self, node: _Node) -> None:
        leaf = node
        step: _Node | None = node
        while step is not None:
            step.holders -= 1
            if step.holders == 0:
                self.cached += len(step.blocks)
            step = step.parent
        self._offer(leaf)

    def _touch(self, node: _Node) -> None:
        self._uses += 1
        step: _Node | None = node
        while step is not None:
            step.last_used = self._uses
            step = step.parent

    def _join(self, node: _Node) -> None:
        """Merge an unheld run with its unheld parent where it is the only child: a session that
        grows turn by turn stays one run, and a match stays one comparison.
        """
        parent = node.parent
        while (
            parent is not None
            and parent is not self._root
            and node.holders == parent.holders == 0
            and len(parent.children) == 1
        ):
            node.blocks = np.concatenate((parent.blocks, node.blocks))
            node.start, node.parent = parent.start, parent.parent
            assert node.parent is not None
            node.parent.children[int(node.blocks[0])] = node
            parent.children = {}
            parent.parent = None
            parent = node.parent

    def _offer(self, node: _Node) -> None:
        """Enter a node among the evictable, if it is an unheld leaf."""
        if node.holders == 0 and not node.children and node.parent is not None:
            self._serial += 1
            heapq.heappush(self._evictable, (node.last_used, self._serial, node))
            if self._serial % _SWEEP_EVERY == 0:
                self._evictable = [entry for entry in self._evictable if _current(entry)]
                heapq.heapify(self._evictable)

    def _evict(self, blocks: int) -> None:
        """Move `blocks` from cached to free."""
        while blocks > 0:
            if not _current(self._evictable[0]):
                heapq.heappop(self._evictable)
                continue
            node = self._evictable[0][2]
            count = min(blocks, len(node.blocks))
            blocks -= count
            self.cached -= count
            self.free += count
            if count < len(node.blocks):
                node.blocks = node.blocks[:-count]
                continue
            heapq.heappop(self._evictable)
            self._remove(node)

    def _remove(self, node: _Node) -> None:
        parent = node.parent
        assert parent is not None
        first = int(node.blocks[0])
        del parent.children[first]
        node.parent = None
        self._offer(parent)
        if len(parent.children) == 1:
            self._join(next(iter(parent.children.values())))


def _current(entry: tuple[int, int, _Node]) -> bool:
    """Whether the node is still what it was when entered: an unheld leaf, not used since."""
    stamp, _, node = entry
    unheld_leaf = not node.holders and not node.children and node.parent is not None
    return unheld_leaf and node.last_used == stamp


def _agreement(run: Blocks, other: Blocks) -> int:
    """How many leading ids of the two runs are equal."""
    length = min(len(run), len(other))
    differ = run[:length] != other[:length]
    first = int(differ.argmax())
    return first if differ[first] else length
