"""The frontier between what a user feels and what a GPU yields, and the knee of it.

Works on measured points only: nothing is interpolated, no point is invented.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

Better = Literal["max", "min"]
Values = Sequence[float | None]


def pareto(xs: Values, ys: Values, x_better: Better, y_better: Better) -> list[int]:
    """Indices of the points that no other point beats on both axes, in order of rising x.

    A point with an unknown (None, NaN) coordinate is left out. Of points with the same x only the
    one with the better y is kept, of equal points the first.
    """
    known = [index for index in range(len(xs)) if _is_known(xs[index]) and _is_known(ys[index])]
    score = {i: (_gain(xs[i], x_better), _gain(ys[i], y_better)) for i in known}
    best_y = -math.inf
    kept = []
    for index in sorted(known, key=lambda i: (-score[i][0], -score[i][1], i)):
        if score[index][1] > best_y:
            best_y = score[index][1]
            kept.append(index)
    return kept[::-1] if x_better == "max" else kept


def knee(xs: Values, ys: Values, x_better: Better, y_better: Better) -> int | None:
    """The frontier's point farthest above the straight line between its two ends, both axes scaled
    to the frontier's range. None below three points, or where none lies above the line.
    """
    front = pareto(xs, ys, x_better, y_better)
    if len(front) < 3:
        return None
    across = _scaled([_gain(xs[i], x_better) for i in front])
    up = _scaled([_gain(ys[i], y_better) for i in front])
    above = [x + y - 1 for x, y in zip(across, up, strict=True)]
    top = max(range(len(front)), key=above.__getitem__)
    # The ends lie on the line: rounding alone must not make one of them, or a straight
    # frontier's middle, a knee.
    return front[top] if above[top] > 1e-9 else None


def _is_known(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _gain(value: float | None, better: Better) -> float:
    assert value is not None
    return value if better == "max" else -value


def _scaled(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) for value in values]
