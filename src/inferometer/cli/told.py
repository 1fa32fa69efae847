"""What the flag check found, told on stderr: notes and warnings as lines, errors as a refusal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import click

from inferometer.cli.run import warn
from inferometer.errors import InputError, Problem
from inferometer.plan import FlagFinding


def tell(findings: Iterable[FlagFinding]) -> None:
    """Print notes and warnings; InputError with every error."""
    errors = []
    for finding in findings:
        if finding.level == "error":
            errors.append(as_problem(finding))
        elif finding.level == "warning":
            warn(str(as_problem(finding)))
        else:
            click.echo(f"note: {finding.message}", err=True)
    if errors:
        raise InputError(*errors)


def tell_counted(counted: Iterable[tuple[FlagFinding, int]]) -> None:
    """The same of findings with the number of points that have each."""
    tell(replace(each, message=f"{each.message} [{_points(n)}]") for each, n in counted)


def _points(number: int) -> str:
    return "1 point" if number == 1 else f"{number} points"


def as_problem(finding: FlagFinding) -> Problem:
    """The finding at the rule that set the flag."""
    return Problem(finding.message, finding.file, finding.line, finding.flag)
