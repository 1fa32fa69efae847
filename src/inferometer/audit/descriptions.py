"""What the description of an entry says against what was resolved, and which differences it is
about. A value beside the name of a changed key must be the resolved one; what has no known name is
told and stops nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from inferometer.audit.claims import CAME, GONE, Covered, arrow
from inferometer.audit.difference import Difference
from inferometer.audit.entries import Entry
from inferometer.audit.facts import Facts, Value, says
from inferometer.audit.finding import Finding
from inferometer.audit.names import Vocabulary
from inferometer.audit.prose import Reading, Said, concurrencies, names_ladder, read_text

_COMING = re.compile(
    r"\b(?:add|new|append|introduc|extend|expand|enabl)|新增|增加|添加|加入|扩展", re.I
)
_GOING = re.compile(
    r"\b(?:remov|drop|delet|retir|deprecat|replac)|删除|移除|去掉|弃用|下线", re.IGNORECASE
)


def check_description(entry: Entry, facts: Facts, covered: Covered) -> Iterator[Finding]:
    """Contradictions and what cannot be placed. Only an entry without `changes` covers by words."""
    scope = facts.scope(entry)
    moved, standing = facts.vocabularies(scope)
    for text, line in entry.texts:
        reading = read_text(text, moved)
        for said in reading.said:
            yield from _judged(entry, line, said, scope, facts)
        parts = _standing_claims(text, reading, standing)
        yield from _others(entry, line, parts, scope, facts)
        if not entry.claims:
            _cover(reading, scope, facts, covered)
    if not entry.claims:
        _cover_arms(entry, scope, facts, covered)
    yield from _ladder(entry, scope, facts)


def _judged(
    entry: Entry, line: int, said: Said, scope: Sequence[str], facts: Facts
) -> Iterator[Finding]:
    """A claim in words: some point of one of the keys that its name may mean must bear it out."""
    if said.words and not _is_of_values(said, scope, facts):
        return
    verdicts = [_at(key, said, scope, facts) for key in said.mention.keys]
    if not verdicts or any(not wrong for wrong in verdicts):
        return
    key, (value, points) = said.mention.keys[0], verdicts[0][0]
    claimed = said.new if said.old is None else f"{said.old} -> {said.new}"
    several = len(said.mention.keys) > 1
    message = f"{key}: the text says {claimed}, resolved is {_resolved(value)}"
    if several:
        message += f"; its name may mean {len(said.mention.keys)} keys, and none has that value"
    yield Finding(
        *("error", "contradicted", message, entry.file, line, tuple(points), key),
        *(value.old, value.new, claimed),
    )


def _is_of_values(said: Said, scope: Sequence[str], facts: Facts) -> bool:
    """Whether one of two words is what the key was or is, so that the other is meant as one."""
    moved = (facts.moved.get(name, {}).get(key) for name in scope for key in said.mention.keys)
    known = {(value.old, value.new) for value in moved if value is not None}
    return any(said.old == old or said.new == new for old, new in known)


def _at(key: str, said: Said, scope: Sequence[str], facts: Facts) -> list[tuple[Value, list[str]]]:
    """The values that contradict a claim, with their points; none where any point bears it out."""
    wrong: dict[Value, list[str]] = {}
    held = {name: value for name in scope if (value := facts.value(name, key)) is not None}
    moved = {name: value for name, value in held.items() if value.moved is not None}
    # What a value was, a point that came cannot tell.
    for name, value in (moved if said.old is not None and moved else held).items():
        subject = facts.subject(name)
        new = says(said.new, value.new, key, subject.state.point)
        base = (subject.base or subject.state).point
        old = said.old is None or name in facts.came or says(said.old, value.old, key, base)
        if new and old:
            return []
        wrong.setdefault(value, []).append(name)
    return sorted(wrong.items(), key=lambda item: item[0].moved is None)


def _resolved(value: Value) -> str:
    if value.moved is None and value.old is None:
        return f"{value.new}"
    if value.moved is None:
        return f"{value.new}, as before"
    return arrow(value.old, value.new)


def _standing_claims(text: str, reading: Reading, standing: Vocabulary) -> dict[str, Said | None]:
    """What looks like a claim of no changed key, with the claim of a standing key that it is."""
    if not reading.unplaced:
        return {}
    known = read_text(text, standing).said
    return {
        part: next((said for said in known if part in text[said.start : said.end + 1]), None)
        for part in reading.unplaced
    }


def _others(
    entry: Entry,
    line: int,
    parts: Mapping[str, Said | None],
    scope: Sequence[str],
    facts: Facts,
) -> Iterator[Finding]:
    """What looks like a claim and is of no changed key: told."""
    for part, about in parts.items():
        message = f"not placed: {part!r} names no key that changes"
        if about is not None and _at(about.mention.keys[0], about, scope, facts):
            message += f"; {about.mention.keys[0]} is another, and as before"
        yield Finding("note", "unplaced", message, entry.file, line, claimed=part)


def _cover(reading: Reading, scope: Sequence[str], facts: Facts, covered: Covered) -> None:
    """A sentence that names a key speaks of it, whatever it says."""
    for key in dict.fromkeys(key for mention in reading.mentions for key in mention.keys):
        for name in scope:
            value = facts.moved.get(name, {}).get(key)
            if value is not None and value.moved is not None:
                covered.add((name, value.moved.key))


def _cover_arms(entry: Entry, scope: Sequence[str], facts: Facts, covered: Covered) -> None:
    """Points that come or go: their concurrencies are named, or that something comes or goes."""
    whole = " ".join(text for text, _ in entry.texts)
    numbers, named = concurrencies(whole), names_ladder(whole)
    inside = set(scope)
    for difference in facts.comparison.differences:
        if difference.kind == "value":
            continue
        for name in (n for n in difference.points if n in inside):
            came = name in facts.came
            if difference.kind == "ladder":
                told = named and _names(numbers, difference, facts.subject(name).conc, came)
            else:
                told = bool((_COMING if came else _GOING).search(whole)) or named
            if told:
                covered.add((name, CAME if came else GONE))


def _names(numbers: set[int], difference: Difference, conc: int, came: bool) -> bool:
    """Whether the numbers of a text hold a concurrency, or the end of a ladder that grew to it."""
    if conc in numbers:
        return True
    added = [number for number in difference.delta if number > 0]
    return came and len(numbers) <= 1 and bool(added) and max(added) in numbers


def _ladder(entry: Entry, scope: Sequence[str], facts: Facts) -> Iterator[Finding]:
    """A concurrency that a sentence adds and that no arm has at either side."""
    inside = set(scope)
    for difference in facts.comparison.differences:
        if difference.kind != "ladder" or not any(name in inside for name in difference.points):
            continue
        known = {int(n) for case in difference.cases for n in _numbers(case.old, case.new)}
        for text, line in entry.texts:
            if not (_COMING.search(text) and names_ladder(text)):
                continue
            strange = sorted(n for n in concurrencies(text) if n not in known)
            others = _anywhere(entry, facts)
            if strange := [number for number in strange if number not in others]:
                numbers = ", ".join(map(str, strange))
                message = f"the text says concurrency {numbers}, and no point of its configs has it"
                case = difference.cases[0]
                yield Finding(
                    *("error", "contradicted", message, entry.file, line, difference.points),
                    *("ladder", case.old, case.new, numbers),
                )


def _numbers(*ladders: str | None) -> list[str]:
    return [number for ladder in ladders for number in (ladder or "").split()]


def _anywhere(entry: Entry, facts: Facts) -> set[int]:
    subjects = facts.comparison.subjects.values()
    return {s.conc for s in subjects if entry.means(s.config, s.scenario)}
