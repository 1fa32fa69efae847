"""A point and its recipe layers into the exact launch plan, each value with the rule that set it.

Pure but for one read: where a config names a file with the engine's settings, that file's bytes, if
they lie beside the config. No process, no randomness. Flags are not checked against the engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferometer.core import (
    ClientSettings,
    DeploymentSettings,
    ExternalFile,
    KvTransfer,
    LaunchPlan,
    Origin,
    Point,
    RoleLaunch,
    RouterPlan,
    SideProcess,
    WorkloadSettings,
    launch_name,
)
from inferometer.errors import InputError, Problem
from inferometer.plan.additional import settings_of
from inferometer.plan.draft import Draft, argv_of, as_words, drafted
from inferometer.plan.expressions import Names
from inferometer.plan.layers import LOAD, Layer, Target
from inferometer.plan.names import deployment_names, worker_names
from inferometer.plan.recipes import Recipes
from inferometer.plan.roles import Process, point_of, processes, transfer_of
from inferometer.plan.settings import Checked, check_settings
from inferometer.plan.templates import as_text


def resolve(point: Point, recipes: Recipes) -> LaunchPlan:
    """Apply the layers that hold for the point. InputError holds every problem, each with the
    layer file and line of the rule at fault.
    """
    return _resolved(point, recipes)[0]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One value of a plan, as text, and the rule that set it. `target` begins with the name of the
    launch where the plan has several.
    """

    target: Target
    value: str
    origin: Origin
    filled: str | None
    """The expression with the point's values in place of its names."""


def explain(point: Point, recipes: Recipes) -> tuple[Explanation, ...]:
    """The names that layers agree on, then every value of the point's plan by section. Of the
    launches of one role the first in full, of the others what differs. InputError where the point
    does not resolve.
    """
    plan, drafts = _resolved(point, recipes)
    found: list[Explanation] = []
    known: dict[tuple[str, Target], str] = {}
    for name, draft in drafts.items():
        role = name.partition("_")[0]
        for target in _shown(draft, plan, name):
            if known.get((role, target)) == draft.written(target):
                continue
            known.setdefault((role, target), draft.written(target))
            found.append(_explanation(draft, target, name))
    return tuple(found)


def names_at(point: Point, recipes: Recipes) -> Mapping[str, Names]:
    """What expressions may name at each launch of a point, with what layers agree on; under no name
    for a point that starts one engine, and for the load. InputError where it does not resolve.
    """
    return {name: draft.names for name, draft in _resolved(point, recipes)[1].items()}


_SECTIONS = ("let", "image", "command", "argv", "env", "files", "side", "router", *LOAD)
Drafts = Mapping[str, Draft]
"""By launch; the draft of a point that starts one engine, and that of the load, has no name."""


def _shown(draft: Draft, plan: LaunchPlan, name: str) -> list[Target]:
    prefix = f"{name}." if name else ""
    shown = {*plan.origins, *(f"{prefix}let.{key}" for key in draft.section("let"))}
    kept = [target for target in draft.origins if prefix + ".".join(target) in shown]
    kept.sort(key=lambda target: _SECTIONS.index(target[0]))
    return kept


def _explanation(draft: Draft, target: Target, name: str) -> Explanation:
    path = (name, *target) if name else target
    return Explanation(path, draft.written(target), draft.origins[target], draft.filled(target))


def _resolved(point: Point, recipes: Recipes) -> tuple[LaunchPlan, Drafts]:
    if point.multi_node is None:
        return _single(point, recipes)
    settings = settings_of(point.multi_node)
    if settings.config_file is not None:
        return _external(point, recipes, settings, settings.config_file)
    return _several(point, recipes, settings)


