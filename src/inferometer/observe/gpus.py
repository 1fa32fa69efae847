"""Watches the GPUs of this machine while a point is measured: power, clocks, memory, and who uses
them. Runs in a thread of the composing process, never in one that carries load.

NVML where it is, else `nvidia-smi`, else `amd-smi`. A machine without any says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from inferometer.core import Gpu, GpuReading, GpuReport, PowerField, Sample
from inferometer.observe.nvml import NvmlSource
from inferometer.observe.smi import amd_smi, nvidia_smi

INTERVAL_S = 0.5
"""A card renews its power every 20 to 100 ms; half a second is a sixth of the gap that energy
allows, and costs a fraction of a percent of a core.
"""
GROWN_BYTES = 256 * (1 << 20)
"""A process that computes on a GPU holds a context of some hundred MiB there."""
SERIES = (
    "power_w",
    "energy_j",
    "temperature_c",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "utilization",
    "memory_used_bytes",
    "throttle",
)


class GpuSource(Protocol):
    """Where readings come from."""

    name: str
    driver: str | None
    power_field: PowerField

    def gpus(self) -> tuple[Gpu, ...]:
        """Every GPU of the machine."""
        ...

    def read(self) -> list[GpuReading]:
        """What is new since the last call."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


def open_source(interval_s: float = INTERVAL_S) -> GpuSource:
    """The best source of this machine. Raises OSError that says why there is none."""
    causes = []
    openers: tuple[Callable[[], GpuSource], ...] = (
        NvmlSource,
        lambda: nvidia_smi(interval_s),
        lambda: amd_smi(interval_s),
    )
    for opener in openers:
        try:
            return opener()
        except OSError as error:
            causes.append(str(error))
    raise OSError("; ".join(causes))


class GpuWatcher:
    """Readings from before the engine starts until after the load; `samples` holds the series."""

    def __init__(
        self, opener: Callable[[], GpuSource] = open_source, interval_s: float = INTERVAL_S
    ) -> None:
        self.samples: list[Sample] = []
        self.problem: str | None = None
        self._interval_s = interval_s
        self._source: GpuSource | None = None
        self._gpus: tuple[Gpu, ...] = ()
        self._memory_before: dict[str, float] = {}
        self._last: dict[str, GpuReading] = {}
        self._deployment: tuple[str, ...] = ()
        self._chosen_by: str | None = None
        self._own: frozenset[int] = frozenset()
        self._strangers: set[int] = set()
        self._family: Callable[[], frozenset[int]] = frozenset
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpus", daemon=True)
        try:
            self._source = opener()
        except OSError as error:
            self.problem = str(error)

    def start(self) -> None:
        """Begin, before the engine does: what is used now is not the engine's."""
        if self._source is None:
            return
        self._gpus = self._source.gpus()
        self._take()
        self._memory_before = _memory(self._last.values())
        self._thread.start()

    def engine_is_up(self, count: int, own: Callable[[], frozenset[int]]) -> None:
        """Tell apart the `count` GPUs of the deployment; `own` gives the engine's processes, those
        that came later included.
        """
        if self._source is None:
            return
        self._family = own
        self._own = own()
        self._deployment, self._chosen_by = deployment_of(
            self._gpus, self._last, self._memory_before, self._own, count
        )
        if self._chosen_by is None:
            there = len(self._gpus)
            self.problem = (
                f"the deployment has {count} GPUs, and this machine shows {there}"
                if count > there
                else f"cannot tell which {count} of the {there} GPUs are the deployment's"
            )

    def stop(self) -> None:
        """One more reading, so that the window is bracketed, then end."""
        if self._source is None:
            return
        self._stop.set()
        self._thread.join()
        self._take()
        self._source.close()

    def report(self) -> GpuReport:
        """What was watched."""
        source = self._source
        return GpuReport(
            source=None if source is None else source.name,
            driver=None if source is None else source.driver,
            power_field=None if source is None else source.power_field,
            interval_s=self._interval_s,
            gpus=self._gpus,
            deployment=self._deployment,
            chosen_by=self._chosen_by,
            problem=self.problem,
        )

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._take()

    def _take(self) -> None:
        assert self._source is not None
        for reading in self._source.read():
            self._last[reading.uuid] = reading
            self.samples += samples_of(reading, self._known(reading))

    def _known(self, reading: GpuReading) -> frozenset[int] | None:
        """The engine's processes, where a stranger can be told from one of them.

        Not where the deployment was told by memory: a driver may give ids of another namespace, and
        then every process is a stranger's.
        """
        if self._chosen_by != "processes":
            return None
        new = set(reading.processes or ()) - self._own - self._strangers
        if new:
            self._own |= self._family()
            self._strangers |= new - self._own
        return self._own


def samples_of(reading: GpuReading, own: frozenset[int] | None) -> list[Sample]:
    """A reading as samples `gpu.…`, labelled with the GPU; what the card does not tell is absent.

    `gpu.other_processes` counts those on the card that are not `own`, once it is known whose are.
    """
    found = [
        Sample(reading.at_ns, f"gpu.{name}", reading.uuid, float(value))
        for name in SERIES
        if (value := getattr(reading, name)) is not None
    ]
    if own and reading.processes is not None:
        others = float(len(set(reading.processes) - own))
        found.append(Sample(reading.at_ns, "gpu.other_processes", reading.uuid, others))
    return found


def deployment_of(
    gpus: Sequence[Gpu],
    readings: Mapping[str, GpuReading],
    memory_before: Mapping[str, float],
    own: frozenset[int],
    count: int,
) -> tuple[tuple[str, ...], str | None]:
    """UUIDs of the `count` GPUs that an engine uses, and what told them apart; none if unsure.

    By its processes on them; else (a driver that shows no process, or ids of another namespace) by
    memory taken since before it started; else, where there are no more GPUs than that, all.
    """
    order = [gpu.uuid for gpu in gpus]
    by_process = [u for u in order if u in readings and own & set(readings[u].processes or ())]
    after = _memory(readings.values())
    grown = [
        u
        for u in order
        if u in after and u in memory_before and after[u] - memory_before[u] > GROWN_BYTES
    ]
    for found, how in ((by_process, "processes"), (grown, "memory"), (order, "all")):
        if found and len(found) == count:
            return tuple(found), how
    return (), None


def _memory(readings: Iterable[GpuReading]) -> dict[str, float]:
    return {r.uuid: r.memory_used_bytes for r in readings if r.memory_used_bytes is not None}
