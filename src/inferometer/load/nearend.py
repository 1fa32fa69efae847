"""From which token event on an answer is near its end, so that it is read at once and not by ticks.

An answer may have fewer events than the tokens that were asked for: a server that is busy puts two
tokens into one event. How many fewer is learned from the answers that have ended. Of answers that
end when they like only those are near their end that reach the length asked for.
"""

from __future__ import annotations

from collections import OrderedDict, deque

MARGIN = 3
"""Events before the one that is likely the last."""
KEPT = 64
"""Answers that tell how many events there will be."""
FEW = 8
"""Of fewer nothing is learned."""
EARLY = 0.1
"""Share of answers that may end before the event that is told, and share that may go on far."""
MOST_SHARE = 1 / 8
"""Of the length asked for: where answers differ by more, their end cannot be told."""
MOST_OPEN = 4_096
"""Answers that wait for one that began before them."""


class NearEnd:
    """Learns from one server's answers in the order in which they began: the first ones to end are
    the short ones.
    """

    def __init__(self) -> None:
        self._shares: deque[float] = deque(maxlen=KEPT)
        self._share = 1.0
        self._begun: OrderedDict[int, float | None] = OrderedDict()
        """What is known of each that has begun: None while it is open."""

    def begin(self, key: int) -> None:
        """A request is on its way."""
        self._begun[key] = None
        if len(self._begun) > MOST_OPEN:
            self._begun.popitem(last=False)

    def end(self, key: int, share: float | None) -> None:
        """Its answer had this share of the token events that were asked for; None: it failed."""
        if key not in self._begun:
            return
        if share is None:
            del self._begun[key]
        else:
            self._begun[key] = share
        while self._begun:
            first, known = next(iter(self._begun.items()))
            if known is None:
                return
            del self._begun[first]
            self._learn(known)

    def event(self, max_tokens: int) -> int:
        """How many token events an answer of this length has when its end is near."""
        return int(self._share * max_tokens) - MARGIN

    def _learn(self, share: float) -> None:
        self._shares.append(min(1.0, share))
        if len(self._shares) >= FEW:
            known = sorted(self._shares)
            early = int(EARLY * len(known))
            low, high = known[early], known[-1 - early]
            self._share = low if high - low <= MOST_SHARE else 1.0
