"""Everything that can be said of sessions before they are sent: the numbers behind `inspect`.

Counts, distributions, shapes of trees, what prompts share, what caches of several sizes would
hold, and how much is in use over time. Shows nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from inferometer.clock import NS
from inferometer.core import Session
from inferometer.workload.prefixcache import PrefixCache, spaces
from inferometer.workload.shape import Shape, measure
from inferometer.workload.timeline import timeline

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
CACHE_TOKENS = tuple(62_500 * 2**power for power in range(13))
"""Sizes that are tried, from 62,500 tokens on; only those below what would hold everything."""
IN_USE_S = 300
"""A block is in use for as long after it was sent."""
HISTOGRAM_BINS = 40
SERIES_POINTS = 400


@dataclass(frozen=True, slots=True)
class Spread:
    """One distribution: its quantiles (see `QUANTILES`) and a histogram of logarithmic bins."""

    name: str
    unit: str
    count: int
    mean: float | None
    quantiles: tuple[float, ...]
    """Empty without values."""
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    """Values of 0 are in the first bin."""


@dataclass(frozen=True, slots=True)
class CacheHit:
    """What a cache of a size would hold; `tokens` None is one without end."""

    tokens: int | None
    hit: float


@dataclass(slots=True)
class Reuse:
    """What prompts share, in the order of a timeline."""

    input_tokens: int = 0
    block_tokens: int = 0
    """Tokens in whole blocks that were sent."""
    distinct_tokens: int = 0
    """Of different blocks: what holds everything."""
    hits: list[CacheHit] = field(default_factory=list)
    at_s: list[float] = field(default_factory=list)
    in_use_tokens: list[int] = field(default_factory=list)
    """Of blocks sent within the last `IN_USE_S`, at the times in `at_s`."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """All of it."""

    sessions: int
    turns: int
    input_tokens: int
    output_tokens: int
    block_size: int
    lanes: int | None
    """Lanes that the order of requests stands for; None where recorded times were used."""
    spreads: tuple[Spread, ...]
    agents: dict[str, int]
    """Sub-agents by kind: what their name has between the last / and the number."""
    fan_out: dict[int, int]
    """Groups launched by one turn, by size."""
    depth: dict[int, int]
    """Sessions by levels of agents."""
    background: int
    resets: dict[str, int]
    """Turns that broke their agent's prefix, by kind."""
    reuse: Reuse


def inspect_sessions(sessions: Sequence[Session], lanes: int) -> Inspection:
    """The numbers of sessions, at least one; of requests in recorded order, or on `lanes` lanes."""
    shape = measure(sessions)
    turns = [turn for session in sessions for turn in session.turns]
    timed = all(session.start_ns is not None for session in sessions)
    return Inspection(
        sessions=len(sessions),
        turns=len(turns),
        input_tokens=sum(turn.input_tokens for turn in turns),
        output_tokens=sum(turn.output_tokens for turn in turns),
        block_size=sessions[0].block_size,
        lanes=None if timed else lanes,
        spreads=tuple(_spreads(shape, sessions)),
        agents=_kinds(sessions),
        fan_out=dict(sorted(shape.fan_out.items())),
        depth=dict(sorted(Counter(shape.depth).items())),
        background=shape.background,
        resets={
            "compacted": len(shape.root.compacted_tokens) + len(shape.sub.compacted_tokens),
            "rewritten": shape.root.rewritten + shape.sub.rewritten,
        },
        reuse=reuse_of(sessions, lanes),
    )


