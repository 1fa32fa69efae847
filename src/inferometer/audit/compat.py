"""InferenceX's own rules for `perf-changelog.yaml`: its bytes, its fields, and what an entry runs.

The bytes of the base stay, but for a corrected link; LF, UTF-8, no tab, no NUL, one empty line
between entries, one final newline; no key twice. An entry runs the points of its keys and scenarios
at head, each (key, scenario) once, the first entry winning; trimmed, the lowest concurrency of each
otherwise equal row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from inferometer.audit.difference import Comparison
from inferometer.audit.entries import Entry
from inferometer.audit.finding import Finding, from_problem
from inferometer.audit.revision import Revision, State
from inferometer.core import Point
from inferometer.errors import InputError
from inferometer.plan import read_document, scenario_of

FIELDS = (
    *("config-keys", "description", "pr-link", "scenario-type"),
    *("evals-only", "all-evals", "append-only", "eval-min-prefill-ep"),
)
_LINK_LINE = re.compile(rb"  pr-link: \S+ *")
_CANONICAL = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/pull/(?:\d+|XXX)")
_NEVER = ((b"\r", "carriage return"), (b"\t", "tab"), (b"\0", "NUL"))
_MOST = 20
"""Findings of one rule; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Selected:
    """What one entry runs: ids of points at head, after the entries before it took theirs."""

    entry: Entry
    points: tuple[str, ...]
    trimmed: tuple[str, ...]


def check_bytes(base: Revision, head: Revision) -> tuple[Finding, ...]:
    """Every byte rule that the list of the head breaks."""
    path = head.found.changelog
    if path is None:
        return ()
    new = head.tree.read(path)
    old = base.tree.read(base.found.changelog) if base.found.changelog else b""
    found = [*_form(path, new), *_grown(path, old, new), *_fields(path, head)]
    return tuple(_few(found))


def select(entries: Sequence[Entry], comparison: Comparison) -> tuple[Selected, ...]:
    """What each new entry runs."""
    taken: set[tuple[str, str]] = set()
    states = comparison.head.states
    came = set(comparison.added)
    selected = []
    for entry in entries:
        points = []
        mine = set()
        for name, state in states.items():
            pair = (state.point.config, scenario_of(state.point))
            if pair in taken or not entry.means(*pair):
                continue
            mine.add(pair)
            if not entry.append_only or name in came:
                points.append(name)
        taken |= mine
        selected.append(Selected(entry, tuple(points), trimmed(points, states)))
    return tuple(selected)


def trimmed(names: Sequence[str], states: Mapping[str, State]) -> tuple[str, ...]:
    """The lowest concurrency of each otherwise equal point."""
    lowest: dict[Point, str] = {}
    for name in names:
        row = replace(states[name].point, conc=1)
        held = lowest.get(row)
        if held is None or states[name].point.conc < states[held].point.conc:
            lowest[row] = name
    kept = set(lowest.values())
    return tuple(name for name in names if name in kept)


def check_append_only(entries: Sequence[Entry], comparison: Comparison) -> Iterator[Finding]:
    """Entries that say they only add points, and do more or less."""
    for entry in entries:
        if not entry.append_only:
            continue
        place = (entry.file, entry.line)
        if entry.evals_only:
            message = "append-only goes with no field of evals"
            yield Finding("error", "compat/append-only", message, *place)
        if lost := _meant(entry, comparison.removed, comparison):
            message = f"append-only, and {len(lost)} points are gone"
            yield Finding("error", "compat/append-only", message, *place, lost)
        if changed := _meant(entry, comparison.changed, comparison):
            message = f"append-only, and {len(changed)} points that were there are others now"
            yield Finding("error", "compat/append-only", message, *place, changed)
        if not _meant(entry, comparison.added, comparison):
            message = "append-only, and no point is new"
            yield Finding("error", "compat/append-only", message, *place)


