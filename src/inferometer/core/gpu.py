"""GPUs as they are watched: what they are, one reading of one, and what was watched in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

PowerField = Literal["instant", "averaged"]
"""Whether a card's power is that of the moment or a mean over about the last second."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the machine. None where the driver does not say."""

    uuid: str
    index: int
    name: str
    memory_bytes: int | None
    power_limit_w: float | None
    sm_clock_max_mhz: float | None = None
    split: bool | None = None
    """Divided into instances (MIG): its board power is of all of them."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One moment of one GPU; `at_ns` of CLOCK_MONOTONIC. None where the card does not tell.

    `power_w` is board power: the card with its memory, without host, network or cooling.
    `energy_j` counts up from an arbitrary start. `processes` are operating-system process ids.
    """

    at_ns: int
    uuid: str
    power_w: float | None
    energy_j: float | None
    temperature_c: float | None
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    utilization: float | None
    """Share of time with a kernel running, 0..1."""
    memory_used_bytes: float | None
    throttle: int | None
    """Bits of `Throttle`."""
    processes: tuple[int, ...] | None


class Throttle:
    """Why a clock is held down, as bits; other reasons of a driver are not kept."""

    POWER = 1
    """At its power limit: normal at full load."""
    THERMAL = 2
    """Too hot: the card is slower than it was built to be."""
    HARDWARE = 4
    """Slowed by hardware: an external brake, or the power supply."""


@dataclass(frozen=True, slots=True)
class GpuReport:
    """What was watched of the GPUs during a run, and which of them were the deployment."""

    source: str | None
    """`nvml`, `nvidia-smi`, `amd-smi`; None where no GPU could be watched, and `problem` says why.
    """
    driver: str | None
    power_field: PowerField | None
    interval_s: float
    gpus: tuple[Gpu, ...]
    deployment: tuple[str, ...]
    """UUIDs of the GPUs that the engine used."""
    chosen_by: str | None
    """How the deployment was told apart: `processes`, `memory`, `all`."""
    problem: str | None


@dataclass(frozen=True, slots=True)
class GpuRelease:
    """Memory of the machine's GPUs around an engine that was started here, bytes by UUID."""

    before_bytes: Mapping[str, float]
    """In use before it was started, whoever has it."""
    held_bytes: Mapping[str, float]
    """More than before, still in use when `waited_s` had passed since its end; empty: all is free
    again."""
    waited_s: float
    processes: Mapping[str, tuple[int, ...]]
    """On the GPUs of `held_bytes`, where the driver tells."""

    def told(self) -> str | None:
        """What is still held, in words; None where nothing is."""
        if not self.held_bytes:
            return None
        cards = [
            f"{held / 1e9:.1f} GB of {uuid}{_by(self.processes.get(uuid, ()))}"
            for uuid, held in self.held_bytes.items()
        ]
        return f"{self.waited_s:.0f} s after the engine's end {', '.join(cards)} are not free again"


def _by(pids: tuple[int, ...]) -> str:
    return f" (processes {', '.join(map(str, pids))})" if pids else ""
