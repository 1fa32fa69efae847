"""What a GPU is assumed to cost and to draw, as published, one snapshot a date.

Derived numbers ($ a million tokens, J a token) move when an assumption does, without any new
measurement; so no snapshot is a default here, and each value carries its date.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict

from inferometer.catalog.hardware import gpu
from inferometer.catalog.tables import Fact, read_rows

Tier = Literal["hyperscaler", "neocloud", "rental"]
TIERS: tuple[Tier, ...] = ("hyperscaler", "neocloud", "rental")


class Assumed(BaseModel):
    """One GPU in one snapshot; None where the snapshot has no value."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    provisioned_kw: float | None = None
    hyperscaler: float | None = None
    neocloud: float | None = None
    rental: float | None = None


class Snapshot(Fact):
    """What one publication assumed, for several GPUs."""

    gpus: dict[str, Assumed]


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for one GPU for an hour, in one tier: owning (two scales) or renting."""

    tier: Tier
    usd_per_gpu_hour: float
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class Provisioned:
    """All-in utility power of one GPU with its share of host and network. Assumed, not measured."""

    kw: float
    source: str
    date: str


@cache
def _snapshots() -> tuple[Snapshot, ...]:
    return tuple(sorted(read_rows("prices.yaml", Snapshot), key=lambda snapshot: snapshot.date))


def prices(gpu_name: str) -> list[Price]:
    """Every price known of the GPU, oldest first, tiers in order. InputError: unknown GPU."""
    found = []
    for snapshot in _snapshots():
        row = snapshot.gpus.get(gpu(gpu_name).name, Assumed())
        values: dict[Tier, float | None] = {
            "hyperscaler": row.hyperscaler,
            "neocloud": row.neocloud,
            "rental": row.rental,
        }
        found += [
            Price(tier, value, snapshot.source, snapshot.date)
            for tier, value in values.items()
            if value is not None
        ]
    return found


def provisioned_kw(gpu_name: str) -> list[Provisioned]:
    """Every provisioned power known of the GPU, oldest first. InputError: unknown GPU."""
    rows = ((snapshot, snapshot.gpus.get(gpu(gpu_name).name)) for snapshot in _snapshots())
    return [
        Provisioned(row.provisioned_kw, snapshot.source, snapshot.date)
        for snapshot, row in rows
        if row is not None and row.provisioned_kw is not None
    ]
