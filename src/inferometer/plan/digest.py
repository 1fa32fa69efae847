"""A point's identity by everything that can move its numbers, and by nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
from functools import lru_cache
from typing import Any

import orjson

from inferometer import MEASUREMENT_VERSION
from inferometer.core import LaunchPlan, Point


def digest(point: Point, plan: LaunchPlan) -> str:
    """SHA-256, in hex, over the canonical JSON (sorted keys, no whitespace) of point and plan.

    Left out: the config key's name and the origins of values, which move no number. Put in: the
    measurement version, and through the workload the replay rules and the digest of its data.
    """
    identity = _plain(point)
    del identity["config"]
    if point.multi_node is None:
        # A field that only other points have must not change the digest of these.
        del identity["multi_node"]
    workload = _plain(plan.workload)
    if plan.workload.sessions_digest is not None:
        # The data counts, not where this machine keeps it.
        workload["sessions"] = None
    content = {
        "measurement_version": MEASUREMENT_VERSION,
        "point": identity,
        "plan": {
            "image": plan.image,
            "argv": plan.argv,
            "env": dict(plan.env),
            "files": dict(plan.files),
            "router": _plain(plan.router) if plan.router else None,
            "client": _plain(plan.client),
            "workload": workload,
        },
    }
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _plain(value: Any) -> Any:
    """`dataclasses.asdict` without its copies: the result is only written out."""
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _names(value.__class__)}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value


@lru_cache(maxsize=64)
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
