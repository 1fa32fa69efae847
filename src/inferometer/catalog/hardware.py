"""GPUs: memory, bandwidth, dense arithmetic rates, scale-up link, power limit.

Rates are the vendor's peaks. How much of a peak an engine reaches is not a fact of the card and is
not kept here.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from inferometer.catalog.tables import Fact, Precision, read_rows
from inferometer.errors import InputError, nearest


class Gpu(Fact):
    """One GPU of a deployment. `tflops_*` are dense; None where the card has no such unit."""

    name: str
    display: str
    vendor: Literal["nvidia", "amd"]
    memory_gib: float
    """What the driver reports, before anything is allocated."""
    bandwidth_tb_s: float
    tflops_bf16: float
    tflops_fp8: float | None
    tflops_fp4: float | None
    link_gb_s: float
    """Scale-up, one direction, per GPU; PCIe where there is no scale-up link."""
    tdp_w: int
    gpus_per_node: int
    """GPUs of one host."""
    scale_up_gpus: int
    """GPUs that one scale-up link joins; above `gpus_per_node` where it spans hosts, 1 without."""

    @property
    def memory_bytes(self) -> int:
        """Device memory in bytes."""
        return round(self.memory_gib * 2**30)

    @property
    def bandwidth_bytes_s(self) -> float:
        """Peak memory bandwidth, bytes a second."""
        return self.bandwidth_tb_s * 1e12

    @property
    def link_bytes_s(self) -> float:
        """Peak scale-up bandwidth in one direction, bytes a second."""
        return self.link_gb_s * 1e9

    def flops(self, precision: Precision) -> float | None:
        """Peak dense FLOP/s in `precision`; None where the card has no unit for it."""
        rates = {"bf16": self.tflops_bf16, "fp8": self.tflops_fp8, "fp4": self.tflops_fp4}
        rate = rates[precision]
        return None if rate is None else rate * 1e12

    def compute_flops(self, precision: Precision) -> float:
        """FLOP/s for weights kept in `precision`: the widest rate that needs no more bits.

        Weights narrower than any unit of the card are widened first, so they run at the rate of
        the next wider precision (fp4 on a card without fp4 units runs at its fp8 rate).
        """
        wider: dict[Precision, tuple[Precision, ...]] = {
            "bf16": ("bf16",),
            "fp8": ("fp8", "bf16"),
            "fp4": ("fp4", "fp8", "bf16"),
        }
        rates = (self.flops(candidate) for candidate in wider[precision])
        return next(rate for rate in rates if rate is not None)


@cache
def _table() -> dict[str, Gpu]:
    return {row.name: row for row in read_rows("gpus.yaml", Gpu)}


def gpu_names() -> tuple[str, ...]:
    """Every GPU known, in the order of the file."""
    return tuple(_table())


def gpu(name: str) -> Gpu:
    """The GPU called `name`, case ignored. InputError with the nearest name when unknown."""
    found = _table().get(name.lower())
    if found is None:
        raise InputError(
            f"unknown GPU {name!r}{nearest(name.lower(), gpu_names())} "
            f"(known: {', '.join(gpu_names())})"
        )
    return found
