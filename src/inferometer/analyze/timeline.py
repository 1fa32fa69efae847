"""A point over time: what the client, the engine, the cards and the machine did, as curves.

From the table of requests and the series of one point; every stamp is of one clock. A curve that
cannot be drawn has its why. Reads no file, and says nothing about looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from inferometer.analyze.bins import (
    Bins,
    GapBins,
    bins_over,
    growth_by_bin,
    longest_gap_ns,
    spread_by_bin,
    steps,
    sums_by_bin,
    thinned,
    tokens_by_bin,
)
from inferometer.analyze.engine import TIERS, Scraped
from inferometer.analyze.series import Series
from inferometer.core import GpuReport, MetricsReport, Status, Window
from inferometer.metrics import Bools, Floats, Ints
from inferometer.store import ABSENT, STATUSES, RequestTable, SeriesMap

MOST_BINS = 600
LEAST_BIN_NS = 100_000_000
"""A tenth of a second: narrower bins would show single steps of a batch."""
MOST_POINTS = 2000
"""Of a curve: a screen has fewer columns."""
MOST_LINES = 8
"""GPUs with a line each; of more, the lowest, the mean and the highest are drawn."""
GAUGES = ("engine.running", "engine.waiting", "engine.kv_use")
COUNTERS = ("engine.generation_tokens", "engine.prefix_queries", "engine.prefix_hits")
CARDS = ("gpu.power_w", "gpu.sm_clock_mhz")
HOST = {
    "host.engine_cpu_share": "engine",
    "host.client_cpu_share": "client",
    "host.other_cpu_share": "others",
}
SERIES = ("client.in_flight", *GAUGES, *COUNTERS, *CARDS, *HOST)
"""What is drawn of `samples.parquet`."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """`at_ns` int64[n] ascending, `values` float64[n]; NaN breaks it; steps hold rightwards."""

    name: str
    at_ns: Ints
    values: Floats
    kind: Literal["line", "steps", "dots"] = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves of one unit. `missing` has the why of each that is not there."""

    key: str
    title: str
    unit: str
    about: str
    curves: tuple[Curve, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """All that is known of a point over time."""

    table: RequestTable
    series: SeriesMap
    window: Window
    first_ns: int
    last_ns: int
    simulated: bool
    virtual: bool
    metrics: MetricsReport | None
    gpus: GpuReport | None


def span_of(table: RequestTable, window: Window) -> tuple[int, int]:
    """From the first request to the end of the last, the window included."""
    if not len(table):
        return window.start_ns, window.end_ns
    began = opened_ns(table)
    ended = table.numbers["end_ns"]
    return min(int(began.min()), window.start_ns), max(int(ended.max()), window.end_ns)


def opened_ns(table: RequestTable) -> Ints:
    """When each request was sent; of one that never was, when the client began to work on it."""
    sent = table.numbers["sent_ns"]
    return np.where(sent != ABSENT, sent, table.numbers["dequeued_ns"])


def panels_of(watched: Watched) -> tuple[Panel, ...]:
    """Every panel, in the order in which they are read: load first, cause after it."""
    bins = bins_over(
        watched.first_ns, watched.last_ns, watched.window.start_ns, MOST_BINS, LEAST_BIN_NS
    )
    tokens, gaps = _events(watched, bins)
    seconds = bins.width_ns / 1e9
    a_bin = f"Bins of {seconds:g} s."
    return (
        _in_flight(watched),
        _engine_gauges(watched, "queue", "Engine: running and waiting", "requests"),
        _engine_gauges(watched, "kv", "KV pool in use", "%"),
        _token_rates(watched, bins, tokens / seconds, a_bin),
        _gaps(bins, gaps, a_bin),
        _prefix_hits(watched, bins, a_bin),
        _cards(watched, bins, "power", "Power of each GPU", "W"),
        _cards(watched, bins, "clock", "Clock of each GPU", "MHz"),
        _host(watched),
    )


def _events(watched: Watched, bins: Bins) -> tuple[Floats, GapBins]:
    """One pass over the token events."""
    numbers = watched.table.numbers
    counted = _ended(watched.table, Status.OK, Status.CENSORED)
    osl = np.where(numbers["output_tokens"] != ABSENT, numbers["output_tokens"], 0)
    tokens, gaps = np.zeros(bins.count), GapBins(bins)
    for batch in watched.table.batches():
        here = slice(batch.first, batch.first + len(batch.counted))
        tokens += tokens_by_bin(batch, osl[here], counted[here], bins)
        gaps.add(batch)
    return tokens, gaps


def _ended(table: RequestTable, *statuses: Status) -> Bools:
    wanted = np.array([status in statuses for status in STATUSES], dtype=np.bool_)
    return wanted[table.numbers["status"]]


def _in_flight(watched: Watched) -> Panel:
    sent = watched.table.numbers["sent_ns"] != ABSENT
    opened = watched.table.numbers["sent_ns"][sent]
    closed = watched.table.numbers["end_ns"][sent]
    curves = [_thin("by the records", steps(opened, closed), "steps")] if sent.any() else []
    curves += _each(watched, "client.in_flight", "client's gauge", "dots")
    return Panel(
        "in_flight",
        "In flight",
        "requests",
        "Open requests: counted from the records, and by the client at random times.",
        tuple(curves),
        () if len(curves) > 1 else ("the client's gauge: no sample",),
    )


def _engine_gauges(watched: Watched, key: str, title: str, unit: str) -> Panel:
    names = ("running", "waiting") if key == "queue" else ("kv_use",)
    curves: list[Curve] = []
    missing: list[str] = []
    for name in names:
        found = _each(watched, f"engine.{name}", "in use" if key == "kv" else name, "line")
        curves += found if unit != "%" else [_times(curve, 100) for curve in found]
        missing += [] if found else [_unscraped(watched, name)]
    about = "As the engine says on its metrics page."
    return Panel(key, title, unit, about, tuple(curves), tuple(dict.fromkeys(missing)))


def _token_rates(watched: Watched, bins: Bins, arrived: Floats, a_bin: str) -> Panel:
    about = f"{a_bin} By the client: tokens as they arrive, of requests that did not fail. "
    about += "By the engine: its counter's growth."
    curves = [_binned("by the client", bins, arrived)]
    missing = []
    found = _growth(watched, bins, "engine.generation_tokens")
    if found is None:
        missing.append(_unscraped(watched, "generation_tokens"))
    else:
        curves.append(_binned("by the engine", bins, found / (bins.width_ns / 1e9)))
    return Panel("tokens", "Output tokens", "tok/s", about, tuple(curves), tuple(missing))


def _gaps(bins: Bins, gaps: GapBins, a_bin: str) -> Panel:
    about = f"{a_bin} Gaps of all requests between two chunks, where they end; to 1 %."
    found = {percent: gaps.percentile_s(percent) * 1e3 for percent in (50, 99)}
    curves = tuple(
        _binned(f"p{percent}", bins, values)
        for percent, values in found.items()
        if not np.isnan(values).all()
    )
    lacking = "no request had two chunks" if not curves else "p99: no bin has 100 gaps"
    return Panel("gaps", "Chunk gaps", "ms", about, curves, () if len(curves) == 2 else (lacking,))


def _prefix_hits(watched: Watched, bins: Bins, a_bin: str) -> Panel:
    curves, missing = [], []
    client = _cached_by_bin(watched.table, bins)
    if client is None:
        missing.append("by the client: the server does not count what was cached")
    else:
        curves.append(_binned("by usage", bins, client * 100))
    engine = [
        (tier, _growth(watched, bins, "engine.prefix_queries", tier), hits)
        for tier in TIERS
        if (hits := _growth(watched, bins, "engine.prefix_hits", tier)) is not None
    ]
    for tier, queries, hits in engine:
        if queries is not None:
            curves.append(_binned(f"engine, {tier}", bins, _share(hits, queries) * 100))
    if not engine:
        missing.append(_unscraped(watched, "prefix_hits", "device"))
    about = (
        f"{a_bin} Cached over all prompt tokens: by the usage of requests at their first token, "
    )
    about += "and by the engine's counters of what it looked up."
    return Panel("prefix", "Prefix hits", "%", about, tuple(curves), tuple(missing))


def _cached_by_bin(table: RequestTable, bins: Bins) -> Floats | None:
    numbers = table.numbers
    known = (numbers["cached_tokens"] != ABSENT) & (numbers["prompt_tokens"] != ABSENT)
    index = bins.of(numbers["first_token_ns"])
    here = known & (numbers["first_token_ns"] != ABSENT) & (index >= 0)
    if not here.any():
        return None
    cached, prompt = (
        sums_by_bin(index[here], numbers[name][here], bins)
        for name in ("cached_tokens", "prompt_tokens")
    )
    return _share(cached, prompt)


def _cards(watched: Watched, bins: Bins, key: str, title: str, unit: str) -> Panel:
    name = dict(zip(("power", "clock"), CARDS, strict=True))[key]
    about = "Board power, without host." if key == "power" else "Of the multiprocessors."
    why = _no_cards(watched)
    report = watched.gpus
    if why is not None or report is None:
        return Panel(key, title, unit, about, (), (why or "",))
    own = report.deployment or tuple(gpu.uuid for gpu in report.gpus)
    if not report.deployment:
        about += f" Every GPU of the machine: {report.problem or 'whose is unknown'}."
    index = {gpu.uuid: gpu.index for gpu in report.gpus}
    found = [
        (index.get(uuid, 0), Series(*watched.series[name, uuid]))
        for uuid in own
        if (name, uuid) in watched.series
    ]
    if not found:
        return Panel(key, title, unit, about, (), (f"{report.source} does not tell it",))
    if len(found) <= MOST_LINES:
        curves = [_thin(f"GPU {number}", series) for number, series in sorted(found, key=_first)]
        return Panel(key, title, unit, about, tuple(curves))
    at_ns, values = (np.concatenate([series[i] for _, series in found]) for i in (0, 1))
    named = zip(("lowest", "mean", "highest"), spread_by_bin(at_ns, values, bins), strict=True)
    about += f" Of {len(found)} GPUs, in bins of {bins.width_ns / 1e9:g} s."
    return Panel(key, title, unit, about, tuple(_binned(word, bins, each) for word, each in named))


def _host(watched: Watched) -> Panel:
    curves = [
        _times(curve, 100)
        for name, word in HOST.items()
        for curve in _each(watched, name, word, "line")
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


def _no_cards(watched: Watched) -> str | None:
    if watched.simulated:
        return "simulated: no GPU served this point"
    if watched.gpus is None:
        return "not watched"
    if watched.gpus.source is None:
        return f"not watched: {watched.gpus.problem}"
    return None


def _unscraped(watched: Watched, name: str, tier: str | None = None) -> str:
    if watched.virtual:
        return "by the engine: not scraped; in virtual time there is no metrics page"
    return f"{name}: {Scraped((), watched.metrics).missing(name, tier)}"


def _growth(watched: Watched, bins: Bins, name: str, tier: str = "") -> Floats | None:
    """Growth of the counter, of all engines that the page names; None without the series."""
    found = [
        growth_by_bin(Series(*series), bins)
        for (called, labels), series in watched.series.items()
        if called == name and (not tier or f"tier={tier}" in labels.split(","))
    ]
    return np.sum(found, axis=0) if found else None


def _share(part: Floats, whole: Floats) -> Floats:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1), np.nan)


