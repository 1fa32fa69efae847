"""A page of Prometheus text → our series: which families it has, and what they come to.

Labels that tell replicas apart count once, ranks and engines add up or make a mean, and a series
that a page has under the names of two engines is read under the first. Knows no network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache

from prometheus_client.parser import text_string_to_metric_families

from inferometer.catalog.families import SERIES, Engine, Option, engines

Labels = Mapping[str, str]
_NAME = re.compile(r"(?:# TYPE )?([A-Za-z_:][A-Za-z0-9_:]*)")
LE = "le"


@dataclass(slots=True)
class Page:
    """Samples by name, as they are on the page, and the names of families that it declares."""

    samples: dict[str, list[tuple[Labels, float]]] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Families:
    """What was found on the pages of one engine so far.

    An option once taken is kept: two families of one thing need not count alike.
    """

    taken: dict[str, tuple[str, Option]] = field(default_factory=dict)
    seen: dict[str, None] = field(default_factory=dict)

    @property
    def engines(self) -> tuple[str, ...]:
        """Whose families were on the pages, the preferred first."""
        return tuple(row.engine for row in engines() if row.engine in self.seen)

    @property
    def refresh_s(self) -> float:
        """How old the pages may be."""
        return max((row.refresh_s for row in engines() if row.engine in self.seen), default=0.0)


def page_families(text: str, *, histograms: bool = True) -> Page:
    """The families of a page that we know, and no other. Raises ValueError for a page that is none.

    Lines of other families are not parsed, and those of histograms only where asked: they are most
    of a page.
    """
    wanted = _wanted(histograms)
    lines = [line.rstrip("\r") for line in text.split("\n") if _first_name(line) in wanted]
    page = Page()
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            page.declared.add(family.name.removesuffix("_total"))
            for sample in family.samples:
                name = sample.name.removesuffix("_total")
                page.samples.setdefault(name, []).append((sample.labels, sample.value))
    except IndexError:
        # The parser's own way to stumble over braces that do not match.
        raise ValueError("braces that do not match") from None
    return page


def read_series(page: Page, families: Families) -> dict[tuple[str, str], float]:
    """`(name, labels)` → value of every series that the page has; what is not finite is left out.

    Names are `engine.NAME`; labels are `engine`, then `tier` or `le`, as `key=value` with commas.
    """
    present = [row for row in engines() if _on_page(row, page)]
    # An engine that shares the names of another one is not both.
    shared = {row.like for row in present}
    present = [row for row in present if row.engine not in shared]
    families.seen.update(dict.fromkeys(row.engine for row in present))
    found: dict[tuple[str, str], float] = {}
    for key in _keys():
        row, option = _choice(key, present, page, families)
        if row is None or option is None:
            continue
        name, _, tier = key.partition(".")
        for suffix, le, value in _values(row, name, option, page):
            parts = (f"engine={row.engine}", tier and f"tier={tier}", le and f"le={le}")
            if math.isfinite(value):
                found[f"engine.{name}{suffix}", ",".join(p for p in parts if p)] = value
    return found


def _choice(
    key: str, present: list[Engine], page: Page, families: Families
) -> tuple[Engine | None, Option | None]:
    """The option taken before; else the first with samples; else, of a counter, the first declared:
    it has not counted yet.
    """
    rows = {row.engine: row for row in present}
    if key in families.taken:
        engine, option = families.taken[key]
        return rows.get(engine), option
    name = key.partition(".")[0]
    options = [
        (row, option)
        for row in present
        for option in row.series.get(key, ())
        if (option.needs is None or _has(page, option.needs))
        and (option.lacks is None or not _has(page, option.lacks))
    ]
    for row, option in options:
        if all(_matching(page, each, option, name) for each in _parts(option)):
            families.taken[key] = (row.engine, option)
            return row, option
    if SERIES[name].kind == "counter":
        for row, option in options:
            if all(_has(page, each) for each in _parts(option)):
                return row, option
    return None, None


def _values(row: Engine, name: str, option: Option, page: Page) -> Iterator[tuple[str, str, float]]:
    """(suffix of the series' name, bound of the bucket, value)."""
    series = SERIES[name]
    if series.kind == "histogram":
        for le, samples in _by_bound(_matching(page, option.name, option, name)).items():
            yield "", le, _combined(row, samples, "sum")
        sums = _where(page.samples.get(f"{option.name}_sum", ()), option)
        if sums:
            yield "_sum", "", _combined(row, sums, "sum")
        return
    parts = [_matching(page, each, option, name) for each in _parts(option)]
    if all(parts):
        yield "", "", sum(_combined(row, each, series.combine) for each in parts)
    elif series.kind == "counter" and all(_has(page, each) for each in _parts(option)):
        yield "", "", 0.0


def _parts(option: Option) -> tuple[str, ...]:
    return option.name, *option.plus


def _matching(page: Page, family: str, option: Option, series: str) -> list[tuple[Labels, float]]:
    name = f"{family}_bucket" if SERIES[series].kind == "histogram" else family
    return _where(page.samples.get(name, ()), option)


def _where(samples: Iterable[tuple[Labels, float]], option: Option) -> list[tuple[Labels, float]]:
    return [
        (labels, value)
        for labels, value in samples
        if all(
            any(fnmatchcase(labels.get(label, ""), pattern) for pattern in patterns)
            for label, patterns in option.where.items()
        )
    ]


def _by_bound(
    samples: Iterable[tuple[Labels, float]],
) -> dict[str, list[tuple[Labels, float]]]:
    found: dict[str, list[tuple[Labels, float]]] = {}
    for labels, value in samples:
        found.setdefault(labels.get(LE, ""), []).append((labels, value))
    return found


def _combined(row: Engine, samples: list[tuple[Labels, float]], how: str) -> float:
    """Replicas say the same, and the newest of them is the largest; the rest adds up, or is a mean.

    One that is not a number makes the whole none.
    """
    groups: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k not in row.replicas))
        known = groups.get(key, value)
        groups[key] = math.nan if math.isnan(known + value) else max(known, value)
    total = sum(groups.values()) if all(map(math.isfinite, groups.values())) else math.nan
    return total / len(groups) if how == "mean" else total


def _has(page: Page, family: str) -> bool:
    return family in page.declared or family in page.samples


def _on_page(row: Engine, page: Page) -> bool:
    return any(name.startswith(row.prefix) for name in page.declared)


def _first_name(line: str) -> str | None:
    match = _NAME.match(line)
    return None if match is None else match.group(1)


@cache
def _keys() -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for row in engines() for key in row.series))


@cache
def _wanted(histograms: bool) -> frozenset[str]:
    """Every name at the start of a line that matters: of samples, and after `# TYPE`."""
    found: set[str] = set()
    for row in engines():
        for key, options in row.series.items():
            of_histogram = SERIES[key.partition(".")[0]].kind == "histogram"
            for option in options:
                looked_at = [name for name in (option.needs, option.lacks) if name is not None]
                for name in (*_parts(option), *looked_at):
                    found |= {name, f"{name}_total"}
                    if of_histogram and histograms:
                        found |= {f"{name}_bucket", f"{name}_sum"}
    return frozenset(found)
