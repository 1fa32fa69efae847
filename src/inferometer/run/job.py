"""A point with the plan and the digest it is measured under: what a sweep is a list of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from inferometer.core import LaunchPlan, Point, Slo
from inferometer.run.site import Site


@dataclass(frozen=True, slots=True)
class Job:
    """One point, resolved."""

    point: Point
    plan: LaunchPlan
    digest: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a run is to hold. `base_url` is that of an engine that is already up, else None."""

    title: str
    command: str
    jobs: tuple[Job, ...]
    sources: Mapping[str, str]
    clock: Literal["real", "virtual"]
    base_url: str | None
    slos: tuple[Slo, ...] = ()
    """What goodput is held against; moves no other number."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Go with every request, and nowhere else: they may hold secrets."""
    workers: int | None = None
    """Processes that send; None: by concurrency and cores."""
    site: Site = field(default_factory=Site)
    """Where engines are started; nothing of it enters a digest."""
