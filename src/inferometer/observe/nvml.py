"""NVIDIA GPUs through the driver's own library (NVML), by the `pynvml` binding."""

from __future__ import annotations

import ctypes
import sys
import time
from typing import TYPE_CHECKING, Any

from inferometer.core import Gpu, GpuReading, PowerField, Throttle
from inferometer.deferred import Deferred

if TYPE_CHECKING:
    import pynvml
else:
    pynvml = Deferred("pynvml")  # large, and of no use where there is no driver

POWER_INSTANT = 186
"""NVML_FI_DEV_POWER_INSTANT: newer drivers tell the power of the moment beside the averaged one."""
THROTTLE_BITS = {
    0x04: Throttle.POWER,  # software power cap
    0x80: Throttle.HARDWARE | Throttle.POWER,  # hardware power brake
    0x20: Throttle.THERMAL,  # software thermal slowdown
    0x40: Throttle.THERMAL,  # hardware thermal slowdown
    0x08: Throttle.HARDWARE,  # hardware slowdown, cause unsaid
}
"""Bits of the clock event reasons in nvml.h."""
MILLI = 1e-3
TEMPERATURE_GPU, CLOCK_SM, CLOCK_MEMORY = 0, 1, 2


class NvmlSource:
    """Reads every GPU that the driver shows. Raises OSError where there is no driver or no GPU.

    `nvml` is the binding: another object of the same functions stands in for a card in tests.
    """

    name = "nvml"

    def __init__(self, nvml: Any = pynvml) -> None:
        self._nvml = nvml
        if nvml is pynvml:
            _find_driver()
        try:
            nvml.nvmlInit()
            count = nvml.nvmlDeviceGetCount()
            self._cards = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
            self._uuids = [_text(nvml.nvmlDeviceGetUUID(card)) for card in self._cards]
        except nvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from None
        if not self._cards:
            raise OSError("NVML: the driver shows no GPU")
        self.driver: str | None = _text(self._ask("nvmlSystemGetDriverVersion"))
        instant = self._instant_w(self._cards[0]) is not None
        self.power_field: PowerField = "instant" if instant else "averaged"

    def gpus(self) -> tuple[Gpu, ...]:
        """Every GPU, in the driver's order."""
        return tuple(
            Gpu(
                uuid=uuid,
                index=index,
                name=_text(self._ask("nvmlDeviceGetName", card)) or "unknown",
                memory_bytes=getattr(self._ask("nvmlDeviceGetMemoryInfo", card), "total", None),
                power_limit_w=_scaled(self._ask("nvmlDeviceGetEnforcedPowerLimit", card), MILLI),
                sm_clock_max_mhz=_scaled(self._ask("nvmlDeviceGetMaxClockInfo", card, CLOCK_SM), 1),
                split=self._split(card),
            )
            for index, (card, uuid) in enumerate(zip(self._cards, self._uuids, strict=True))
        )

    def read(self) -> list[GpuReading]:
        """One reading a GPU."""
        return [self._reading(c, u) for c, u in zip(self._cards, self._uuids, strict=True)]

    def close(self) -> None:
        """Let go of the library."""
        self._ask("nvmlShutdown")

    def _reading(self, card: Any, uuid: str) -> GpuReading:
        at_ns = time.monotonic_ns()
        if self.power_field == "instant":
            power_w = self._instant_w(card)
        else:
            power_w = _scaled(self._ask("nvmlDeviceGetPowerUsage", card), MILLI)
        busy = self._ask("nvmlDeviceGetUtilizationRates", card)
        users = self._ask("nvmlDeviceGetComputeRunningProcesses", card)
        return GpuReading(
            at_ns=at_ns,
            uuid=uuid,
            power_w=power_w,
            energy_j=_scaled(self._ask("nvmlDeviceGetTotalEnergyConsumption", card), MILLI),
            temperature_c=_scaled(self._ask("nvmlDeviceGetTemperature", card, TEMPERATURE_GPU), 1),
            sm_clock_mhz=_scaled(self._ask("nvmlDeviceGetClockInfo", card, CLOCK_SM), 1),
            memory_clock_mhz=_scaled(self._ask("nvmlDeviceGetClockInfo", card, CLOCK_MEMORY), 1),
            utilization=_scaled(getattr(busy, "gpu", None), 0.01),
            memory_used_bytes=_scaled(
                getattr(self._ask("nvmlDeviceGetMemoryInfo", card), "used", None), 1
            ),
            throttle=throttle_of(self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", card)),
            processes=None if users is None else tuple(user.pid for user in users),
        )

    def _split(self, card: Any) -> bool | None:
        modes = self._ask("nvmlDeviceGetMigMode", card)  # now, and after the next reset
        return None if modes is None else bool(modes[0])

    def _instant_w(self, card: Any) -> float | None:
        values = self._ask("nvmlDeviceGetFieldValues", card, [POWER_INSTANT])
        if not values or values[0].nvmlReturn != 0:
            return None
        return float(values[0].value.uiVal) * MILLI

    def _ask(self, function: str, *arguments: Any) -> Any:
        """An answer of the library; None where this card or driver has none."""
        try:
            return getattr(self._nvml, function)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None


def throttle_of(reasons: int | None) -> int | None:
    """Bits of `Throttle`, of NVML's clock event reasons."""
    if reasons is None:
        return None
    found = 0
    for bit, meaning in THROTTLE_BITS.items():
        if reasons & bit:
            found |= meaning
    return found


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _text(value: str | bytes | None) -> str:
    """Older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else (value or "")


def _find_driver() -> None:
    """Raises OSError where the library that the binding opens is not there."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL("libnvidia-ml.so.1")
