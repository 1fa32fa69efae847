"""How many workers a load gets."""

from __future__ import annotations

import os

LANES_A_WORKER = 512
"""One loop follows that many streams with its lag still below a chunk's usual gap."""


def workers_for(lanes: int, cores: int | None = None) -> int:
    """How many workers a concurrency needs, of what the machine has beside the coordinator."""
    most = max(1, (cores or os.cpu_count() or 1) - 1)
    return min(most, -(-lanes // LANES_A_WORKER))
