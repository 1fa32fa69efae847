"""`inferometer run`: measure what config files declare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from inferometer.analyze.objectives import parse_slos
from inferometer.audit import stored_results
from inferometer.cli.arrivals import slo_option
from inferometer.cli.clientoptions import client_options
from inferometer.cli.finish import command_line, run_and_show
from inferometer.cli.masters import master_files
from inferometer.cli.output import format_option
from inferometer.core import Replies
from inferometer.plan import Selection
from inferometer.run.job import Sweep
from inferometer.run.jobs import NO_OVERRIDES, Declared, Overrides, jobs_of_configs
from inferometer.run.site import Site
from inferometer.run.sitefile import read_site

F = TypeVar("F", bound=Callable[..., Any])

EXAMPLES = """\b
Examples:
  inferometer run quickstart
  inferometer run master.yaml --runners runners.yaml --key 'llama70b-*' --out runs/llama
  inferometer run master.yaml --runners runners.yaml --scenario fixed --conc 1 --conc 64
"""


def declared_options(command: F) -> F:
    """The options of every verb that reads config files."""
    for option in (
        click.option(
            "--runners",
            type=click.Path(),
            help="Runner file of the master files [runners.yaml beside them].",
        ),
        click.option("--key", "keys", multiple=True, help="Config keys to keep; * and ? match."),
        click.option("--scenario", type=click.Choice(["fixed", "agentic"]), help="Keep only one."),
        click.option("--conc", multiple=True, type=int, help="Concurrencies to keep."),
    ):
        command = option(command)
    return command


def declared(
    files: tuple[str, ...],
    runners: str | None,
    selection: Selection,
    overrides: Overrides = NO_OVERRIDES,
) -> Declared:
    """The jobs of `quickstart` or of master files, with their warnings told."""
    return jobs_of_configs(*master_files(files, runners), selection, overrides, warn)


def warn(text: str) -> None:
    """Tell what a person should know of input that is taken all the same."""
    click.echo(f"warning: {text}", err=True)


@click.command(short_help="Measure every point that config files declare.", epilog=EXAMPLES)
@click.argument("files", nargs=-1, required=True)
@declared_options
@slo_option
@client_options
@click.option(
    "--site", type=click.Path(), help="Site file: paths of models, containers (docs/formats.md)."
)
@click.option(
    "--replies",
    type=click.Choice(["canned", "live"]),
    help="Answers that later turns repeat: recorded ones, or those that came [as declared].",
)
@click.option("--out", type=click.Path(path_type=Path), help="Run directory [runs/NAME].")
@click.option(
    "--reuse",
    "stores",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Runs whose valid results of equal digest are taken over.",
)
@format_option
def run(  # noqa: PLR0913 - one parameter an option
    files: tuple[str, ...],
    runners: str | None,
    keys: tuple[str, ...],
    scenario: Literal["fixed", "agentic"] | None,
    conc: tuple[int, ...],
    slos: tuple[str, ...],
    headers: dict[str, str],
    workers: int | None,
    site: str | None,
    replies: Replies | None,
    out: Path | None,
    stores: tuple[Path, ...],
    form: str,
) -> None:
    """Measure every point that FILES declare (master files, or the word quickstart).

    Each point starts its engine, loads it, and is kept before the next begins. Ctrl-C keeps what
    was measured; the same command again goes on where it stopped and repeats nothing.
    """
    objectives = parse_slos(slos)
    place = Site() if site is None else read_site(site)
    selection = Selection(keys=keys, scenario=scenario, conc=conc)
    found = declared(files, runners, selection, Overrides({"replies": replies}, {}))
    name = Path(files[0]).stem
    sweep = Sweep(
        title=name,
        command=command_line(),
        jobs=found.jobs,
        sources=found.sources,
        clock="real",
        base_url=None,
        slos=objectives,
        headers=headers,
        workers=workers,
        site=place,
    )
    run_and_show(sweep, out or Path("runs") / name, form, stored_results(stores))
