"""`inferometer bench`: measure an engine that is already up."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from inferometer.cli.arrivals import Ramp, arrival_options, arrival_settings, concurrencies
from inferometer.cli.clientoptions import client_options
from inferometer.cli.output import format_option
from inferometer.core import Replies
from inferometer.deferred import Deferred
from inferometer.errors import EngineError, nearest
from inferometer.load.headcount import workers_for
from inferometer.run.loadprocess import LoadProcess, load_process

if TYPE_CHECKING:
    from inferometer.analyze import objectives as _objectives
    from inferometer.cli import finish as _finish
    from inferometer.engine import ask as _ask
    from inferometer.run import engines as _engines
    from inferometer.run import job as _job
    from inferometer.run import jobs as _jobs
    from inferometer.run import prompting as _prompting
    from inferometer.store import rundir as _rundir
else:
    # What `bench` needs once the process of the load is on its way: the two start side by side.
    _objectives = Deferred("inferometer.analyze.objectives")
    _finish = Deferred("inferometer.cli.finish")
    _ask = Deferred("inferometer.engine.ask")
    _engines = Deferred("inferometer.run.engines")
    _job = Deferred("inferometer.run.job")
    _jobs = Deferred("inferometer.run.jobs")
    _prompting = Deferred("inferometer.run.prompting")
    _rundir = Deferred("inferometer.store.rundir")

F = TypeVar("F", bound=Callable[..., Any])

EXAMPLES = """\b
Examples:
  inferometer bench http://127.0.0.1:8000
  inferometer bench http://127.0.0.1:8000 --concurrency 1,8,64 --isl 8192 --osl 1024 --requests 640
  inferometer bench http://127.0.0.1:8000 --workload traces/ --concurrency 4 --duration 900
  inferometer bench http://127.0.0.1:8000 --rate 10 --slo ttft:500ms --slo tpot:20ms
"""


class Concurrencies(click.ParamType[tuple[int, ...]]):
    """A comma-separated list of positive integers."""

    name = "N[,N...]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Text to a tuple, refusing what is no positive integer or given twice."""
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
            self.fail(f"{value!r} is not a list of positive integers such as 1,8,64", param, ctx)
        numbers = tuple(int(word) for word in words)
        if len(set(numbers)) < len(numbers):
            self.fail(f"{value!r} names a concurrency twice", param, ctx)
        return numbers


replies_option = click.option(
    "--replies",
    type=click.Choice(["canned", "live"]),
    help="Answers that later turns repeat: recorded ones, or those that came [canned].",
)


def load_options(command: F) -> F:
    """What is sent and for how long: the same for `bench` and `predict`."""
    for option in (
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            help="Seed of everything drawn [bench: a fresh one].",
        ),
        click.option(
            "--warmup",
            type=click.IntRange(min=0),
            help="Warm-up requests a lane; in an open loop, arrivals.",
        ),
        replies_option,
        click.option("--workload", type=str, help="Sessions: a trace path, or synthetic:NAME."),
        click.option(
            "--osl",
            type=click.IntRange(min=1),
            default=128,
            show_default=True,
            help="Output tokens, where no sessions are replayed.",
        ),
        click.option(
            "--isl",
            type=click.IntRange(min=1),
            default=1024,
            show_default=True,
            help="Input tokens, where no sessions are replayed.",
        ),
        click.option("--requests", type=click.IntRange(min=1), help="Requests a point."),
        click.option(
            "--duration", type=click.FloatRange(min=0, min_open=True), help="Seconds a point."
        ),
        click.option(
            "--concurrency",
            type=Concurrencies(),
            default="1,4,16",
            show_default=True,
            help="Lanes: one point each. With arrivals: how many at most at a time.",
        ),
    ):
        command = option(command)
    return arrival_options(command)


def load_overrides(
    duration: float | None,
    requests: int | None,
    workload: str | None,
    warmup: int | None,
    seed: int | None,
    replies: Replies | None,
) -> dict[str, object]:
    """The workload settings that `load_options` may set."""
    if duration is not None and requests is not None:
        raise click.UsageError("--duration and --requests exclude each other")
    return {
        "duration_s": duration,
        "requests": requests,
        "sessions": workload,
        "warmup_requests_per_lane": warmup,
        "seed": seed,
        "replies": replies,
    }


def _seed(out: Path | None) -> int:
    """That of the run to go on with, else a fresh one: an engine that is up may have cached what
    an earlier bench of the same seed sent it.
    """
    if out is not None and (run := _rundir.RunDir(out)).exists:
        return run.manifest().seed
    return secrets.randbelow(1 << 31)


def refuse_lengths_of_sessions(workload: str | None) -> None:
    """Sessions bring their own lengths: an option that could do nothing is a mistake."""
    context = click.get_current_context()
    for name in ("isl", "osl"):
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if workload is not None and typed:
            raise click.UsageError(f"--{name} goes only without --workload")


def _tell_assumed() -> None:
    """A server does not say how many GPUs it has, and every rate a GPU is divided by that."""
    if click.get_current_context().get_parameter_source("gpus") is ParameterSource.DEFAULT:
        click.echo("note: rates per GPU assume 1 GPU; say --gpus if there are more", err=True)


DURATION_S = 30.0
"""Of a point where neither a duration nor a count is given."""


