"""What prefix caches of a few sizes would hold of sessions side by side on lanes, for a result.

An estimate before any engine: the order is that of recorded durations and gaps. Replies are not
cached; sizes are in tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferometer.core import Session
from inferometer.workload.prefixcache import PrefixCache, spaces
from inferometer.workload.timeline import timeline

SIZES = {"250k": 250_000, "1m": 1_000_000, "4m": 4_000_000, "16m": 16_000_000}


def hits_of_caches(sessions: Sequence[Session], lanes: int) -> dict[str, float]:
    """Share of prompt tokens that each cache would hold, as `theoretical_prefix_hit_SIZE`."""
    size = sessions[0].block_size
    capacities = np.array([tokens // size for tokens in SIZES.values()], np.int64)
    hits, total, cache = np.zeros(len(SIZES), np.int64), 0, PrefixCache()
    for sent in timeline(sessions, lanes):
        turn = sessions[sent.session].turns[sent.turn]
        needed = cache.send(spaces(sessions[sent.session], turn, sent.session))
        hits += np.searchsorted(needed, capacities, side="right")
        total += turn.input_tokens
    return {
        f"theoretical_prefix_hit_{name}": float(count) * size / total
        for name, count in zip(SIZES, hits.tolist(), strict=True)
    }
