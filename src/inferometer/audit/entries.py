"""Change entries as data: a file of `changelog.d/`, or an item of the list `perf-changelog.yaml`.

Checks the form of an entry and nothing of what it claims. Both forms take the same fields; the list
may use InferenceX's own names for two of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from inferometer.errors import Problem
from inferometer.plan.fields import (
    Fault,
    Flag,
    Items,
    Lanes,
    PositiveInt,
    SomeItems,
    Strict,
    Text,
    expect,
    fit,
    one_of,
    validate,
)
from inferometer.plan.source import DataPath, Document

MAX_TEXTS = 200
MAX_TEXT = 20_000
"""Characters of one text of a description."""
_SCENARIOS = {
    "fixed": "fixed",
    "fixed-seq-len": "fixed",
    "agentic": "agentic",
    "agentic-coding": "agentic",
}
_INTENT = re.compile(r"ladder(?:\s+[+-][1-9]\d{0,5})+|added|removed")
Scenario = Annotated[
    Literal["fixed", "fixed-seq-len", "agentic", "agentic-coding"], one_of(*_SCENARIOS)
]


def _is_description(value: Any) -> bool:
    texts = value if isinstance(value, list) else [value]
    sound = all(isinstance(text, str) and text.strip() for text in texts)
    return sound and 0 < len(texts) <= MAX_TEXTS and all(len(text) <= MAX_TEXT for text in texts)


Description = Annotated[
    Any, expect("a text or a list of texts of at most 20,000 characters", _is_description)
]


class _Entry(Strict):
    config_keys: SomeItems[Text]
    description: Description
    scenarios: SomeItems[Scenario] | None = None
    scenario_type: SomeItems[Scenario] | None = None
    link: Text | None = None
    pr_link: Text | None = None
    changes: Items[Any] = ()
    re_measure: Flag = False
    evals_only: Flag = False
    all_evals: Flag = False
    append_only: Flag = False
    eval_min_prefill_ep: PositiveInt | None = None

    def faults(self) -> Iterator[Fault]:
        for ours, theirs in (("scenarios", "scenario_type"), ("link", "pr_link")):
            if getattr(self, ours) is not None and getattr(self, theirs) is not None:
                name = theirs.replace("_", "-")
                yield Fault((name,), f"is another name of {ours}; give one of them")


class _Change(Strict):
    key: Text | None = None
    old: Any = None
    new: Any = None
    intent: Text | None = None
    conc: SomeItems[Lanes] | None = None
    points: SomeItems[Text] | None = None

    def faults(self) -> Iterator[Fault]:
        given = self.model_fields_set
        if (self.key is None) == (self.intent is None):
            yield Fault((), "give key with old and new, or intent")
        elif self.key is not None and not given & {"old", "new"}:
            yield Fault((), "give old or new, or both")
        if self.intent is not None:
            if given & {"old", "new"}:
                yield Fault((), "an intent has no old and no new")
            if not _INTENT.fullmatch(self.intent.strip()):
                what = "ladder with numbers such as +64 or -4, added or removed"
                yield Fault(("intent",), f"expected {what}, got {self.intent[:60]!r}")


@dataclass(frozen=True, slots=True)
class Claim:
    """One item of `changes`, and where it stands. `given` says which of old and new it claims."""

    line: int
    key: str | None
    old: Any
    new: Any
    given: frozenset[str]
    intent: str | None
    delta: frozenset[int]
    """Of the intent `ladder`: concurrencies added, and with a minus those removed."""
    conc: tuple[int, ...] | None
    points: tuple[str, ...] | None

    def means(self, name: str, conc: int) -> bool:
        """Whether a point is among those that the claim is about."""
        if self.conc is not None and conc not in self.conc:
            return False
        return self.points is None or any(fnmatchcase(name, glob) for glob in self.points)


@dataclass(frozen=True, slots=True)
class Entry:
    """One change entry. `texts` are its description with the line of each."""

    file: str
    line: int
    keys: tuple[tuple[str, int], ...]
    """Config keys, `*` and `?` as in file names, each with its line."""
    scenarios: frozenset[str]
    texts: tuple[tuple[str, int], ...]
    link: str | None
    claims: tuple[Claim, ...]
    re_measure: bool
    append_only: bool
    evals_only: bool

    def means(self, config: str, scenario: str) -> bool:
        """Whether a point of this config and scenario is meant."""
        return scenario in self.scenarios and any(fnmatchcase(config, k) for k, _ in self.keys)


def read_entry(document: Document, path: DataPath) -> tuple[Entry | None, list[Problem]]:
    """The entry at `path`, or every fault of its form."""
    raw, problems = validate(_Entry, document, path)
    if raw is None:
        return None, problems
    claims: list[Claim] = []
    for index, item in enumerate(raw.changes):
        where = (*path, "changes", index)
        claim, faults = _claim(item, document.line(where))
        problems += [document.problem((*where, *fault.path), fault.message) for fault in faults]
        claims += [claim] if claim else []
    if problems:
        return None, problems
    return _entry(raw, document, path, claims), []


def _entry(raw: _Entry, document: Document, path: DataPath, claims: Sequence[Claim]) -> Entry:
    named: Sequence[str] = raw.scenarios or raw.scenario_type or tuple(_SCENARIOS)
    keys = enumerate(raw.config_keys)
    if isinstance(raw.description, str):
        texts: list[tuple[str, int]] = [(raw.description, document.line((*path, "description")))]
    else:
        texts = [
            (text, document.line((*path, "description", index)))
            for index, text in enumerate(raw.description)
        ]
    return Entry(
        document.file,
        document.line(path),
        tuple((key, document.line((*path, "config-keys", index))) for index, key in keys),
        frozenset(_SCENARIOS[name] for name in named),
        tuple(texts),
        raw.link or raw.pr_link,
        tuple(claims),
        raw.re_measure,
        raw.append_only,
        raw.evals_only or raw.all_evals,
    )


def _claim(item: Any, line: int) -> tuple[Claim | None, list[Fault]]:
    data = {"intent": item} if isinstance(item, str) else item
    raw, faults = fit(_Change, data)
    if raw is None:
        return None, faults
    intent = raw.intent.split()[0] if raw.intent else None
    delta = frozenset(int(word) for word in (raw.intent or "").split()[1:])
    given = frozenset(raw.model_fields_set & {"old", "new"})
    return (
        Claim(line, raw.key, raw.old, raw.new, given, intent, delta, raw.conc, raw.points),
        [],
    )
