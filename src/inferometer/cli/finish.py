"""How every verb that measures ends: the sweep is run, shown, put on a page, and given its code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inferometer.cli.clientoptions import without_secrets
from inferometer.cli.output import print_results
from inferometer.cli.screen import observer
from inferometer.core import Result
from inferometer.deferred import Deferred
from inferometer.errors import EngineError, Interrupted, VerdictError
from inferometer.run.job import Sweep
from inferometer.run.loadprocess import LoadProcess
from inferometer.run.sweep import run_sweep
from inferometer.store import RunDir

if TYPE_CHECKING:
    from inferometer.audit import Stored
    from inferometer.report import page as _page
    from inferometer.report import stored as _stored
else:
    # What draws: not needed before the load is over.
    _page = Deferred("inferometer.report.page")
    _stored = Deferred("inferometer.report.stored")


def command_line() -> str:
    """What was typed, as a shell would take it again; without the text of headers."""
    return shlex.join(["inferometer", *without_secrets(sys.argv[1:])])


def dated_folder(verb: str) -> Path:
    """Where a run goes that was given no place."""
    return Path("runs") / f"{verb}-{datetime.now(UTC):%Y%m%dT%H%M%S}"


def run_and_show(
    sweep: Sweep,
    out: Path,
    form: str,
    reuse: Mapping[str, Stored] | None = None,
    load: LoadProcess | None = None,
) -> None:
    """Run the sweep into `out`; results of `reuse` are taken over, `load` is a process that was
    started ahead. Raises EngineError or VerdictError where it did not go well.
    """
    run = RunDir(out)
    try:
        outcome = run_sweep(sweep, run, observer(), reuse, load)
    except Interrupted:
        again = sweep.command if "--out" in sweep.command else f"{sweep.command} --out {out}"
        click.echo(f"to go on: {again}", err=True)
        raise
    page = out / "report.html"
    view = _stored.view_of(run)
    page.write_text(_page.render(view), encoding="utf-8")
    print_results(outcome.results, view.unfinished, form)
    for result in outcome.results:
        _tell_of_unsent(result)
    click.echo(f"page: {page}", err=True)
    if outcome.failed:
        raise EngineError(
            f"{len(outcome.failed)} of {len(sweep.jobs)} points could not be measured "
            f"(why: {out}/points/POINT/failure.json); run again to try them again"
        )
    invalid = [result.point.id for result in outcome.results if result.verdict.level == "invalid"]
    if invalid:
        raise VerdictError(
            f"{len(invalid)} of {len(outcome.results)} points invalid: {', '.join(invalid)}"
        )


def _tell_of_unsent(result: Result) -> None:
    """However few: a turn that is left out makes the rest another load."""
    count, limit = result.counts.get("context_overflows", 0), result.point.max_model_len
    if not count:
        return
    what = f"the context limit of {limit:,} tokens" if limit else "the engine's context limit"
    larger = "; --max-model-len sets another" if result.clock == "virtual" else ""
    turns = "turn was" if count == 1 else "turns were"
    click.echo(
        f"warning: {result.point.id}: {count:,} {turns} not sent, nor what follows them: longer "
        f"than {what}, input and output together{larger}",
        err=True,
    )
