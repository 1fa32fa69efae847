"""Who is told how a run goes. Nothing told here enters a result."""

from __future__ import annotations

from typing import Protocol

from inferometer.core import Result
from inferometer.load.progress import Progress
from inferometer.run.job import Job


class Observer(Protocol):
    """A screen, a log, or a test."""

    def data(self, lines: tuple[str, ...]) -> None:
        """What a person should know of the sessions that will be sent; before the sweep starts."""
        ...

    def begin(self, jobs: tuple[Job, ...], done: int) -> None:
        """The sweep starts; `done` of its points were measured before."""
        ...

    def point(self, job: Job) -> None:
        """A point starts."""
        ...

    def phase(self, text: str) -> None:
        """What happens outside the load: the engine starts, the point is judged."""
        ...

    def progress(self, progress: Progress) -> None:
        """The load goes on."""
        ...

    def result(self, job: Job, result: Result) -> None:
        """A point is done."""
        ...

    def failed(self, job: Job, message: str) -> None:
        """A point could not be measured."""
        ...

    def end(self) -> None:
        """The sweep is over, or was stopped."""
        ...
