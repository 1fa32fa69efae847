"""Where a plan evaluates accuracy: InferenceX's rules, as pure functions.

Works on allocations: the points that one start of an engine serves. Runs no eval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from inferometer.core import AgenticCoding, FixedSeqLen, Point
from inferometer.plan.matrix import Arm

EvalMode = Literal["marked", "none", "only", "all"]
"""`marked`: throughput, with the default marks on fixed lengths. `none`: no marks. `only`: nothing
but the marked, agentic ones included. `all`: nothing but evals, everywhere they can be.
"""
EVAL_LENGTHS = FixedSeqLen(8192, 1024)
"""Fixed lengths other than these are not evaluated."""
MIN_EVAL_CONC = 16
"""Below it a fixed-length or multi-node point is marked only by `all`."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Points served by one start of an engine, one after the other, and what is evaluated on it.

    `lead` is the point that it is named after. `evaluated`: None where nobody asked. `eval_conc`:
    the one concurrency that is evaluated, where there are several; `all_concs`: each of them is.
    """

    lead: Point
    points: tuple[Point, ...]
    evaluated: bool | None = None
    eval_conc: int | None = None
    all_concs: bool = False

    @property
    def evals(self) -> tuple[Point, ...]:
        """The points at which accuracy is evaluated."""
        if not self.evaluated:
            return ()
        if self.eval_conc is None:
            return self.points
        return tuple(point for point in self.points if point.conc == self.eval_conc)


def allocations(arms: Iterable[Arm]) -> tuple[Allocation, ...]:
    """One a point; but the fixed lengths of a multi-node arm share one start."""
    found = []
    for arm in arms:
        if arm and arm[0].multi_node and isinstance(arm[0].scenario, FixedSeqLen):
            found.append(Allocation(arm[0], arm))
        else:
            found += [Allocation(point, (point,)) for point in arm]
    return tuple(found)


def mark_evals(found: Sequence[Allocation], mode: EvalMode) -> tuple[Allocation, ...]:
    """The allocations of a plan, marked; `only` and `all` keep those with an eval."""
    if mode == "none":
        return tuple(found)
    marked = _marked(found, agentic=mode != "marked")
    if mode == "marked":
        return marked
    if mode == "all":
        marked = _everywhere(marked)
    return tuple(allocation for allocation in marked if allocation.evaluated)


def _marked(found: Sequence[Allocation], *, agentic: bool) -> tuple[Allocation, ...]:
    chosen = dict.fromkeys(_fixed_single(found)) | _highest(found, EVAL_LENGTHS)
    if agentic:
        chosen |= dict.fromkeys(_agentic_single(found)) | _highest(found, AgenticCoding())
    return tuple(
        replace(each, evaluated=index in chosen, eval_conc=chosen.get(index))
        for index, each in enumerate(found)
    )


def _fixed_single(found: Sequence[Allocation]) -> list[int]:
    """Indices at the highest and the upper median concurrency of each group, whatever its TP."""
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for index, each in enumerate(found):
        point = each.lead
        fits = point.scenario == EVAL_LENGTHS and point.conc >= MIN_EVAL_CONC
        if fits and point.multi_node is None:
            spread = (point.spec_decoding, point.parallelism.dp_attn)
            groups[*_product(point), *spread].append(index)
    chosen = []
    for indices in groups.values():
        ladder = sorted({found[index].lead.conc for index in indices})
        wanted = (ladder[-1], ladder[len(ladder) // 2])
        chosen += [index for index in indices if found[index].lead.conc in wanted]
    return chosen


def _agentic_single(found: Sequence[Allocation]) -> list[int]:
    """The first index at the highest concurrency of each product, whatever its parallelism."""
    best: dict[Hashable, int] = {}
    for index, each in enumerate(found):
        point = each.lead
        if point.multi_node is not None or not isinstance(point.scenario, AgenticCoding):
            continue
        first = best.setdefault(_product(point), index)
        if point.conc > found[first].lead.conc:
            best[_product(point)] = index
    return list(best.values())


def _highest(
    found: Sequence[Allocation], scenario: FixedSeqLen | AgenticCoding
) -> dict[int, int | None]:
    """Of each multi-node deployment the first index with its highest concurrency, and that."""
    best: dict[Hashable, tuple[int, int]] = {}
    for index, each in enumerate(found):
        highest = max(point.conc for point in each.points)
        if each.lead.multi_node is None or each.lead.scenario != scenario:
            continue
        if highest < MIN_EVAL_CONC:
            continue
        key = _deployment(each.lead)
        if key not in best or highest > best[key][1]:
            best[key] = (index, highest)
    return dict(best.values())


def _everywhere(found: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """Every allocation that can be evaluated; one a deployment of several nodes."""
    merged: dict[Hashable, Allocation] = {}
    for index, each in enumerate(found):
        point = each.lead
        if point.scenario != EVAL_LENGTHS and not isinstance(point.scenario, AgenticCoding):
            continue
        if point.multi_node is None:
            merged[index] = replace(each, evaluated=True)
            continue
        key = _deployment(point)
        known = merged.get(key, replace(each, points=()))
        merged[key] = _joined(known, each.points)
    return tuple(merged.values())


def _joined(known: Allocation, more: tuple[Point, ...]) -> Allocation:
    """Its own and more points, each concurrency once, in order: fixed lengths are all evaluated,
    agentic replay at its highest concurrency only.
    """
    by_conc = {point.conc: point for point in (*more, *known.points)}
    points = tuple(by_conc[conc] for conc in sorted(by_conc))
    fixed = isinstance(known.lead.scenario, FixedSeqLen)
    highest = None if fixed else points[-1].conc
    return replace(known, points=points, evaluated=True, eval_conc=highest, all_concs=fixed)


def _product(point: Point) -> tuple[str, ...]:
    return point.model, point.runner, point.framework, point.precision


def _deployment(point: Point) -> Point:
    """A point without what the reference's rows do not tell apart: config key and concurrency."""
    return replace(point, config="", conc=0)
