"""The numbers that a log tells, by the names of the table: bytes, seconds and counts, each for the
data-parallel rank that wrote it.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence

from inferometer.engine.patterns import FactRule, known

_RANK = re.compile(r"(?:\b|_)DP_?(\d+)")
"""Engines of a data-parallel deployment write one log; each names its rank so."""


class Facts:
    """Takes lines, in their order; `values` may be asked for at any time."""

    def __init__(self) -> None:
        self._ranks: dict[str, dict[str, float]] = {}
        self._fallback: set[str] = set()

    def take(self, text: str, low: str) -> bool:
        """One line, as it stands and in lower case; whether it told a number."""
        found_any = False
        for rule in known().facts:
            if (found := rule.pattern.search(low)) is None:
                continue
            if (value := _number(found.groups(), rule.product)) is not None:
                rank = _RANK.search(text)
                self._keep(rule, rank[1] if rank else "0", value * rule.scale)
                found_any = True
        return found_any

    def values(self) -> dict[str, float]:
        """Of all ranks: their sum, or the greatest, as the table says."""
        return {
            name: sum(ranks.values()) if name in known().summed else max(ranks.values())
            for name, ranks in self._ranks.items()
        }

    def _keep(self, rule: FactRule, rank: str, value: float) -> None:
        """One number: the last of its lines counts, or the greatest."""
        told = rule.name in self._ranks and rule.name not in self._fallback
        if rule.fallback and told:
            return
        if rule.fallback:
            self._fallback.add(rule.name)
        elif not told:
            self._ranks.pop(rule.name, None)
            self._fallback.discard(rule.name)
        ranks = self._ranks.setdefault(rule.name, {})
        ranks[rank] = max(value, ranks.get(rank, value)) if rule.greatest else value


def _number(groups: Sequence[str | None], product: bool) -> float | None:
    """The sum of the numbers that a pattern found, or their product; None where one of them is
    none, however it looks.
    """
    with contextlib.suppress(ValueError):
        numbers = [float(each.replace(",", "")) for each in groups if each is not None]
        value = math.prod(numbers) if product else sum(numbers)
        return value if math.isfinite(value) else None
    return None
