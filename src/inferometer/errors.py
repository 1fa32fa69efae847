"""Every error a user can meet, one root, one exit code a branch.

    InferometerError            1   anything below, unnamed
    ├── InputError              2   what a person typed or wrote is wrong: every problem is listed
    ├── EngineError             3   the engine did not start, or did not stay
    ├── StoreError              4   a run directory cannot be read, or must not be written
    ├── VerdictError            5   everything ran, and a point is invalid
    ├── GateError               6   the audit is complete, and says no
    └── Interrupted           130   stopped by the user; what was measured is kept

A message says what is wrong, where, and what to do next. Nothing here is a bug of ours: those
leave as ordinary exceptions, with a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LEAST_SECRET = 4
"""Characters of a secret that tell nothing yet; shorter texts are none."""


class InferometerError(Exception):
    """The root. `exit_code` is what the command line returns."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in what a person wrote: `file:line: key: message`."""

    message: str
    file: str | None = None
    line: int | None = None
    key: str | None = None

    def __str__(self) -> str:
        place = self.file or ""
        if self.line is not None:
            place += f":{self.line}"
        parts = [part for part in (place, self.key, self.message) if part]
        return ": ".join(parts)


class InputError(InferometerError):
    """A file, a flag or a value that cannot be used. Holds all problems found, not the first."""

    exit_code = 2

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(p if isinstance(p, Problem) else Problem(p) for p in problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class EngineError(InferometerError):
    """The engine could not be started, was never ready, or went away."""

    exit_code = 3


class StoreError(InferometerError):
    """A run directory is missing, damaged, of a newer format, or in use."""

    exit_code = 4


class VerdictError(InferometerError):
    """The sweep is complete, and at least one of its points is invalid or failed."""

    exit_code = 5


class GateError(InferometerError):
    """The audit is complete, and the change must not be merged as it is."""

    exit_code = 6


class Interrupted(InferometerError):
    """Stopped by the user (Ctrl-C, SIGTERM). What was measured is on disk."""

    exit_code = 130


def nearest(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the closest known name, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def without(text: str, secrets: Mapping[str, str]) -> str:
    """The text with what stands for each secret in its place, also where the end of the text cuts
    one off. What others say may repeat what they were sent.
    """
    known = [item for item in secrets.items() if len(item[0]) >= LEAST_SECRET]
    for secret, instead in sorted(known, key=lambda item: -len(item[0])):
        text = text.replace(secret, instead)
        for length in range(len(secret) - 1, LEAST_SECRET - 1, -1):
            if text.endswith(secret[:length]):
                text = text[:-length] + instead
                break
    return text
