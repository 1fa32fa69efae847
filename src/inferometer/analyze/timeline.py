"""A point over time: what the client, the engine, the cards and the machine did, as curves.

From the table of requests and the series of one point; every stamp is of one clock. A curve that
cannot be drawn has its why. Reads no file, and says nothing about looks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferometer.analyze.bins import (
    Bins,
    GapBins,
    bins_over,
    growth_by_bin,
    steps,
    sums_by_bin,
    tokens_by_bin,
)
from inferometer.analyze.curves import Curve, Panel, Watched, binned, each, thin, times
from inferometer.analyze.engine import TIERS, Scraped
from inferometer.analyze.machine_panels import CARDS, HOST, machine_panels
from inferometer.analyze.series import Series
from inferometer.core import Status, Window
from inferometer.metrics import Bools, Floats, Ints
from inferometer.store import ABSENT, STATUSES, RequestTable

MOST_BINS = 600
LEAST_BIN_NS = 100_000_000
"""A tenth of a second: narrower bins would show single steps of a batch."""
LEAST_SCRAPED_NS = 500_000_000
"""Beside counters that are read three times a second: in narrower bins the two differ by their
stamps alone.
"""
GAUGES = ("engine.running", "engine.waiting", "engine.kv_use")
COUNTERS = ("engine.generation_tokens", "engine.prefix_queries", "engine.prefix_hits")
SERIES = ("client.in_flight", *GAUGES, *COUNTERS, *CARDS, *HOST)
"""What is drawn of `samples.parquet`."""


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
    scraped = any(name in COUNTERS for name, _ in watched.series)
    least_ns = LEAST_SCRAPED_NS if scraped else LEAST_BIN_NS
    bins = bins_over(
        watched.first_ns, watched.last_ns, watched.window.start_ns, MOST_BINS, least_ns
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
        *machine_panels(watched),
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
    curves = [thin("by the records", steps(opened, closed), "steps")] if sent.any() else []
    curves += each(watched, "client.in_flight", "client's gauge", "dots")
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
        found = each(watched, f"engine.{name}", "in use" if key == "kv" else name, "line")
        curves += found if unit != "%" else [times(curve, 100) for curve in found]
        missing += [] if found else [_unscraped(watched, name)]
    about = "As the engine says on its metrics page."
    return Panel(key, title, unit, about, tuple(curves), tuple(dict.fromkeys(missing)))


def _token_rates(watched: Watched, bins: Bins, arrived: Floats, a_bin: str) -> Panel:
    about = f"{a_bin} By the client: tokens as they arrive, of requests that did not fail. "
    about += "By the engine: its counter's growth."
    curves = [binned("by the client", bins, arrived)]
    missing = []
    found = _growth(watched, bins, "engine.generation_tokens")
    if found is None:
        missing.append(_unscraped(watched, "generation_tokens"))
    else:
        curves.append(binned("by the engine", bins, found / (bins.width_ns / 1e9)))
    return Panel("tokens", "Output tokens", "tok/s", about, tuple(curves), tuple(missing))


def _gaps(bins: Bins, gaps: GapBins, a_bin: str) -> Panel:
    about = f"{a_bin} Gaps of all requests between two chunks, where they end; to 1 %."
    found = {percent: gaps.percentile_s(percent) * 1e3 for percent in (50, 99)}
    curves = tuple(
        binned(f"p{percent}", bins, values)
        for percent, values in found.items()
        if not np.isnan(values).all()
    )
    lacking = "no request had two chunks" if not curves else "p99: no bin has 100 gaps"
    missing = () if len(curves) == 2 else (lacking,)
    return Panel("gaps", "Chunk gaps", "ms", about, curves, missing, log=True)


def _prefix_hits(watched: Watched, bins: Bins, a_bin: str) -> Panel:
    curves, missing = [], []
    client = _cached_by_bin(watched.table, bins)
    if client is None:
        missing.append("by the client: the server does not count what was cached")
    else:
        curves.append(binned("by usage", bins, client * 100))
    engine = [
        (tier, _growth(watched, bins, "engine.prefix_queries", tier), hits)
        for tier in TIERS
        if (hits := _growth(watched, bins, "engine.prefix_hits", tier)) is not None
    ]
    for tier, queries, hits in engine:
        if queries is not None:
            curves.append(binned(f"engine, {tier}", bins, _share(hits, queries) * 100))
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


def series_between(first_ns: int, last_ns: int) -> tuple[Sequence[str], int, int]:
    """Which samples to read for a span: those a little outside it too, for its edges."""
    around = max(2_000_000_000, (last_ns - first_ns) // 50)
    return SERIES, first_ns - around, last_ns + around