@click.command(short_help="Measure a server that is up (OpenAI API, streaming).", epilog=EXAMPLES)
@click.argument("url")
@click.option("--model", help="Model to ask for [the first of /v1/models].")
@load_options
@click.option(
    "--endpoint",
    type=click.Choice(["chat", "completions"]),
    default="chat",
    show_default=True,
    help="OpenAI endpoint.",
)
@click.option(
    "--usage-every-chunk/--usage-at-end",
    default=None,
    help="Ask for usage on every chunk: exact gaps a token, where the server has it.",
)
@client_options
@click.option(
    "--tokenizer",
    help="Count prompts in its tokens: a folder, a tokenizer.json, bundled or words [words].",
)
@click.option("--token-ids", is_flag=True, help="Send token ids (completions, with --tokenizer).")
@click.option("--hardware", default="unknown", help="Name of the GPU, for charts.")
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="GPUs behind the URL: the divisor of rates per GPU.",
)
@click.option("--precision", default="unknown", help="Precision of the weights, for charts.")
@click.option("--out", type=click.Path(path_type=Path), help="Run directory [runs/bench-TIME].")
@format_option
def bench(  # noqa: PLR0913 - one parameter an option
    url: str,
    model: str | None,
    concurrency: tuple[int, ...],
    duration: float | None,
    requests: int | None,
    isl: int,
    osl: int,
    workload: str | None,
    replies: Replies | None,
    warmup: int | None,
    seed: int | None,
    endpoint: str,
    usage_every_chunk: bool | None,
    headers: dict[str, str],
    workers: int | None,
    tokenizer: str | None,
    token_ids: bool,
    hardware: str,
    gpus: int,
    precision: str,
    out: Path | None,
    form: str,
    slos: tuple[str, ...],
    ramp_concurrency: Ramp | None,
    **arrivals: Any,
) -> None:
    """Measure the engine at URL (OpenAI-compatible, streaming).

    Fixed lengths by default, recorded sessions with --workload; in a closed loop of lanes, or with
    --rate, --arrival, --timestamps or --ramp-rate in an open one. Needs no flag beyond the URL.
    """
    paced = arrival_settings(ramp_concurrency=ramp_concurrency, **arrivals)
    concurrency = concurrencies(concurrency, paced, ramp_concurrency)
    if duration is None and requests is None:
        duration = DURATION_S
    refuse_lengths_of_sessions(workload)
    drawn = _seed(out) if seed is None else seed
    settings = load_overrides(duration, requests, workload, warmup, drawn, replies) | paced
    settings |= {"tokenizer": tokenizer, "prompt_form": "token_ids" if token_ids else None}
    with _ahead(
        workers or workers_for(concurrency[0]), workload, drawn, tokenizer, endpoint
    ) as load:
        objectives = _objectives.parse_slos(slos)
        client = {"endpoint": endpoint, "usage_every_chunk": usage_every_chunk}
        overrides = _jobs.Overrides(settings, client)
        ad_hoc = _jobs.AdHoc(
            config="bench",
            image="external",
            model=model or "unknown",
            precision=precision,
            framework="external",
            hardware=hardware,
            gpus=gpus,
            scenario=_jobs.scenario_of(workload, isl, osl),
            max_model_len=None,
        )
        # What is wrong with the options is told whether there is an engine or not.
        base_url = _engines.root_url(url)
        _jobs.check_flags(ad_hoc, concurrency, overrides)
        name, limit = _model(base_url, model)
        if seed is None:
            click.echo(f"seed: {drawn}", err=True)
        ad_hoc = replace(ad_hoc, model=name, max_model_len=limit)
        jobs = _jobs.jobs_of_flags(ad_hoc, concurrency, overrides)
        sweep = _job.Sweep(
            title=f"bench {name}",
            command=_finish.command_line(),
            jobs=jobs,
            sources={},
            clock="real",
            base_url=base_url,
            slos=objectives,
            headers=headers,
            workers=workers,
        )
        _tell_assumed()
        _finish.run_and_show(sweep, out or _finish.dated_folder("bench"), form, load=load)


@contextmanager
def _ahead(
    workers: int, workload: str | None, seed: int, tokenizer: str | None, endpoint: str
) -> Iterator[LoadProcess]:
    """The process of the load, which gets ready while this one still imports; so does the fit of
    the tokenizer. What is wrong with either is told when it is asked for.
    """
    with load_process() as load:
        load.prepare(workers, workload, seed)
        with _prompting.fitting(tokenizer, endpoint):
            yield load


def _model(base_url: str, asked: str | None) -> tuple[str, int | None]:
    """The model to ask for, and its context limit where the engine says it."""
    served = _ask.served_models(base_url)
    if asked is None:
        if not served:
            raise EngineError(f"{base_url}/v1/models lists no model; name one with --model")
        first = served[0]
        return first.id, first.max_model_len
    limits = {model.id: model.max_model_len for model in served}
    if asked not in limits:
        # Some servers take any name; the referee of our own tests takes a plan.
        hint = nearest(asked, limits) or f"; it lists: {', '.join(limits)}"
        click.echo(f"warning: {base_url} does not list {asked!r}{hint}", err=True)
    return asked, limits.get(asked)
