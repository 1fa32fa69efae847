"""What formulas take and give: arrays of stamps and counts, a number or the reason for none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NS = 1e9


class Figure(NamedTuple):
    """A number, or None; `why` says why there is none, or what to know of the one there is."""

    value: float | None
    why: str | None = None


class Interval(NamedTuple):
    """A confidence interval; a None bound is open, and `why` says so."""

    lo: float | None
    hi: float | None
    why: str | None = None


def seconds(span_ns: Counts) -> Floats:
    """Nanoseconds in seconds."""
    return span_ns / NS
