"""What the engine said of itself over the rate window: queue, KV pool, prefix cache, speculation.

From the samples `engine.…` of its metrics page. Null names the family that the page lacks, or what
happened to it; a note beside a value says what the engine means by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np

from inferometer.analyze import series
from inferometer.analyze.acceptance import Target
from inferometer.analyze.series import Series
from inferometer.catalog import engines, family_options
from inferometer.core import MetricsReport, Sample, Window
from inferometer.metrics import Figure

NOT_WATCHED = "the engine's metrics were not watched"
NOT_LOOKED_UP = "nothing was looked up in the window"
PAGES, WITH_HISTOGRAMS = "engine.scrape_s", "with=histograms"
HISTOGRAMS = {
    "queue_time_s": "queue_time",
    "ttft_s": "ttft",
    "itl_s": "itl",
    "prefill_time_s": "prefill_time",
    "decode_time_s": "decode_time",
    "inference_time_s": "inference_time",
}
PERCENTS = (50, 90, 99)
TIERS = ("device", "host", "external")
Labels = dict[str, str]


class Scraped:
    """The engine's series of one run, each found by name and labels."""

    def __init__(self, samples: Sequence[Sample], report: MetricsReport | None) -> None:
        self._report = report
        found: dict[tuple[str, str], list[Sample]] = {}
        for sample in samples:
            if sample.name.startswith("engine."):
                found.setdefault((sample.name, sample.labels), []).append(sample)
        self._series = {key: _series(each) for key, each in found.items()}
        none = Series(np.array([], np.int64), np.array([]))
        self._full = self._series.get((PAGES, WITH_HISTOGRAMS), none).at_ns
        rest = self._series.get((PAGES, ""), none).at_ns
        self._pages = np.union1d(self._full, rest)

    def counter(self, name: str, window: Window, tier: str | None = None) -> Figure:
        """By how much it grew in the window."""
        found = self._find(name, tier=tier)
        if found is None:
            return Figure(None, self.missing(name, tier))
        labels, values = found
        figure = series.difference(self._from_zero(values, name), window)
        return Figure(figure.value, _joined(self._means(labels, name, tier), figure.why))

    def rate(self, name: str, window: Window) -> Figure:
        """The same a second; a note where a jump at an edge of the window makes it uncertain."""
        grown = self.counter(name, window)
        if grown.value is None or window.seconds <= 0:
            return Figure(None, grown.why or "the window is empty")
        found = self._find(name)
        jump = None if found is None else series.edges_note(self._from_zero(found[1], name), window)
        return Figure(grown.value / window.seconds, _joined(grown.why, jump))

    def gauge(self, name: str, window: Window, how: Callable[[Series, Window], Figure]) -> Figure:
        """Its mean or its highest over the window."""
        found = self._find(name)
        if found is None:
            return Figure(None, self.missing(name))
        labels, values = found
        figure = how(values, window)
        return Figure(figure.value, _joined(self._means(labels, name), figure.why))

    def while_waiting(self, name: str, window: Window) -> Figure:
        """Mean of a gauge over the scrapes at which requests waited: what it is that they wait
        for.
        """
        found, waiting = self._find(name), self._find("waiting")
        if found is None or waiting is None:
            return Figure(None, self.missing(name if found is None else "waiting"))
        return series.mean_while(found[1], waiting[1], window)

    def times(self, name: str, window: Window) -> dict[str, Figure]:
        """`mean`, `p50`, `p90` and `p99` of a histogram."""
        buckets = {
            parsed["le"]: (parsed, values) for parsed, values in self._all(name) if "le" in parsed
        }
        keys = ("mean", *(f"p{percent}" for percent in PERCENTS))
        if not buckets:
            return dict.fromkeys(keys, Figure(None, self.missing(name)))
        found, why = series.histogram(
            {le: self._from_zero(values, name) for le, (_, values) in buckets.items()}, window
        )
        if found is None:
            return dict.fromkeys(keys, Figure(None, why))
        note = _joined(self._means(next(iter(buckets.values()))[0], name), why)
        total = self._sum(name, window)
        figures = {f"p{each}": series.quantile(found, each, total.value) for each in PERCENTS}
        figures["mean"] = _ratio(total, Figure(found.total), "nothing observed in the window")
        return {key: Figure(each.value, _joined(note, each.why)) for key, each in figures.items()}

    def _sum(self, name: str, window: Window) -> Figure:
        """Of all observations of a histogram, which its buckets are read together with."""
        found = self._find(f"{name}_sum")
        if found is None:
            return Figure(None, self.missing(name))
        values = self._from_zero(found[1], f"{name}_sum")
        return series.difference(values, window, series.HISTOGRAM_GAP_S)

    def missing(self, name: str, tier: str | None = None) -> str:
        """Why a series is not there."""
        report = self._report
        if report is None:
            return NOT_WATCHED
        if report.path is None:
            return f"no metrics page: {report.problem}"
        if not report.engines:
            return f"{report.path} has no family of an engine that is known"
        key = f"{name}.{tier}" if tier else name
        options = [o for each in report.engines for o in family_options(each, key)]
        shown = ", ".join(_display(each) for each in report.engines)
        if not options:
            return f"{shown} does not publish {key}"
        return f"{shown}: no {' or '.join(option.name for option in options)} on {report.path}"

    def _from_zero(self, values: Series, name: str) -> Series:
        """A counter that pages before its first one did not have, had not counted yet."""
        of_histogram = name.removesuffix("_sum") in HISTOGRAMS
        pages = self._full if of_histogram else self._pages
        before = pages[pages < values.at_ns[0]]
        if not len(before):
            return values
        return Series(
            np.concatenate((before, values.at_ns)),
            np.concatenate((np.zeros(len(before)), values.values)),
        )

    def _find(self, name: str, tier: str | None = None) -> tuple[Labels, Series] | None:
        return next((each for each in self._all(name) if each[0].get("tier") == tier), None)

    def _all(self, name: str) -> list[tuple[Labels, Series]]:
        return [
            (_parsed(labels), values)
            for (found, labels), values in self._series.items()
            if found == f"engine.{name}"
        ]

    def _means(self, labels: Labels, name: str, tier: str | None = None) -> str | None:
        """What the engine means by it, where one option of the table says so."""
        key = f"{name}.{tier}" if tier else name
        engine = labels.get("engine", "")
        notes = dict.fromkeys(o.note for o in family_options(engine, key))
        said = " or ".join(note for note in notes if note) or None
        refresh_s = next((row.refresh_s for row in engines() if row.engine == engine), 0.0)
        return _joined(said, f"renewed every {refresh_s:g} s" if refresh_s else None)


