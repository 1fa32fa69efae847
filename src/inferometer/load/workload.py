"""What the lanes need of a workload. Structural: an implementation needs no import from here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from inferometer.core import Exchange, Prompt, Request, Session, Turn


class Start(Protocol):
    """Where a lane's first play begins: turns taken as done, and how many follow as warm-up."""

    @property
    def skipped(self) -> frozenset[int]: ...

    @property
    def warmup(self) -> int: ...


class Workload(Protocol):
    """What is sent: sessions as a function of (seed, lane, play), never of who finished first."""

    @property
    def wrapped_lanes(self) -> int: ...

    def session(self, lane: int, play: int) -> Session: ...

    def start(self, lane: int) -> Start: ...

    def starts_ns(self) -> Sequence[int]:
        """When the sessions began, by their recording; asked for only by `timestamps`."""
        ...

    def prompt(self, session: Session, turn: Turn, lane: int, play: int) -> Prompt:
        """What a turn sends in a play. May be asked for ahead, and more than once."""
        ...

    def sent(self, session: Session, turn: Turn, request: Request) -> None:
        """Its request leaves now. Does nothing unless answers are threaded, as the next two."""
        ...

    def heard(self, turn: Turn, request: Request, exchange: Exchange) -> None:
        """Its request has ended; told before any turn that waits for it is asked for."""
        ...

    def over(self, lane: int, play: int) -> None:
        """The play has drained."""
        ...

    def notes(self) -> Mapping[str, float]: ...
