"""A point's identity by everything that can move its numbers, and by nothing else."""

from __future__ import annotations

import dataclasses
import hashlib

import orjson

from inferometer import MEASUREMENT_VERSION
from inferometer.core import LaunchPlan, Point


def digest(point: Point, plan: LaunchPlan) -> str:
    """SHA-256, in hex, over the canonical JSON (sorted keys, no whitespace) of point and plan.

    Left out: the config key's name and the origins of values, which move no number. Put in: the
    measurement version, and through the workload the replay rules and the digest of its data.
    """
    identity = dataclasses.asdict(point)
    del identity["config"]
    if point.multi_node is None:
        # A field that only other points have must not change the digest of these.
        del identity["multi_node"]
    workload = dataclasses.asdict(plan.workload)
    if plan.workload.sessions_digest is not None:
        # The data counts, not where this machine keeps it.
        workload["sessions"] = None
    if plan.workload.tokenizer_digest is not None:
        workload["tokenizer"] = None
    content = {
        "measurement_version": MEASUREMENT_VERSION,
        "point": identity,
        "plan": {
            "image": plan.image,
            "argv": plan.argv,
            "env": dict(plan.env),
            "files": dict(plan.files),
            "router": dataclasses.asdict(plan.router) if plan.router else None,
            "client": dataclasses.asdict(plan.client),
            "workload": workload,
        },
    }
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
