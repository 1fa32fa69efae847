"""A point's identity by everything that can move its numbers, and by nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import orjson

from inferometer import MEASUREMENT_VERSION
from inferometer.core import LaunchPlan, Point, WorkloadSettings
from inferometer.plan.additional import settings_of

LATER: Mapping[str, object] = {"keep_alive_s": 4.0}
"""Client settings that were constants once, with the values that they had: the same experiment has
the digest that it had then.
"""

BEFORE = {
    field.name: field.default
    for field in dataclasses.fields(WorkloadSettings)
    if field.default is not dataclasses.MISSING
}
"""Workload settings that came later, with what a plan from before them had: likewise."""


def digest(point: Point, plan: LaunchPlan) -> str:
    """SHA-256, in hex, over the canonical JSON (sorted keys, no whitespace) of point and plan.

    Left out: the config key's name, the origins of values, the order of flags, and the Slurm
    partition, which move no number. Put in: the measurement version, and through the workload the
    replay rules and the digest of its data. What only some plans have (launches, side processes,
    files elsewhere, settings of a deployment) is there only where they have it.
    """
    held = _plain(
        {
            "point": point,
            "client": plan.client,
            "workload": plan.workload,
            "router": plan.router,
            "side": plan.side,
            "launches": plan.launches,
            "external": plan.external,
            "settings": plan.settings,
        }
    )
    for process in (held["router"], *held["side"], *held["launches"]):
        if process is not None:
            process["argv"] = _unordered(process["argv"])
    workload, client = held["workload"], held["client"]
    for name, value in BEFORE.items():
        # A field that only other points change must not change the digest of these.
        if workload[name] == value:
            del workload[name]
    if plan.workload.sessions_digest is not None:
        # The data counts, not where this machine keeps it.
        workload["sessions"] = None
    if plan.workload.tokenizer_digest is not None:
        workload["tokenizer"] = None
    for name, value in LATER.items():
        if client[name] == value:
            del client[name]
    resolved = {
        "image": plan.image,
        "argv": _unordered(plan.argv),
        "env": dict(plan.env),
        "files": dict(plan.files),
        "router": held["router"],
        "client": client,
        "workload": workload,
    }
    some = {
        "side": held["side"],
        "launches": held["launches"],
        "external": held["external"],
        "settings": _moving(held["settings"]),
        "require_power": plan.require_power,
    }
    content = {
        "measurement_version": MEASUREMENT_VERSION,
        "point": _identity(point, held["point"]),
        "plan": resolved | {name: value for name, value in some.items() if value not in (None, [])},
    }
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _identity(point: Point, identity: dict[str, Any]) -> dict[str, Any]:
    """The point by what it says, whatever its config is called."""
    del identity["config"]
    # What sessions are called moves nothing: their settings and data are in the plan.
    identity["scenario"].pop("family", None)
    if point.require_power is None:
        del identity["require_power"]
    if point.multi_node is None:
        # A field that only other points have must not change the digest of these.
        del identity["multi_node"]
        return identity
    # By what the settings come to: their order, and which role they are written at, is spelling.
    for role in ("prefill", "decode"):
        del identity["multi_node"][role]["settings"]
    identity["multi_node"]["settings"] = _moving(_plain(settings_of(point.multi_node)))
    return identity


def _unordered(argv: Sequence[str]) -> list[str]:
    """The words before the first flag, then flags by name, each with its values. One that is
    repeated keeps its order: the last of it may be the one that holds.
    """
    groups: list[list[str]] = [[]]
    for word in argv:
        if word[:1] == "-" and not word[1:2].isdigit():
            groups.append([word])
        else:
            groups[-1].append(word)
    command, *flags = groups
    flags.sort(key=itemgetter(0))
    return [*command, *chain.from_iterable(flags)]


def _moving(settings: Any) -> Any:
    """A deployment's settings without the one that moves no number."""
    if isinstance(settings, dict):
        settings.pop("slurm_partition", None)
    return settings


def _plain(value: Any) -> Any:
    """As JSON has it: fields as keys, tuples as lists."""
    return orjson.loads(orjson.dumps(value))
