"""What is known of an engine that was started for its point: is it the version that the plan names,
and did it find its GPUs free.
"""

from __future__ import annotations

import re

from inferometer.core import GpuRelease, GpuReport
from inferometer.plan.flagversion import image_version

_PUBLIC = re.compile(r"v?(\d+(?:\.\d+)*)(?:[.-]?((?:rc|a|b|post)\d+))?", re.IGNORECASE)
"""A version without what a build adds to it: `0.26.0+cu129`, `0.26.0.dev3+gabc`."""


def version_problem(image: str, framework: str, said: str | None) -> str | None:
    """How the version that an engine tells differs from the one that the plan's image names.

    None where they agree, where the image names none or a build between versions, and where the
    engine does not tell.
    """
    named = image_version(image, framework)
    if said is None or named.version is None or named.between:
        return None
    if _same(named.version, said):
        return None
    return (
        f"the plan's image names {framework} {named.version}, and the engine says it is {said}: "
        "what was measured is another engine"
    )


def _same(named: str, said: str) -> bool:
    ours, theirs = _PUBLIC.match(named), _PUBLIC.match(said.strip())
    if ours is None or theirs is None:
        # Some engines tell a commit or a build number, which no tag can be held against.
        return True
    length = min(len(ours[1].split(".")), len(theirs[1].split(".")))
    if length < 2:
        return True
    numbers = [found[1].split(".")[:length] for found in (ours, theirs)]
    return numbers[0] == numbers[1] and (ours[2] or "").lower() == (theirs[2] or "").lower()


def gpu_held_share(release: GpuRelease | None, gpus: GpuReport | None) -> float | None:
    """The greatest share of a deployment's GPU whose memory was in use before its engine started.

    None where no engine was started here, or the deployment's GPUs are not known.
    """
    if release is None or gpus is None:
        return None
    shares = [
        release.before_bytes[gpu.uuid] / gpu.memory_bytes
        for gpu in gpus.gpus
        if gpu.uuid in gpus.deployment and gpu.memory_bytes and gpu.uuid in release.before_bytes
    ]
    return max(shares) if shares else None
