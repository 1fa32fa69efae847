"""`inferometer doctor`: what a log and the numbers of a point say is wrong, or too large; and what
the client itself can be trusted for on this machine (`doctor client`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import orjson

from inferometer.analyze.advice import Advice, advise
from inferometer.cli.clientdoctor import examine_client
from inferometer.core import Result
from inferometer.engine.capture import kept_parts
from inferometer.engine.logreport import Failure, LogReport
from inferometer.engine.triage import SERVING, triage_files
from inferometer.errors import InputError, Problem
from inferometer.store import ClientFile, PointDir, RunDir

EXAMPLES = """\b
Examples:
  inferometer doctor runs/quickstart
  inferometer doctor runs/llama/points/llama70b_1k1k_tp8_c64
  inferometer doctor server.log --format json
  inferometer doctor client --quick
"""
CLIENT = "client"
"""Compared as it was typed: `./client` is a path."""
KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Examined:
    """One point, or one log by itself. `failure` is why a point could not be measured,
    `log_problem` why its log is not whole.
    """

    name: str
    log: LogReport | None
    result: Result | None
    failure: str | None
    log_problem: str | None = None
    held: str | None = None
    """What the engine did not give back."""
    beside: tuple[tuple[str, LogReport], ...] = ()
    """Logs of the router and the side processes, by name."""

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What the run proves could be set better."""
        return advise(self.result, self.log.facts if self.log else {}) if self.result else ()


@click.command(
    short_help="Examine a run, a point, an engine's log, or this client.", epilog=EXAMPLES
)
@click.argument("target")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the output.",
)
@click.option("--quick", is_flag=True, help="Of `client`: two levels, some 5 s [five, some 25 s].")
def doctor(target: str, form: str, quick: bool) -> None:
    """Examine TARGET: a run directory, the directory of a point, the log of an engine, or `client`.

    Says how far a start came and how long it took, what the memory went to, which lines flood the
    log, which known failure it shows, why a point is not valid, and which settings the run itself
    proves too small or too large.

    `client` measures what this machine's client can carry, against a server that only writes, and
    how far off its stamps are. A path of that name is ./client.
    """
    if target == CLIENT:
        examine_client(form, quick)
        return
    if quick:
        raise click.UsageError("--quick goes only with `doctor client`")
    examined = list(_examined(Path(target)))
    if form == "json":
        for found in examined:
            sys.stdout.write(orjson.dumps(_as_json(found)).decode() + "\n")
        return
    for found in examined:
        for line in _lines(found):
            click.echo(line)


def _examined(target: Path) -> Iterator[Examined]:
    if target.is_file():
        yield Examined(str(target), triage_files(kept_parts(target)), None, None)
    elif RunDir(target).exists:
        run = RunDir(target)
        for planned in run.manifest().points:
            folder = run.point(planned.id)
            if folder.path.exists():
                yield _of_point(folder)
    elif (target / "launch.json").exists():
        yield _of_point(PointDir(target))
    elif target.exists():
        raise InputError(Problem("neither a run, nor a point of one, nor a log", str(target)))
    else:
        raise InputError(Problem("no such file or directory", str(target)))


def _of_point(folder: PointDir) -> Examined:
    parts = kept_parts(folder.server_log)
    log = triage_files(parts) if parts else None
    result = folder.result() if folder.done else None
    client = folder.client() if folder.done else None
    lost = None if client is None else client.log_problem
    held, beside = _held(client), tuple(_beside(folder, parts))
    return Examined(folder.path.name, log, result, folder.failure(), lost, held, beside)


def _beside(folder: PointDir, engine: list[Path]) -> Iterator[tuple[str, LogReport]]:
    """What else was started for the point has a log each."""
    for log in sorted(folder.path.glob("*.log")):
        if log not in engine and not log.stem.endswith((".tail", ".tail.1")):
            yield log.stem, triage_files(kept_parts(log))


def _held(client: ClientFile | None) -> str | None:
    """GPU memory and processes that outlived a stop."""
    if client is None:
        return None
    memory = None if client.release is None else client.release.told()
    left = f"processes {', '.join(map(str, client.left))} would not end" if client.left else None
    return "; ".join(text for text in (memory, left) if text) or None


