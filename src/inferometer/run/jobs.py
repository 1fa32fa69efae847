"""From what a person names to the jobs of a sweep: config files, a URL, or a few flags.

Every override from the command line is a rule like any other: it changes the plan, so it changes
the digest, and the plan says where the value came from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from inferometer.core import (
    AgenticCoding,
    FixedSeqLen,
    KvOffload,
    LaunchPlan,
    Origin,
    OtherSessions,
    Parallelism,
    Point,
    Scenario,
)
from inferometer.deferred import Deferred
from inferometer.errors import InputError, Problem
from inferometer.plan import (
    Recipes,
    Selection,
    digest,
    load_recipes,
    read_file,
    recipe_roots,
    resolve,
    select,
)
from inferometer.plan.settings import check_settings
from inferometer.run.job import Job
from inferometer.workload.tokenizer_files import NO_TOKENIZER, tokenizer_digest

if TYPE_CHECKING:
    from inferometer import plan as _plan
    from inferometer.workload import families as _families
    from inferometer.workload import sources as _sources
else:
    # What reads config files, and readers of every format: a bench of fixed lengths needs neither.
    _plan = Deferred("inferometer.plan")
    _families = Deferred("inferometer.workload.families")
    _sources = Deferred("inferometer.workload.sources")

COMMAND_LINE = "command line"
CONTEXT_FLAG = "--max-model-len"
"""As the built-in engine has it."""
NOT_STARTED = "multi-node deployments are planned, not started yet"


@dataclass(frozen=True, slots=True)
class Overrides:
    """Settings given on the command line; None leaves what the recipes say."""

    workload: Mapping[str, Any]
    client: Mapping[str, Any]
    max_model_len: int | None = None
    """Context limit of the built-in engine, tokens."""


_data_digest = lru_cache(maxsize=8)(lambda source: _sources.sessions_digest(source))
"""Of the same data once a command: a corpus takes seconds to read."""

_family = lru_cache(maxsize=8)(lambda source: _families.family_of(source))

_tokenizer_digest = lru_cache(maxsize=8)(tokenizer_digest)

NO_OVERRIDES = Overrides({}, {})


@dataclass(frozen=True, slots=True)
class Declared:
    """What config files came to: jobs, and the files read, by digest."""

    jobs: tuple[Job, ...]
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AdHoc:
    """A sweep given by flags instead of files: one deployment at several concurrencies."""

    config: str
    image: str
    model: str
    precision: str
    framework: Literal["external", "simulated"]
    hardware: str
    gpus: int
    scenario: Scenario
    max_model_len: int | None


def jobs_of_configs(
    masters: Sequence[str],
    runners: str,
    selection: Selection,
    overrides: Overrides,
    warn: Callable[[str], None],
) -> Declared:
    """Load, expand, select, resolve. Raises InputError with every problem of every file.

    `warn` is told what a person should know of files that load all the same.
    """
    configs = _plan.load_configs(masters, runners)
    for problem in configs.warnings:
        warn(str(problem))
    recipes = load_recipes(read_file, recipe_roots(masters))
    points, left_out = _startable(select(_plan.expand(configs), selection))
    for text in left_out:
        warn(text)
    jobs = _resolved(points, configs, recipes, overrides)
    files = [*masters, runners, *_layer_files(masters)]
    sources = {file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files}
    return Declared(jobs, sources)


def _startable(points: Sequence[Point]) -> tuple[tuple[Point, ...], tuple[str, ...]]:
    """The points that can be run, and a warning for every config that is left out."""
    why = {point.config: reason for point in points if (reason := _held_back(point)) is not None}
    kept = tuple(point for point in points if _held_back(point) is None)
    if not kept:
        reasons = "; ".join(dict.fromkeys(why.values()))
        raise InputError(f"{reasons}; `inferometer plan` shows them")
    if twice := [message for _, message in _plan.declared_twice(kept)]:
        raise InputError(*twice)
    return kept, tuple(f"{config}: left out: {reason}" for config, reason in why.items())


def _held_back(point: Point) -> str | None:
    """Why a point cannot be run, or None."""
    return NOT_STARTED if point.multi_node is not None else None


def check_flags(ad_hoc: AdHoc, concurrencies: Sequence[int], overrides: Overrides) -> None:
    """Raise InputError for whatever of `jobs_of_flags` is wrong by itself, whatever the data and
    the engine are.
    """
    recipes = load_recipes(read_file, ())
    for conc in concurrencies:
        _overridden(resolve(_point(ad_hoc, conc), recipes), overrides)


def jobs_of_flags(
    ad_hoc: AdHoc, concurrencies: Sequence[int], overrides: Overrides
) -> tuple[Job, ...]:
    """One job a concurrency."""
    recipes = load_recipes(read_file, ())
    return tuple(make_job(_point(ad_hoc, conc), recipes, overrides) for conc in concurrencies)


def _resolved(
    points: Sequence[Point], configs: _plan.Configs, recipes: Recipes, overrides: Overrides
) -> tuple[Job, ...]:
    """A job a point. InputError has every problem once a config, at the config's own line."""
    jobs: list[Job] = []
    problems: dict[tuple[str, str], Problem] = {}
    places = {config.key: config for config in configs.configs}
    for point in points:
        try:
            jobs.append(make_job(point, recipes, overrides))
        except InputError as error:
            place = places[point.config]
            for problem in error.problems:
                here = Problem(problem.message, place.file, place.line, point.config)
                at = problem if problem.file else here
                problems.setdefault((point.config, problem.message), at)
    if problems:
        raise InputError(*problems.values())
    return tuple(jobs)


