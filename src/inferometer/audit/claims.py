"""The claims of one entry's `changes` against what was resolved.

A claim holds at every point that it means and that has its key; so values that vary by point are
claimed with `conc` or `points`, or as an expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from inferometer.audit.difference import Difference
from inferometer.audit.entries import Claim, Entry
from inferometer.audit.facts import Facts, Value, claimed_text, holds
from inferometer.audit.finding import Finding
from inferometer.audit.flatten import bare
from inferometer.audit.names import meant
from inferometer.errors import nearest

Covered = set[tuple[str, str]]
"""(point, key) that an entry speaks of; the key of a point that came or went is its kind."""
CAME, GONE = "added", "removed"


def check_claims(entry: Entry, facts: Facts, covered: Covered) -> Iterator[Finding]:
    """Every claim that is not so; what the others speak of goes to `covered`."""
    scope = facts.scope(entry)
    for claim in entry.claims:
        named = [n for n in scope if claim.means(n, facts.subject(n).conc)]
        if claim.intent is not None:
            yield from _intent(entry, claim, named, facts, covered)
        else:
            yield from _key(entry, claim, named, facts, covered)


def _key(
    entry: Entry, claim: Claim, names: Sequence[str], facts: Facts, covered: Covered
) -> Iterator[Finding]:
    assert claim.key is not None
    keys = meant(claim.key, facts.keys(names))
    if len({bare(key) for key in keys}) > 1:
        listed = ", ".join(keys[:5])
        yield _finding(entry, claim, "ambiguous", f"{claim.key} may be any of {listed}; say which")
        return
    if not keys:
        yield _without(entry, claim, names, facts)
        return
    # One flag of several launches is one claim, which holds at each.
    for key in keys:
        wrong: dict[tuple[str | None, str | None], list[str]] = {}
        for name in names:
            value = facts.value(name, key)
            if value is None or (value.moved is None and name not in facts.came):
                continue
            covered.add((name, value.moved.key if value.moved else key))
            if not _agrees(claim, value, name, facts):
                wrong.setdefault((value.old, value.new), []).append(name)
        if wrong:
            yield _contradiction(entry, claim, key, wrong)
            return


def _agrees(claim: Claim, value: Value, name: str, facts: Facts) -> bool:
    subject = facts.subject(name)
    if "new" in claim.given and not holds(claim.new, value.new, subject.state.point):
        return False
    if "old" not in claim.given or name in facts.came:
        return True
    base = subject.base or subject.state
    return holds(claim.old, value.old, base.point)


def _contradiction(
    entry: Entry,
    claim: Claim,
    key: str,
    wrong: Mapping[tuple[str | None, str | None], Sequence[str]],
) -> Finding:
    """One finding a claim, with the first values that are not so."""
    claimed = _claimed(claim)
    old, new = next(iter(wrong))
    rest = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    points = tuple(name for names in wrong.values() for name in names)
    message = f"{key}: the entry says {claimed}, resolved is {arrow(old, new)}{rest}"
    return Finding(
        "error", "contradicted", message, entry.file, claim.line, points, key, old, new, claimed
    )


def _without(entry: Entry, claim: Claim, names: Sequence[str], facts: Facts) -> Finding:
    """A claim whose key has no difference: it stands as it was, or there is no such key."""
    assert claim.key is not None
    told = f"{claim.key}: the entry says {_claimed(claim)}"
    if not names:
        return _finding(
            entry, claim, "no-difference", f"{told}, and no point that it means differs"
        )
    standing: dict[str, str] = {}
    for name in names:
        for key, text in facts.values(name).items():
            standing.setdefault(key, text)
    keys = meant(claim.key, standing)
    if not keys:
        hint = nearest(claim.key, [*facts.keys(names), *standing])
        return _finding(entry, claim, "no-difference", f"{told}, and no point has such a key{hint}")
    message = f"{told}, and it is {shown(standing[keys[0]])} on both sides"
    return Finding(
        *("error", "no-difference", message, entry.file, claim.line, tuple(names), keys[0]),
        standing[keys[0]],
        standing[keys[0]],
        _claimed(claim),
    )


def _intent(
    entry: Entry, claim: Claim, names: Sequence[str], facts: Facts, covered: Covered
) -> Iterator[Finding]:
    """`ladder +64`, `added`, `removed` against the arms that it means."""
    meant_names = set(names)
    found = False
    for difference in facts.comparison.differences:
        for case in difference.cases if difference.kind != "value" else ():
            points = [name for name in case.points if name in meant_names]
            if not points or not _is_about(claim, difference):
                continue
            found = True
            covered.update((name, CAME if name in facts.came else GONE) for name in points)
            delta = _delta(difference, points, facts)
            if claim.intent == "ladder" and set(claim.delta) != delta:
                message = f"the entry says {_claimed(claim)}, resolved is {signed(delta)}"
                yield Finding(
                    *("error", "contradicted", message, entry.file, claim.line, tuple(points)),
                    *("ladder", case.old, case.new, _claimed(claim)),
                )
    if not found:
        message = f"the entry says {_claimed(claim)}, and nothing that it means is so"
        yield _finding(entry, claim, "no-difference", message)


def _is_about(claim: Claim, difference: Difference) -> bool:
    if claim.intent == "ladder":
        return True
    return claim.intent == difference.kind


def _delta(difference: Difference, points: Sequence[str], facts: Facts) -> set[int]:
    """Concurrencies that come, and with a minus those that go."""
    if difference.kind == "ladder":
        return set(difference.delta)
    return {facts.subject(name).conc * (1 if name in facts.came else -1) for name in points}


def _finding(entry: Entry, claim: Claim, rule: str, message: str) -> Finding:
    return Finding(
        "error", rule, message, entry.file, claim.line, key=claim.key, claimed=_claimed(claim)
    )


def _claimed(claim: Claim) -> str:
    if claim.intent == "ladder":
        return f"ladder {signed(claim.delta)}"
    if claim.intent is not None:
        return claim.intent
    old, new = claimed_text(claim.old), claimed_text(claim.new)
    if claim.given == {"new"}:
        return shown(new)
    return f"{shown(old)} before" if claim.given == {"old"} else arrow(old, new)


def signed(delta: set[int] | frozenset[int] | tuple[int, ...]) -> str:
    """`+64 +128 -4`."""
    return " ".join(f"{number:+d}" for number in sorted(delta, key=lambda n: (n < 0, abs(n))))


def arrow(old: str | None, new: str | None) -> str:
    """`2 -> 128`."""
    return f"{shown(old)} -> {shown(new)}"


def shown(value: str | None, most: int = 120) -> str:
    """A value, short; what is not there is said so."""
    if value is None:
        return "(none)"
    flat = " ".join(value.split()) if value else "(empty)"
    return flat if len(flat) <= most else f"{flat[: most - 3]}..."
