"""Readings of GPUs from each source, which are the deployment's, and what becomes a sample."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from inferometer.core import Gpu, GpuReading, PowerField, Throttle
from inferometer.observe.gpus import GpuWatcher, deployment_of, samples_of
from inferometer.observe.nvml import NvmlSource, throttle_of
from inferometer.observe.smi import (
    SmiSource,
    amd_gpus,
    amd_reading,
    nvidia_reading,
    nvidia_smi,
    table,
)

GIB = 1 << 30

NVIDIA_HEADER = (
    "uuid, power.draw [W], temperature.gpu, clocks.current.sm [MHz], clocks.current.memory [MHz], "
    "utilization.gpu [%], memory.used [MiB], clocks_event_reasons.active"
)
NVIDIA_ROW = "GPU-a, 431.27, 58, 1965, 3201, 97, 1024, 0x0000000000000004"
AMD_METRIC = """timestamp,gpu,gfx_activity,umc_activity,socket_power,throttle_status,gfx_0_clk,\
gfx_1_clk,mem_0_clk,edge,hotspot,mem,total_energy_consumption,total_vram,used_vram
1790000000,0,98,41,1013,UNTHROTTLED,2104,2099,1900,N/A,71,52,123456.789,294896,1024
1790000000,1,3,0,231,THROTTLED,132,N/A,900,N/A,44,40,9876.5,294896,283
"""
AMD_LIST = """gpu,gpu_bdf,gpu_uuid,kfd_id
0,0000:05:00.0,aaff75a0-0000-1000-80e9-000000000000,1
1,0000:15:00.0,bbff75a0-0000-1000-80e9-000000000000,2
"""
AMD_STATIC = """gpu,market_name,vendor_id
0,AMD Instinct MI355X,0x1002
1,AMD Instinct MI355X,0x1002
"""


class NVMLError(Exception):
    """What the binding raises."""


class FakeNvml:
    """Two cards behind the functions of the binding that are used; the second tells little."""

    NVMLError = NVMLError

    def __init__(self, cards: int = 2, instant: bool = True) -> None:
        self.cards = cards
        self.instant = instant
        self.shut = False

    def __getattr__(self, name: str) -> Any:
        def unsupported(*_: object) -> Any:
            raise NVMLError(f"{name}: not supported")

        return unsupported

    def nvmlInit(self) -> None:
        return None

    def nvmlShutdown(self) -> None:
        self.shut = True

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.1"

    def nvmlDeviceGetCount(self) -> int:
        return self.cards

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, card: int) -> str:
        return f"GPU-{card}"

    def nvmlDeviceGetPowerUsage(self, card: int) -> int:
        return 100_000 + card

    def nvmlDeviceGetTotalEnergyConsumption(self, card: int) -> int:
        if card:
            raise NVMLError("not supported")
        return 5_000

    def nvmlDeviceGetFieldValues(self, card: int, fields: list[int]) -> list[Any]:
        assert fields == [186]
        value = SimpleNamespace(uiVal=700_000 + card)
        return [SimpleNamespace(nvmlReturn=0 if self.instant else 3, value=value)]

    def nvmlDeviceGetComputeRunningProcesses(self, card: int) -> list[Any]:
        return [SimpleNamespace(pid=40 + card)]


def test_nvml_reads_watts_joules_and_processes_and_null_is_not_zero() -> None:
    source = NvmlSource(FakeNvml())
    first, second = source.read()
    assert (source.name, source.driver, source.power_field) == ("nvml", "580.1", "instant")
    assert (first.uuid, first.power_w, first.energy_j, first.processes) == (
        "GPU-0",
        700.0,
        5.0,
        (40,),
    )
    assert (second.power_w, second.energy_j, second.temperature_c) == (700.001, None, None)


def test_nvml_says_when_power_is_an_average() -> None:
    source = NvmlSource(FakeNvml(instant=False))
    assert source.power_field == "averaged"
    assert source.read()[0].power_w == 100.0


def test_nvml_without_a_card_is_an_error_that_says_so() -> None:
    with pytest.raises(OSError, match="shows no GPU"):
        NvmlSource(FakeNvml(cards=0))


@pytest.mark.parametrize(
    ("reasons", "meaning"),
    [
        (0x0, 0),
        (0x1, 0),  # idle
        (0x4, Throttle.POWER),
        (0x20 | 0x4, Throttle.THERMAL | Throttle.POWER),
        (0x40, Throttle.THERMAL),
        (0x8, Throttle.HARDWARE),
        (None, None),
    ],
)
def test_clock_event_reasons(reasons: int | None, meaning: int | None) -> None:
    assert throttle_of(reasons) == meaning


def test_a_row_of_nvidia_smi() -> None:
    row = table(f"{NVIDIA_HEADER}\n{NVIDIA_ROW}")[0]
    assert nvidia_reading(row, 7) == GpuReading(
        at_ns=7,
        uuid="GPU-a",
        power_w=431.27,
        energy_j=None,
        temperature_c=58.0,
        sm_clock_mhz=1965.0,
        memory_clock_mhz=3201.0,
        utilization=0.97,
        memory_used_bytes=GIB,
        throttle=Throttle.POWER,
        processes=None,
    )


def test_what_nvidia_smi_does_not_know_is_null() -> None:
    row = table(f"{NVIDIA_HEADER}\nGPU-a, [N/A], N/A, [Not Supported], , -, [Unknown Error], N/A")[
        0
    ]
    reading = nvidia_reading(row, 7)
    assert reading is not None
    assert (reading.power_w, reading.sm_clock_mhz, reading.throttle) == (None, None, None)


def test_nvidia_smi_is_followed_line_by_line(tmp_path: Any, monkeypatch: Any) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        '*driver_version*) echo "uuid, index, name, memory.total [MiB], power.limit [W], '
        'driver_version"; echo "GPU-a, 0, NVIDIA H200, 143771, 700.00, 580.1" ;;\n'
        f'*) echo "{NVIDIA_HEADER}"; echo "{NVIDIA_ROW}"; echo "cut, off"; exec sleep 600 ;;\n'
        "esac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    source = nvidia_smi(0.5)
    try:
        readings: list[GpuReading] = []
        end_s = time.monotonic() + 30
        while not readings and time.monotonic() < end_s:
            readings += source.read()
    finally:
        source.close()
    assert source.gpus() == (Gpu("GPU-a", 0, "NVIDIA H200", 143771 << 20, 700.0),)
    assert [reading.power_w for reading in readings] == [431.27]


def test_a_tool_that_is_absent_says_so(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="nvidia-smi: not found"):
        nvidia_smi(0.5)


def test_rows_of_amd_smi() -> None:
    gpus = amd_gpus(table(AMD_LIST), table(AMD_STATIC))
    uuids = {str(gpu.index): gpu.uuid for gpu in gpus}
    first, second = (amd_reading(row, 9, uuids) for row in table(AMD_METRIC))
    assert [gpu.name for gpu in gpus] == ["AMD Instinct MI355X"] * 2
    assert first is not None
    assert second is not None
    assert (first.uuid, first.power_w, first.energy_j) == (gpus[0].uuid, 1013.0, 123456.789)
    assert (first.sm_clock_mhz, first.temperature_c, first.throttle) == (2104.0, 71.0, 0)
    assert first.memory_used_bytes == GIB
    assert (second.sm_clock_mhz, second.throttle) == (132.0, Throttle.HARDWARE)


def test_a_repeated_header_is_no_reading() -> None:
    source = SmiSource(
        "amd-smi", ["/bin/true"], (), lambda row, at: _reading(row["uuid"], at_ns=at)
    )
    lines = ["uuid,w", "a,1", "uuid,w", "", "b", "c,2"]
    readings = [source.take(line, at) for at, line in enumerate(lines)]
    source.close()
    assert [reading and reading.uuid for reading in readings] == [None, "a", None, None, None, "c"]


def test_the_deployment_is_told_by_processes_first() -> None:
    gpus = [Gpu(uuid, i, "g", None, None) for i, uuid in enumerate("abc")]
    readings = {uuid: _reading(uuid, processes=(i,)) for i, uuid in enumerate("abc")}
    before = dict.fromkeys("abc", 0.0)
    assert deployment_of(gpus, readings, before, frozenset({1}), 1) == (("b",), "processes")


def test_the_deployment_is_told_by_memory_where_processes_are_hidden() -> None:
    gpus = [Gpu(uuid, i, "g", None, None) for i, uuid in enumerate("abc")]
    readings = {uuid: _reading(uuid, memory=GIB if uuid == "c" else 0.0) for uuid in "abc"}
    before = dict.fromkeys("abc", 0.0)
    assert deployment_of(gpus, readings, before, frozenset({1}), 1) == (("c",), "memory")


def test_where_nothing_tells_all_are_taken_only_if_there_are_no_more() -> None:
    gpus = [Gpu(uuid, i, "g", None, None) for i, uuid in enumerate("ab")]
    assert deployment_of(gpus, {}, {}, frozenset(), 2) == (("a", "b"), "all")
    assert deployment_of(gpus, {}, {}, frozenset(), 1) == ((), None)


def test_a_reading_becomes_samples_of_what_the_card_tells() -> None:
    reading = _reading("a", power=250.0, processes=(1, 2, 3))
    samples = {sample.name: sample.value for sample in samples_of(reading, frozenset({1, 2}))}
    assert samples == {"gpu.power_w": 250.0, "gpu.memory_used_bytes": 0.0, "gpu.other_processes": 1}
    assert all(sample.name != "gpu.other_processes" for sample in samples_of(reading, None))


class Source:
    """Readings by hand."""

    name = "fake"
    driver: str | None = "1"
    power_field: PowerField = "instant"

    def __init__(self, count: int) -> None:
        self.closed = False
        self._gpus = tuple(Gpu(f"GPU-{i}", i, "g", None, None) for i in range(count))

    def gpus(self) -> tuple[Gpu, ...]:
        return self._gpus

    def read(self) -> list[GpuReading]:
        return [_reading(gpu.uuid, power=100.0) for gpu in self._gpus]

    def close(self) -> None:
        self.closed = True


def test_the_watcher_brackets_what_it_watches_and_says_what_it_did_not_know() -> None:
    source = Source(4)
    watcher = GpuWatcher(lambda: source, interval_s=600.0)
    watcher.start()
    watcher.engine_is_up(2, lambda: frozenset({1}))
    watcher.stop()
    report = watcher.report()
    assert source.closed
    assert [s.name for s in watcher.samples].count("gpu.power_w") == 2 * 4
    assert report.deployment == ()
    assert report.problem == "cannot tell which 2 of the 4 GPUs are the deployment's"


def test_a_machine_without_gpus_is_watched_in_peace() -> None:
    def none() -> Source:
        raise OSError("NVML: no driver; nvidia-smi: not found; amd-smi: not found")

    watcher = GpuWatcher(none)
    watcher.start()
    watcher.engine_is_up(1, lambda: frozenset({1}))
    watcher.stop()
    assert (watcher.report().source, watcher.samples) == (None, [])
    assert "nvidia-smi: not found" in (watcher.report().problem or "")


def test_a_deployment_larger_than_the_machine_says_so() -> None:
    watcher = GpuWatcher(lambda: Source(1), interval_s=600.0)
    watcher.start()
    watcher.engine_is_up(2, lambda: frozenset({1}))
    watcher.stop()
    assert watcher.report().problem == "the deployment has 2 GPUs, and this machine shows 1"


class Used(Source):
    """One card, and who is on it."""

    def __init__(self, *processes: int) -> None:
        super().__init__(1)
        self.processes = processes

    def read(self) -> list[GpuReading]:
        return [_reading("GPU-0", power=100.0, memory=GIB, processes=self.processes)]


def strangers(source: Used, own: list[int], later: tuple[int, ...]) -> list[float]:
    """Counts at the end, after the card's users became `later`."""
    watcher = GpuWatcher(lambda: source, interval_s=600.0)
    watcher.start()
    watcher.engine_is_up(1, lambda: frozenset(own))
    own.append(max(later))
    source.processes = later
    watcher.stop()
    return [s.value for s in watcher.samples if s.name == "gpu.other_processes"]


def test_a_process_that_the_engine_starts_later_is_no_stranger() -> None:
    assert strangers(Used(7), [7], (7, 8)) == [0.0]
    assert strangers(Used(7), [7], (7, 6, 8)) == [1.0]


def test_where_ids_are_of_another_namespace_nobody_is_called_a_stranger() -> None:
    """The card says 4711, and we know the same process as 7: it was told by the machine's size."""
    assert strangers(Used(4711), [7], (4711,)) == []


def _reading(
    uuid: str,
    *,
    at_ns: int = 0,
    power: float | None = None,
    memory: float = 0.0,
    processes: tuple[int, ...] | None = None,
) -> GpuReading:
    return GpuReading(
        at_ns=at_ns,
        uuid=uuid,
        power_w=power,
        energy_j=None,
        temperature_c=None,
        sm_clock_mhz=None,
        memory_clock_mhz=None,
        utilization=None,
        memory_used_bytes=memory,
        throttle=None,
        processes=processes,
    )