def make_job(point: Point, recipes: Recipes, overrides: Overrides) -> Job:
    """Resolve a point, apply overrides, take the digest of its data, then its own."""
    if overrides.max_model_len is not None:
        point = replace(point, max_model_len=overrides.max_model_len)
    plan = _overridden(resolve(point, recipes), overrides)
    sessions = plan.workload.sessions
    if plan.workload.kind == "agentic" and sessions is not None:
        point = _named_after(sessions, point)
    if plan.workload.kind == "agentic" and sessions is None:
        raise InputError(
            f"{point.config}: no sessions to replay; name them in a recipe layer beside the config "
            "(workload: sessions: PATH) or with --workload PATH"
        )
    if sessions is not None:
        data = replace(plan.workload, sessions_digest=_data_digest(sessions))
        plan = replace(plan, workload=data)
    tokenizer = plan.workload.tokenizer
    if tokenizer != NO_TOKENIZER:
        named = replace(plan.workload, tokenizer_digest=_tokenizer_digest(tokenizer))
        plan = replace(plan, workload=named)
    return Job(point, plan, digest(point, plan))


def _named_after(sessions: str, point: Point) -> Point:
    """A point that replays sessions, under the name of what they are."""
    family = _family(sessions)
    return point if family == _families.AGENTIC else replace(point, scenario=OtherSessions(family))


def _overridden(plan: LaunchPlan, overrides: Overrides) -> LaunchPlan:
    """The plan with what the command line sets, under the rules that a recipe keeps."""
    client = {name: value for name, value in overrides.client.items() if value is not None}
    workload = {name: value for name, value in overrides.workload.items() if value is not None}
    # A window has a duration or a count, not both: naming one unsets the other.
    if "duration_s" in workload:
        workload["requests"] = None
    elif "requests" in workload:
        workload["duration_s"] = None
    checked = check_settings(asdict(plan.client) | client, asdict(plan.workload) | workload)
    if checked.client is None or checked.workload is None:
        faults = ((".".join(map(str, path)), message) for path, message in checked.faults)
        raise InputError(*(Problem(text, COMMAND_LINE, None, key) for key, text in faults))
    names = [f"client.{name}" for name in client] + [f"workload.{name}" for name in workload]
    argv = plan.argv
    if overrides.max_model_len is not None:
        argv = _with_flag(argv, CONTEXT_FLAG, str(overrides.max_model_len))
        names.append(f"argv.{CONTEXT_FLAG}")
    origins = dict.fromkeys(names, Origin(COMMAND_LINE, None, None, None))
    return replace(
        plan,
        argv=argv,
        client=checked.client,
        workload=checked.workload,
        origins={**plan.origins, **origins},
    )


def _with_flag(argv: tuple[str, ...], flag: str, value: str) -> tuple[str, ...]:
    """The arguments with the value of a flag that takes one, where it stands or at the end."""
    if flag not in argv:
        return (*argv, flag, value)
    at = argv.index(flag) + 1
    return (*argv[:at], value, *argv[at + 1 :])


def _point(ad_hoc: AdHoc, conc: int) -> Point:
    limit = ad_hoc.max_model_len
    return Point(
        config=ad_hoc.config,
        image=ad_hoc.image,
        model=ad_hoc.model,
        model_prefix=ad_hoc.model.rpartition("/")[2].lower(),
        precision=ad_hoc.precision,
        framework=ad_hoc.framework,
        runner="local",
        hardware=ad_hoc.hardware,
        scenario=ad_hoc.scenario,
        parallelism=Parallelism(ad_hoc.gpus, 1, 1, 1, 1, dp_attn=False),
        spec_decoding="none",
        kv_offload=KvOffload("none", None, None, 0),
        router=None,
        conc=conc,
        max_model_len=limit,
        repeat=0,
    )


def scenario_of(workload: str | None, isl: int, osl: int) -> Scenario:
    """Agentic where sessions are named, else fixed lengths."""
    return FixedSeqLen(isl, osl) if workload is None else AgenticCoding()


def _layer_files(masters: Sequence[str]) -> list[str]:
    roots = [Path(root) for root in recipe_roots(masters)]
    files = (file for root in roots for file in sorted(root.rglob("*")))
    return [str(file) for file in files if file.suffix in (".yaml", ".yml")]