def _meant(entry: Entry, names: Sequence[str], comparison: Comparison) -> tuple[str, ...]:
    subjects = comparison.subjects
    pairs = ((name, subjects[name]) for name in names)
    return tuple(name for name, of in pairs if entry.means(of.config, of.scenario))


def _form(path: str, raw: bytes) -> Iterator[Finding]:
    """Encoding, line ends, blank lines, the end of the file."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        yield Finding("error", "compat/utf-8", "the bytes are not UTF-8", path, line)
    for number, text in enumerate(raw.split(b"\n"), 1):
        for byte, name in _NEVER:
            if byte in text:
                yield Finding("error", "compat/lf", f"holds a {name}", path, number)
        if text and not text.strip():
            yield Finding("error", "compat/blank-line", "a line of nothing but space", path, number)
    if not raw.endswith(b"\n") or raw.endswith(b"\n\n"):
        message = "ends without one newline" if not raw.endswith(b"\n") else "ends in empty lines"
        yield Finding("error", "compat/final-newline", message, path, raw.count(b"\n") + 1)
    yield from _blank_lines(path, raw)


def _blank_lines(path: str, raw: bytes) -> Iterator[Finding]:
    lines = raw.split(b"\n")
    for index, line in enumerate(lines):
        if index == 0 or not line.startswith(b"- "):
            continue
        empty = 0
        while empty < index and not lines[index - 1 - empty].strip():
            empty += 1
        if empty != 1:
            message = f"{empty} empty lines before an entry; expected one"
            yield Finding("error", "compat/blank-line", message, path, index + 1)


def _grown(path: str, old: bytes, new: bytes) -> Iterator[Finding]:
    """The old bytes come first, but for a link that was corrected."""
    if new.startswith(old):
        return
    before, after = old.split(b"\n"), new.split(b"\n")
    for index, line in enumerate(before[:-1] if old.endswith(b"\n") else before):
        now = after[index] if index < len(after) else None
        if now == line:
            continue
        if now is not None and _LINK_LINE.fullmatch(line) and _LINK_LINE.fullmatch(now):
            continue
        message = "the bytes of the base are changed here; the list only grows at its end"
        yield Finding("error", "compat/append", message, path, index + 1)
        return


def _fields(path: str, head: Revision) -> Iterator[Finding]:
    """Fields, links and keys of every entry, old and new."""
    try:
        document = read_document(path, head.tree.read, "list")
    except InputError as error:
        yield from (from_problem("error", "compat/yaml", problem) for problem in error.problems)
        return
    yield from (from_problem("error", "compat/unique-keys", p) for p in document.problems)
    known = list(head.configs)
    for index, entry in enumerate(document.data):
        if not isinstance(entry, dict):
            continue
        for name in (name for name in entry if name not in FIELDS):
            message = f"InferenceX has no field {name!r}"
            line = document.line((index, name))
            yield Finding("error", "compat/field", message, path, line)
        link = entry.get("pr-link")
        if not isinstance(link, str) or not _CANONICAL.fullmatch(link):
            message = f"pr-link is not of the form https://github.com/.../pull/N: {str(link)[:80]}"
            yield Finding("error", "compat/link", message, path, document.line((index, "pr-link")))
        keys = entry.get("config-keys")
        for at, key in enumerate(keys if isinstance(keys, list) else ()):
            if isinstance(key, str) and not any(fnmatchcase(name, key) for name in known):
                message = f"{key!r} matches no config key of today"
                line = document.line((index, "config-keys", at))
                yield Finding("note", "compat/old-key", message, path, line)


def _few(found: Sequence[Finding]) -> Iterator[Finding]:
    """The first findings of each rule, and how many more there are."""
    counts: dict[str, int] = {}
    for finding in found:
        counts[finding.rule] = counts.get(finding.rule, 0) + 1
        if counts[finding.rule] <= _MOST:
            yield finding
    for rule, count in counts.items():
        if count > _MOST:
            first = next(finding for finding in found if finding.rule == rule)
            message = f"{count - _MOST} more of {rule}, {count} in all"
            yield Finding(first.level, rule, message, first.file)
