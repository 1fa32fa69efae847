"""How a figure is written on a page: three significant digits, its unit, `–` where it is null."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

UNKNOWN = "–"
STATISTICS = ("mean", "p50", "p75", "p90", "p95", "p99")
PERCENTILES = STATISTICS[1:]
OTHER = "Other"
INTERVALS = "Intervals, 95 %"

Kind = Literal["number", "seconds", "milliseconds", "share", "gigabytes"]


@dataclass(frozen=True, slots=True)
class Field:
    """One metric on the page. `kind` says how the stored value becomes the figure shown:

    `milliseconds` is stored in seconds and shown x 1000, `share` is stored as 0..1 and shown in
    percent, `gigabytes` is stored in bytes, the rest are shown as stored.
    """

    name: str
    label: str
    unit: str
    group: str
    definition: str = ""
    kind: Kind = "number"

    def figure(self, value: float | None) -> str:
        """The value in three significant digits, without its unit."""
        return significant(self.scaled(value))

    def text(self, value: float | None) -> str:
        """The value with its unit; just `–` where it is unknown."""
        figure = self.figure(value)
        return f"{figure} {self.unit}" if self.unit and figure != UNKNOWN else figure

    def scaled(self, value: float | None) -> float | None:
        """The value in the unit shown."""
        if value is None:
            return None
        return value * {"milliseconds": 1e3, "share": 1e2, "gigabytes": 1e-9}.get(self.kind, 1.0)


def significant(value: float | None, digits: int = 3) -> str:
    """`1234.5` is `1,230`, `0.01234` is `0.0123`, None is `–`. Below 1e-5 with an exponent."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    rounded = Decimal(f"{value:.{digits - 1}e}")
    if abs(rounded) < Decimal("1e-5"):
        return f"{rounded:.{digits - 1}e}"
    decimals = max(0, digits - 1 - rounded.adjusted())
    return f"{rounded:,.{decimals}f}"


def count(value: int | None) -> str:
    """A count, exact."""
    return UNKNOWN if value is None else f"{value:,}"
