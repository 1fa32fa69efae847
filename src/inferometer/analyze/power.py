"""Energy and the state of the GPUs over the rate window, with the validity of each number.

Board power of the GPUs of the deployment: no host, no network, no cooling. Null without a valid
value, and the note says why.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferometer import metrics
from inferometer.core import GpuReport, Sample, Throttle, Window
from inferometer.metrics import Figure, PowerSeries

NOT_WATCHED = "GPUs were not watched"
NO_SAMPLES = "not watched, or nothing told in the window"
NOT_FOUND = (
    "the engine was up already, and its processes were not found: its port is not of this machine, "
    "is not ours to look into, or belongs to what holds no GPU"
)
UP_ALREADY = "the engine was up already: what it holds was there before"
NOT_TOLD_APART = "whose processes are on the GPUs was not known"


def power_figures(
    samples: Sequence[Sample], report: GpuReport | None, window: Window, rates: dict[str, Figure]
) -> dict[str, Figure]:
    """`energy_j` and what follows from it, over the window that the rates are of.

    `rates` has `input_tok_s`, `output_tok_s` and `total_tok_s` of that window.
    """
    energy_j = _energy(samples, report, window)
    gpus = len(report.deployment) if report else 0
    found = {"energy_j": energy_j, "power_w": _per(energy_j, window.seconds)}
    found["power_w_per_gpu"] = _per(found["power_w"], gpus)
    for kind in ("input", "output", "total"):
        rate = rates[f"{kind}_tok_s"]
        tokens = 0.0 if rate.value is None else rate.value * window.seconds
        found[f"j_per_{kind}_token"] = metrics.joules_per_token(energy_j, tokens)
    return found


def gpu_figures(
    samples: Sequence[Sample], report: GpuReport | None, window: Window
) -> dict[str, Figure]:
    """Clock, heat and memory of the deployment's GPUs, and what held them down or shared them."""
    own = frozenset(report.deployment) if report else frozenset()

    def values(name: str) -> metrics.Floats:
        return _inside([s for s in samples if s.labels in own], name, window)

    throttle = values("gpu.throttle").astype(np.int64)
    hot = Throttle.THERMAL | Throttle.HARDWARE
    others = values("gpu.other_processes")
    shared = _mean((others > 0).astype(np.float64))
    if report is not None and report.chosen_by not in (None, "processes"):
        shared = _otherwise(shared, NOT_TOLD_APART)
    return {
        "gpu_sm_clock_mhz": _mean(values("gpu.sm_clock_mhz")),
        "gpu_temperature_c": _most(values("gpu.temperature_c")),
        "gpu_memory_used_bytes": _most(values("gpu.memory_used_bytes")),
        "gpu_throttled_share": _mean((throttle & hot != 0).astype(np.float64)),
        "gpu_power_capped_share": _mean((throttle & Throttle.POWER != 0).astype(np.float64)),
        "gpu_shared_share": shared,
    }


def host_figures(
    samples: Sequence[Sample], window: Window, *, up_already: bool = False
) -> dict[str, Figure]:
    """Who took the machine's cores, what the engine held of its memory, and the clock.

    `up_already`: we did not start the engine.
    """

    def values(name: str) -> metrics.Floats:
        return _inside(samples, name, window)

    steps = values("host.clock_step_s")
    found = {
        "host_other_cpu_share": _mean(values("host.other_cpu_share")),
        "engine_cpu_share": _mean(values("host.engine_cpu_share")),
        "engine_resident_bytes": _most(values("engine.resident_bytes")),
        "engine_pss_bytes": _most(values("engine.shared_once_bytes")),
        "engine_pinned_bytes": _most(values("engine.pinned_bytes")),
    }
    if up_already and found["engine_resident_bytes"].value is None:
        found = {name: _otherwise(figure, NOT_FOUND) for name, figure in found.items()}
    taken = Figure(None, UP_ALREADY) if up_already else _taken(samples, window)
    clock = Figure(float(np.ptp(steps))) if len(steps) else Figure(None, NO_SAMPLES)
    return found | {"host_memory_taken_bytes": taken, "clock_step_s": clock}