def _each(
    watched: Watched, name: str, word: str, kind: Literal["line", "steps", "dots"]
) -> list[Curve]:
    """A curve for each label of a series."""
    found = [(key[1], Series(*each)) for key, each in watched.series.items() if key[0] == name]
    several = len(found) > 1
    return [
        _thin(f"{word} ({labels})" if several else word, series, kind) for labels, series in found
    ]


def _thin(name: str, series: Series, kind: Literal["line", "steps", "dots"] = "line") -> Curve:
    """Few enough points; a line is broken where nothing was sampled for long."""
    kept = thinned(series, MOST_POINTS)
    at_ns, values = series.at_ns[kept], series.values[kept]
    if kind != "line":
        return Curve(name, at_ns, values, kind)
    silent = np.flatnonzero(np.diff(series.at_ns) > longest_gap_ns(series.at_ns)) + 1
    cut = np.searchsorted(kept, silent, "left")
    cut = np.unique(cut[(cut > 0) & (cut < len(kept))])
    return Curve(name, np.insert(at_ns, cut, at_ns[cut] - 1), np.insert(values, cut, np.nan), kind)


def _binned(name: str, bins: Bins, values: Floats) -> Curve:
    """Each bin's value from its start to its end."""
    return Curve(name, bins.edges_ns, np.append(values, values[-1:]), "steps")


def _times(curve: Curve, factor: float) -> Curve:
    return Curve(curve.name, curve.at_ns, curve.values * factor, curve.kind)


def _first(pair: tuple[int, Series]) -> int:
    return pair[0]


def series_between(first_ns: int, last_ns: int) -> tuple[Sequence[str], int, int]:
    """Which samples to read for a span: those a little outside it too, for its edges."""
    around = max(2_000_000_000, (last_ns - first_ns) // 50)
    return SERIES, first_ns - around, last_ns + around
