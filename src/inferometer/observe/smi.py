"""GPUs through a vendor's command line: `nvidia-smi` or `amd-smi`, one child that prints at an
interval. Used where the driver's library cannot be.

Readings are stamped when their line comes: both tools print whole seconds or wall times only.
"""

from __future__ import annotations

import contextlib
import csv
import math
import os
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from inferometer.core import Gpu, GpuReading, PowerField, Throttle
from inferometer.observe.kfd import kfd_users
from inferometer.observe.nvml import throttle_of

MIB = 1 << 20
ANSWER_S = 20.0
NVIDIA_FIELDS = (
    "uuid",
    "power.draw",
    "temperature.gpu",
    "clocks.sm",
    "clocks.mem",
    "utilization.gpu",
    "memory.used",
    "clocks_throttle_reasons.active",
)
NVIDIA_FACTS = (
    *("uuid", "index", "name", "memory.total", "power.limit", "driver_version"),
    *("clocks.max.sm", "mig.mode.current"),
)
AMD_DRIVER = Path("/sys/module/amdgpu/version")
Parse = Callable[[Mapping[str, str], int], GpuReading | None]
Run = Callable[[Sequence[str]], str]


class SmiSource:
    """Readings that a child prints as CSV, by the header it prints first. To be closed."""

    def __init__(self, name: str, argv: Sequence[str], gpus: tuple[Gpu, ...], parse: Parse) -> None:
        self.name = name
        self.driver: str | None = None
        self.power_field: PowerField = "averaged"
        self._gpus = gpus
        self._parse = parse
        self._readings: deque[GpuReading] = deque()
        self._header: list[str] | None = None
        # amd-smi is a Python program that does not flush: in a pipe its lines come by the block.
        self._child = subprocess.Popen(
            list(argv),
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
        self._thread.start()

    def gpus(self) -> tuple[Gpu, ...]:
        """Every GPU that the tool lists."""
        return self._gpus

    def read(self) -> list[GpuReading]:
        """What has come since the last call."""
        return [self._readings.popleft() for _ in range(len(self._readings))]

    def close(self) -> None:
        """End the child."""
        self._child.kill()
        self._child.wait()
        self._thread.join(ANSWER_S)

    def _follow(self) -> None:
        assert self._child.stdout is not None
        with self._child.stdout as lines:
            for line in lines:
                if (reading := self.take(line, time.monotonic_ns())) is not None:
                    self._readings.append(reading)

    def take(self, line: str, at_ns: int) -> GpuReading | None:
        """One line; None for the header, an empty line, or one that is no reading."""
        cells = [cell.strip() for cell in next(csv.reader([line]), [])]
        if not cells or cells == [""]:
            return None
        # amd-smi prints a header before each round, and not always of the same columns.
        if self._header is None or cells[0] == self._header[0]:
            self._header = cells
            return None
        if len(cells) != len(self._header):
            return None
        return self._parse(dict(zip(self._header, cells, strict=True)), at_ns)


def nvidia_smi(interval_s: float, run: Run | None = None) -> SmiSource:
    """Raises OSError where the tool is absent or shows no GPU."""
    tool = _found("nvidia-smi")
    listed = (run or _output)(
        [tool, f"--query-gpu={','.join(NVIDIA_FACTS)}", "--format=csv,nounits"]
    )
    rows = table(listed)
    gpus = tuple(_nvidia_gpu(row) for row in rows)
    if not gpus:
        raise OSError("nvidia-smi: it lists no GPU")
    argv = [tool, f"--query-gpu={','.join(NVIDIA_FIELDS)}", "--format=csv,nounits"]
    source = SmiSource(
        "nvidia-smi", [*argv, f"-lms={round(interval_s * 1e3)}"], gpus, nvidia_reading
    )
    source.driver = rows[0].get("driver_version")
    return source


def amd_smi(interval_s: float, run: Run | None = None) -> SmiSource:
    """Raises OSError where the tool is absent or shows no GPU."""
    tool = _found("amd-smi")
    ask = run or _output
    listed = table(ask([tool, "list", "--csv"]))
    gpus = amd_gpus(listed, table(ask([tool, "static", "-a", "--csv"])))
    if not gpus:
        raise OSError("amd-smi: it lists no GPU")
    uuids = {str(gpu.index): gpu.uuid for gpu in gpus}
    nodes = {row["gpu"]: row["kfd_id"] for row in listed if row.get("kfd_id", "").isdecimal()}

    def parse(row: Mapping[str, str], at_ns: int) -> GpuReading | None:
        reading = amd_reading(row, at_ns, uuids)
        node = nodes.get(row.get("gpu", ""))
        if reading is None or node is None:
            return reading
        return replace(reading, processes=kfd_users(node))

    # Whole seconds are the shortest interval that the tool takes.
    every = str(max(1, math.ceil(interval_s)))
    argv = [tool, "metric", "-p", "-c", "-t", "-u", "-E", "-m", "-w", every, "--csv"]
    source = SmiSource("amd-smi", argv, gpus, parse)
    with contextlib.suppress(OSError):
        source.driver = AMD_DRIVER.read_text().strip()
    return source


def nvidia_reading(row: Mapping[str, str], at_ns: int) -> GpuReading | None:
    """A row of `nvidia-smi --query-gpu`; its header carries the units behind each name."""
    cells = {name.partition(" [")[0]: cell for name, cell in row.items()}
    reasons = cells.get("clocks_throttle_reasons.active") or cells.get(
        "clocks_event_reasons.active"
    )
    if "uuid" not in cells:
        return None
    return GpuReading(
        at_ns=at_ns,
        uuid=cells["uuid"],
        power_w=number(cells.get("power.draw")),
        energy_j=None,
        temperature_c=number(cells.get("temperature.gpu")),
        sm_clock_mhz=number(cells.get("clocks.current.sm") or cells.get("clocks.sm")),
        memory_clock_mhz=number(cells.get("clocks.current.memory") or cells.get("clocks.mem")),
        utilization=_share(number(cells.get("utilization.gpu"))),
        memory_used_bytes=_times(number(cells.get("memory.used")), MIB),
        throttle=throttle_of(_hex(reasons)),
        processes=None,
    )


def amd_reading(row: Mapping[str, str], at_ns: int, uuids: Mapping[str, str]) -> GpuReading | None:
    """A row of `amd-smi metric --csv`; `uuids` by the tool's own index."""
    uuid = uuids.get(row.get("gpu", ""))
    if uuid is None:
        return None
    clocks = [number(row.get(f"gfx_{i}_clk")) for i in range(8)]
    running = [clock for clock in clocks if clock is not None]
    return GpuReading(
        at_ns=at_ns,
        uuid=uuid,
        power_w=number(row.get("socket_power")),
        energy_j=number(row.get("total_energy_consumption")),
        temperature_c=number(row.get("hotspot") or row.get("temperature_hotspot")),
        sm_clock_mhz=max(running) if running else None,
        memory_clock_mhz=number(row.get("mem_0_clk")),
        utilization=_share(number(row.get("gfx_activity"))),
        memory_used_bytes=_times(number(row.get("used_vram")), MIB),
        throttle=_amd_throttle(row.get("throttle_status")),
        processes=None,
    )


def amd_gpus(
    listed: Sequence[Mapping[str, str]], static: Sequence[Mapping[str, str]]
) -> tuple[Gpu, ...]:
    """GPUs of `amd-smi list` with the names of `amd-smi static -a`."""
    names = {row.get("gpu", ""): row.get("market_name", "") for row in static}
    return tuple(
        Gpu(row["gpu_uuid"], int(row["gpu"]), names.get(row["gpu"]) or "unknown", None, None)
        for row in listed
        if row.get("gpu", "").isdecimal() and row.get("gpu_uuid")
    )


def table(text: str) -> list[dict[str, str]]:
    """CSV with a header into rows; names without their units, cells stripped."""
    lines = [line for line in text.splitlines() if line.strip()]
    rows = csv.DictReader(lines, skipinitialspace=True)
    return [
        {
            (name or "").strip().partition(" [")[0]: (cell or "").strip()
            for name, cell in row.items()
            if isinstance(cell, str | None)
        }
        for row in rows
    ]


def number(text: str | None) -> float | None:
    """A finite number, units behind it allowed; None for `N/A`, `[Not Supported]` and the like."""
    words = (text or "").split()
    try:
        value = float(words[0]) if words else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _nvidia_gpu(row: Mapping[str, str]) -> Gpu:
    memory = _times(number(row.get("memory.total")), MIB)
    return Gpu(
        uuid=row["uuid"],
        index=int(row["index"]),
        name=row["name"],
        memory_bytes=None if memory is None else int(memory),
        power_limit_w=number(row.get("power.limit")),
        sm_clock_max_mhz=number(row.get("clocks.max.sm")),
        split={"Enabled": True, "Disabled": False}.get(row.get("mig.mode.current", "")),
    )


def _amd_throttle(status: str | None) -> int | None:
    if status in (None, "", "N/A"):
        return None
    return 0 if status == "UNTHROTTLED" else Throttle.HARDWARE


def _found(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        raise OSError(f"{tool}: not found")
    return path


def _output(argv: Sequence[str]) -> str:
    """What a tool prints. Raises OSError where it fails or does not answer."""
    try:
        done = subprocess.run(
            list(argv), capture_output=True, text=True, timeout=ANSWER_S, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise OSError(f"{argv[0]}: {error}") from None
    return done.stdout


def _hex(text: str | None) -> int | None:
    try:
        return int(text or "", 16)
    except ValueError:
        return None


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def _times(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor
