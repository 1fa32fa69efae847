"""What passes between the process that runs a sweep and the one that carries its load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from inferometer.core import ClientReport, WorkloadSettings
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
class Coming:
    """An order that will come, as far as it is known: what takes time is done meanwhile."""

    workers: int
    sessions: str | None
    """As in the workload settings."""
    seed: int


@dataclass(frozen=True, slots=True)
class Check:
    """A question: can the data of a workload be used, with a model of that context limit?"""

    settings: WorkloadSettings
    limit: int | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The load could not be carried: a mistake in the input, or a full disk."""

    error: InferometerError


@dataclass(frozen=True, slots=True)
class Sound:
    """The data of a workload can be used. `told`: what a person should know of it, in lines."""

    told: tuple[str, ...]


Message = Progress | ClientReport | Failed
