"""What prefix caches of a few sizes would hold of sessions side by side on lanes, for a result.

An estimate before any engine: the order is that of recorded durations and gaps. Replies are not
cached; sizes are in tokens.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from inferometer.core import Session
from inferometer.workload.hashes import Ids
from inferometer.workload.prefixcache import PrefixCache, spaces
from inferometer.workload.timeline import timeline

SIZES = {"250k": 250_000, "1m": 1_000_000, "4m": 4_000_000, "16m": 16_000_000}
ENDLESS = "theoretical_prefix_hit"
"""Name of the share of a cache without end; others have the name of their size behind it."""


def sizes_with(pool_tokens: int | None) -> Mapping[str, int]:
    """The sizes, and that of the engine's own KV pool where it is known."""
    return SIZES if pool_tokens is None else {**SIZES, "engine": pool_tokens}


class HitCounter:
    """Counts what caches would hold of prompts in the order in which they are sent.

    `sizes`: capacities in tokens by the name of their number; without end is always among them.
    """

    def __init__(self, block_size: int, sizes: Mapping[str, int] = SIZES) -> None:
        self._size = block_size
        self._names = tuple(sizes)
        self._capacities = np.array([tokens // block_size for tokens in sizes.values()], np.int64)
        self._hits = np.zeros(len(sizes), np.int64)
        self._endless = self._total = 0
        self._cache = PrefixCache()

    def send(self, parts: list[tuple[Hashable, Ids]], tokens: int, *, counts: bool = True) -> None:
        """A prompt: its blocks in runs of one space each, and its length in tokens.

        One that does not count fills the caches all the same.
        """
        needed = self._cache.send(parts)
        if not counts:
            return
        self._hits += np.searchsorted(needed, self._capacities, side="right")
        self._endless += len(needed)
        self._total += tokens

    def drop(self, key: Hashable) -> None:
        """Forget a space whose blocks never come again."""
        self._cache.drop(key)

    def shares(self) -> dict[str, float]:
        """Share of prompt tokens that each cache would hold, as `theoretical_prefix_hit_SIZE`."""
        if not self._total:
            return {}
        named = zip(self._names, self._hits.tolist(), strict=True)
        counts = {ENDLESS: self._endless} | {f"{ENDLESS}_{name}": count for name, count in named}
        return {name: count * self._size / self._total for name, count in counts.items()}


def hits_of_caches(
    sessions: Sequence[Session], lanes: int, sizes: Mapping[str, int] = SIZES
) -> dict[str, float]:
    """Share of prompt tokens that caches would hold of sessions side by side, by its name."""
    counter = HitCounter(sessions[0].block_size, sizes)
    for sent in timeline(sessions, lanes):
        session = sessions[sent.session]
        turn = session.turns[sent.turn]
        counter.send(spaces(session, turn, sent.session), turn.input_tokens)
    found = counter.shares()
    del found[ENDLESS]  # of all sessions it is known exactly
    return found
