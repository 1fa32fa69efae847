"""May this change be merged: every difference is in the record, and the record says what is so.

A finding bears the name of its rule: `uncovered`, `contradicted`, `no-difference`, `ambiguous`,
`unknown-config`, `rewritten`, `link`, `placeholder`, `syntax`, `unresolved`, `unplaced`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from inferometer.audit.claims import CAME, GONE, Covered, arrow, check_claims, shown, signed
from inferometer.audit.descriptions import check_description
from inferometer.audit.difference import Case, Comparison, Difference
from inferometer.audit.entries import Entry
from inferometer.audit.facts import Facts, facts_of
from inferometer.audit.finding import Finding, Level, from_problem
from inferometer.audit.record import Record
from inferometer.audit.revision import State
from inferometer.errors import Problem, nearest

PLACEHOLDER = re.compile(r"(?<![A-Za-z])(?:TODO|TBD|FIXME|X{3,})(?![A-Za-z])", re.IGNORECASE)
_LINK = re.compile(r"https?://\S+")
_LARGEST_EXTENT = 40


@dataclass(frozen=True, slots=True)
class Rules:
    """How strict to be. `open`: placeholders are told and stop nothing, as long as work goes on."""

    open: bool = False


def judge(comparison: Comparison, record: Record, rules: Rules) -> tuple[Finding, ...]:
    """Every finding of the record against the differences."""
    facts = facts_of(comparison)
    covered: Covered = set()
    findings = list(record.findings)
    for entry in record.added:
        findings += _form(entry, rules)
        findings += _configs(entry, comparison, facts)
        findings += check_claims(entry, facts, covered)
        findings += check_description(entry, facts, covered)
    findings += _uncovered(comparison, facts, record.added, covered)
    findings += _unresolved(comparison)
    return tuple(dict.fromkeys(findings))


def _form(entry: Entry, rules: Rules) -> Iterator[Finding]:
    """What an entry needs before it is merged."""
    level: Level = "note" if rules.open else "error"
    if entry.link is None:
        message = "no link to the discussion of the change"
        yield Finding(level, "link", message, entry.file, entry.line)
    elif not _LINK.fullmatch(entry.link):
        message = f"{entry.link[:80]!r} is no link"
        yield Finding(level, "link", message, entry.file, entry.line)
    texts = [*entry.texts, (entry.link or "", entry.line)]
    texts += [(f"{claim.old} {claim.new}", claim.line) for claim in entry.claims]
    for text, line in texts:
        if (found := PLACEHOLDER.search(text)) is not None:
            message = f"the placeholder {found[0]!r} is to be filled in"
            yield Finding(level, "placeholder", message, entry.file, line)


def _configs(entry: Entry, comparison: Comparison, facts: Facts) -> Iterator[Finding]:
    """Config keys that do not exist, or have no difference."""
    known = sorted({*comparison.base.configs, *comparison.head.configs})
    differing = {facts.subject(name).config for name in facts.scope(entry)}
    for key, line in entry.keys:
        matched = [name for name in known if fnmatchcase(name, key)]
        if not matched:
            message = f"{key!r} matches no config key{nearest(key, known)}"
            yield Finding("error", "unknown-config", message, entry.file, line)
        elif not entry.re_measure and not differing.intersection(matched):
            message = f"{key}: nothing differs; say re-measure: true if it is only measured again"
            yield Finding("error", "no-difference", message, entry.file, line)


def _uncovered(
    comparison: Comparison, facts: Facts, entries: Sequence[Entry], covered: Covered
) -> Iterator[Finding]:
    """Every difference at the points where no entry speaks of it."""
    for difference in comparison.differences:
        left = [
            case
            for case in (
                _left(difference, case, facts, entries, covered) for case in difference.cases
            )
            if case is not None
        ]
        if left:
            yield _missing(difference, left)


def _left(
    difference: Difference, case: Case, facts: Facts, entries: Sequence[Entry], covered: Covered
) -> Case | None:
    """The case at the points that no entry covers."""

    def told(name: str) -> bool:
        subject = facts.subject(name)
        if difference.kind == "value":
            return (name, difference.key) in covered
        if difference.key == "config":
            # A whole config that comes or goes is told by an entry that names it in full.
            keys = (key for entry in entries for key, _ in entry.keys)
            return subject.config in keys or (name, CAME) in covered or (name, GONE) in covered
        return (name, CAME if name in facts.came else GONE) in covered

    points = tuple(name for name in case.points if not told(name))
    return Case(case.old, case.new, points) if points else None


def _missing(difference: Difference, left: Sequence[Case]) -> Finding:
    points = tuple(name for case in left for name in case.points)
    first = left[0]
    what = describe(difference, left)
    message = f"{what}: no change entry says so"
    if difference.derived:
        message += f"; derived, nobody edited it ({', '.join(difference.follows) or 'same rule'})"
    return Finding(
        *("error", "uncovered", message, difference.file, difference.line, points),
        *(difference.key, first.old, first.new),
    )


def describe(difference: Difference, cases: Sequence[Case]) -> str:
    """A difference in one line: `argv.--max-num-seqs 2 -> 128, 4 -> 128 and 3 more`."""
    if difference.kind == "ladder":
        return f"ladder {signed(difference.delta)}"
    if difference.kind != "value":
        listed = "; ".join(shown(case.new or case.old) for case in cases[:3])
        rest = f" and {len(cases) - 3} more" if len(cases) > 3 else ""
        return f"{difference.key} {difference.kind}: {listed}{rest}"
    several = len(cases) > 1
    listed = ", ".join(
        arrow(case.old, case.new) + (f" ({_rungs(case.points)})" if several else "")
        for case in cases[:3]
    )
    rest = f" and {len(cases) - 3} more" if len(cases) > 3 else ""
    return f"{difference.key} {listed}{rest}"


def _rungs(points: Sequence[str]) -> str:
    """The ends of ids that say the concurrency: `c1 c2 ...`."""
    rungs = list(dict.fromkeys(point.rpartition("_")[2] for point in points))
    return " ".join(rungs[:3]) + (" ..." if len(rungs) > 3 else "")


def _unresolved(comparison: Comparison) -> Iterator[Finding]:
    """Causes for which points do not resolve at head, each once; errors where they did at base."""
    causes: dict[tuple[str, bool], list[str]] = {}
    problems: dict[str, Problem] = {}
    for name, subject in comparison.subjects.items():
        state: State = subject.state
        if state.cause is None or state.problem is None or name in comparison.removed:
            continue
        broken = subject.base is not None and subject.base.plan is not None
        causes.setdefault((state.cause, broken), []).append(name)
        problems.setdefault(state.cause, state.problem)
    for (cause, broken), points in causes.items():
        told = from_problem("error" if broken else "note", "unresolved", problems[cause])
        count = f"{len(points)} points do" if len(points) > 1 else "a point does"
        message = f"{count} not resolve{' any more' if broken else ''}: {told.message}"
        yield Finding(told.level, told.rule, message, told.file, told.line, tuple(points))