def _single(point: Point, recipes: Recipes) -> tuple[LaunchPlan, Drafts]:
    names = recipes.names(point)
    draft = drafted(names, recipes.layers(point, names))
    client, workload = _checked(point, draft, draft.problems, (draft,))
    plan = LaunchPlan(
        image=as_text(draft.tree["image"]),
        argv=_argv(draft),
        env=as_words(draft.section("env")),
        files=as_words(draft.spelled("files")),
        router=_router(draft.tree.get("router")),
        client=client,
        workload=workload,
        origins=draft.kept_origins(),
        side=tuple(_side(draft, None)),
        require_power=point.require_power,
    )
    return plan, {"": draft}


def _external(
    point: Point, recipes: Recipes, settings: DeploymentSettings, file: str
) -> tuple[LaunchPlan, Drafts]:
    """What is loaded is known; what is started is in a file that the config only names."""
    names = {**recipes.names(point), "role": "external"}
    draft = drafted(names, recipes.layers(point, names), load_only=True)
    client, workload = _checked(point, draft, draft.problems, ())
    # A part of a file is named behind a colon.
    raw = recipes.beside(file) or recipes.beside(file.partition(":")[0])
    sha256 = None if raw is None else hashlib.sha256(raw).hexdigest()
    plan = LaunchPlan(
        image=point.image,
        argv=(),
        env={},
        files={},
        router=_declared(point),
        client=client,
        workload=workload,
        origins=draft.kept_origins(),
        external=ExternalFile(file, sha256),
        settings=settings,
        require_power=point.require_power,
    )
    return plan, {"": draft}


def _several(
    point: Point, recipes: Recipes, settings: DeploymentSettings
) -> tuple[LaunchPlan, Drafts]:
    """A draft a launch; the load is as the first worker's layers and the router's say."""
    try:
        workers = processes(point, settings, recipes.facts)
        transfer = transfer_of(point)
    except InputError as error:
        raise InputError(*(_of_point(problem, point) for problem in error.problems)) from error
    setting = _Setting(point, recipes, settings)
    drafts = {each.name: setting.worker(each) for each in workers}
    router = _declared(point) or _router(drafts[workers[0].name].tree.get("router"))
    if router is not None:
        drafts[ROUTER] = setting.router(router.name, workers[0])
    load = setting.load(workers[0], router.name if router else None)
    problems = [problem for draft in drafts.values() for problem in draft.problems]
    if router is None and len({each.head for each in workers}) > 1:
        what = "no router is declared, and no recipe rule names one"
        problems.append(Problem(what, key="router"))
    client, workload = _checked(point, load, problems, tuple(drafts.values()))
    launches = [_launch(each, drafts[each.name], transfer) for each in workers]
    if router is not None:
        launches.append(_router_launch(point, drafts[ROUTER]))
    plan = LaunchPlan(
        image=point.image,
        argv=(),
        env={},
        files={},
        router=router and RouterPlan(router.name, router.version, ()),
        client=client,
        workload=workload,
        origins=_origins({**drafts, "": load}),
        side=tuple(side for each in launches for side in _side(drafts[each.name], each.name)),
        launches=tuple(launches),
        settings=settings,
        require_power=point.require_power,
    )
    return plan, {**drafts, "": load}


ROUTER = launch_name("router", 0)


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the drafts of one deployment share."""

    point: Point
    recipes: Recipes
    settings: DeploymentSettings

    def worker(self, process: Process) -> Draft:
        """All that rules set for a worker on one of its nodes."""
        names, layers = self._seen(process)
        return drafted(names, layers)

    def router(self, router: str, first: Process) -> Draft:
        """All that the router's layer sets for it; parallelism is that of the first worker."""
        spread = point_of(first, self.point).parallelism
        seen = self.recipes.names(replace(self.point, parallelism=spread))
        names = {**seen, **self._common(), "router": router}
        layers = self.recipes.router_layers(router)
        return drafted({**names, "role": "router", "head": ROUTER}, layers)

    def load(self, first: Process, router: str | None) -> Draft:
        """Client and workload: the worker's layers, and the router's over them."""
        names, layers = self._seen(first)
        over = self.recipes.router_layers(router)[1:] if router else ()
        return drafted(names, (*layers, *over), load_only=True)

    def _seen(self, process: Process) -> tuple[Names, tuple[Layer, ...]]:
        seen = point_of(process, self.point)
        own = worker_names(process, self.settings)
        names = {**self.recipes.names(seen), **self._common(), **own}
        return names, self.recipes.layers(seen, names)

    def _common(self) -> Names:
        assert self.point.multi_node is not None
        return deployment_names(self.point.multi_node)


