"""Which arm of the base is which arm of the head, so that an edit is not taken for a new arm.

An arm is a deployment of one config at its concurrencies. Equal names pair first; what is left
pairs where it agrees in less and less, and only where one arm on each side does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from inferometer.audit.revision import State
from inferometer.core import Point
from inferometer.plan import scenario_of

Rung = tuple[int, int, int]
"""Concurrency, repeat, and which of several equal declarations."""


@dataclass(frozen=True, slots=True)
class Arm:
    """The points of one arm by rung. `name` is a point's id without its concurrency."""

    name: str
    config: str
    scenario: str
    rungs: Mapping[Rung, tuple[str, State]]

    @property
    def first(self) -> Point:
        """The point declared first."""
        return next(iter(self.rungs.values()))[1].point

    @property
    def ladder(self) -> tuple[int, ...]:
        """Its concurrencies, ascending."""
        return tuple(sorted({conc for conc, _, _ in self.rungs}))

    @property
    def points(self) -> tuple[str, ...]:
        """Ids, by concurrency."""
        return tuple(self.rungs[rung][0] for rung in sorted(self.rungs))


Pair = tuple[Arm | None, Arm | None]
"""An arm at base and at head; None where it is not there."""


def arms_of(states: Mapping[str, State]) -> dict[str, Arm]:
    """The arms of one side by name, in the order declared."""
    found: defaultdict[str, dict[Rung, tuple[str, State]]] = defaultdict(dict)
    for name, state in states.items():
        point = state.point
        arm = _arm_of(name, point)
        rungs = found[arm]
        again = 0
        while (rung := (point.conc, point.repeat, again)) in rungs:
            again += 1
        rungs[rung] = (name, state)
    return {name: _arm(name, rungs) for name, rungs in found.items()}


def paired(base: Mapping[str, State], head: Mapping[str, State]) -> list[Pair]:
    """Every arm of both sides once, in the order of the head, then what is gone."""
    old, new = arms_of(base), arms_of(head)
    match = {name: name for name in new if name in old}
    for key in _STAGES:
        left_old = [arm for name, arm in old.items() if name not in set(match.values())]
        left_new = [arm for name, arm in new.items() if name not in match]
        if not left_old or not left_new:
            break
        match |= _unique(left_old, left_new, key)
    gone = set(old) - set(match.values())
    pairs: list[Pair] = [(old[match[name]] if name in match else None, new[name]) for name in new]
    return pairs + [(arm, None) for name, arm in old.items() if name in gone]


def _arm_of(name: str, point: Point) -> str:
    """A point's id without its concurrency; most end in just that."""
    end = f"_c{point.conc}"
    if name.endswith(end) and not point.repeat:
        return name.removesuffix(end)
    return replace(point, conc=1, repeat=0).id.removesuffix("_c1")


def _arm(name: str, rungs: Mapping[Rung, tuple[str, State]]) -> Arm:
    point = next(iter(rungs.values()))[1].point
    return Arm(name, point.config, scenario_of(point), rungs)


def _unique(
    old: Sequence[Arm], new: Sequence[Arm], key: Callable[[Arm], Hashable]
) -> dict[str, str]:
    """Head name to base name where one arm of each side has a key."""
    before, after = _by(old, key), _by(new, key)
    return {
        arms[0].name: before[found][0].name
        for found, arms in after.items()
        if len(arms) == 1 and len(before.get(found, ())) == 1
    }


def _by(arms: Iterable[Arm], key: Callable[[Arm], Hashable]) -> dict[Hashable, list[Arm]]:
    found: defaultdict[Hashable, list[Arm]] = defaultdict(list)
    for arm in arms:
        found[key(arm)].append(arm)
    return found


def _spread(arm: Arm) -> Hashable:
    nodes = arm.first.multi_node
    if nodes is None:
        return arm.first.parallelism
    return tuple((pool.workers, pool.parallelism) for pool in (nodes.prefill, nodes.decode))


def _digests(arm: Arm) -> Hashable:
    return frozenset(state.digest for _, state in arm.rungs.values())


_STAGES: tuple[Callable[[Arm], Hashable], ...] = (
    # The same experiment under another name of its config.
    _digests,
    # Another version, another setting of a pool.
    lambda arm: (
        *(arm.config, arm.first.scenario, _spread(arm), arm.first.spec_decoding),
        *(arm.first.kv_offload.mode, arm.first.kv_offload.backend),
        arm.first.router.name if arm.first.router else None,
    ),
    # Another router, another backend of the KV offload.
    lambda arm: (
        *(arm.config, arm.first.scenario, _spread(arm), arm.first.spec_decoding),
        arm.first.kv_offload.mode,
    ),
    lambda arm: (arm.config, arm.first.scenario, _spread(arm)),
)
