"""How a deployment of several roles is printed: its launches, or the file that only its owner has.

Prints what a plan holds; starts nothing and fills in site values only in the shell form.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from inferometer.core import LaunchPlan, Parallelism, Point, RoleLaunch, SideProcess
from inferometer.engine.place import fill_text
from inferometer.plan import pools_of

NOT_HERE = (
    "the engine's settings are in {file}, which is not part of the config and not beside it: "
    "this plan names the file and does not know what it says"
)
BESIDE = (
    "the engine's settings are in {file}, which is not part of the config: this plan holds the "
    "SHA-256 of the file beside it, and does not know what it says"
)


def deployment_data(plan: LaunchPlan, point: Point) -> dict[str, Any]:
    """What a launch has beyond one engine and its router; empty where it has no more."""
    data: dict[str, Any] = {}
    if plan.side:
        data["side"] = [_side(process) for process in plan.side]
    if plan.require_power is not None:
        data["require_power"] = plan.require_power
    if point.multi_node is None:
        return data
    data = {"kind": plan.kind, **data}
    if plan.router is not None:
        data["router"] = {"name": plan.router.name, "version": plan.router.version}
    data["roles"] = roles_of(point)
    if plan.settings is not None:
        data["settings"] = {k: v for k, v in asdict(plan.settings).items() if v not in (None, {})}
    if plan.external is not None:
        data["external"] = asdict(plan.external) | {"note": note(plan)}
        data["client"] = asdict(plan.client)
        data["workload"] = asdict(plan.workload)
    else:
        data["launches"] = [_launch(each) for each in plan.launches]
    return data


def note(plan: LaunchPlan) -> str:
    """What an external plan knows of the engine, in a sentence."""
    assert plan.external is not None
    said = NOT_HERE if plan.external.sha256 is None else BESIDE
    return said.format(file=plan.external.file)


def roles_of(point: Point) -> list[dict[str, Any]]:
    """Each role that has workers, with its GPUs."""
    assert point.multi_node is not None
    return [
        {
            "role": role,
            "workers": pool.workers,
            "gpus": pool.gpus,
            "hardware": pool.hardware or point.hardware,
            "parallelism": _parallelism(pool.parallelism),
        }
        for role, pool in pools_of(point.multi_node)
    ]


def deployment_shell(plan: LaunchPlan, point: Point, site: Mapping[str, str]) -> Iterator[str]:
    """Comments and commands to paste, each on its own node: side processes, workers, router."""
    yield comment(f"{point.deployment}, {point.gpus} GPUs")
    if plan.external is not None:
        yield from map(comment, _external_lines(plan, point))
        return
    # On a node of its own a worker may have the same port as all the others.
    site = {f"{each.name}_port": site["port"] for each in plan.launches} | dict(site)
    hosts = {each.name: each for each in plan.launches}
    for process in plan.side:
        yield ""
        yield comment(f"{process.name}, beside {process.beside}, before any of the following")
        yield command(process.env, process.argv, _own(site, hosts[process.beside or ""]))
    for each in plan.launches:
        yield ""
        node = f", node {each.node_rank} of {each.nodes}" if each.nodes > 1 else ""
        gpus = f"{each.gpus} GPUs of {each.hardware}" if each.gpus else "no GPU"
        yield comment(f"{each.name}: {each.role} {each.index}{node}, {gpus}; image: {each.image}")
        own = _own(site, each)
        for name, text in each.files.items():
            yield from file_lines(name, text, own)
        yield command(each.env, each.argv, own)


def _external_lines(plan: LaunchPlan, point: Point) -> Iterator[str]:
    assert plan.external is not None
    yield note(plan)
    if plan.external.sha256 is not None:
        yield f"SHA-256: {plan.external.sha256}"
    for role in roles_of(point):
        yield f"{role['role']}: {role['workers']} workers, {role['gpus']} GPUs"
    yield from (f"client.{name}: {value}" for name, value in asdict(plan.client).items())
    yield from (f"workload.{name}: {value}" for name, value in asdict(plan.workload).items())


def comment(text: str) -> str:
    """A line that a shell passes over, whatever the text holds."""
    shown = (each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
    return f"# {''.join(shown)}"


def side_lines(plan: LaunchPlan, site: Mapping[str, str]) -> Iterator[str]:
    """The side processes of an engine on one node."""
    for process in plan.side:
        yield comment(f"{process.name}, before the engine")
        yield command(process.env, process.argv, site)


def file_lines(name: str, text: str, site: Mapping[str, str]) -> Iterator[str]:
    """A file into the working directory."""
    filled, end = fill_text(text, site), "END"
    while end in filled.splitlines():
        end += "_"
    yield f"cat > {shlex.quote(name)} <<'{end}'"
    yield filled
    yield end


def command(env: Mapping[str, str], argv: Sequence[str], site: Mapping[str, str]) -> str:
    """Variables and quoted words, a flag and its value a line."""
    text = ""
    for word in argv:
        quoted = shlex.quote(fill_text(word, site))
        text += f" \\\n  {quoted}" if word.startswith("--") else f" {quoted}"
    exports = (f"{name}={shlex.quote(fill_text(value, site))}" for name, value in env.items())
    return " \\\n  ".join((*exports, text.removeprefix(" ")))


def _own(site: Mapping[str, str], launch: RoleLaunch) -> dict[str, str]:
    """The site as one launch sees it: its own host and port under their short names."""
    named = {}
    for what in ("host", "port"):
        if (value := site.get(f"{launch.name}_{what}")) is not None:
            named[what] = value
    return {**site, **named}


def _launch(launch: RoleLaunch) -> dict[str, Any]:
    spread = launch.parallelism
    return {
        "name": launch.name,
        "role": launch.role,
        "index": launch.index,
        "nodes": launch.nodes,
        "node_rank": launch.node_rank,
        "gpus": launch.gpus,
        "hardware": launch.hardware,
        "parallelism": None if spread is None else _parallelism(spread),
        "kv_transfer": launch.kv_transfer,
        "image": launch.image,
        "argv": list(launch.argv),
        "env": dict(launch.env),
        "files": {name: content(text) for name, text in launch.files.items()},
    }


def content(text: str) -> Any:
    """JSON by its content, other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _parallelism(spread: Parallelism) -> dict[str, Any]:
    return asdict(spread)


def _side(process: SideProcess) -> dict[str, Any]:
    data = {"name": process.name, "argv": list(process.argv), "env": dict(process.env)}
    return data if process.beside is None else data | {"beside": process.beside}
