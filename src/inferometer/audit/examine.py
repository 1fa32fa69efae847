"""The whole audit of two trees: read, compare, judge, and say what to measure. Writes nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from inferometer.audit.compat import Selected, check_append_only, check_bytes, select
from inferometer.audit.difference import Comparison, compare
from inferometer.audit.discover import Wanted as Where
from inferometer.audit.finding import LEVELS, Finding
from inferometer.audit.gate import Rules, judge
from inferometer.audit.git import commit_of, git_tree, top_of
from inferometer.audit.policy import check_policy, read_policy
from inferometer.audit.record import Record, read_record
from inferometer.audit.revision import Cache, Revision, read_revision
from inferometer.audit.stale import Stored, Wanted, digest_apart, one_an_arm, stale, stored_results
from inferometer.audit.tree import MAX_PATH, Tree, folder_tree
from inferometer.errors import InputError, Problem


@dataclass(frozen=True, slots=True)
class Asked:
    """What an audit is asked for beside its two sides."""

    where: Where = field(default_factory=Where)
    rules: Rules = field(default_factory=Rules)
    inferencex: bool = False
    """InferenceX's rules for the bytes and fields of its list, too."""
    stores: tuple[Path, ...] = ()
    full: bool = False
    """Measure every stale point, not one an arm."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit came to."""

    comparison: Comparison
    record: Record
    findings: tuple[Finding, ...]
    """The gravest first."""
    to_measure: tuple[Wanted, ...]
    reused: Mapping[str, Stored]
    """Point to the result that it has already."""
    selected: tuple[Selected, ...] | None

    @property
    def passed(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.level != "error" for finding in self.findings)


def tree_at(name: str, repository: Path) -> Tree:
    """A git ref or a directory. What begins with `.` or `/` is a directory; else a ref comes first,
    and a name that is both is refused. InputError where it is neither.
    """
    folder = Path(name)
    if len(name) > MAX_PATH:
        raise InputError(f"{name[:60]!r}... is neither a git ref nor a directory")
    if name.startswith((".", "/", "~")) and folder.expanduser().is_dir():
        return folder_tree(folder.expanduser())
    top = top_of(repository)
    commit = commit_of(top, name) if top else None
    if commit is not None and top is not None:
        if folder.is_dir():
            message = f"{name!r} is a git ref and a directory: write refs/heads/{name} or ./{name}"
            raise InputError(message)
        return git_tree(top, name, commit)
    if name.strip() and folder.is_dir():
        return folder_tree(folder)
    where = "" if top else f"; {repository} is in no git repository"
    raise InputError(f"{name!r} is neither a git ref nor a directory{where}")


def read_sides(base: Tree, head: Tree, where: Where) -> Comparison:
    """Both sides compared. InputError holds every problem of the side that cannot be read."""
    cache = Cache()
    sides: list[Revision] = []
    for tree, at_base in ((base, True), (head, False)):
        try:
            sides.append(read_revision(tree, where, cache))
        except InputError as error:
            raise InputError(
                *(_at(problem, tree, at_base) for problem in error.problems)
            ) from error
    if not any(side.found.sets for side in sides):
        raise InputError("neither side holds a master file; say which files are with --config")
    return compare(*sides)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Both sides are held to the end, so collecting garbage among them only costs: a third of the
    time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def examine(base: Tree, head: Tree, asked: Asked) -> Audit:
    """Everything. InputError where a side cannot be read, or its policy is faulty."""
    with _no_collection():
        return _examine(base, head, asked)


def _examine(base: Tree, head: Tree, asked: Asked) -> Audit:
    comparison = read_sides(base, head, asked.where)
    record = read_record(comparison.base, comparison.head)
    stored = stored_results(asked.stores, data_apart=True) if asked.stores else None
    findings = [*judge(comparison, record, asked.rules), *_told(comparison)]
    policy = read_policy(comparison.base, comparison.head)
    findings += check_policy(policy, comparison, stored)
    selected = None
    if asked.inferencex:
        findings += check_bytes(comparison.base, comparison.head)
        findings += check_append_only(record.added, comparison)
        selected = select(record.added, comparison)
    names = _to_look_at(comparison, record, selected)
    wanted, reused = _measured(comparison, names, stored or {}, asked.full)
    order = {level: index for index, level in enumerate(LEVELS)}
    ordered = sorted(findings, key=lambda finding: order[finding.level])
    return Audit(comparison, record, tuple(ordered), wanted, reused, selected)


def _at(problem: Problem, tree: Tree, at_base: bool) -> Problem:
    """A problem of the base names its side: the file at hand may be another."""
    if not at_base or problem.file is None:
        return problem
    return Problem(problem.message, f"{tree.name}:{problem.file}", problem.line, problem.key)


def _to_look_at(
    comparison: Comparison, record: Record, selected: Sequence[Selected] | None
) -> list[str]:
    """Points that the change makes another, or that an entry wants measured again."""
    if selected is not None:
        return [name for each in selected for name in each.points]
    again = [entry for entry in record.added if entry.re_measure]
    touched = {*comparison.changed, *comparison.added}
    return [
        name
        for name in comparison.head.states
        if name in touched or any(entry.means(*_pair(comparison, name)) for entry in again)
    ]


def _pair(comparison: Comparison, name: str) -> tuple[str, str]:
    subject = comparison.subjects[name]
    return subject.config, subject.scenario


def _measured(
    comparison: Comparison, names: Iterable[str], stored: Mapping[str, Stored], full: bool
) -> tuple[tuple[Wanted, ...], dict[str, Stored]]:
    """(what to measure, what has a result already)."""
    states = comparison.head.states
    digests = {
        name: states[name].digest
        if plan.workload.sessions_digest is None
        else digest_apart(states[name].point, plan)
        for name in names
        if (plan := states[name].plan) is not None
    }
    wanted = stale(digests.items(), stored)
    if not full:
        subjects = comparison.subjects
        wanted = one_an_arm(wanted, {n: (subjects[n].arm, subjects[n].conc) for n in digests})
    reused = {
        name: result
        for name, key in digests.items()
        if (result := stored.get(key)) is not None and result.verdict == "valid"
    }
    return wanted, reused


def _told(comparison: Comparison) -> Iterable[Finding]:
    """What a reader must know of how the sides were read."""
    base, head = comparison.base, comparison.head
    for note in dict.fromkeys((*base.found.notes, *head.found.notes)):
        yield Finding("note", "taken", note)
    known = {str(warning.message) for warning in base.warnings}
    for warning in head.warnings:
        if warning.message not in known:
            message = f"{warning.key}: {warning.message}" if warning.key else warning.message
            yield Finding("warning", "declared", message, warning.file, warning.line)
    yield from _tables(base, head)
    blobs = [{path: side.tree.blob(path) for path in side.found.code} for side in (base, head)]
    if blobs[0] != blobs[1]:
        message = "the code that resolves plans differs too; it is not run from here, so a value"
        yield Finding("note", "code", f"{message} that only it changes is not seen", None)


def _tables(base: Revision, head: Revision) -> Iterator[Finding]:
    """Tables of the catalog that differ and on which no plan rests."""
    for path in sorted({*base.found.tables, *head.found.tables}):
        old, new = (s.tree.blob(path) if path in s.found.tables else None for s in (base, head))
        if old != new:
            what = (
                "the table differs; no launch rests on it, but bounds, predictions and prices may"
            )
            yield Finding("note", "catalog", what, path)