def engine_figures(
    samples: Sequence[Sample],
    report: MetricsReport | None,
    window: Window,
    target: Target | None,
) -> dict[str, Figure]:
    """Every figure that rests on the engine's own metrics, by published name."""
    scraped = Scraped(samples, report)
    found = {
        "engine_running": scraped.gauge("running", window, series.time_mean),
        "engine_running_max": scraped.gauge("running", window, series.highest),
        "engine_waiting": scraped.gauge("waiting", window, series.time_mean),
        "engine_waiting_max": scraped.gauge("waiting", window, series.highest),
        "engine_kv_use": scraped.gauge("kv_use", window, series.time_mean),
        "engine_kv_use_max": scraped.gauge("kv_use", window, series.highest),
        "engine_running_while_waiting": scraped.while_waiting("running", window),
        "engine_kv_use_while_waiting": scraped.while_waiting("kv_use", window),
        "engine_preemptions": scraped.counter("preemptions", window),
        "engine_input_tok_s": scraped.rate("prompt_tokens", window),
        "engine_output_tok_s": scraped.rate("generation_tokens", window),
    }
    for name, metric in HISTOGRAMS.items():
        times = scraped.times(name, window)
        found |= {f"engine_{metric}_{key}_s": figure for key, figure in times.items()}
    length, drafts = _acceptance(scraped, window)
    found["acceptance_length"] = length
    found["acceptance_target"] = _wanted(target)
    found["engine_drafts"] = drafts
    return found | _prefix(scraped, window)


