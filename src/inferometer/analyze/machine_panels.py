"""The panels of cards and host: power with its limit, clock and what held it down, CPU."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from inferometer.analyze.bins import Bins, bins_over, spread_by_bin
from inferometer.analyze.curves import Curve, Panel, Watched, binned, each, thin, times
from inferometer.analyze.series import Series
from inferometer.core import GpuReport, Throttle

MOST_LINES = 8
"""GPUs with a line each; of more, the lowest, the mean and the highest are drawn."""
MOST_BINS = 600
LEAST_BIN_NS = 1_000_000_000
"""Cards are read about twice a second."""
POWER, CLOCK, THROTTLE = "gpu.power_w", "gpu.sm_clock_mhz", "gpu.throttle"
CARDS = (POWER, CLOCK, THROTTLE)
HOST = {
    "host.engine_cpu_share": "engine",
    "host.client_cpu_share": "client",
    "host.other_cpu_share": "others",
}
HELD = {
    "at the power limit": Throttle.POWER,
    "by heat or hardware": Throttle.THERMAL | Throttle.HARDWARE,
}


def machine_panels(watched: Watched) -> tuple[Panel, ...]:
    """Power, clock, what held it down, and the host's cores."""
    bins = bins_over(
        watched.first_ns, watched.last_ns, watched.window.start_ns, MOST_BINS, LEAST_BIN_NS
    )
    return (
        _lines(
            watched, bins, Panel("power", "Power of each GPU", "W", "Board power, without host.")
        ),
        _lines(
            watched, bins, Panel("clock", "Clock of each GPU", "MHz", "Of the multiprocessors.")
        ),
        _held(watched, bins),
        _host(watched),
    )


def _lines(watched: Watched, bins: Bins, panel: Panel) -> Panel:
    """The panel with a line a card, and what limits it."""
    name = POWER if panel.key == "power" else CLOCK
    why = _no_cards(watched)
    report = watched.gpus
    if why is not None or report is None:
        return panel.without(why or "not watched")
    about = panel.about
    if not report.deployment:
        about += f" Every GPU of the machine: {report.problem or 'whose is unknown'}."
    index = {gpu.uuid: gpu.index for gpu in report.gpus}
    found = sorted(
        ((index.get(uuid, 0), series) for uuid, series in _series(watched, report, name)),
        key=lambda pair: pair[0],
    )
    if not found:
        return panel.without(f"{report.source} does not tell it")
    if len(found) <= MOST_LINES:
        curves = [thin(f"GPU {number}", series) for number, series in found]
    else:
        about += f" Of {len(found)} GPUs, in bins of {bins.width_ns / 1e9:g} s."
        curves = _spread([series for _, series in found], bins)
    return panel.having((*curves, *_limit(watched, report, name)), about)


def _spread(found: list[Series], bins: Bins) -> list[Curve]:
    at_ns, values = (np.concatenate([series[i] for series in found]) for i in (0, 1))
    named = zip(("lowest", "mean", "highest"), spread_by_bin(at_ns, values, bins), strict=True)
    return [binned(word, bins, values) for word, values in named]


def _limit(watched: Watched, report: GpuReport, name: str) -> Iterable[Curve]:
    """What the driver allows, where it is one for all cards drawn."""
    own = _own(report)
    of = "power_limit_w" if name == POWER else "sm_clock_max_mhz"
    limits = {getattr(gpu, of) for gpu in report.gpus if gpu.uuid in own}
    if len(limits) != 1 or (limit := limits.pop()) is None:
        return
    ends = np.array([watched.first_ns, watched.last_ns], np.int64)
    yield Curve("limit", ends, np.array([limit, limit], np.float64), "limit")


def _held(watched: Watched, bins: Bins) -> Panel:
    """Share of readings of the deployment's cards in which each cause held the clock down."""
    panel = Panel("throttle", "Clock held down", "% of readings", "")
    why = _no_cards(watched)
    report = watched.gpus
    if why is not None or report is None:
        return panel.without(why or "not watched")
    found = [series for _, series in _series(watched, report, THROTTLE)]
    if not found:
        return panel.without(f"{report.source} does not tell it")
    at_ns, bits = (np.concatenate([series[i] for series in found]) for i in (0, 1))
    about = (
        f"Bins of {bins.width_ns / 1e9:g} s. At its power limit a card is as it was built to be."
    )
    curves = []
    for word, mask in HELD.items():
        held = (bits.astype(np.int64) & mask != 0).astype(np.float64) * 100
        curves.append(binned(word, bins, spread_by_bin(at_ns, held, bins)[1]))
    return panel.having(tuple(curves), about)


def _host(watched: Watched) -> Panel:
    curves = [
        times(curve, 100)
        for name, word in HOST.items()
        for curve in each(watched, name, word, "line")
    ]
    virtual = "not watched: in virtual time there is no machine to share"
    why = virtual if watched.virtual else "not watched: no sample of this machine's cores"
    return Panel(
        "host",
        "CPU of the host",
        "%",
        "Share of all cores that this process may use, since the sample before.",
        tuple(curves),
        () if curves else (why,),
    )


def _own(report: GpuReport) -> tuple[str, ...]:
    return report.deployment or tuple(gpu.uuid for gpu in report.gpus)


def _series(watched: Watched, report: GpuReport, name: str) -> list[tuple[str, Series]]:
    return [
        (uuid, Series(*watched.series[name, uuid]))
        for uuid in _own(report)
        if (name, uuid) in watched.series
    ]


def _no_cards(watched: Watched) -> str | None:
    if watched.simulated:
        return "simulated: no GPU served this point"
    if watched.gpus is None:
        return "not watched"
    if watched.gpus.source is None:
        return f"not watched: {watched.gpus.problem}"
    return None
