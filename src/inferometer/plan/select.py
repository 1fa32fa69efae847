"""Filters over points: pure, each an exact condition, none changes a point.

A filter that nothing passes is a mistake of whoever typed it, and says what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from inferometer.core import Point
from inferometer.errors import InputError, nearest
from inferometer.plan.names import scenario_of


@dataclass(frozen=True, slots=True)
class Selection:
    """Which points to keep: those that pass every filter given. Empty and None filter nothing."""

    keys: tuple[str, ...] = ()
    """Config keys, `*` and `?` as in file names; a point passes if any one matches."""
    scenario: Literal["fixed", "agentic"] | None = None
    conc: tuple[int, ...] = ()
    conc_min: int | None = None
    conc_max: int | None = None
    frameworks: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ()
    model_prefixes: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()


def select(points: Sequence[Point], selection: Selection) -> tuple[Point, ...]:
    """The points that pass, in order. InputError names every value that matches nothing."""
    if not points:
        raise InputError("there is no point to select from")
    problems = [
        *_unmatched_keys(points, selection),
        *_unmatched_texts(points, selection),
        *_unmatched_conc(points, selection),
    ]
    if problems:
        raise InputError(*problems)
    kept = tuple(point for point in points if _passes(point, selection))
    if not kept:
        raise InputError(f"each filter passes some of {len(points)} points, all together none")
    return kept


def _passes(point: Point, selection: Selection) -> bool:
    keys, concs = selection.keys, selection.conc
    return (
        (not keys or any(fnmatchcase(point.config, key) for key in keys))
        and (not concs or point.conc in concs)
        and _in_range(point.conc, selection)
        and all(not wanted or of(point) in wanted for _, wanted, of in _texts(selection))
    )


def _in_range(conc: int, selection: Selection) -> bool:
    low, high = selection.conc_min, selection.conc_max
    return (low is None or conc >= low) and (high is None or conc <= high)


def _texts(selection: Selection) -> Iterator[tuple[str, tuple[str, ...], Callable[[Point], str]]]:
    """(what, values wanted, the point's value) of the filters by an equal text."""
    yield "scenario", (selection.scenario,) if selection.scenario else (), scenario_of
    yield "framework", selection.frameworks, lambda point: point.framework
    yield "hardware", selection.hardware, lambda point: point.hardware
    yield "model prefix", selection.model_prefixes, lambda point: point.model_prefix
    yield "precision", selection.precisions, lambda point: point.precision


def _unmatched_texts(points: Sequence[Point], selection: Selection) -> Iterator[str]:
    for what, wanted, of in _texts(selection):
        there = sorted({of(point) for point in points})
        for value in wanted:
            if value not in there:
                hint = nearest(value, there)
                yield f"no point has {what} {value!r}{hint}; there are: {_listed(there)}"


def _unmatched_conc(points: Sequence[Point], selection: Selection) -> Iterator[str]:
    there = sorted({point.conc for point in points})
    missing = [str(conc) for conc in selection.conc if conc not in there]
    if not any(_in_range(conc, selection) for conc in there):
        low, high = selection.conc_min, selection.conc_max
        missing.append(f"{'' if low is None else low}..{'' if high is None else high}")
    for value in missing:
        yield f"no point has concurrency {value}; there are: {_listed(there)}"


def _unmatched_keys(points: Sequence[Point], selection: Selection) -> Iterator[str]:
    keys = sorted({point.config for point in points})
    for glob in selection.keys:
        if not any(fnmatchcase(key, glob) for key in keys):
            hint = nearest(glob, keys)
            yield f"no config key matches {glob!r}{hint}; there are: {_listed(keys)}"


def _listed(values: Iterable[str | int], most: int = 20) -> str:
    shown = [str(value) for value in values]
    rest = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + rest