def _prefix(scraped: Scraped, window: Window) -> dict[str, Figure]:
    """Share of the tokens looked up that each tier of the prefix cache gave, and of all tiers.

    Every prompt is looked up on the device first, so its queries are the whole. An engine whose
    tiers are not told, or did not count although tokens were cached, has its one count of cached
    tokens for all of them, and no tier.
    """
    queries = scraped.counter("prefix_queries", window, "device")
    hits = {tier: scraped.counter("prefix_hits", window, tier) for tier in TIERS}
    cached = scraped.counter("prompt_tokens_cached", window)
    known = [count.value for count in hits.values() if count.value is not None]
    total = Figure(None if hits["device"].value is None else sum(known), hits["device"].why)
    if not total.value and cached.value:
        why = f"of {cached.value:.0f} cached tokens no tier counted any"
        hits = {
            tier: count if count.value is None else Figure(None, why)
            for tier, count in hits.items()
        }
        total = cached
    found = {
        f"engine_prefix_hit_{tier}": _ratio(count, queries, NOT_LOOKED_UP)
        for tier, count in hits.items()
    }
    found["engine_prefix_hit"] = _ratio(total, queries, NOT_LOOKED_UP)
    return found


def _acceptance(scraped: Scraped, window: Window) -> tuple[Figure, Figure]:
    """Tokens a verification: 1 + accepted / drafts; and how many verifications there were.

    SGLang counts no accepted tokens, but its verifications beside the tokens and requests that
    ended: every token of a request but its first comes from one. Where an engine counts neither,
    the mean of its own gauge.
    """
    drafts = scraped.counter("drafts", window)
    accepted = scraped.counter("accepted_tokens", window)
    if drafts.value and accepted.value is not None:
        return Figure(1 + accepted.value / drafts.value, accepted.why), drafts
    if drafts.value == 0:
        return Figure(None, "nothing was drafted in the window"), drafts
    if drafts.value:
        tokens = scraped.counter("generation_tokens", window)
        ended = scraped.counter("requests", window)
        if tokens.value is not None and ended.value is not None and tokens.value > ended.value:
            length = (tokens.value - ended.value) / drafts.value
            return Figure(length, "(generated tokens - requests) / verifications"), drafts
    recent = scraped.gauge("acceptance_recent", window, series.time_mean)
    if recent.value:
        return Figure(recent.value, _joined("mean of the engine's own gauge", recent.why)), drafts
    return Figure(None, accepted.why if accepted.value is None else drafts.why), drafts


def _wanted(target: Target | None) -> Figure:
    if target is None:
        return Figure(None, "the plan does not speculate")
    if target.length is None:
        return Figure(None, f"the model judges its drafts ({target.said_by})")
    return Figure(target.length, f"synthetic, by {target.said_by}")


def _ratio(part: Figure, whole: Figure, otherwise: str) -> Figure:
    if part.value is None or whole.value is None:
        return Figure(None, part.why if part.value is None else whole.why)
    if whole.value <= 0:
        return Figure(None, otherwise)
    return Figure(part.value / whole.value, _joined(part.why, whole.why))


def _series(samples: list[Sample]) -> Series:
    """By time; of two values of one moment the later one."""
    ordered = sorted(samples, key=lambda sample: sample.at_ns)
    last = [list(each)[-1] for _, each in groupby(ordered, key=lambda sample: sample.at_ns)]
    return Series(
        np.array([sample.at_ns for sample in last], np.int64),
        np.array([sample.value for sample in last], np.float64),
    )


def _parsed(labels: str) -> Labels:
    pairs = (part.partition("=") for part in labels.split(",") if part)
    return {key: value for key, _, value in pairs}


def _display(engine: str) -> str:
    return next((row.display for row in engines() if row.engine == engine), engine)


def _joined(*notes: str | None) -> str | None:
    return "; ".join(dict.fromkeys(note for note in notes if note)) or None
