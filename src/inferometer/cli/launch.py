"""`inferometer launch`: the exact launch of one point, as JSON or as commands to paste."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from inferometer.cli.deployed import (
    command,
    comment,
    content,
    deployment_data,
    deployment_shell,
    file_lines,
    side_lines,
)
from inferometer.cli.masters import master_files
from inferometer.cli.told import tell
from inferometer.core import FixedSeqLen, LaunchPlan, Point, RouterPlan
from inferometer.errors import InputError
from inferometer.plan import (
    SITE_PLACEHOLDERS,
    Recipes,
    Selection,
    Severity,
    check_launch,
    expand,
    is_site_placeholder,
    load_configs,
    load_recipes,
    read_file,
    recipe_roots,
    resolve,
    select,
)

MOST_LISTED = 40
"""Points that an error lists."""
F = TypeVar("F", bound=Callable[..., Any])

EXAMPLES = """\b
Examples:
  inferometer launch dsv4-fp4-b300-vllm --config nvidia-master.yaml --runners runners.yaml \\
    --conc 64 --tp 4
  inferometer launch glm5.1-fp8-b200-tilert --config newer --conc 1 --isl 1024
  inferometer launch KEY --config master.yaml --runners runners.yaml --conc 8 \\
    --format shell --site port=8000 --site model_path=/data/model
"""


def point_options(command: F) -> F:
    """The options that name one point of config files."""
    for option in (
        click.option("--id", help="Id of the point, where nothing shorter tells it apart."),
        click.option("--compat", is_flag=True, help="Reproduce the reference's own faults too."),
        click.option("--spec-decoding", type=click.Choice(["none", "mtp", "draft_model"])),
        click.option("--osl", type=int, help="Output tokens of a fixed-length point."),
        click.option("--isl", type=int, help="Input tokens of a fixed-length point."),
        click.option("--kv-offloading", type=click.Choice(["none", "dram"])),
        click.option("--dp-attn", type=bool, help="Attention data-parallel: true or false."),
        click.option("--ep", type=int, help="Expert parallelism."),
        click.option("--tp", type=int, help="Tensor parallelism."),
        click.option("--conc", type=int, help="Concurrency."),
        click.option(
            "--runners",
            type=click.Path(),
            help="Runner file of the master files [runners.yaml beside them].",
        ),
        click.option(
            "--config",
            "masters",
            multiple=True,
            required=True,
            help="Master file, may be repeated; or newer, or quickstart, which the package has.",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Chosen:
    """One point and the recipes that its files and the package hold."""

    point: Point
    recipes: Recipes


def chosen(
    key: str, files: Sequence[str], runners: str | None, compat: bool, asked: Mapping[str, Any]
) -> Chosen:
    """The one point that the options leave. InputError lists the candidates where several are."""
    masters, runner_file = master_files(files, runners)
    configs = load_configs(masters, runner_file)
    conc = () if asked["conc"] is None else (asked["conc"],)
    wanted = Selection(keys=(key,), conc=conc)
    points = select(select(expand(configs), Selection(keys=(key,))), wanted)
    left = [point for point in points if _is(point, asked)]
    # A point that is declared twice is one point.
    if not left or any(point != left[0] for point in left):
        found = left or points
        what = f"{len(left)} points are left" if left else "no point is as asked"
        names = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        listed = [_described(point) for point in found[:MOST_LISTED]]
        if len(found) > MOST_LISTED:
            listed.append(f"and {len(found) - MOST_LISTED} more (`plan` shows all)")
        text = "\n  ".join(listed)
        raise InputError(f"{what}; choose with {names} one of:\n  {text}")
    recipes = load_recipes(read_file, recipe_roots(masters), compat=compat)
    return Chosen(left[0], recipes)


def _is(point: Point, asked: Mapping[str, Any]) -> bool:
    has = _features(point)
    return all(value is None or has[name] == value for name, value in asked.items())


def _features(point: Point) -> dict[str, Any]:
    """What the options select by, by option."""
    fixed = point.scenario if isinstance(point.scenario, FixedSeqLen) else None
    return {
        "conc": point.conc,
        "tp": point.parallelism.tp,
        "ep": point.parallelism.ep,
        "dp_attn": point.parallelism.dp_attn,
        "kv_offloading": point.kv_offload.mode,
        "isl": fixed.isl if fixed else None,
        "osl": fixed.osl if fixed else None,
        "spec_decoding": point.spec_decoding,
        "id": point.id,
    }


def _described(point: Point) -> str:
    features = _features(point).items()
    return " ".join(
        f"--{name.replace('_', '-')} {str(value).lower() if isinstance(value, bool) else value}"
        for name, value in features
        if value is not None
    )


@click.command(short_help="Print how the engine of one point is launched.", epilog=EXAMPLES)
@click.argument("key")
@point_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "shell"]),
    default="json",
    show_default=True,
    help="One object with site placeholders as they are, or commands with them filled in.",
)
@click.option("--site", multiple=True, metavar="NAME=VALUE", help="Site value for shell form.")
@click.option("--strict", is_flag=True, help="Refuse whatever the flag check finds.")
def launch(
    key: str,
    masters: tuple[str, ...],
    runners: str | None,
    compat: bool,
    form: str,
    site: tuple[str, ...],
    strict: bool,
    **asked: Any,
) -> None:
    """Print how the engine of one point of config KEY is launched; nothing is started.

    Its flags are checked against those recorded of the engine. A fault is an error where they are
    of the image's own version, and a warning where they are of another, or with --compat.
    """
    values = _site(site)
    choice = chosen(key, masters, runners, compat, asked)
    plan = resolve(choice.point, choice.recipes)
    # A reproduction is printed with its faults.
    severity: Severity = "lenient" if compat else "exact"
    tell(check_launch(choice.point, plan, "strict" if strict else severity))
    if form == "json":
        data = _as_data(plan) | deployment_data(plan, choice.point)
        if compat:
            data = _with_model_placeholder(data, choice.point.model)
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        values = {"model_path": choice.point.model} | values
        several = deployment_shell(plan, choice.point, values)
        click.echo("\n".join(_shell(plan, values) if plan.kind == "single-node" else several))


def _site(pairs: Sequence[str]) -> dict[str, str]:
    """Site values by name. InputError for an unknown one."""
    values = {"port": "8888", "host": "127.0.0.1", "models_dir": ".", "result_dir": "."}
    values |= {"workspace": ".", "repo": ".", "pid": "0"}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or "+" in name or not is_site_placeholder(name):
            known = ", ".join(sorted(SITE_PLACEHOLDERS))
            known += ", or of a launch, such as prefill_0_host"
            raise InputError(f"--site takes NAME=VALUE with one of {known}; got {pair!r}")
        if name.endswith("port") and not value.isdecimal():
            raise InputError(f"--site {name} takes a number, got {value!r}")
        values[name] = value
    return values


def _as_data(plan: LaunchPlan) -> dict[str, Any]:
    return {
        "image": plan.image,
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "files": {name: content(text) for name, text in plan.files.items()},
        "router": _router(plan.router),
    }


def _router(router: RouterPlan | None) -> dict[str, Any] | None:
    """The router that is started; None where the config names one that this point does without."""
    if router is None or not router.argv:
        return None
    started = {"name": router.name, "version": router.version}
    return {**started, "argv": list(router.argv), "env": {}}


def _with_model_placeholder(value: Any, model: str) -> Any:
    """`{model}` for the model, as the reference prints it: a site may serve it from a local path,
    and then calls it by that.
    """
    match value:
        case str():
            return value.replace(model, "{model}")
        case dict():
            return {name: _with_model_placeholder(part, model) for name, part in value.items()}
        case list():
            return [_with_model_placeholder(part, model) for part in value]
    return value


def _shell(plan: LaunchPlan, site: Mapping[str, str]) -> Iterator[str]:
    """Lines to paste: files into the working directory, side processes, the engine, the router."""
    yield comment(f"image: {plan.image}")
    for name, text in plan.files.items():
        yield from file_lines(name, text, site)
    yield from side_lines(plan, site)
    yield command(plan.env, plan.argv, site)
    if plan.router is not None and plan.router.argv:
        router = f"{plan.router.name} {plan.router.version}"
        yield comment(f"router: {router}, once the engine serves")
        yield command({}, plan.router.argv, site)
