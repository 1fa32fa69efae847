"""A point's curves and requests as compact JSON for its page: integers, delta coded, names once.

Times of curves are whole milliseconds, those of requests tenths of a millisecond, both from the
window's start. A count or stamp that a request lacks is -1; a NaN of a curve is null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from inferometer.analyze.curves import Curve, Panel, Watched
from inferometer.analyze.lanes import Rows, rows_of, whole_lanes
from inferometer.analyze.timeline import opened_ns
from inferometer.metrics import Floats, Ints
from inferometer.store import ABSENT, STATUSES, RequestTable, RequestWords

Json = dict[str, object]
TICK_NS = 100_000
MOST_BARS = 30_000
"""Requests drawn as bars, at most; a browser draws so many at a time without a pause."""
DIGITS = 4
MOST_SCALE = 12
"""What is below 10^-12 of its unit is drawn as 0."""
MOST_WORDS = 120
"""Letters of a name that are kept: what a card can show."""


class Bars(NamedTuple):
    """Which requests are drawn, by row and time (`rows.order` are positions in the table), and how
    many there are in all.
    """

    rows: Rows
    total: int


@dataclass(slots=True)
class _Names:
    """Every distinct text once."""

    kept: list[str] = field(default_factory=list)
    _where: dict[str, int] = field(default_factory=dict)

    def at(self, text: str | None) -> int:
        """The position of a text; -1 for none."""
        if text is None:
            return -1
        short = text if len(text) <= MOST_WORDS else text[: MOST_WORDS - 1] + "…"
        if short not in self._where:
            self._where[short] = len(self.kept)
            self.kept.append(short)
        return self._where[short]


def bars_of(table: RequestTable, words: RequestWords) -> Bars:
    """Bars of all requests; of more than `MOST_BARS`, those of whole lanes."""
    lane, opened = table.numbers["lane"], opened_ns(table)
    sub = np.array([name is not None for name in words.texts["parent_agent"]], dtype=np.bool_)
    drawn = np.flatnonzero(whole_lanes(lane, MOST_BARS) if len(lane) else sub)
    if len(drawn) > MOST_BARS:
        drawn = drawn[np.argsort(opened[drawn], kind="stable")[:MOST_BARS]]
    closed = np.maximum(table.numbers["end_ns"], opened)
    rows = rows_of(lane[drawn], opened[drawn], closed[drawn], sub[drawn])
    return Bars(Rows(drawn[rows.order], rows.lane, rows.track, rows.counts), len(lane))


def timeline_data(
    watched: Watched, panels: Sequence[Panel], bars: Bars, words: RequestWords
) -> Json:
    """The JSON behind the pictures."""
    zero = watched.window.start_ns
    ends = (watched.first_ns, watched.last_ns, watched.window.end_ns)
    first, last, end = ((at_ns - zero) / 1e9 for at_ns in ends)
    return {
        "span": [first, last],
        "window": end,
        "panels": [_panel(panel, zero) for panel in panels if panel.curves],
        "requests": _requests(watched.table, bars, words, zero),
    }


def _panel(panel: Panel, zero_ns: int) -> Json:
    return {
        "key": panel.key,
        "title": panel.title,
        "unit": panel.unit,
        "log": panel.log,
        "curves": [_curve(curve, zero_ns) for curve in panel.curves],
    }


def _curve(curve: Curve, zero_ns: int) -> Json:
    at_ms = np.round((curve.at_ns - zero_ns) / 1e6).astype(np.int64)
    scale, values = scaled(curve.values)
    return {
        "name": curve.name,
        "kind": curve.kind,
        "at": deltas(at_ms),
        "scale": scale,
        "values": values,
    }


def deltas(values: Ints) -> list[int]:
    """The first value, then differences."""
    found: list[int] = np.diff(values, prepend=0).tolist()
    return found


def scaled(values: Floats) -> tuple[int, list[int | None]]:
    """Powers of ten by which whole numbers are to be divided, and the numbers: four digits of the
    largest value; NaN is None.
    """
    known = np.abs(values[np.isfinite(values)])
    top = float(known.max()) if len(known) else 0.0
    digits = DIGITS - 1 - math.floor(math.log10(top)) if top > 0 else 0
    scale = min(max(0, digits), MOST_SCALE)
    rounded = np.round(values * 10.0**scale)
    return scale, [int(each) if math.isfinite(each) else None for each in rounded.tolist()]


def _requests(table: RequestTable, bars: Bars, words: RequestWords, zero_ns: int) -> Json:
    rows, order = bars.rows, bars.rows.order
    return {
        "total": bars.total,
        "lanes": rows.lane.tolist(),
        "tracks": rows.track.tolist(),
        "counts": rows.counts.tolist(),
        **_numbers(table, rows, zero_ns),
        "turn": words.turn[order].tolist(),
        **_texts({name: [texts[i] for i in order] for name, texts in words.texts.items()}),
        "statuses": [status.value for status in STATUSES],
        "failed": [int(status.failed) for status in STATUSES],
    }


def _numbers(table: RequestTable, rows: Rows, zero_ns: int) -> Json:
    numbers = {name: values[rows.order] for name, values in table.numbers.items()}
    opened = opened_ns(table)[rows.order]
    starts = np.cumsum(rows.counts) - rows.counts
    ticks = (opened - zero_ns) // TICK_NS
    change = np.diff(ticks, prepend=0)
    change[starts] = ticks[starts]
    return {
        "opened": change.tolist(),
        "first": _after(numbers["first_token_ns"], opened),
        "last": _after(np.maximum(numbers["end_ns"], opened), opened),
        "sent": (numbers["sent_ns"] != ABSENT).astype(np.int64).tolist(),
        "status": numbers["status"].tolist(),
        "warmup": (1 - numbers["measured"]).tolist(),
        "input": _or_minus(numbers["prompt_tokens"]),
        "intended": _or_minus(numbers["input_tokens"]),
        "cached": _or_minus(numbers["cached_tokens"]),
        "output": _or_minus(numbers["output_tokens"]),
    }


def _texts(picked: Mapping[str, Sequence[str | None]]) -> Json:
    names = {"session": _Names(), "agent": _Names(), "error": _Names()}
    coded = {name: [kept.at(text) for text in picked[name]] for name, kept in names.items()}
    ids = [str(text) for text in picked["request_id"]]
    prefix = shared_start(ids)
    return {
        **coded,
        "sub": [int(text is not None) for text in picked["parent_agent"]],
        "id": [text[len(prefix) :] for text in ids],
        "prefix": prefix,
        **{f"{name}s": kept.kept for name, kept in names.items()},
    }


def shared_start(words: Sequence[str]) -> str:
    """What all of them begin with."""
    if not words:
        return ""
    low, high = min(words), max(words)
    differ = (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return low[: next(differ, min(len(low), len(high)))]


def _after(at_ns: Ints, opened: Ints) -> list[int]:
    found: list[int] = np.where(at_ns != ABSENT, (at_ns - opened) // TICK_NS, -1).tolist()
    return found


def _or_minus(values: Ints) -> list[int]:
    found: list[int] = np.where(values != ABSENT, values, -1).tolist()
    return found


def worth_a_look(table: RequestTable, drawn: Iterable[int], most: int) -> list[int]:
    """Places among the drawn requests: those that failed, then by TTFT, longest first."""
    order = np.fromiter(drawn, np.int64)
    numbers = {name: values[order] for name, values in table.numbers.items()}
    failed = np.array([status.failed for status in STATUSES])[numbers["status"]]
    known = (numbers["first_token_ns"] != ABSENT) & (numbers["sent_ns"] != ABSENT)
    ttft = np.where(known, numbers["first_token_ns"] - numbers["sent_ns"], -1)
    ranked: list[int] = np.lexsort((-ttft, ~failed))[:most].tolist()
    return ranked
