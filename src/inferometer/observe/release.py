"""Whether GPUs give back what an engine took of them, before the next one starts.

A driver frees memory some time after the process that had it is gone, and a worker that outlives
its engine never does. Bytes by GPU; of a machine whose GPUs cannot be read nothing is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from inferometer.core import GpuReading, GpuRelease
from inferometer.observe.gpus import GROWN_BYTES, GpuSource, open_source

RELEASE_S = 120.0
"""Hundreds of gigabytes of pinned host memory take a driver about a minute to let go of."""
INTERVAL_S = 0.5
FIRST_READING_S = 5.0
"""A vendor's command takes a second or two until it prints its first line."""


class Release:
    """Made before an engine starts, `wait` when it has ended. `now` and `sleep` in seconds."""

    def __init__(
        self,
        opener: Callable[[], GpuSource] = open_source,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._opener = opener
        self._now = now
        self._sleep = sleep
        self._before: Mapping[str, float] | None = None
        try:
            source = opener()
        except OSError:
            return
        try:
            self._before = _memory(self._readings(source))
        finally:
            source.close()

    def wait(
        self, tick: Callable[[], bool] = lambda: False, deadline_s: float = RELEASE_S
    ) -> GpuRelease | None:
        """Until every GPU holds what it did before, and GROWN_BYTES more at the most; `tick` is
        called between readings and says whether nobody waits any more. None without GPUs.
        """
        if not self._before:
            return None
        began_s = self._now()
        try:
            source = self._opener()
        except OSError:
            return None
        try:
            while True:
                found = self._readings(source)
                held = _grown(self._before, _memory(found))
                waited_s = self._now() - began_s
                if not held or waited_s >= deadline_s or tick():
                    users = {uuid: found[uuid].processes or () for uuid in held}
                    return GpuRelease(self._before, held, waited_s, users)
                self._sleep(INTERVAL_S)
        finally:
            source.close()

    def _readings(self, source: GpuSource) -> dict[str, GpuReading]:
        """The latest of each GPU."""
        found: dict[str, GpuReading] = {}
        wanted, end_s = len(source.gpus()), self._now() + FIRST_READING_S
        while True:
            found |= {reading.uuid: reading for reading in source.read()}
            if len(found) >= wanted or self._now() >= end_s:
                return found
            self._sleep(INTERVAL_S / 5)


def _memory(readings: Mapping[str, GpuReading]) -> dict[str, float]:
    return {
        uuid: reading.memory_used_bytes
        for uuid, reading in readings.items()
        if reading.memory_used_bytes is not None
    }


def _grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    more = {uuid: after[uuid] - held for uuid, held in before.items() if uuid in after}
    return {uuid: bytes_ for uuid, bytes_ in more.items() if bytes_ > GROWN_BYTES}
