"""`inferometer predict`: the built-in engine in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click
from click.core import ParameterSource

from inferometer.analyze.objectives import parse_slos
from inferometer.catalog import model as model_spec
from inferometer.cli.arrivals import Ramp, arrival_settings, concurrencies
from inferometer.cli.bench import load_options, load_overrides, refuse_lengths_of_sessions
from inferometer.cli.finish import command_line, dated_folder, run_and_show
from inferometer.cli.output import format_option
from inferometer.cli.run import declared, declared_options, warn
from inferometer.core import Replies
from inferometer.plan import Selection
from inferometer.run.job import Job, Sweep
from inferometer.run.jobs import AdHoc, Overrides, jobs_of_flags, scenario_of
from inferometer.run.virtual import engine_options

EXAMPLES = """\b
Examples:
  inferometer predict quickstart
  inferometer predict master.yaml --runners runners.yaml --key 'llama70b-*'
  inferometer predict --model Qwen/Qwen3-8B --gpu h200 --tp 1 --concurrency 1,8,64
  inferometer predict --workload traces/ --concurrency 64 --duration 3600 --seed 42
  inferometer predict --workload traces/ --concurrency 4 --max-model-len 1000000
  inferometer predict --ramp-rate 1:40:300 --duration 300 --slo ttft:1s
"""


ONLY_WITH_FILES = ("runners", "keys", "scenario", "conc")
ONLY_WITHOUT_FILES = (
    *("model", "gpu", "tp", "precision", "isl", "osl", "concurrency", "ramp_concurrency"),
)


def _refuse_idle_options(files: bool) -> None:
    """An option that could do nothing is a mistake of whoever typed it."""
    context = click.get_current_context()
    idle = ONLY_WITHOUT_FILES if files else ONLY_WITH_FILES
    for parameter in context.command.params:
        typed = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in idle and typed:
            where = "without" if files else "with"
            raise click.UsageError(f"{parameter.opts[0]} goes only {where} FILES")


def _tell_of_longer(jobs: tuple[Job, ...], limit: int) -> None:
    """An engine takes a limit beyond its model's only where it is told how (RoPE scaling)."""
    for name in dict.fromkeys(engine_options(job).model for job in jobs):
        own = model_spec(name).max_context
        if limit > own:
            warn(f"--max-model-len {limit:,}: {name} is made for {own:,} tokens")


@click.command(
    short_help="Predict points with the built-in engine, in virtual time.", epilog=EXAMPLES
)
@click.argument("files", nargs=-1)
@declared_options
@click.option(
    "--model",
    default="Qwen/Qwen3.5-397B-A17B",
    show_default=True,
    help="Model of the catalog, without FILES.",
)
@click.option("--gpu", default="b200", show_default=True, help="GPU of the catalog, without FILES.")
@click.option(
    "--tp",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Tensor parallelism, without FILES.",
)
@click.option(
    "--precision", default="fp8", show_default=True, help="Precision of the weights, without FILES."
)
@click.option(
    "--max-model-len",
    type=click.IntRange(min=1, max=(1 << 31) - 1),
    metavar="TOKENS",
    help="Context limit of the engine, input and output together [the model's; with FILES theirs]. "
    "What is longer is not sent.",
)
@load_options
@click.option("--out", type=click.Path(path_type=Path), help="Run directory [runs/predict-TIME].")
@format_option
def predict(  # noqa: PLR0913 - one parameter an option
    files: tuple[str, ...],
    runners: str | None,
    keys: tuple[str, ...],
    scenario: Literal["fixed", "agentic"] | None,
    conc: tuple[int, ...],
    model: str,
    gpu: str,
    tp: int,
    precision: str,
    max_model_len: int | None,
    concurrency: tuple[int, ...],
    duration: float | None,
    requests: int | None,
    isl: int,
    osl: int,
    workload: str | None,
    replies: Replies | None,
    warmup: int | None,
    seed: int | None,
    out: Path | None,
    form: str,
    slos: tuple[str, ...],
    ramp_concurrency: Ramp | None,
    **arrivals: Any,
) -> None:
    """Predict points in virtual time: the same client and scheduler, a computed GPU, no waiting.

    With FILES (master files, or quickstart) their points; without, one deployment given by flags.
    Two predictions of one command are identical.
    """
    sources = {}
    jobs: tuple[Job, ...]
    _refuse_idle_options(bool(files))
    objectives = parse_slos(slos)
    paced = arrival_settings(ramp_concurrency=ramp_concurrency, **arrivals)
    concurrency = concurrencies(concurrency, paced, ramp_concurrency)
    settings = load_overrides(duration, requests, workload, warmup, seed, replies) | paced
    overrides = Overrides(settings, {}, max_model_len)
    refuse_lengths_of_sessions(workload)
    if files:
        selection = Selection(keys=keys, scenario=scenario, conc=conc)
        found = declared(files, runners, selection, overrides)
        jobs, sources, name = found.jobs, dict(found.sources), Path(files[0]).stem
    else:
        ad_hoc = AdHoc(
            config="predict",
            image="inferometer/simulated",
            model=model,
            precision=precision,
            framework="simulated",
            hardware=gpu,
            gpus=tp,
            scenario=scenario_of(workload, isl, osl),
            max_model_len=model_spec(model).max_context,
        )
        jobs, name = jobs_of_flags(ad_hoc, concurrency, overrides), model
    for job in jobs:
        engine_options(job)  # a mistake in one leaves no run behind
    if max_model_len is not None:
        _tell_of_longer(jobs, max_model_len)
    sweep = Sweep(
        title=f"predict {name}",
        command=command_line(),
        jobs=jobs,
        sources=sources,
        clock="virtual",
        base_url=None,
        slos=objectives,
    )
    run_and_show(sweep, out or dated_folder("predict"), form)
