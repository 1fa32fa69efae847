"""What a page is made of: the run and its points, as the store gave them. Holds, does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferometer.core import LaunchPlan, Result


@dataclass(frozen=True, slots=True)
class PointView:
    """One finished point: its row, and the exact launch behind it."""

    result: Result
    plan: LaunchPlan


@dataclass(frozen=True, slots=True)
class RunView:
    """A run. `started_at` is ISO 8601, UTC; `unfinished` names every point without a result."""

    title: str
    run_id: str
    started_at: str
    inferometer: str
    machine: Mapping[str, str]
    points: tuple[PointView, ...]
    unfinished: tuple[str, ...]
