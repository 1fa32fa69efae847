"""`inferometer workload`: look at sessions, check them, convert them, take some of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click
import orjson
from rich.console import Console

from inferometer.cli.workload_tables import inspection_tables, report_table
from inferometer.core import Session
from inferometer.errors import InputError, Problem
from inferometer.report.workload import render_workload
from inferometer.workload import (
    READERS,
    Filter,
    PathSource,
    Reading,
    ReadOptions,
    ReadReport,
    SessionWriter,
    chosen,
    drawn_sessions,
    family_of,
    inspect_sessions,
    named_sessions,
    packed,
    profile_text,
    sample,
    source_of,
    stream,
)
from inferometer.workload.calibrate import calibrate
from inferometer.workload.caveats import caveats, headline, over_long, told_over_long

F = TypeVar("F", bound=Callable[..., Any])
EXAMPLES = """\b
Examples:
  inferometer workload validate traces/
  inferometer workload inspect synthetic:corpus --page corpus.html
  inferometer workload convert trace.jsonl.zst --out sessions.jsonl
  inferometer workload sample traces/ --sessions 10 --max-context 131072 --out ten.jsonl
"""
FORM = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Form of the output.",
)
OUT = click.option(
    "--out", "-o", type=click.Path(path_type=Path), required=True, help="File to write."
)
FORCE = click.option("--force", is_flag=True, help="Overwrite the file.")


def read_options(command: F) -> F:
    """How a path is read; the same for every verb of the group."""
    for option in (
        click.option("--skip-bad", is_flag=True, help="Leave out sessions with problems."),
        click.option("--no-fan-out", is_flag=True, help="Keep agents as they were declared."),
        click.option("--block-size", type=click.IntRange(min=1), help="Tokens a block (Mooncake)."),
        click.option(
            "--rows",
            type=click.Choice(["auto", "cumulative", "delta"]),
            default="auto",
            show_default=True,
            help="What rows of one session hold (Mooncake).",
        ),
        click.option(
            "--input-format",
            type=click.Choice(list(READERS)),
            help="Format of the files; else told by content.",
        ),
    ):
        command = option(command)
    return command


@click.group(short_help="Inspect, validate, convert, sample, calibrate sessions.", epilog=EXAMPLES)
def workload() -> None:
    """Sessions before they are sent: inspect, validate, convert, sample, calibrate.

    PATH is a file or a directory of traces in a format told by content, packed or not; or, to
    inspect, convert or sample, any text that --workload takes (docs/formats.md).
    """


@workload.command()
@click.argument("path")
@click.option("--max-context", type=click.IntRange(min=1), help="Count turns beyond, in tokens.")
@read_options
@FORM
def validate(path: str, max_context: int | None, form: str, **how: Any) -> None:
    """Check every session of PATH. Exit 0 if all is sound or covered by a rule, 2 if not.

    Streams: a file may have any number of lines.
    """
    source = _path_of(path, how)
    reading = Reading(source.options)
    beyond = 0
    for session in stream(Path(source.path), reading):
        if max_context is not None:
            beyond += over_long((session,), max_context)
    report = reading.report()
    told = list(caveats(report))
    if max_context and beyond:
        told.append(told_over_long(beyond, max_context))
    refused = bool(reading.found) and not (source.options.skip_bad and report.sessions)
    if form == "json":
        _json(_account(reading, report, told) | {"ok": not refused, "over_long": beyond})
        if refused:
            click.get_current_context().exit(InputError.exit_code)
        return
    click.echo(headline(path, report, reading.formats))
    for line in told:
        click.echo(f"  {line}")
    _tell_skipped(reading, refused)
    if refused:
        raise InputError(*reading.listed(), _sum(reading, report))


@workload.command()
@click.argument("path")
@click.option(
    "--lanes",
    type=click.IntRange(1, 65_536),
    default=8,
    show_default=True,
    help="Sessions side by side, where no arrivals were recorded: what the caches see.",
)
@click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Of draws.")
@click.option("--page", type=click.Path(path_type=Path), help="Write pictures, as one HTML file.")
@read_options
@FORM
def inspect(path: str, lanes: int, seed: int, page: Path | None, form: str, **how: Any) -> None:
    """Show what sessions hold: lengths, gaps, trees, and what their prompts share.

    Cache hits are theoretical: of a cache that keeps what was used last, by size, with blocks of
    the sessions' own size and no replies in it.
    """
    sessions, reading = _sessions(path, seed, how)
    found = inspect_sessions(sessions, lanes)
    report = reading.report() if reading else None
    told = caveats(report) if report else ()
    if page is not None:
        page.write_text(render_workload(found, path, told), encoding="utf-8")
    if form == "json":
        account = _account(reading, report, told) if reading and report else {}
        _json({"source": path, "inspection": found, **account})
        return
    console = Console()
    wide = console if console.is_terminal else Console(width=160)
    for table in inspection_tables(found):
        wide.print(table)
    if report:
        wide.print(report_table(report, told))
    if reading:
        _tell_skipped(reading, refused=False)


@workload.command()
@click.argument("path")
@OUT
@FORCE
@click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Of draws.")
@read_options
@FORM
def convert(path: str, out: Path, force: bool, seed: int, form: str, **how: Any) -> None:
    """Write the sessions of PATH in Inferometer's own format, without loss for a replay.

    Streams. Packed where the file's name ends in .gz or .zst.
    """
    with _written(out, force) as target:
        count, reading = _write(path, seed, how, target, lambda sessions: sessions)
    _done(count, out, reading, form)


@workload.command(name="sample")
@click.argument("path")
@click.option("--sessions", "-n", "count", type=click.IntRange(min=1), help="How many [all].")
@click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Of all.")
@click.option("--max-context", type=click.IntRange(min=1), help="Most tokens a turn, in and out.")
@click.option("--min-turns", type=click.IntRange(min=1), help="Least turns a session.")
@click.option("--max-turns", type=click.IntRange(min=1), help="Most turns a session.")
@click.option(
    "--with-subagents/--without-subagents", "subagents", default=None, help="Only those [both]."
)
@OUT
@FORCE
@read_options
@FORM
def sample_(  # noqa: PLR0913 - one parameter an option
    path: str,
    count: int | None,
    seed: int,
    max_context: int | None,
    min_turns: int | None,
    max_turns: int | None,
    subagents: bool | None,
    out: Path,
    force: bool,
    form: str,
    **how: Any,
) -> None:
    """Write some sessions of PATH: those that pass the filters, and of these a seeded sample.

    The same sessions for the same seed, in the order in which PATH has them.
    """
    wanted = Filter(max_context, min_turns, max_turns, subagents)

    def some(sessions: Iterable[Session]) -> Iterable[Session]:
        passing = chosen(sessions, wanted)
        return passing if count is None else sample(passing, count, seed)

    with _written(out, force) as target:
        written, reading = _write(path, seed, how, target, some)
    if count is not None and written < count:
        click.echo(f"warning: only {written} sessions pass the filters", err=True)
    _done(written, out, reading, form)


@workload.command(name="calibrate")
@click.argument("path")
@click.option("--name", default="mine", show_default=True, help="Name of the profile.")
@OUT
@FORCE
@read_options
def calibrate_(path: str, name: str, out: Path, force: bool, **how: Any) -> None:
    """Write a profile of the sessions of PATH for the generator: tables and shares, no session.

    Use it as --workload synthetic:FILE.yaml. Agents are taken as declared.
    """
    sessions, _ = _sessions(path, 0, how | {"no_fan_out": True})
    profile = calibrate(sessions, name)
    turns = sum(len(session.turns) for session in sessions)
    comment = (
        f"A profile of {len(sessions)} sessions with {turns} turns, by inferometer workload "
        "calibrate.\nTables hold quantiles at even steps, from the least value to the greatest."
    )
    with _written(out, force) as target:
        target.write(profile_text(profile, comment).encode())
    click.echo(f"{out}: a profile of {len(sessions):,} sessions")


def _path_of(text: str, how: dict[str, Any]) -> PathSource:
    """The path that a text names, with the options given; InputError for anything but a path."""
    source = source_of(text)
    if not isinstance(source, PathSource):
        raise InputError(f"{text}: expected a path of traces, not a generator")
    typed = _typed(how)
    given = {name: getattr(source.options, name) for name in ReadOptions.__dataclass_fields__}
    return PathSource(source.path, ReadOptions(**(given | typed)))


def _typed(how: dict[str, Any]) -> dict[str, Any]:
    """The options that were given on the command line, by the names of `ReadOptions`."""
    typed: dict[str, Any] = {}
    if how["input_format"]:
        typed["format"] = how["input_format"]
    if how["rows"] != "auto":
        typed["rows"] = how["rows"]
    if how["block_size"]:
        typed["block_size"] = how["block_size"]
    if how["no_fan_out"]:
        typed["fan_out"] = False
    if how["skip_bad"]:
        typed["skip_bad"] = True
    return typed


def _opened(
    text: str, seed: int, how: dict[str, Any], *, keeps: bool
) -> tuple[Iterable[Session], Reading | None]:
    """The sessions that a text names; with a reading to finish where they are read as they come.
    `keeps`: with fields that their format does not have.
    """
    drawn = drawn_sessions(text, seed)
    if drawn is not None:
        return drawn, None
    if not isinstance(source_of(text), PathSource):
        return named_sessions(text, seed).sessions, None
    source = _path_of(text, how)
    reading = Reading(source.options, keeps=keeps)
    return stream(Path(source.path), reading), reading


def _sessions(
    text: str, seed: int, how: dict[str, Any]
) -> tuple[tuple[Session, ...], Reading | None]:
    opened, reading = _opened(text, seed, how, keeps=False)
    sessions = tuple(opened)
    if reading:
        reading.finish()
    return sessions, reading


def _write(
    text: str,
    seed: int,
    how: dict[str, Any],
    target: BinaryIO,
    some: Callable[[Iterable[Session]], Iterable[Session]],
) -> tuple[int, Reading | None]:
    """Write the sessions that are wanted. Raises InputError where there are none, or problems."""
    opened, reading = _opened(text, seed, how, keeps=True)
    writer, count = SessionWriter(target, family_of(text)), 0
    for session in some(opened):
        writer.write(session)
        count += 1
    if reading:
        reading.finish()
    if not count:
        raise InputError(f"{text}: no session passes the filters")
    return count, reading


@contextmanager
def _written(out: Path, force: bool) -> Iterator[BinaryIO]:
    """A file that appears under its name only when all of it was written."""
    if out.exists() and not force:
        raise InputError(Problem("exists; --force overwrites it", str(out)))
    part = out.with_name(f".{out.name}.part")
    try:
        with packed(part, out.suffix) as target:
            yield target
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _done(count: int, out: Path, reading: Reading | None, form: str) -> None:
    report = reading.report() if reading else None
    told = caveats(report) if report else ()
    if form == "json":
        account = _account(reading, report, told) if reading and report else {}
        _json({"file": str(out), "written": count, **account})
        return
    click.echo(f"{out}: {count:,} sessions")
    if told and report and report.sessions != count:
        click.echo(f"of all {report.sessions:,} that were read:")
    for line in told:
        click.echo(f"  {line}")
    if reading:
        _tell_skipped(reading, refused=False)


def _account(reading: Reading, report: ReadReport, told: Iterable[str]) -> dict[str, Any]:
    return {
        "formats": dict(reading.formats),
        "counts": report,
        "warnings": list(told),
        "problems_found": reading.found,
        "problems": [
            {"file": p.file, "line": p.line, "field": p.key, "message": p.message}
            for p in reading.listed()
        ],
    }


def _tell_skipped(reading: Reading, refused: bool) -> None:
    """Problems that were passed over, as warnings."""
    if reading.found and not refused:
        for problem in reading.listed():
            click.echo(f"warning: {problem}", err=True)


def _sum(reading: Reading, report: ReadReport) -> str:
    rest = "none is sound"
    if report.sessions:
        rest = f"{report.sessions:,} are sound and can be used alone with --skip-bad"
    return f"{reading.found:,} problems in {report.skipped:,} sessions; {rest}"


def _json(value: object) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode() + "\n")
