"""How like two sets of agentic sessions are: statistics, and by how much they may differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from inferometer.core import Session
from inferometer.workload import prefix_hit
from inferometer.workload.shape import Shape, measure

QUARTILES = (0.25, 0.5, 0.75)
DECILES = (0.1, *QUARTILES, 0.9)
SHORT = 20_000
"""Tokens: below, a sub-agent has just begun. Few of its contexts are between 18,000 and 28,000:
a quantile that falls there moves by thousands for a per cent of the turns, so they are counted."""


class Bound(NamedTuple):
    """What a statistic is of, at which quantiles (none: the mean), and by which share of the
    recorded value it may differ, at each of them."""

    of: Callable[[Shape], Sequence[float]]
    levels: Sequence[float]
    share: float


BOUNDS: Mapping[str, Bound] = {
    # Sessions and trees.
    "root turns": Bound(lambda shape: shape.root.turns, QUARTILES, 0.25),
    "turns a session": Bound(lambda shape: shape.turns, QUARTILES, 0.25),
    "depth": Bound(lambda shape: shape.depth, (), 0.05),
    "sub-agents a session": Bound(lambda shape: shape.agents, (), 0.25),
    "sessions with sub-agents": Bound(lambda s: [n > 0 for n in s.agents], (), 0.2),
    "launches": Bound(lambda shape: shape.launches, (), 0.25),
    "fan-out": Bound(lambda shape: list(shape.fan_out.elements()), (), 0.12),
    "launch gap": Bound(lambda shape: shape.launch_gap_s, (0.5, 0.75), 0.25),
    # Contexts.
    "context": Bound(lambda shape: shape.root.input_tokens, DECILES, 0.12),
    "first context": Bound(lambda shape: shape.root.first_tokens, QUARTILES, 0.2),
    "longest context": Bound(lambda shape: shape.root.highest_tokens, QUARTILES, 0.18),
    "growth": Bound(lambda shape: shape.root.growth_tokens, DECILES, 0.1),
    "compacted context": Bound(lambda shape: shape.root.compacted_tokens, QUARTILES, 0.15),
    "compactions": Bound(lambda s: [len(s.root.compacted_tokens) / s.root.followers], (), 0.2),
    "context of a sub-agent": Bound(lambda shape: shape.sub.input_tokens, (0.5, 0.75, 0.9), 0.15),
    "shortest context of a sub-agent": Bound(lambda shape: shape.sub.input_tokens, (0.1,), 0.05),
    "short contexts of sub-agents": Bound(
        lambda s: [tokens < SHORT for tokens in s.sub.input_tokens], (), 0.2
    ),
    "longest context of a sub-agent": Bound(lambda shape: shape.sub.highest_tokens, QUARTILES, 0.2),
    "first context of a sub-agent": Bound(lambda shape: shape.sub.first_tokens, QUARTILES, 0.05),
    "growth of a sub-agent": Bound(lambda shape: shape.sub.growth_tokens, DECILES, 0.15),
    "turns of a sub-agent": Bound(lambda shape: shape.sub.turns, QUARTILES, 0.15),
    # Lengths and times of one request.
    "output": Bound(lambda shape: shape.root.output_tokens, DECILES, 0.05),
    "gap": Bound(lambda shape: shape.root.gap_s, DECILES, 0.1),
    "duration": Bound(lambda shape: shape.root.api_s, DECILES, 0.05),
    "output of a sub-agent": Bound(lambda shape: shape.sub.output_tokens, QUARTILES, 0.05),
    "gap of a sub-agent": Bound(lambda shape: shape.sub.gap_s, QUARTILES, 0.08),
    # What prompts share.
    "broken prefixes": Bound(
        lambda s: [len(s.root.broken_prefix_tokens) / s.root.followers], (), 0.15
    ),
    "kept of a broken prefix": Bound(lambda s: s.root.broken_prefix_tokens, QUARTILES, 0.1),
    "shared by sub-agents": Bound(lambda shape: shape.sub_shared_tokens, (), 0.15),
}
MISSES = "prefix misses"
"""Input tokens that an endless cache does not hold, as a share of all."""
MISSES_BOUND = 0.1


def statistics(sessions: Sequence[Session]) -> dict[str, list[float]]:
    """The values of every bound, in order of its levels."""
    shape = measure(sessions)
    found = {name: _values(bound, shape) for name, bound in BOUNDS.items()}
    return found | {MISSES: [1 - prefix_hit(sessions)]}


def differences(
    recorded: Mapping[str, list[float]], made: Mapping[str, list[float]]
) -> Iterator[str]:
    """Every statistic that is out of its bound, by name first."""
    for name, expected in recorded.items():
        bound = BOUNDS[name].share if name in BOUNDS else MISSES_BOUND
        found = made[name]
        if not np.all(np.abs(np.array(found) / expected - 1) <= bound):
            yield f"{name}: {np.round(found, 3)} for {np.round(expected, 3)}"


def _values(bound: Bound, shape: Shape) -> list[float]:
    values = bound.of(shape)
    if not len(values):
        return [float("nan")] * max(1, len(bound.levels))
    if not bound.levels:
        return [float(np.mean(values))]
    found: list[float] = np.quantile(values, bound.levels).tolist()
    return found
