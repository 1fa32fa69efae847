"""What amd-smi prints, by version, and the kernel's list of who is on an AMD card."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferometer.core import Throttle
from inferometer.observe.kfd import kfd_users
from inferometer.observe.smi import SmiSource, amd_gpus, amd_reading, amd_smi, table

UUIDS = {"0": "u0", "1": "u1"}
# Cells that hold lists are quoted, with commas inside; what a card does not tell is N/A.
ROUNDS = {
    "26.2 on MI355X": """\
timestamp,gpu,gfx_activity,umc_activity,mm_activity,vcn_activity,jpeg_activity,gfx_busy_inst_xcp_0,\
socket_power,gfx_voltage,soc_voltage,mem_voltage,throttle_status,power_management,gfx_0_clk,\
gfx_1_clk,mem_0_clk,edge,hotspot,mem,total_energy_consumption,total_vram,used_vram
1789515524,0,95,41,N/A,"['N/A', 'N/A']","['N/A', 'N/A']","[0, 0]",1180,N/A,N/A,N/A,N/A,ENABLED,\
2402,2399,2000,N/A,78,60,123456.789,294896,1024
1789515524,1,0,0,N/A,"['N/A', 'N/A']","['N/A', 'N/A']","[0, 0]",288,N/A,N/A,N/A,N/A,ENABLED,\
132,N/A,900,N/A,44,24,9876.5,294896,283
""",
    "24.6 on MI300X": """\
timestamp,gpu,gfx_activity,umc_activity,mm_activity,vcn_activity,socket_power,gfx_voltage,\
soc_voltage,mem_voltage,power_management,throttle_status,gfx_0_clk,mem_0_clk,edge,hotspot,mem,\
total_energy_consumption,total_vram,used_vram
1789515524,0,95,41,N/A,"[0, 0]",1180,N/A,N/A,N/A,ENABLED,UNTHROTTLED,2402,2000,N/A,78,60,\
123456.789,294896,1024
1789515524,1,0,0,N/A,"[0, 0]",288,N/A,N/A,N/A,ENABLED,THROTTLED,132,900,N/A,44,24,9876.5,\
294896,283
""",
    "units in the cells": """\
gpu,gfx_activity,socket_power,gfx_0_clk,mem_0_clk,hotspot,total_energy_consumption,used_vram
0,95 %,1180 W,2402 MHz,2000 MHz,78 °C,123456.789 J,1024 MB
1,0 %,288 W,132 MHz,900 MHz,44 °C,9876.5 J,283 MB
""",
}


@pytest.mark.parametrize("text", ROUNDS.values(), ids=ROUNDS)
def test_a_round_of_each_version(text: str) -> None:
    first, second = (amd_reading(row, 9, UUIDS) for row in table(text))
    assert first is not None
    assert second is not None
    assert (first.uuid, first.power_w, first.energy_j) == ("u0", 1180.0, 123456.789)
    assert (first.sm_clock_mhz, first.memory_clock_mhz) == (2402.0, 2000.0)
    assert (first.temperature_c, first.utilization) == (78.0, 0.95)
    assert first.memory_used_bytes == 1 << 30
    assert (second.uuid, second.power_w, second.sm_clock_mhz) == ("u1", 288.0, 132.0)


def test_throttling_that_is_not_told_is_unknown_and_not_none() -> None:
    seen = {
        name: [reading and reading.throttle for reading in readings]
        for name, text in ROUNDS.items()
        for readings in [[amd_reading(row, 9, UUIDS) for row in table(text)]]
    }
    assert seen["26.2 on MI355X"] == [None, None]
    assert seen["24.6 on MI300X"] == [0, Throttle.HARDWARE]


def test_a_card_that_tells_nothing_gives_no_zero() -> None:
    row = {"gpu": "0", "socket_power": "N/A", "gfx_0_clk": "", "total_energy_consumption": "N/A"}
    reading = amd_reading(row, 9, UUIDS)
    assert reading is not None
    assert (reading.power_w, reading.energy_j, reading.sm_clock_mhz) == (None, None, None)
    assert amd_reading({"gpu": "7"}, 9, UUIDS) is None


def test_a_header_before_each_round_may_change_its_columns() -> None:
    source = SmiSource("amd-smi", ["/bin/true"], (), lambda row, at: amd_reading(row, at, UUIDS))
    lines = ["timestamp,gpu,socket_power", "1,0,500", "", "timestamp,gpu,edge,socket_power"]
    lines += ["2,0,N/A,600", "cut", "3,0,N/A,700"]
    readings = [source.take(line, at) for at, line in enumerate(lines)]
    source.close()
    assert [r.power_w for r in readings if r is not None] == [500.0, 600.0, 700.0]


AMD_SMI = """\
#!/bin/sh
case "$1" in
list) printf 'gpu,gpu_bdf,gpu_uuid,kfd_id\\n0,0000:05:00.0,u0,45412\\n' ;;
static) printf 'gpu,market_name\\n0,AMD Instinct MI355X\\n' ;;
metric) printf 'timestamp,gpu,socket_power\\n1,0,%s\\n' "$PYTHONUNBUFFERED"; exec sleep 600 ;;
esac
"""


def test_the_tool_is_made_to_print_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a Python program that does not flush: a block of it would come seconds late."""
    tool = tmp_path / "amd-smi"
    tool.write_text(AMD_SMI)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    source = amd_smi(0.5)
    try:
        readings = source.read()
        while not readings:
            readings = source.read()
    finally:
        source.close()
    assert [reading.power_w for reading in readings] == [1.0]
    assert [gpu.name for gpu in source.gpus()] == ["AMD Instinct MI355X"]


def test_names_that_the_tool_lacks_are_unknown() -> None:
    listed = [{"gpu": "0", "gpu_uuid": "u0"}, {"gpu": "N/A", "gpu_uuid": "x"}, {"gpu": "1"}]
    assert [(g.uuid, g.name) for g in amd_gpus(listed, [])] == [("u0", "unknown")]


def test_the_kernel_lists_who_holds_memory_on_a_card(tmp_path: Path) -> None:
    for pid, sizes in {"10": {"45412": "2048", "9": "0"}, "11": {"45412": "0"}, "12": {}}.items():
        (tmp_path / pid).mkdir()
        for node, size in sizes.items():
            (tmp_path / pid / f"vram_{node}").write_text(f"{size}\n")
    assert kfd_users("45412", tmp_path) == (10,)
    assert kfd_users("9", tmp_path) == ()
    assert kfd_users("9", tmp_path / "absent") is None