def _lines(found: Examined) -> Iterator[str]:
    yield found.name
    if found.failure is not None:
        yield f"  not measured: {found.failure}"
    if found.result is not None:
        yield f"  {found.result.verdict.level}"
        for reason in found.result.verdict.reasons:
            yield f"    {reason.code}: {reason.message}"
    if found.held is not None:
        yield f"  not given back: {found.held}"
    if found.log_problem is not None:
        yield f"  {found.log_problem}: what follows is of its first part"
    if found.log is not None:
        yield from (f"  {line}" for line in _log_lines(found.log, _ended_badly(found)))
    for name, log in found.beside:
        # Nothing is known of how such a program says that it serves.
        unclear = found.failure is not None and not log.stopped
        if log.failures or unclear:
            yield f"  {name}, {log.lines:,} lines"
            yield from (f"  {line}" for line in _ending_lines(log, unclear))
    for advice in found.advice:
        yield f"  advice, {advice.setting}: {advice.text}"


def _ended_badly(found: Examined) -> bool:
    """Whether the last words of the engine are wanted, where no known failure is in them."""
    log = found.log
    died = found.result is not None and any(
        reason.code == "engine_died" for reason in found.result.verdict.reasons
    )
    if found.failure is not None or died or log is None:
        return True
    return log.phase != SERVING or (bool(log.errors) and not log.stopped)


def _log_lines(log: LogReport, ended_badly: bool) -> Iterator[str]:
    if not log.lines:
        yield "log: empty"
        return
    size = f"{log.bytes / MIB:.1f} MiB" if log.bytes >= MIB else f"{log.bytes / KIB:.1f} KiB"
    yield f"log: {log.lines:,} lines, {size}"
    if log.cut_off:
        yield "  the packed file is damaged or cut off: what follows is of its first part"
    yield from _ending_lines(log, ended_badly)
    for phase in log.phases:
        at = "" if phase.at_s is None else f" after {phase.at_s} s of log"
        yield f"  {phase.name}{at} (line {phase.line:,})"
    for name, value in log.facts.items():
        what = name.removesuffix("_s").removesuffix("_bytes").replace("_", " ")
        yield f"  {what}: {_fact(name, value)}"
    for line in log.routine:
        yield (
            f"  set apart, {line.text}: {line.count:,} lines, {line.line_share:.0%} of the lines, "
            f"{line.byte_share:.0%} of the bytes"
        )
    for line in log.repeated:
        yield (
            f"  flood: {line.line_share:.0%} of the lines, {line.byte_share:.0%} of the bytes: "
            f"{line.text}"
        )


def _ending_lines(log: LogReport, ended_badly: bool) -> Iterator[str]:
    """What a reader came for stands first: the cause, what to do, and where none is known the last
    useful lines.
    """
    ending = log.ending
    for failure in log.failures:
        yield from _failure_lines(failure, failure is ending)
    if ending is None and ended_badly and log.lines:
        yield "  no known failure; the last lines:"
        yield from (f"    {text}" for text in log.errors if text not in log.last)
        yield from (f"    {text}" for text in log.last)
    elif ending is not None and not ending.says_why:
        told = [text for text in log.errors if text != ending.text]
        if told:
            yield "  that line does not say why; the first exception, and the last faults:"
            yield from (f"    {text}" for text in told)


def _failure_lines(failure: Failure, first: bool) -> Iterator[str]:
    what = f"{failure.name} (line {failure.line:,}): {failure.text}"
    if failure.served_after:
        yield f"  overcome, it served after it: {what}"
    elif failure.follows and not first:
        yield f"  and then: {what}"
    else:
        yield f"  failure: {what}"
        yield f"    {failure.advice}"


def _fact(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return f"{value / GIB:.2f} GiB"
    return f"{value:g} s" if name.endswith("_s") else f"{value:,.0f}"


def _as_json(found: Examined) -> dict[str, object]:
    return {
        "name": found.name,
        "failure": found.failure,
        "log_problem": found.log_problem,
        "held": found.held,
        "verdict": None if found.result is None else asdict(found.result.verdict),
        "log": None if found.log is None else asdict(found.log),
        "beside": {name: asdict(log) for name, log in found.beside},
        "advice": [asdict(advice) for advice in found.advice],
    }
