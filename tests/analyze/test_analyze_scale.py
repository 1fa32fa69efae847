"""An analysis does its work per token in numpy: Python's share does not grow with the tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
from analyze_factory import inputs, record

from inferometer.analyze import PointInputs, analyze_point


def run(events: int) -> PointInputs:
    """Twenty requests of `events` events each, half of them counted by chunk."""
    return inputs(
        [
            record(
                at,
                list(np.linspace(at + 10, at + 500, events)),
                completion=2 * events,
                tokens=[2] * events if at % 200 else None,
                coalesced=[False] * events,
            )
            for at in range(100, 2_100, 100)
        ]
    )


@contextmanager
def lines_counted() -> Iterator[list[int]]:
    """Counts the lines of Python that run inside."""
    counted, before = [0], sys.gettrace()

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        counted[0] += event == "line"
        return trace

    sys.settrace(trace)
    try:
        yield counted
    finally:
        sys.settrace(before)


def test_lines_of_python_do_not_grow_with_tokens() -> None:
    short, long = run(100), run(1_000)
    analyze_point(short)  # imports and caches of the first call
    with lines_counted() as few:
        analyze_point(short)
    with lines_counted() as many:
        analyze_point(long)
    assert few[0] > 1_000
    assert many[0] < 1.05 * few[0]
