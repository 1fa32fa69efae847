"""What changes between two revisions, one line a cause with its extent.

A cause is a rule of a recipe, or a field of a config, and a key that it sets. A value that moved
while its rule stands as it stood is derived: nobody edited it. A difference of digests is never
without a difference here: where all values agree, the raw texts are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from inferometer.audit.causes import Causes, Fact, fact_of, folded
from inferometer.audit.flatten import Change, apart, compared, text_of, tree_of
from inferometer.audit.follows import followed
from inferometer.audit.outside import place_of
from inferometer.audit.pairs import Arm, Rung, paired
from inferometer.audit.revision import Revision, State
from inferometer.core import LaunchPlan

Kind = Literal["value", "ladder", "added", "removed"]
RESOLVES = "resolves"
LAUNCH = "launch"
"""Key of a point that has a launch on one side only."""
EXTERNAL = "external.sha256"


@dataclass(frozen=True, slots=True)
class Case:
    """Points with the same old and new value. None: not there. By concurrency."""

    old: str | None
    new: str | None
    points: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One cause. `key` of a ladder is `ladder`; of arms that come or go, `arm` or `config`."""

    kind: Kind
    key: str
    cases: tuple[Case, ...]
    derived: bool = False
    expression: str | None = None
    """Of a derived value, as written."""
    follows: tuple[str, ...] = ()
    """`seqs 2 -> 128`: what a derived value is made of, and moved at its first point."""
    also: tuple[str, ...] = ()
    """Other keys that only repeat this value."""
    file: str | None = None
    line: int | None = None
    delta: tuple[int, ...] = ()
    """Of a ladder: concurrencies added, and with a minus those removed."""

    @property
    def points(self) -> tuple[str, ...]:
        """All points it touches."""
        return tuple(point for case in self.cases for point in case.points)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a change entry may say of a point to mean it."""

    config: str
    scenario: str
    conc: int
    arm: str
    state: State
    """At head; at base where it is gone."""
    base: State | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two revisions side by side. Points are named by their id at head, or at base where gone."""

    base: Revision
    head: Revision
    differences: tuple[Difference, ...]
    subjects: Mapping[str, Subject]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    """Points of both sides whose digest is another."""
    renamed: Mapping[str, str]
    """Head id to base id, where it is another."""


def compare(base: Revision, head: Revision) -> Comparison:
    """All differences of two revisions, values first."""
    pairs = paired(base.states, head.states)
    subjects: dict[str, Subject] = {}
    facts: list[Fact] = []
    changed: list[str] = []
    renamed: dict[str, str] = {}
    ladders: list[tuple[Arm, Arm]] = []
    for old, new in pairs:
        for arm in (old, new):
            subjects.update(_subjects(arm) if arm else {})
        if old is None or new is None:
            continue
        if set(old.rungs) != set(new.rungs):
            ladders.append((old, new))
        for name, was, now in _common(old, new, renamed):
            subjects[name] = replace(subjects[name], base=was)
            if was.digest != now.digest or old.config != new.config:
                changed.append(name)
                facts += _facts(name, was, now)
    values = _grouped(facts, subjects, base, head)
    arms = [*_ladders(ladders, head), *_arms(pairs, base, head)]
    came = [name for name in head.states if name not in base.states and name not in renamed]
    gone = set(base.states) - set(head.states) - set(renamed.values())
    return Comparison(
        base,
        head,
        (*values, *arms),
        subjects,
        tuple(came),
        tuple(name for name in base.states if name in gone),
        tuple(changed),
        renamed,
    )


def _subjects(arm: Arm) -> Iterator[tuple[str, Subject]]:
    for (conc, _, _), (name, state) in arm.rungs.items():
        yield name, Subject(arm.config, arm.scenario, conc, arm.name, state)


def _common(old: Arm, new: Arm, renamed: dict[str, str]) -> Iterator[tuple[str, State, State]]:
    """(head id, base state, head state) of every rung that both arms have."""
    for rung, (name, now) in new.rungs.items():
        if rung not in old.rungs:
            continue
        before, was = old.rungs[rung]
        if before != name:
            renamed[name] = before
        yield name, was, now


def _facts(name: str, was: State, now: State) -> list[Fact]:
    """Every value of a point that is another, at least one."""
    if (was.plan is None) != (now.plan is None):
        one_sided = Change((LAUNCH,), *(RESOLVES if s.plan else None for s in (was, now)))
        changes = [one_sided, *compared(tree_of(was.point, None), tree_of(now.point, None))]
    else:
        only = apart(was.point, now.point)
        if was.plan is not None:
            only |= apart(was.plan, now.plan)
        changes = compared(*(tree_of(side.point, side.plan, only) for side in (was, now)))
    if was.point.config != now.point.config:
        changes.insert(0, Change(("config",), was.point.config, now.point.config))
    found = changes or list(_raw(was.plan, now.plan))
    return [fact_of(name, change, was, now) for change in found]


