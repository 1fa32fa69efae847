"""What passes between the process that runs a sweep and the one that carries its load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from inferometer.core import ClientReport
from inferometer.errors import InferometerError
from inferometer.load.progress import Progress
from inferometer.run.job import Job
from inferometer.workload import PromptRules


@dataclass(frozen=True, slots=True)
class Order:
    """One load to carry: the point, where its engine answers, and where its records go."""

    job: Job
    base_url: str
    model: str
    max_model_len: int | None
    """The plan's context limit, else what the engine itself says; a longer turn is not sent."""
    folder: Path
    prompts: PromptRules
    headers: Mapping[str, str]
    workers: int | None
    """As in `Sweep`."""
    pool_tokens: int | None = None
    """What the engine's KV pool holds, where it says so."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The load could not be carried: a mistake in the input, or a full disk."""

    error: InferometerError


@dataclass(frozen=True, slots=True)
class Sound:
    """The data of a workload can be used."""


Message = Progress | ClientReport | Failed
