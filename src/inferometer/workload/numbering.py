"""Numbers for the blocks and tails of a session, such that those that follow one block differ most.

The first word of a block is chosen by its number, so prompts part at the very token at which their
ids part, and not a few tokens later because two blocks happen to begin alike. Block ids are taken
as hashes of everything up to their block: an id has one predecessor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inferometer.core import Session, Turn

KEPT = 1024
"""Sessions whose numbers are kept: as many as lanes play at a time. A session takes about 0.1 MB
and some milliseconds."""
_START = -1
"""Stands for the block before the first."""


class Numbering(NamedTuple):
    """`blocks` int64[n]: number by id, counted from the first that is the session's own;
    `tails` int64[turns]: number by turn.

    All differ. Blocks and tails that follow the same block have consecutive numbers, so theirs are
    different modulo any number that is not below how many there are.
    """

    blocks: npt.NDArray[np.int64]
    tails: npt.NDArray[np.int64]
    total: int
    common_ids: int

    def of(self, turn: Turn) -> npt.NDArray[np.int64]:
        """Numbers of a turn's blocks; anything where an id is common to sessions."""
        if not self.common_ids:
            return self.blocks[turn.block_ids]
        return self.blocks[np.maximum(turn.block_ids - self.common_ids, 0)]


def _in_a_row(ids: npt.NDArray[np.int64]) -> bool:
    """0, 1, 2 and so on, as made requests have them."""
    last = len(ids) - 1
    return last < 0 or bool(ids[0] == 0 and ids[-1] == last and (ids[1:] > ids[:-1]).all())


@lru_cache(KEPT)
def _row(size: int) -> Numbering:
    """What `numbering` comes to for one turn of ids in a row."""
    blocks, tails = np.arange(max(size, 1), dtype=np.int64), np.array([size], np.int64)
    for shared in (blocks, tails):
        shared.setflags(write=False)
    return Numbering(blocks, tails, size + 1, 0)


@lru_cache(KEPT)
def numbering(session: Session) -> Numbering:
    """The numbers of a session.

    Where an id has several predecessors, as in no trace of hashes, its place is by the last one.
    """
    ids = session.turns[0].block_ids
    if len(session.turns) == 1 and session.common_ids == 0 and _in_a_row(ids):
        return _row(len(ids))
    return numbered(session)


def numbered(session: Session) -> Numbering:
    """The same for any session, at the cost of sorting."""
    common = session.common_ids
    size = max(1, 1 - common + max(int(turn.block_ids.max(initial=-1)) for turn in session.turns))
    before = np.full(size, _START, np.int64)
    used = np.zeros(size, np.bool_)
    for turn in session.turns:
        ids = turn.block_ids
        own = ids >= common
        before[ids[1:][own[1:]] - common] = ids[:-1][own[1:]]
        used[ids[own] - common] = True
    known = np.flatnonzero(used)
    ends = [int(turn.block_ids[-1]) if len(turn.block_ids) else _START for turn in session.turns]
    follows = np.concatenate([before[known], np.array(ends, np.int64)])
    numbers = np.empty(len(follows), np.int64)
    numbers[np.argsort(follows, kind="stable")] = np.arange(len(follows))
    blocks = np.zeros(size, np.int64)
    blocks[known] = numbers[: len(known)]
    return Numbering(blocks, numbers[len(known) :], len(numbers), common)
