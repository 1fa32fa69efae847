"""What a prefix cache of any size would hold of requests sent in a given order, in one pass.

A block is a hit where it and all blocks before it in its prompt are in the cache. The cache drops
the block that was used longest ago, and of one prompt its end first, as engines do. Whether a block
is a hit at a size is then one number: how many blocks were used since it was last (Mattson et al.,
Evaluation techniques for storage hierarchies, 1970). Replies are not cached.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from inferometer.core import Session, Turn
from inferometer.workload.hashes import Ids

DENSE = 1 << 22
"""Ids below have a place in an array each; larger ones take the places between, as they come."""


def spaces(session: Session, turn: Turn, number: Hashable) -> list[tuple[Hashable, Ids]]:
    """A turn's ids in runs of those that all sessions share and those of the session alone."""
    ids = turn.block_ids
    if not session.common_ids or not len(ids):
        return [(number, ids)]
    common = ids < session.common_ids
    cuts = (np.flatnonzero(np.diff(common)) + 1).tolist()
    bounds = zip([0, *cuts], [*cuts, len(ids)], strict=True)
    return [("common" if common[low] else number, ids[low:high]) for low, high in bounds]


class PrefixCache:
    """Requests so far, by number from 0. Ids of one `space` are the same blocks."""

    def __init__(self) -> None:
        self._spaces: dict[Hashable, _Space] = {}
        self._owned = _Sums()
        """Blocks by the request that used them last."""
        self._requests = 0

    def send(self, parts: list[tuple[Hashable, Ids]]) -> npt.NDArray[np.int64]:
        """Send a prompt: its ids in order, in runs of one space each.

        Returns int64[n], ascending, for the n leading blocks that were sent before: from which
        cache size on, in blocks, each is a hit. So an endless cache has n hits.
        """
        used = [(self._space(key), ids) for key, ids in parts if len(ids)]
        places = [space.places(ids) for space, ids in used]
        last = [space.last[at] for (space, _), at in zip(used, places, strict=True)]
        before = np.concatenate(last) if last else np.empty(0, np.int64)
        known = before >= 0
        leading = len(before) if known.all() else int(known.argmin())
        sizes = self._sizes(before[:leading])
        owners, counts = np.unique(before[known], return_counts=True)
        for owner, count in zip(owners.tolist(), counts.tolist(), strict=True):
            self._owned.add(owner, -count)
        for (space, _), at in zip(used, places, strict=True):
            space.last[at] = self._requests
        self._owned.add(self._requests, len(before))
        self._requests += 1
        return sizes

    def used_since(self, request: int) -> int:
        """Distinct blocks used by that request or a later one."""
        return self._owned.total - self._owned.before(request)

    def drop(self, key: Hashable) -> None:
        """Forget a space whose ids never come again; its blocks stay in the cache until pushed."""
        self._spaces.pop(key, None)

    def _space(self, key: Hashable) -> _Space:
        return self._spaces.setdefault(key, _Space())

    def _sizes(self, owners: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """For each leading block, the blocks used since its last use, itself included."""
        sizes = np.empty(len(owners), np.int64)
        for owner in np.unique(owners).tolist():
            mine = owners == owner
            later = self._owned.total - self._owned.before(owner + 1)
            sizes[mine] = later + 1 + np.arange(int(mine.sum()))
        return np.maximum.accumulate(sizes) if len(sizes) else sizes


class _Space:
    """The last request that used each block of a space; -1 where none did."""

    def __init__(self) -> None:
        self.last: npt.NDArray[np.int64] = np.full(64, -1, np.int64)
        self._large: dict[int, int] = {}

    def places(self, ids: Ids) -> Ids:
        """Where in `last` the blocks of these ids stand; makes room for new ones."""
        large, known = ids >= DENSE, self._large
        places = np.where(large, 0, ids) * 2
        if large.any():
            ranks = [known.setdefault(each, len(known)) for each in ids[large].tolist()]
            places[large] = np.array(ranks, np.int64) * 2 + 1
        missing = int(places.max()) + 1 - len(self.last)
        if missing > 0:
            more = np.full(max(missing, len(self.last)), -1, np.int64)
            self.last = np.concatenate([self.last, more])
        return places


class _Sums:
    """Counts by index with their running sums (Fenwick, A new data structure ..., 1994)."""

    def __init__(self) -> None:
        self._tree: list[int] = [0]
        self.total = 0

    def add(self, index: int, count: int) -> None:
        """Add to the count at an index."""
        while index + 1 >= len(self._tree):
            self._grow()
        self.total += count
        place = index + 1
        while place < len(self._tree):
            self._tree[place] += count
            place += place & -place

    def before(self, index: int) -> int:
        """The sum of the counts at lower indices."""
        place, found = min(index, len(self._tree) - 1), 0
        while place > 0:
            found += self._tree[place]
            place -= place & -place
        return found

    def _grow(self) -> None:
        """Twice the room; a node that covers all there was takes its sum."""
        size = len(self._tree) - 1
        if size == 0:
            self._tree = [0, 0]
            return
        self._tree += [0] * size
        self._tree[2 * size] = self.total
