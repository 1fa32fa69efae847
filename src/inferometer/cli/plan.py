"""`inferometer plan`: what config files declare, without running any of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
import orjson
from rich.console import Console
from rich.table import Table

from inferometer.audit import stored_results
from inferometer.cli.masters import master_files
from inferometer.cli.run import declared_options, warn
from inferometer.cli.told import tell_counted
from inferometer.core import Point
from inferometer.errors import InputError
from inferometer.plan import (
    Allocation,
    Arm,
    Bounds,
    EvalMode,
    Selection,
    allocations,
    check_points,
    expand_arms,
    load_configs,
    load_recipes,
    lowest,
    mark_evals,
    read_file,
    recipe_roots,
    row_of,
    select_arms,
)
from inferometer.plan.clashes import clashes
from inferometer.run.lacking import stale_arms

F = TypeVar("F", bound=Callable[..., Any])
MAX_JOBS = 256
"""Jobs of one matrix that GitHub Actions takes."""
EXAMPLES = """\b
Examples:
  inferometer plan quickstart
  inferometer plan amd.yaml nvidia.yaml --runners runners.yaml --format inferencex
  inferometer plan amd.yaml --runners runners.yaml --seq-len 8k1k --lowest --format github-matrix
"""


def _bound_options(command: F) -> F:
    """Least and greatest of each number that can be filtered by."""
    words = (("ep", "expert parallelism"), ("tp", "tensor parallelism"), ("conc", "concurrency"))
    for name, what in words:
        for end, kind in (("max", "Greatest"), ("min", "Least")):
            option = click.option(
                f"--{name}-{end}", type=click.IntRange(min=1), help=f"{kind} {what} to keep."
            )
            command = option(command)
    return command


def _text_options(command: F) -> F:
    """Texts that a point must have; each may be given several times."""
    for flag, name, what in (
        ("--seq-len", "lengths", "Fixed lengths, such as 8k1k,"),
        ("--runner", "runners_kept", "Runner labels"),
        ("--hardware", "hardware", "GPUs"),
        ("--framework", "frameworks", "Frameworks"),
        ("--precision", "precisions", "Precisions"),
        ("--model-prefix", "model_prefixes", "Model prefixes"),
    ):
        command = click.option(flag, name, multiple=True, help=f"{what} to keep.")(command)
    return command


@click.command(
    short_help="Show every point that config files declare; starts nothing.", epilog=EXAMPLES
)
@click.argument("files", nargs=-1, required=True)
@declared_options
@_bound_options
@_text_options
@click.option("--nodes", type=click.Choice(["single", "multi"]), help="Keep only one.")
@click.option("--lowest", "only_lowest", is_flag=True, help="One point an arm: the lowest.")
@click.option(
    "--step",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="Factor of concurrency ranges.",
)
@click.option(
    "--evals",
    type=click.Choice(["marked", "none", "only", "all"]),
    default="marked",
    show_default=True,
    help="Mark accuracy evals, mark none, keep only the marked, or only all that can be.",
)
@click.option("--check", is_flag=True, help="Resolve every launch and check its flags.")
@click.option(
    "--stale",
    "stores",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Keep points without a valid result in these runs.",
)
@click.option("--strict", is_flag=True, help="Every warning is an error.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "inferencex", "github-matrix"]),
    default="table",
    show_default=True,
    help="Form of the output.",
)
@click.option(
    "--chunk",
    type=click.IntRange(1, MAX_JOBS),
    default=MAX_JOBS,
    show_default=True,
    help="Jobs a line of github-matrix.",
)
def plan(  # noqa: PLR0913 - one parameter an option
    files: tuple[str, ...],
    runners: str | None,
    keys: tuple[str, ...],
    scenario: Literal["fixed", "agentic"] | None,
    conc: tuple[int, ...],
    conc_min: int | None,
    conc_max: int | None,
    tp_min: int | None,
    tp_max: int | None,
    ep_min: int | None,
    ep_max: int | None,
    model_prefixes: tuple[str, ...],
    precisions: tuple[str, ...],
    frameworks: tuple[str, ...],
    hardware: tuple[str, ...],
    runners_kept: tuple[str, ...],
    lengths: tuple[str, ...],
    nodes: Literal["single", "multi"] | None,
    only_lowest: bool,
    step: int,
    evals: EvalMode,
    check: bool,
    stores: tuple[Path, ...],
    strict: bool,
    form: str,
    chunk: int,
) -> None:
    """Show every point that FILES declare (master files, or one word for files
    that come with the package: quickstart, or newer).

    Reads, checks and expands; starts nothing. A filter keeps or drops points as declared: none is
    changed and none is made. The warnings are about the files, whatever is kept of them.

    --check is for before GPUs are booked: it resolves the launch of every point kept, checks its
    flags against those recorded of the engine, and tells each fault once with the rule at fault. A
    fault is an error where the flags are of the image's own version, else a warning.
    """
    selection = Selection(
        keys=keys,
        scenario=scenario,
        conc=conc,
        conc_min=conc_min,
        conc_max=conc_max,
        frameworks=frameworks,
        hardware=hardware,
        model_prefixes=model_prefixes,
        precisions=precisions,
        runners=runners_kept,
        lengths=lengths,
        tp=Bounds(tp_min, tp_max),
        ep=Bounds(ep_min, ep_max),
        nodes=nodes,
    )
    masters, runner_file = master_files(files, runners)
    configs = load_configs(masters, runner_file, strict=strict)
    arms = expand_arms(configs, step)
    warnings = [*configs.warnings, *clashes(configs, [point for arm in arms for point in arm])]
    if strict and warnings:
        raise InputError(*warnings)
    for warning in warnings:
        warn(str(warning))
    kept: Sequence[Arm] = select_arms(arms, selection)
    if stores:
        kept = _stale(kept, masters, stores)
    planned = mark_evals(allocations(lowest(kept) if only_lowest else kept), evals)
    if not planned:
        raise InputError(f"none of the selected points has an eval (--evals {evals})")
    if check:
        points = [point for each in planned for point in _shown(each, evals)]
        recipes = load_recipes(read_file, recipe_roots(masters))
        tell_counted(check_points(points, recipes, "strict" if strict else "exact"))
    _print(planned, evals, form, chunk)


def _stale(arms: Sequence[Arm], masters: Sequence[str], stores: Sequence[Path]) -> Sequence[Arm]:
    """The points to be measured again. InputError where there is none."""
    recipes = load_recipes(read_file, recipe_roots(masters))
    left = stale_arms(arms, recipes, stored_results(stores))
    for cause, count in left.unknown.items():
        warn(f"{count} points have no digest here and are kept: {cause}")
    if not left.arms:
        raise InputError("no point is stale: all have a valid result of equal digest")
    return left.arms


def _print(planned: Sequence[Allocation], evals: EvalMode, form: str, chunk: int) -> None:
    if form == "table":
        _table(planned, evals)
    elif form == "json":
        _lines(_described(each, point) for each in planned for point in _shown(each, evals))
    elif form == "inferencex":
        _lines(row_of(each, evals) for each in planned)
    else:
        rows = [row_of(each, evals) for each in planned]
        starts = range(0, len(rows), chunk)
        _lines({"include": rows[start : start + chunk]} for start in starts)


def _lines(values: Iterable[Any]) -> None:
    sys.stdout.write("".join(orjson.dumps(value).decode() + "\n" for value in values))


def _shown(allocation: Allocation, evals: EvalMode) -> tuple[Point, ...]:
    """All points of an allocation, or those with an eval where nothing else was asked for."""
    return allocation.evals if evals in ("only", "all") else allocation.points


def _described(allocation: Allocation, point: Point) -> dict[str, Any]:
    evaluated = point in allocation.evals
    return {"id": point.id, "gpus": point.gpus, "eval": evaluated, "point": point}


def _table(planned: Sequence[Allocation], evals: EvalMode) -> None:
    """One row a config, and the sums."""
    configs: dict[str, list[Allocation]] = {}
    for each in planned:
        configs.setdefault(each.lead.config, []).append(each)
    table = Table()
    for name in ("config", "runner", "scenario", "deployments"):
        table.add_column(name)
    for name in ("concurrency", "GPUs", "points", "jobs", "evals"):
        table.add_column(name, justify="right")
    for config, found in configs.items():
        table.add_row(config, *_cells(found, evals))
    console = Console()
    # In a pipe there is no width to fit: a folded table could not be read by a program or a diff.
    console.print(table) if console.is_terminal else Console(width=1000).print(table)
    points = sum(len(_shown(each, evals)) for each in planned)
    marked = sum(len(each.evals) for each in planned)
    counts = f"{len(configs)} configs, {points} points in {len(planned)} jobs, {marked} evals"
    click.echo(counts)


def _cells(found: Sequence[Allocation], evals: EvalMode) -> tuple[str, ...]:
    points = [point for each in found for point in _shown(each, evals)]
    return (
        points[0].runner,
        ", ".join(dict.fromkeys(point.scenario.label for point in points)),
        _few(point.deployment for point in points),
        _range(point.conc for point in points),
        _range(point.gpus for point in points),
        str(len(points)),
        str(len(found)),
        str(sum(len(each.evals) for each in found)),
    )


def _few(names: Iterable[str], most: int = 3) -> str:
    found = list(dict.fromkeys(names))
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + rest


def _range(values: Iterable[int]) -> str:
    found = sorted(values)
    low, high = found[0], found[-1]
    return str(low) if low == high else f"{low}..{high}"
