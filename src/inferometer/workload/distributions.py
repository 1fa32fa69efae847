"""Distributions of lengths, counts and gaps, and the short texts that name them.

`2000` is exact, `1600-2400` uniform, `2000+-300` normal (mean, standard deviation), `2000~0.8`
log-normal (median, sigma of the logarithm). Every draw takes a generator: nothing here has a seed.
"""

from __future__ import annotations

import bisect
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from inferometer.errors import InputError

if TYPE_CHECKING:
    from pydantic import ConfigDict

_CONFIG: ConfigDict = {"extra": "forbid", "strict": True, "defer_build": True}


class Distribution(Protocol):
    """Numbers, drawn one at a time."""

    def draw(self, rng: np.random.Generator) -> float:
        """One value."""
        ...

    def whole(self, rng: np.random.Generator) -> int:
        """One value, rounded."""
        ...


@dataclass(frozen=True, slots=True)
class LogNormal:
    """exp(normal(log median, sigma)), clipped to [least, most]."""

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    median: float
    sigma: float
    least: float
    most: float

    def scaled(self, factor: float) -> LogNormal:
        """Values so many times as large."""
        least, most = self.least * factor, self.most * factor
        return LogNormal(self.median * factor, self.sigma, least, most)

    def draw(self, rng: np.random.Generator) -> float:
        """One value."""
        return self.at(float(rng.standard_normal()))

    def at(self, score: float) -> float:
        """The value that is as far up as a standard normal `score`."""
        value = self.median * math.exp(self.sigma * score)
        return min(max(value, self.least), self.most)

    def whole(self, rng: np.random.Generator) -> int:
        """One value, rounded."""
        return round(self.draw(rng))


@dataclass(frozen=True, slots=True)
class Normal:
    """normal(mean, sd), clipped to [least, most]."""

    mean: float
    sd: float
    least: float
    most: float

    def draw(self, rng: np.random.Generator) -> float:
        """One value."""
        return min(max(self.mean + self.sd * rng.standard_normal(), self.least), self.most)

    def whole(self, rng: np.random.Generator) -> int:
        """One value, rounded."""
        return round(self.draw(rng))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Between two values; whole numbers from `low` to `high`, each as likely."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        """One value."""
        return float(rng.uniform(self.low, self.high))

    def whole(self, rng: np.random.Generator) -> int:
        """One value, rounded."""
        return int(rng.integers(round(self.low), round(self.high), endpoint=True))


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The distribution with these quantiles at even steps from the least value to the greatest.

    In between it is uniform in the logarithm where both ends are above 0, else uniform.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    quantiles: tuple[float, ...]
    """Ascending, two at least: of n, number k is the quantile k / (n - 1)."""

    def __post_init__(self) -> None:
        ascending = all(a <= b for a, b in zip(self.quantiles, self.quantiles[1:], strict=False))
        if len(self.quantiles) < 2 or not ascending or self.quantiles[0] < 0:
            raise ValueError("expected at least two quantiles >= 0, ascending")

    def scaled(self, factor: float) -> Quantiles:
        """Values so many times as large."""
        return Quantiles(tuple(value * factor for value in self.quantiles))

    def draw(self, rng: np.random.Generator) -> float:
        """One value."""
        return self._quantile(rng.random())

    def at(self, score: float) -> float:
        """The value that is as far up as a standard normal `score`."""
        return self._quantile(0.5 * math.erfc(-score / math.sqrt(2)))

    def _quantile(self, share: float) -> float:
        place = share * (len(self.quantiles) - 1)
        step = min(int(place), len(self.quantiles) - 2)
        low, high = self.quantiles[step : step + 2]
        if low <= 0:
            return low + (place - step) * (high - low)
        return low * math.exp((place - step) * math.log(high / low))

    def whole(self, rng: np.random.Generator) -> int:
        """One value, rounded."""
        return round(self.draw(rng))


@dataclass(frozen=True, slots=True)
class ByContext:
    """A distribution for each range of contexts: below the first of `below`, and so on; the last
    table is of all longer ones.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CONFIG

    below: tuple[int, ...]
    """Tokens, ascending."""
    tables: tuple[Quantiles, ...]
    """One more than `below` has."""

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip(self.below, self.below[1:], strict=False))
        if len(self.tables) != len(self.below) + 1 or not ascending:
            raise ValueError("expected ascending bounds, and one table more than bounds")

    def scaled(self, factor: float) -> ByContext:
        """Values and contexts so many times as large."""
        below = tuple(round(bound * factor) for bound in self.below)
        return ByContext(below, tuple(table.scaled(factor) for table in self.tables))

    def of(self, context: int) -> Quantiles:
        """The table for a context of so many tokens."""
        return self.tables[bisect.bisect_right(self.below, context)]


_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_FORMS = re.compile(rf"({_NUMBER})(?:(~|\+-|-)({_NUMBER}))?")


def distribution(text: str, least: float, most: float) -> Distribution:
    """The distribution that a text names, within [least, most].

    Raises InputError, with the forms there are, for any other text and for values outside.
    """
    match = _FORMS.fullmatch(text.strip())
    if match is None:
        raise InputError(f"expected a number, LOW-HIGH, MEAN+-SD or MEDIAN~SIGMA, got {text!r}")
    first, form, second = float(match[1]), match[2], float(match[3] or 0)
    if not least <= first <= most or (form == "-" and not first <= second <= most):
        raise InputError(f"expected values from {least:g} to {most:g}, ascending, got {text!r}")
    if form == "~":
        if second > 10:
            raise InputError(f"expected a sigma of at most 10, got {text!r}")
        return LogNormal(first, second, least, most)
    if form == "+-":
        return Normal(first, second, least, most)
    return Uniform(first, second if form == "-" else first)
