"""The tables that a resolved plan may rest on: those installed, or those of a revision.

What moves no plan (prices, architectures, rates of a GPU) is not among them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

from inferometer.catalog.acceptance import AcceptanceTable, installed_acceptance
from inferometer.catalog.hardware import gpu_names


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Equal to itself alone, so that what was worked out with one is never taken for another's."""

    acceptance: AcceptanceTable
    gpus: Collection[str]
    """Names of the GPUs that are known."""


@cache
def installed_facts() -> Facts:
    """The tables of the package."""
    return Facts(installed_acceptance(), gpu_names())
