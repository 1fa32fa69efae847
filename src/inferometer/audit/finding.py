"""What an audit has to say: one finding, with its place, and whether it stops a merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inferometer.errors import Problem

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, or something to be told. Only an error says no.

    `rule` is its stable name. `key`, `old` and `new` are what was resolved, `claimed` is what an
    entry says. `points` is its whole extent.
    """

    level: Level
    rule: str
    message: str
    file: str | None = None
    line: int | None = None
    points: tuple[str, ...] = ()
    key: str | None = None
    old: str | None = None
    new: str | None = None
    claimed: str | None = None


def from_problem(level: Level, rule: str, problem: Problem) -> Finding:
    """A fault of what a person wrote."""
    message = f"{problem.key}: {problem.message}" if problem.key else problem.message
    return Finding(level, rule, message, problem.file, problem.line)