def _raw(was: LaunchPlan | None, now: LaunchPlan | None) -> Iterator[Change]:
    """Texts that differ although their values agree: the order of flags, the form of a file."""
    if was is None or now is None:
        return
    before = {"": was} | {launch.name: launch for launch in was.launches}
    found = False
    for name, launch in ({"": now} | {each.name: each for each in now.launches}).items():
        old, path = before.get(name, launch), (name,) if name else ()
        if old.argv != launch.argv:
            found = True
            yield Change((*path, "argv"), " ".join(old.argv), " ".join(launch.argv))
        for file, text in launch.files.items():
            if old.files.get(file) != text:
                found = True
                yield Change((*path, "files", file), old.files.get(file), text)
    if not found:
        yield Change(("plan",), text_of(repr(was)), text_of(repr(now)))


def _grouped(
    facts: Sequence[Fact], subjects: Mapping[str, Subject], base: Revision, head: Revision
) -> list[Difference]:
    """Facts of one cause together, then by old and new value."""
    facts, also = folded(facts)
    cause = Causes(base, head)
    causes: dict[object, list[Fact]] = {}
    for fact in facts:
        causes.setdefault(cause.of(fact), []).append(fact)
    return [_difference(found, subjects, head, also) for found in causes.values()]


def _difference(
    facts: Sequence[Fact],
    subjects: Mapping[str, Subject],
    head: Revision,
    also: Mapping[tuple[str, str], list[str]],
) -> Difference:
    first = facts[0]
    cases: dict[tuple[str | None, str | None], list[str]] = {}
    for fact in facts:
        cases.setdefault((fact.change.old, fact.change.new), []).append(fact.point)
    key = first.change.key
    repeats = [name for fact in facts for name in also.get((fact.point, key), ())]
    origin = first.new or first.old
    subject = subjects[first.point]
    file: str | None
    line: int | None
    if key == EXTERNAL and (path := place_of(subject.state, head)) is not None:
        file, line = path, None
    elif origin is None or first.source is not None:
        file, line = head.place(subject.config)
    else:
        file, line = origin.layer, origin.line
    return Difference(
        "value",
        key,
        tuple(
            Case(old, new, tuple(sorted(points, key=lambda name: _order(subjects[name]))))
            for (old, new), points in cases.items()
        ),
        derived=first.derived,
        expression=origin.expression if origin and first.derived else None,
        follows=_follows(first, subject) if first.derived else (),
        also=tuple(dict.fromkeys(repeats)),
        file=file,
        line=line,
    )


def _follows(fact: Fact, subject: Subject) -> tuple[str, ...]:
    assert fact.new is not None
    if subject.base is None:
        return ()
    expression, launch = fact.new.expression or "", fact.change.path[0]
    return tuple(followed(expression, launch, subject.base, subject.state))


def _order(subject: Subject) -> tuple[str, str, int]:
    return subject.config, subject.arm, subject.conc


def _ladders(pairs: Iterable[tuple[Arm, Arm]], head: Revision) -> Iterator[Difference]:
    """Arms that gained or lost concurrencies, those with the same ones together."""
    found: dict[tuple[int, ...], list[tuple[Arm, Arm]]] = {}
    for old, new in pairs:
        plus = [conc for conc in new.ladder if conc not in old.ladder]
        minus = [-conc for conc in old.ladder if conc not in new.ladder]
        if plus or minus:
            found.setdefault((*plus, *minus), []).append((old, new))
    for delta, arms in found.items():
        file, line = head.place(arms[0][1].config)
        cases = tuple(
            Case(_concs(old.ladder), _concs(new.ladder), _moved(old, new)) for old, new in arms
        )
        yield Difference("ladder", "ladder", cases, file=file, line=line, delta=delta)


def _moved(old: Arm, new: Arm) -> tuple[str, ...]:
    rungs: list[tuple[Rung, str]] = [
        (r, n) for r, (n, _) in new.rungs.items() if r not in old.rungs
    ]
    rungs += [(r, n) for r, (n, _) in old.rungs.items() if r not in new.rungs]
    return tuple(name for _, name in sorted(rungs))


def _arms(
    pairs: Sequence[tuple[Arm | None, Arm | None]], base: Revision, head: Revision
) -> Iterator[Difference]:
    """Arms that are on one side only, those of one config together."""
    for side, other in ((1, base), (0, head)):
        alone = [pair[side] for pair in pairs if pair[1 - side] is None]
        by_config: dict[str, list[Arm]] = {}
        for arm in alone:
            if arm is not None:
                by_config.setdefault(arm.config, []).append(arm)
        for config, arms in by_config.items():
            key = "arm" if config in other.configs else "config"
            file, line = (head if side else base).place(config)
            cases = tuple(_arm_case(arm, bool(side)) for arm in arms)
            yield Difference("added" if side else "removed", key, cases, file=file, line=line)


def _arm_case(arm: Arm, came: bool) -> Case:
    what = f"{arm.name.removeprefix(f'{arm.config}_')}: {_concs(arm.ladder)}"
    return Case(None if came else what, what if came else None, arm.points)


def _concs(ladder: Iterable[int]) -> str:
    return " ".join(map(str, ladder))
