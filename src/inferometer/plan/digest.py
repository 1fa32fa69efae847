"""A point's identity by everything that can move its numbers, and by nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import orjson

from inferometer import MEASUREMENT_VERSION
from inferometer.core import LaunchPlan, Point


def digest(point: Point, plan: LaunchPlan) -> str:
    """SHA-256, in hex, over the canonical JSON (sorted keys, no whitespace) of point and plan.

    Left out: the config key's name and the origins of values, which move no number. Put in: the
    measurement version, and through the workload the replay rules and the digest of its data.
    """
    content = {
        "measurement_version": MEASUREMENT_VERSION,
        "point": {**_plain(point, without="config"), "scenario": point.scenario.label},
        "plan": {
            **_plain(plan, without="origins"),
            "client": dataclasses.asdict(plan.client),
            "workload": dataclasses.asdict(plan.workload),
        },
    }
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _plain(value: Point | LaunchPlan, without: str) -> dict[str, Any]:
    """Fields by name. orjson writes dataclasses below the top by itself; mappings must be dicts."""
    content = {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        if field.name != without
    }
    for name in ("env", "files"):
        if name in content:
            content[name] = dict(content[name])
    return content
