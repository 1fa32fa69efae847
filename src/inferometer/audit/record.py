"""The record of changes on both sides: which entries are new, and what was done to the old ones.

The record only grows. Whether what it says is true is another question.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from inferometer.audit.entries import Entry, read_entry
from inferometer.audit.finding import Finding, from_problem
from inferometer.audit.revision import Revision
from inferometer.errors import InputError
from inferometer.plan import read_document
from inferometer.plan.source import Document

MAX_TEXT = 1_000_000
"""Characters of all new descriptions; the whole real list has 300,000."""
MAX_ADDED = 2_000
"""New entries; the whole real list has 772."""
MAX_NAMED = 5_000
"""Config keys and changes of all new entries: each is looked for at every point that differs. The
whole real list has 1,066.
"""


@dataclass(frozen=True, slots=True)
class Record:
    """What the head adds to the record, and what is wrong with how it does."""

    added: tuple[Entry, ...]
    findings: tuple[Finding, ...]
    held: int
    """Entries at the base."""


def read_record(base: Revision, head: Revision) -> Record:
    """The new entries of both forms, and every fault of form and of growth."""
    files = _of_files(base, head)
    lists = _of_list(base, head)
    added = (*files.added, *lists.added)
    for count, most, what in (
        (len(added), MAX_ADDED, "new entries"),
        (sum(map(_named_in, added)), MAX_NAMED, "config keys and changes in new entries"),
        (sum(map(_text_in, added)), MAX_TEXT, "characters in new entries"),
    ):
        if count > most:
            raise InputError(f"{head.name}: more than {most} {what}")
    return Record(
        added,
        (*files.findings, *lists.findings),
        files.held + lists.held,
    )


def _named_in(entry: Entry) -> int:
    return len(entry.keys) + len(entry.claims) + sum(len(c.points or ()) for c in entry.claims)


def _text_in(entry: Entry) -> int:
    return sum(len(text) for text, _ in entry.texts)


def _of_files(base: Revision, head: Revision) -> Record:
    """`changelog.d`: a file that is there stays as it is."""
    findings: list[Finding] = []
    added: list[Entry] = []
    before = set(base.found.entries)
    head.tree.fetch(head.found.entries)
    for path in base.found.entries:
        if path not in head.tree.entries:
            message = "an entry of the record is removed; the record only grows"
            findings.append(Finding("error", "rewritten", message, path))
        elif base.tree.blob(path) != head.tree.blob(path):
            message = "an entry of the record is rewritten; correct it in an entry of its own"
            findings.append(Finding("error", "rewritten", message, path, 1))
    for path in head.found.entries:
        if path in before:
            continue
        try:
            document = read_document(path, head.tree.read, "mapping")
        except InputError as error:
            findings += [from_problem("error", "syntax", problem) for problem in error.problems]
            continue
        entry, problems = read_entry(document, ())
        problems = [*document.problems, *problems]
        findings += [from_problem("error", "syntax", problem) for problem in problems]
        added += [entry] if entry and not problems else []
    return Record(tuple(added), tuple(findings), len(before))


def _of_list(base: Revision, head: Revision) -> Record:
    """`perf-changelog.yaml`: what it holds stays, in order; an entry of the old form is well."""
    old, _ = _listed(base)
    new, findings = _listed(head)
    if base.found.changelog and not head.found.changelog:
        message = "the record is removed"
        findings.append(Finding("error", "rewritten", message, base.found.changelog))
        return Record((), tuple(findings), len(old.data) if old else 0)
    if new is None:
        return Record((), tuple(findings), len(old.data) if old else 0)
    before = list(old.data) if old else []
    fresh, lost = _grown(before, new.data)
    for index in lost:
        file, line = base.found.changelog, old.line((index,)) if old else None
        message = (
            f"the entry in line {line} of the base is removed or rewritten; {_named(before[index])}"
        )
        findings.append(Finding("error", "rewritten", message, file, None))
    added: list[Entry] = []
    for index in fresh:
        entry, problems = read_entry(new, (index,))
        findings += [from_problem("error", "syntax", problem) for problem in problems]
        added += [entry] if entry else []
    return Record(tuple(added), tuple(findings), len(before))


def _listed(side: Revision) -> tuple[Document | None, list[Finding]]:
    path = side.found.changelog
    if path is None:
        return None, []
    try:
        document = read_document(path, side.tree.read, "list", "last")
    except InputError as error:
        return None, [from_problem("error", "syntax", problem) for problem in error.problems]
    problems = (*document.problems, *document.warnings)
    return document, [from_problem("error", "syntax", problem) for problem in problems]


def _grown(before: Sequence[object], after: Sequence[object]) -> tuple[list[int], list[int]]:
    """(indices of what is new, indices of what is gone), order kept: each entry of the base is
    looked for behind the one before it.
    """
    old, new = list(map(_form, before)), list(map(_form, after))
    places: dict[str, list[int]] = {}
    for index, form in enumerate(new):
        places.setdefault(form, []).append(index)
    kept: set[int] = set()
    lost: list[int] = []
    at = -1
    for index, form in enumerate(old):
        behind = next((place for place in places.get(form, ()) if place > at), None)
        if behind is None:
            lost.append(index)
        else:
            kept.add(behind)
            at = behind
    return [index for index in range(len(new)) if index not in kept], lost


def _form(entry: object) -> str:
    try:
        return json.dumps(entry, sort_keys=True, ensure_ascii=False)
    except ValueError as error:
        raise InputError("the record holds an integer of thousands of digits") from error


def _named(entry: object) -> str:
    """What an entry is about, short."""
    keys = entry.get("config-keys") if isinstance(entry, dict) else None
    shown = ", ".join(map(str, keys[:3])) if isinstance(keys, list) else "no config keys"
    return f"it is about {shown}"