def reuse_of(sessions: Sequence[Session], lanes: int) -> Reuse:
    """What prompts share, with caches of `CACHE_TOKENS`, and what is in use over time."""
    size = sessions[0].block_size
    cache, found = PrefixCache(), Reuse()
    capacities = np.array([tokens // size for tokens in CACHE_TOKENS], np.int64)
    hits, endless = np.zeros(len(capacities), np.int64), 0
    times: list[int] = []
    oldest = 0
    for sent in timeline(sessions, lanes):
        session = sessions[sent.session]
        turn = session.turns[sent.turn]
        sizes = cache.send(spaces(session, turn, sent.session))
        hits += np.searchsorted(sizes, capacities, side="right")
        endless += len(sizes)
        found.input_tokens += turn.input_tokens
        found.block_tokens += len(turn.block_ids) * size
        times.append(sent.at_ns)
        while times[oldest] < sent.at_ns - IN_USE_S * NS:
            oldest += 1
        found.at_s.append(sent.at_ns / NS)
        found.in_use_tokens.append(cache.used_since(oldest) * size)
    found.distinct_tokens = cache.used_since(0) * size
    found.hits = [
        CacheHit(tokens, int(count) * size / found.input_tokens)
        for tokens, count in zip(CACHE_TOKENS, hits.tolist(), strict=True)
        if tokens < found.distinct_tokens
    ]
    found.hits.append(CacheHit(None, endless * size / found.input_tokens))
    _thin(found)
    return found


def _thin(found: Reuse) -> None:
    """Keep, of even parts of the requests, the one at which most was in use."""
    count = len(found.at_s)
    if count <= SERIES_POINTS:
        return
    cuts = np.linspace(0, count, SERIES_POINTS + 1).astype(int).tolist()
    in_use = np.array(found.in_use_tokens)
    kept = [low + int(in_use[low:high].argmax()) for low, high in pairwise(cuts)]
    found.at_s = [found.at_s[index] for index in kept]
    found.in_use_tokens = [found.in_use_tokens[index] for index in kept]


def _kinds(sessions: Sequence[Session]) -> dict[str, int]:
    names = {
        (number, turn.agent)
        for number, session in enumerate(sessions)
        for turn in session.turns
        if turn.parent_agent is not None
    }
    kinds = Counter(name.rpartition("/")[2].rpartition("-")[0] or name for _, name in names)
    return dict(kinds.most_common())


def _spreads(shape: Shape, sessions: Sequence[Session]) -> list[Spread]:
    root, sub = shape.root, shape.sub
    waits = [t.gap_ns / NS for s in sessions for t in s.turns if t.after]
    arrivals = sorted(s.start_ns for s in sessions if s.start_ns is not None)
    named = (
        ("turns a session", "turns", shape.turns),
        ("sub-agents a session", "agents", shape.agents if any(shape.agents) else []),
        ("turns a sub-agent", "turns", sub.turns),
        ("input", "tokens", [*root.input_tokens, *sub.input_tokens]),
        ("first input of a session", "tokens", root.first_tokens),
        ("input added a turn", "tokens", [*root.growth_tokens, *sub.growth_tokens]),
        ("output", "tokens", [*root.output_tokens, *sub.output_tokens]),
        ("gap before a turn", "s", waits),
        ("recorded duration", "s", [*root.api_s, *sub.api_s]),
        ("between arrivals", "s", (np.diff(arrivals) / NS).tolist()),
    )
    return [spread(name, unit, values) for name, unit, values in named if len(values)]


def spread(name: str, unit: str, values: Sequence[float]) -> Spread:
    """The distribution of values, none of them negative."""
    array = np.asarray(values, np.float64)
    quantiles = tuple(np.quantile(array, QUANTILES).tolist()) if len(array) else ()
    edges, counts = _histogram(array)
    mean = float(array.mean()) if len(array) else None
    return Spread(name, unit, len(array), mean, quantiles, edges, counts)


def _histogram(
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    above = values[values > 0]
    if not len(above):
        return (0.0, 1.0), (len(values),)
    low, high = float(above.min()), float(above.max())
    if high <= low:
        low, high = low / 1.1, high * 1.1
    edges = np.geomspace(low, high, HISTOGRAM_BINS + 1)
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    return tuple(edges.tolist()), tuple(counts.tolist())
