"""The workload of a point, opened: what every load needs. What reads and makes sessions is loaded
only where there are any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from inferometer.core import Session, WorkloadSettings
from inferometer.deferred import Deferred
from inferometer.errors import InputError
from inferometer.workload.fixed import FixedLengths

if TYPE_CHECKING:
    from inferometer.workload import sources as _sources
    from inferometer.workload.agentic import StartPlan
else:
    _sources = Deferred("inferometer.workload.sources")


class Workload(Protocol):
    """What is sent, as a function of lane and play alone."""

    @property
    def wrapped_lanes(self) -> int:
        """Lanes that play a session that another lane plays at the same time."""
        ...

    @property
    def one_turn(self) -> bool:
        """Whether every session is one request."""
        ...

    def session(self, lane: int, play: int) -> Session:
        """The session of a lane's play; both count from 0."""
        ...

    def start(self, lane: int) -> StartPlan:
        """Where the lane's first play starts; every later one starts at turn 0."""
        ...

    def starts_ns(self) -> Sequence[int]:
        """When the sessions began, by their recording, in the order in which they are dealt.

        Empty where nothing says.
        """
        ...

    def notes(self, pool_tokens: int | None = None) -> Mapping[str, float]:
        """Numbers about the data, for the result; `pool_tokens`: of the engine's own KV pool."""
        ...


def open_workload(settings: WorkloadSettings, lanes: int) -> Workload:
    """The workload of a point with `lanes` lanes.

    Raises InputError where its data is unusable, or is not what the settings' digest stands for.
    """
    if settings.seed < 0:
        raise InputError(f"seed: expected an integer >= 0, got {settings.seed}")
    if settings.kind == "fixed":
        if settings.isl is None or settings.osl is None:
            raise InputError("a workload of fixed lengths needs isl and osl")
        return FixedLengths(settings.isl, settings.osl, settings.length_ratio, settings.seed)
    if settings.sessions is None:
        raise InputError("an agentic workload needs sessions: a path, or synthetic:NAME")
    if settings.sessions_digest not in (None, _sources.sessions_digest(settings.sessions)):
        raise InputError(f"{settings.sessions}: the sessions have changed since the plan was made")
    found: Workload = _sources.opened(settings.sessions, settings, lanes)
    return found
