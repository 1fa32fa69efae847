"""From which token event on an answer is near its end, so that it is read at once and not by ticks.

An answer may have fewer events than the tokens that were asked for: a server that is busy puts two
tokens into one event. How many fewer is learned from the answers that have ended.
"""

from __future__ import annotations

from collections import deque

MARGIN = 3
"""Events before the one that is likely the last."""
KEPT = 64
"""Answers that tell how many events there will be."""
FEW = 8
"""Of fewer nothing is learned."""
EARLY = 0.1
"""Share of answers that may end before the event that is told."""
MOST_SHARE = 1 / 8
"""Of the length asked for, before the usual end: so much of all streams is read at once at most."""


class NearEnd:
    """Learns from one server's answers, as they end."""

    def __init__(self) -> None:
        self._shares: deque[float] = deque(maxlen=KEPT)
        self._share = 1.0

    def learn(self, events: int, max_tokens: int) -> None:
        """An answer had so many token events, of the length that was asked for."""
        self._shares.append(min(1.0, events / max_tokens))
        if len(self._shares) >= FEW:
            known = sorted(self._shares)
            low, usual = known[int(EARLY * len(known))], known[len(known) // 2]
            self._share = max(low, usual - MOST_SHARE)

    def event(self, max_tokens: int) -> int:
        """How many token events an answer of this length has when its end is near."""
        return int(self._share * max_tokens) - MARGIN