def _launch(process: Process, draft: Draft, transfer: KvTransfer | None) -> RoleLaunch:
    handed = process.role in ("prefill", "decode")
    return RoleLaunch(
        role=process.role,
        index=process.index,
        nodes=process.nodes,
        node_rank=process.node_rank,
        gpus=process.gpus,
        hardware=process.hardware,
        parallelism=process.parallelism,
        kv_transfer=transfer if handed else None,
        image=as_text(draft.tree["image"]),
        argv=_argv(draft),
        env=as_words(draft.section("env")),
        files=as_words(draft.spelled("files")),
    )


def _router_launch(point: Point, draft: Draft) -> RoleLaunch:
    return RoleLaunch(
        role="router",
        index=0,
        nodes=1,
        node_rank=0,
        gpus=0,
        hardware=point.hardware,
        parallelism=None,
        kv_transfer=None,
        image=as_text(draft.tree["image"]),
        argv=_argv(draft),
        env=as_words(draft.section("env")),
        files=as_words(draft.spelled("files")),
    )


def _checked(
    point: Point, load: Draft, problems: Sequence[Problem], started: Sequence[Draft]
) -> tuple[ClientSettings, WorkloadSettings]:
    """Client and workload settings. InputError with every problem of the point, each once."""
    checked: Checked = check_settings(load.section("client"), load.section("workload"))
    found = [*problems, *(load.problems if load not in started else ())]
    found += [load.problem(path, message) for path, message in checked.faults]
    found += [
        Problem("no recipe rule sets it", key=name)
        for draft in started
        for name in ("image", "command")
        if draft.tree.get(name) is None
    ]
    if found or checked.client is None or checked.workload is None:
        raise InputError(*(_of_point(problem, point) for problem in dict.fromkeys(found)))
    return checked.client, checked.workload


def _argv(draft: Draft) -> tuple[str, ...]:
    return tuple(argv_of(draft.tree["command"], draft.spelled("argv")))


def _side(draft: Draft, beside: str | None) -> Iterator[SideProcess]:
    """The side processes of a launch, in the order in which rules named them."""
    for name, copies in draft.section("side").items():
        for number, process in enumerate(copies or ()):
            yield SideProcess(
                name=name if len(copies) == 1 else f"{name}_{number}",
                argv=tuple(as_text(token) for token in process["argv"]),
                env=as_words(process.get("env", {})),
                beside=beside,
            )


def _origins(drafts: Drafts) -> dict[str, Origin]:
    """Origins of every launch under its name; those of the load as they are, and once."""
    found: dict[str, Origin] = {}
    for name, draft in drafts.items():
        prefix = f"{name}." if name else ""
        for target, origin in draft.kept_origins().items():
            if (target.partition(".")[0] in LOAD) != bool(prefix):
                found[prefix + target] = origin
    return found


def _declared(point: Point) -> RouterPlan | None:
    declared = point.router
    return RouterPlan(declared.name, declared.version, ()) if declared else None


def _router(value: Mapping[str, Any] | None) -> RouterPlan | None:
    if value is None:
        return None
    argv = tuple(as_text(token) for token in value.get("argv", ()))
    return RouterPlan(as_text(value["name"]), as_text(value["version"]), argv)


def _of_point(problem: Problem, point: Point) -> Problem:
    message = f"{problem.message} (point {point.id})"
    return Problem(message, problem.file, problem.line, problem.key)
