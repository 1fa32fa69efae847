"""What was read in a log of an engine: values only. Shares are 0..1, bytes and seconds as named; a
line's number counts from 1, and its text is as a terminal would have shown it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogPhase:
    """A part of a start: `at_s` from the first stamp of the log, None where lines carry none."""

    name: str
    line: int
    at_s: int | None


@dataclass(frozen=True, slots=True)
class Repeated:
    """A line that takes a large share; `text` with its numbers as `#`."""

    text: str
    count: int
    line_share: float
    byte_share: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A known class of failure, the line that shows it first, and what to do."""

    name: str
    line: int
    text: str
    advice: str
    served_after: bool = False
    """The engine came to serve behind this line: whatever it was, the start went on."""
    says_why: bool = True
    """The line tells what failed, and not only that something did."""
    follows: bool = False
    """What others lead to: no cause where one stands before it."""


@dataclass(frozen=True, slots=True)
class LogReport:
    """What a log says. `facts` by the names of the table: bytes, seconds, counts."""

    lines: int
    bytes: int
    phases: tuple[LogPhase, ...]
    facts: dict[str, float]
    repeated: tuple[Repeated, ...]
    failures: tuple[Failure, ...]
    last: tuple[str, ...]
    """The last lines that say something: no repeated and no routine one."""
    routine: tuple[Repeated, ...] = ()
    """Lines that any sound run has many of, by the names of the table; no flood however many."""
    errors: tuple[str, ...] = ()
    """The first exception and the last lines that speak of a fault, above a warning; once it
    serves, those behind that.
    """
    cut_off: bool = False
    """The packed file ends in its middle."""
    stopped: bool = False
    """The engine was asked to end: what ended it is known."""

    @property
    def ending(self) -> Failure | None:
        """The first cause of what the log ends with; None where none is known."""
        return next((failure for failure in self.failures if not failure.served_after), None)

    @property
    def phase(self) -> str | None:
        """How far a start has come."""
        return self.phases[-1].name if self.phases else None