def _energy(samples: Sequence[Sample], report: GpuReport | None, window: Window) -> Figure:
    if report is None or report.source is None:
        why = NOT_WATCHED if report is None else report.problem
        return Figure(None, f"no power: {why}")
    if report.problem is not None:
        return Figure(None, f"no power: {report.problem}")
    split = [gpu.uuid for gpu in report.gpus if gpu.split and gpu.uuid in report.deployment]
    if split:
        why = "it is divided into instances (MIG), and its board power is of all of them"
        return Figure(None, f"{split[0]}: {why}")
    found_series = ((uuid, _series(samples, uuid)) for uuid in report.deployment)
    series = {uuid: each for uuid, each in found_series if each is not None}
    wall_s = window.seconds + _clock_step_s(samples, window)
    found = metrics.energy(series, report.deployment, window.start_ns, window.end_ns, wall_s)
    if found.value is None:
        return found
    checked = f"; {found.why}" if found.why else ""
    return Figure(found.value, f"board power, {report.power_field}, by {report.source}{checked}")


def _series(samples: Sequence[Sample], uuid: str) -> PowerSeries | None:
    """The power of one GPU, with its energy counter where it tells one, linear between the readings
    that have it; None where it told no power at all.
    """
    power = {s.at_ns: s.value for s in samples if s.name == "gpu.power_w" and s.labels == uuid}
    counter = {s.at_ns: s.value for s in samples if s.name == "gpu.energy_j" and s.labels == uuid}
    if not power:
        return None
    at_ns = np.array(sorted(power), np.int64)
    known = np.array(sorted(counter), np.int64)
    counted = None
    if len(known) > 1:
        values = np.array([counter[at] for at in known.tolist()])
        # In ns from the first: a float does not hold a stamp of years to the nanosecond.
        places = (at_ns - known[0]).astype(np.float64), (known - known[0]).astype(np.float64)
        counted = np.interp(*places, values, left=np.nan, right=np.nan)
    return PowerSeries(
        at_ns=at_ns,
        watts=np.array([power[at] for at in at_ns.tolist()], np.float64),
        counter_j=counted,
    )


def _taken(samples: Sequence[Sample], window: Window) -> Figure:
    """By how much the machine's memory in use was above what it was before the engine started."""
    first = min(
        (s for s in samples if s.name == "host.memory_used_bytes"),
        key=lambda s: s.at_ns,
        default=None,
    )
    most = _most(_inside(samples, "host.memory_used_bytes", window))
    if first is None or most.value is None:
        return Figure(None, NO_SAMPLES)
    if not any(s.name.startswith("engine.resident") and s.at_ns > first.at_ns for s in samples):
        return Figure(None, UP_ALREADY)
    return Figure(most.value - first.value)


def _clock_step_s(samples: Sequence[Sample], window: Window) -> float:
    """By how much the wall clock moved against the monotonic one over the window."""
    steps = _inside(samples, "host.clock_step_s", window)
    return float(steps[-1] - steps[0]) if len(steps) else 0.0


def _inside(samples: Sequence[Sample], name: str, window: Window) -> metrics.Floats:
    found = [s.value for s in samples if s.name == name and _within(s.at_ns, window)]
    return np.array(found, np.float64)


def _within(at_ns: int, window: Window) -> bool:
    return window.start_ns <= at_ns <= window.end_ns


def _per(figure: Figure, divisor: float) -> Figure:
    if figure.value is None or divisor <= 0:
        return Figure(None, figure.why or "nothing to divide by")
    return Figure(figure.value / divisor, figure.why)


def _otherwise(figure: Figure, why: str) -> Figure:
    """The figure, or a better reason why there is none."""
    return Figure(None, why) if figure.value is None else figure


def _mean(values: metrics.Floats) -> Figure:
    return Figure(float(values.mean())) if len(values) else Figure(None, NO_SAMPLES)


def _most(values: metrics.Floats) -> Figure:
    return Figure(float(values.max())) if len(values) else Figure(None, NO_SAMPLES)
