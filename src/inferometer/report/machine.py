"""The cards of a machine in words."""

from __future__ import annotations

from collections import Counter

from inferometer.core import Gpu, GpuReport
from inferometer.report.figures import significant

GIGA = 1e9


def cards_in_words(report: GpuReport | None) -> str | None:
    """`8 x NVIDIA H200, 150 GB, limit 700 W, up to 1,980 MHz; driver 580.1`; None without cards.

    What a driver does not say is left out. Cards of one kind are counted.
    """
    if report is None or not report.gpus:
        return None
    kinds = Counter(_card(gpu) for gpu in report.gpus)
    words = [f"{number} x {card}" for card, number in kinds.items()]
    if report.driver:
        words.append(f"driver {report.driver}")
    return "; ".join(words)


def _card(gpu: Gpu) -> str:
    facts = [gpu.name]
    if gpu.memory_bytes is not None:
        facts.append(f"{significant(gpu.memory_bytes / GIGA)} GB")
    if gpu.power_limit_w is not None:
        facts.append(f"limit {significant(gpu.power_limit_w)} W")
    if gpu.sm_clock_max_mhz is not None:
        facts.append(f"up to {gpu.sm_clock_max_mhz:,.0f} MHz")
    if gpu.split:
        facts.append("in instances (MIG)")
    return ", ".join(facts)
