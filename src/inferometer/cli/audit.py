"""`inferometer audit`: is everything that a change does in the record, and is the record true."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferometer.audit import (
    Asked,
    Audit,
    Difference,
    Finding,
    Rules,
    Where,
    annotated,
    comment,
    describe,
    draft,
    examine,
    plain,
    read_sides,
    tree_at,
)
from inferometer.errors import GateError, InputError

F = TypeVar("F", bound=Callable[..., Any])
EXAMPLES = """\b
Examples:
  inferometer audit main HEAD
  inferometer audit main . --store runs
  inferometer audit draft main HEAD > changelog.d/faster-moe.yaml
  inferometer audit origin/main HEAD --format github --comment comment.md
"""
_MOST_ROWS = 60


class _Audit(click.Group):
    """A verb that is also a group: without the name of one below, `compare` is meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command below, `compare` where the first word names none."""
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return "compare", self.commands["compare"], args

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options of `compare` may come first: only help is the group's own."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["compare", *args]
        return super().parse_args(ctx, args)


@click.group(
    short_help="Show what a change does to every launch, and check its record.",
    cls=_Audit,
    epilog=EXAMPLES,
    subcommand_metavar="BASE HEAD | draft BASE HEAD",
)
def audit() -> None:
    """Show what a change does to every launch, and hold the record of changes against it.

    BASE and HEAD are git refs or directories. Without `draft`, `compare` is meant. Both sides are
    read without a checkout, and nothing of them is run.
    """


def _sides(command: F) -> F:
    for option in (
        click.argument("head"),
        click.argument("base"),
        click.option(
            "--recipes", multiple=True, help="Directories of layers [recipes beside the configs]."
        ),
        click.option("--runners", help="Runner file [beside the master files]."),
        click.option(
            "--config", "configs", multiple=True, help="Globs of master files [*master*.yaml]."
        ),
        click.option(
            "--repo",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            default=Path(),
            help="Repository of the refs [here].",
        ),
    ):
        command = option(command)
    return command


@audit.command()
@_sides
@click.option("--compat", type=click.Choice(["inferencex"]), help="Its rules for its list, too.")
@click.option(
    "--store",
    "stores",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Runs whose results count as measured.",
)
@click.option("--full", is_flag=True, help="To measure: every point, not one an arm.")
@click.option("--open", "is_open", is_flag=True, help="Work in progress: placeholders may stand.")
@click.option(
    "--comment", "comment_file", type=click.Path(path_type=Path), help="Write the comment's body."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "github"]),
    default="table",
    show_default=True,
    help="Form of the output.",
)
def compare(
    base: str,
    head: str,
    form: Literal["table", "json", "github"],
    stores: tuple[Path, ...],
    compat: str | None,
    full: bool,
    is_open: bool,
    comment_file: Path | None,
    **sides: Any,
) -> None:
    """Print what HEAD changes against BASE, and every fault of its record (the default)."""
    repository, where = _where(**sides)
    asked = Asked(where, Rules(open=is_open), compat is not None, stores, full)
    try:
        found = examine(tree_at(base, repository), tree_at(head, repository), asked)
    except InputError as error:
        if form == "github":
            _write_lines(annotated(_unread(error)))
        raise
    if comment_file is not None:
        comment_file.write_text(comment(found), encoding="utf-8")
    if form == "json":
        _write_lines([orjson.dumps(_data(found), option=orjson.OPT_INDENT_2).decode()])
    elif form == "github":
        _write_lines([*annotated(found.findings), "", comment(found)])
    else:
        _tables(found, bool(stores), full)
    if not found.passed:
        errors = sum(finding.level == "error" for finding in found.findings)
        raise GateError(f"the record and the change do not agree: {errors} errors")


@audit.command("draft")
@_sides
def draft_entry(base: str, head: str, **sides: Any) -> None:
    """Print the change entry that the difference asks for; add why, and the link."""
    repository, where = _where(**sides)
    text = draft(read_sides(tree_at(base, repository), tree_at(head, repository), where))
    if not text:
        click.echo("nothing differs: no entry is needed", err=True)
    sys.stdout.write(text)


def _where(
    repo: Path, configs: tuple[str, ...], runners: str | None, recipes: tuple[str, ...]
) -> tuple[Path, Where]:
    return repo, Where(configs, runners, recipes)


def _unread(error: InputError) -> Iterable[Finding]:
    for problem in error.problems:
        key = f"{problem.key}: " if problem.key else ""
        yield Finding("error", "input", f"{key}{problem.message}", problem.file, problem.line)


def _write_lines(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _data(found: Audit) -> dict[str, Any]:
    """The audit as plain data."""
    comparison = found.comparison
    selected = found.selected or ()
    return {
        "base": comparison.base.name,
        "head": comparison.head.name,
        "passed": found.passed,
        "points": {
            "base": len(comparison.base.states),
            "head": len(comparison.head.states),
            "added": comparison.added,
            "removed": comparison.removed,
            "changed": comparison.changed,
            "renamed": dict(comparison.renamed),
        },
        "findings": found.findings,
        "differences": [_difference(each) for each in comparison.differences],
        "to_measure": found.to_measure,
        "reused": {name: result.place for name, result in found.reused.items()},
        "selected": [
            {
                "file": each.entry.file,
                "line": each.entry.line,
                "points": each.points,
                "trimmed": each.trimmed,
            }
            for each in selected
        ],
        "record": {"entries_at_base": found.record.held, "entries_added": len(found.record.added)},
        "read": {side.name: _read(side.found) for side in (comparison.base, comparison.head)},
    }


def _read(found: Any) -> dict[str, Any]:
    sets = [
        {"masters": each.masters, "runners": each.runners, "recipes": each.recipe_roots}
        for each in found.sets
    ]
    return {
        "configs": sets,
        "package_recipes": found.package or "those installed",
        "acceptance": found.acceptance or "the one installed",
        "gpus": found.gpus or "the one installed",
        "changelog": found.changelog,
        "entries": len(found.entries),
        "policy": found.policy or "the package's",
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "key": difference.key,
        "derived": difference.derived,
        "expression": difference.expression,
        "follows": difference.follows,
        "also": difference.also,
        "delta": difference.delta,
        "file": difference.file,
        "line": difference.line,
        "cases": [
            {"old": case.old, "new": case.new, "points": case.points} for case in difference.cases
        ],
    }


def _tables(found: Audit, stored: bool, full: bool) -> None:
    """What was read, what changes, what is wrong, what to measure."""
    comparison = found.comparison
    for side in (comparison.base, comparison.head):
        masters = [path for each in side.found.sets for path in each.masters]
        read = f"{len(side.states)} points of {', '.join(masters) or 'no master file'}"
        click.echo(plain(f"{side.name}: {read}"))
    click.echo(
        f"{len(comparison.changed)} points changed, {len(comparison.added)} added, "
        f"{len(comparison.removed)} removed"
    )
    if comparison.differences:
        _print(
            ("what changes", "points", "why"), [_change(each) for each in comparison.differences]
        )
    if found.findings:
        rows = [(each.level, each.rule, _place(each), _told(each)) for each in found.findings]
        _print(("", "rule", "where", "finding"), rows)
    if found.to_measure:
        count = len(found.to_measure)
        extent = "all that lack a valid result" if full else "one an arm (--full: all)"
        click.echo(f"to measure: {count} points, {extent}")
        for each in found.to_measure[:_MOST_ROWS]:
            click.echo(plain(f"  {each.name} ({each.why})" if stored else f"  {each.name}"))
        if count > _MOST_ROWS:
            click.echo(f"  and {count - _MOST_ROWS} more (--format json has all)")
    if found.reused:
        click.echo(f"measured already: {len(found.reused)} points")
    click.echo("the record holds" if found.passed else "the record does not hold")


def _change(difference: Difference) -> tuple[str, str, str]:
    mark = f"derived: {', '.join(difference.follows) or 'same rule'}" if difference.derived else ""
    text = describe(difference, difference.cases)
    if difference.also:
        text += f" (also {', '.join(difference.also)})"
    return text, _extent(difference.points), mark


def _told(finding: Finding) -> str:
    return finding.message + (f" [{_extent(finding.points)}]" if finding.points else "")


def _extent(points: Sequence[str]) -> str:
    """`8: KEY_..._c1`: how many, and the first."""
    if not points:
        return ""
    return points[0] if len(points) == 1 else f"{len(points)}: {points[0]} ..."


def _place(finding: Finding) -> str:
    line = f":{finding.line}" if finding.line else ""
    return f"{finding.file}{line}" if finding.file else ""


def _print(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of texts that are shown as they are, never as markup."""
    table = Table()
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console = Console()
    # In a pipe there is no width to fit: a folded table could not be read by a program or a diff.
    console.print(table) if console.is_terminal else Console(width=1000).print(table)
