"""Filters over points: pure, each an exact condition, none changes a point or makes one.

A filter that nothing passes is a mistake of whoever typed it, and says what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from inferometer.core import FixedSeqLen, Parallelism, Point
from inferometer.errors import InputError, nearest
from inferometer.plan.names import scenario_of

if TYPE_CHECKING:  # what makes points need not be loaded where there is none to make
    from inferometer.plan.matrix import Arm


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and greatest, both included; None has no bound."""

    low: int | None = None
    high: int | None = None

    def __contains__(self, value: int) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        ends = ("" if end is None else str(end) for end in (self.low, self.high))
        return "..".join(ends)


ANY = Bounds()


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
    runners: tuple[str, ...] = ()
    """Runner labels, in full."""
    lengths: tuple[str, ...] = ()
    """Labels of fixed lengths, such as `8k1k`; no agentic point has one."""
    tp: Bounds = ANY
    """Of several roles every one that has workers must pass; `ep` likewise."""
    ep: Bounds = ANY
    nodes: Literal["single", "multi"] | None = None


def select(points: Sequence[Point], selection: Selection) -> tuple[Point, ...]:
    """The points that pass, in order. InputError names every value that matches nothing."""
    if not points:
        raise InputError("there is no point to select from")
    problems = [
        *_unmatched_keys(points, selection),
        *_unmatched_texts(points, selection),
        *_unmatched_numbers(points, selection),
    ]
    if problems:
        raise InputError(*problems)
    kept = tuple(point for point in points if _passes(point, selection))
    if not kept:
        raise InputError(f"each filter passes some of {len(points)} points, all together none")
    return kept


def select_arms(arms: Sequence[Arm], selection: Selection) -> tuple[Arm, ...]:
    """The same of arms, each cut to its points that pass; arms without any are left out."""
    select([point for arm in arms for point in arm], selection)
    cut = (tuple(point for point in arm if _passes(point, selection)) for arm in arms)
    return tuple(arm for arm in cut if arm)


def lowest(arms: Iterable[Arm]) -> tuple[Arm, ...]:
    """Each arm at its lowest concurrency only."""
    return tuple((min(arm, key=lambda point: point.conc),) for arm in arms)


def _passes(point: Point, selection: Selection) -> bool:
    keys, concs = selection.keys, selection.conc
    return (
        (not keys or any(fnmatchcase(point.config, key) for key in keys))
        and (not concs or point.conc in concs)
        and all(not wanted or of(point) in wanted for _, wanted, of in _texts(selection))
        and all(_inside(bounds, of(point)) for _, bounds, of in _numbers(selection))
    )


def _inside(bounds: Bounds, values: Iterable[int]) -> bool:
    return all(value in bounds for value in values)


def _texts(
    selection: Selection,
) -> tuple[tuple[str, tuple[str, ...], Callable[[Point], str | None]], ...]:
    """(what, values wanted, the point's value) of the filters by an equal text."""
    scenario = (selection.scenario,) if selection.scenario else ()
    nodes = (selection.nodes,) if selection.nodes else ()
    return (
        ("scenario", scenario, scenario_of),
        ("framework", selection.frameworks, lambda point: point.framework),
        ("hardware", selection.hardware, lambda point: point.hardware),
        ("model prefix", selection.model_prefixes, lambda point: point.model_prefix),
        ("precision", selection.precisions, lambda point: point.precision),
        ("runner", selection.runners, lambda point: point.runner),
        ("lengths", selection.lengths, _lengths),
        ("nodes", nodes, lambda point: "multi" if point.multi_node else "single"),
    )


def _numbers(
    selection: Selection,
) -> tuple[tuple[str, Bounds, Callable[[Point], tuple[int, ...]]], ...]:
    """(what, bounds, the point's values, all of which must lie inside)."""
    return (
        ("concurrency", Bounds(selection.conc_min, selection.conc_max), lambda p: (p.conc,)),
        ("tp", selection.tp, lambda p: tuple(spread.tp for spread in _spreads(p))),
        ("ep", selection.ep, lambda p: tuple(spread.ep for spread in _spreads(p))),
    )


def _lengths(point: Point) -> str | None:
    return point.scenario.label if isinstance(point.scenario, FixedSeqLen) else None


def _spreads(point: Point) -> tuple[Parallelism, ...]:
    """Parallelism of every role that has workers."""
    nodes = point.multi_node
    if nodes is None:
        return (point.parallelism,)
    return tuple(pool.parallelism for pool in (nodes.prefill, nodes.decode) if pool.workers)


def _unmatched_texts(points: Sequence[Point], selection: Selection) -> Iterator[str]:
    for what, wanted, of in _texts(selection):
        if not wanted:
            continue
        there = sorted({value for point in points if (value := of(point)) is not None})
        for value in wanted:
            if value not in there:
                hint = nearest(value, there)
                yield f"no point has {what} {value!r}{hint}; there are: {_listed(there)}"


def _unmatched_numbers(points: Sequence[Point], selection: Selection) -> Iterator[str]:
    missing = [("concurrency", str(conc)) for conc in selection.conc]
    for what, bounds, of in _numbers(selection):
        there = sorted({value for point in points for value in of(point)})
        lost = [text for name, text in missing if name == what and int(text) not in there]
        if bounds != ANY and not any(_inside(bounds, of(point)) for point in points):
            lost.append(str(bounds))
        yield from (f"no point has {what} {text}; there are: {_listed(there)}" for text in lost)


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
