"""How every metric is called and written on the page: label, unit, group, definition, put together
from the tables beside this one.

A metric that is not listed is still shown, under its raw name and without a unit (names of ours
carry their unit).
"""

from __future__ import annotations

from inferometer.report.engine_fields import ENGINE_ROWS
from inferometer.report.figures import (
    INTERVALS,
    OTHER,
    PERCENTILES,
    STATISTICS,
    UNKNOWN,
    Field,
    Kind,
    count,
    significant,
)
from inferometer.report.latency_fields import (
    INTERACTIVITIES,
    INTERVAL_PERCENTILES,
    LATENCIES,
    RATES,
    WITH_INTERVAL,
)
from inferometer.report.load_fields import LOAD_FIELDS
from inferometer.report.machine_fields import MACHINE_FIELDS
from inferometer.report.replay_fields import REPLAY_ROWS

__all__ = [
    "DISTRIBUTIONS",
    "FIELDS",
    "INTERACTIVITIES",
    "LATENCIES",
    "OTHER",
    "PERCENTILES",
    "RATES",
    "STATISTICS",
    "UNKNOWN",
    "Field",
    "Kind",
    "count",
    "field",
    "significant",
]


def field(name: str) -> Field:
    """The listed field, or one that shows the raw name."""
    return FIELDS.get(name) or Field(name, name, "", OTHER)


def _registry() -> dict[str, Field]:
    fields = [*LOAD_FIELDS, *MACHINE_FIELDS]
    for name, label, unit, text, kind in ENGINE_ROWS:
        fields.append(Field(name, label, unit, "Engine", text, kind))
    for name, label, unit, text, kind in REPLAY_ROWS:
        fields.append(Field(name, label, unit, "Sessions", text, kind))
    for base, (label, unit, kind, text) in LATENCIES.items():
        fields += [
            Field(f"{base}_{s}_s", f"{label} {s}", unit, "Latency", text, kind) for s in STATISTICS
        ]
    for base in WITH_INTERVAL:
        label, unit, kind, _ = LATENCIES[base]
        for p in INTERVAL_PERCENTILES:
            for end, side in (("lo", "lower"), ("hi", "upper")):
                text = f"The {side} bound of the 95 % interval of {p}."
                name, title = f"{base}_{p}_{end}_s", f"{label} {p}, {side}"
                fields.append(Field(name, title, unit, INTERVALS, text, kind))
    for base, (label, text) in INTERACTIVITIES.items():
        fields += [
            Field(f"{base}_{p}", f"{label} {p}", "tok/s/user", "Interactivity", text)
            for p in PERCENTILES
        ]
    for base, (label, text) in RATES.items():
        name = f"{base}_tok_s"
        fields.append(Field(name, f"{label} throughput", "tok/s", "Throughput", text))
        per_gpu = f"{text} Over all GPUs of the deployment."
        label = f"{label} throughput per GPU"
        fields.append(Field(f"{name}_per_gpu", label, "tok/s/GPU", "Throughput", per_gpu))
    return {item.name: item for item in fields}


FIELDS = _registry()
DISTRIBUTIONS = frozenset(
    (
        *(f"{base}_{statistic}_s" for base in LATENCIES for statistic in STATISTICS),
        *(f"{base}_{statistic}" for base in INTERACTIVITIES for statistic in STATISTICS),
    )
)
"""Metrics that are one statistic of a distribution."""
