"""Makes a profile of the generator from sessions: tables of quantiles and shares, no session.

Declared sub-agents only: read the sessions without recovered agents. What is kept of ties within a
session are a few correlations and growth by context; a test on recorded sessions bounds the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from inferometer.core import Session
from inferometer.errors import InputError
from inferometer.workload.distributions import ByContext, Quantiles
from inferometer.workload.profiles import NORMAL, AgentProfile, Profile
from inferometer.workload.shape import AgentShape, Shape, measure

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
STEPS = 40
LONG_GAP_S = 60.0
"""Gaps up to this are tools at work, longer ones a person: what the tail is like differs."""
MOST_FAN_OUT = 16
LEAST_IN_RANGE = 16
"""Turns that a table of growth needs, and agents a correlation."""
MOST_RANGES = 6
LEAST_TIE = 0.05
"""A weaker correlation of growth is taken for chance."""
NEAR_SHARE = 0.8
"""Of the median context that was compacted: from here on, a context is near its limit."""


def calibrate(sessions: Sequence[Session], name: str) -> Profile:
    """The profile of sessions. Raises InputError where they have no turn after another."""
    shape = measure(sessions)
    if not shape.root.growth_tokens:
        raise InputError("no session has a turn that goes on from another: nothing to calibrate")
    root = _agent(shape.root, shape.root.broken_prefix_tokens)
    with_subagents = sum(count > 0 for count in shape.agents)
    agents = sum(shape.agents)
    sub = _agent(shape.sub, shape.sub_shared_tokens) if agents else root
    return Profile(
        name=name,
        sessions=len(sessions),
        block_size=sessions[0].block_size,
        root=root,
        subagent=sub,
        subagent_session_share=with_subagents / len(sessions),
        launch_share=0.0,
        fan_out_weights=_weights(shape),
        launch_gap_s=_table(shape.launch_gap_s, 3),
        background_share=shape.background / max(1, agents),
        launches=_table(shape.launches),
        launches_with_turns=_correlation(shape.root.turns, _launches(shape)),
    )


def _agent(shape: AgentShape, shared_tokens: Sequence[int]) -> AgentProfile:
    short = [gap for gap in shape.gap_s if gap <= LONG_GAP_S]
    long = [gap for gap in shape.gap_s if gap > LONG_GAP_S]
    followers = max(1, shape.followers)
    growth, likeness, with_turns = _growth(shape)
    limited, limits, by_choice = _limits(shape)
    return AgentProfile(
        turns=_table(shape.turns),
        first_tokens=_table(shape.first_tokens),
        growth_tokens=growth,
        output_tokens=_table(shape.output_tokens),
        short_gap_s=_table(short, 3),
        long_gap_s=_table(long, 3),
        long_gap_share=len(long) / max(1, len(shape.gap_s)),
        shared_tokens=_table(shared_tokens),
        compact_share=by_choice / followers,
        compacted_tokens=_table(shape.compacted_tokens or shape.first_tokens),
        rewrite_share=shape.rewritten / followers,
        most_tokens=_table(limits),
        keeps_replies=False,
        api_s=_table(shape.api_s, 3),
        first_with_turns=_correlation(shape.turns, shape.first_tokens),
        most_with_turns=_correlation(limited, limits),
        growth_likeness=likeness,
        growth_with_turns=with_turns,
    )


def _limits(shape: AgentShape) -> tuple[list[int], list[int], int]:
    """(turns of agents, their context limits, how many compactions were not at a limit).

    Contexts are compacted near a limit, or started over by choice; a few models have more room. An
    agent that was never compacted tells of a limit only where it went beyond the usual one.
    """
    if not shape.compacted_from:
        return [0], [max(shape.highest_tokens)], 0
    usual = float(np.median(shape.compacted_from))
    near = NEAR_SHARE * usual
    agents = zip(shape.turns, shape.highest_tokens, shape.compactions, strict=True)
    found = [(turns, most) for turns, most, times in agents if most >= (near if times else usual)]
    by_choice = sum(tokens < near for tokens in shape.compacted_from)
    return [turns for turns, _ in found], [most for _, most in found], by_choice


def _growth(shape: AgentShape) -> tuple[ByContext, float, float]:
    """(tables of growth by the context before, how alike the growths of one agent are, how they go
    with its number of turns).

    Each range holds half as many turns as the next: contexts are short for a few turns only, which
    add most.
    """
    if not shape.growth_tokens:
        return ByContext((), (_table([]),)), 0.0, 0.0
    agents, contexts = (np.array(column) for column in zip(*shape.grown_from, strict=True))
    growth = np.array(shape.growth_tokens)
    ranges = min(MOST_RANGES, max(1, int(np.log2(len(growth) / LEAST_IN_RANGE)) + 1))
    shares = [2.0 ** (number - ranges) for number in range(1, ranges)]
    below = np.unique(np.quantile(contexts, shares).astype(int)) if shares else np.empty(0, int)
    place = np.searchsorted(below, contexts, side="right")
    below = below[np.isin(np.arange(len(below)), place)]
    place = np.searchsorted(below, contexts, side="right")
    tables = tuple(_table(growth[place == number]) for number in range(len(below) + 1))
    scores = np.empty(len(growth))
    for number in range(len(below) + 1):
        scores[place == number] = _scores(growth[place == number])
    table = ByContext(tuple(below.tolist()), tables)
    return table, _likeness(agents, scores), _with_turns(shape, agents, scores)


def _with_turns(shape: AgentShape, agents: Ints, scores: Floats) -> float:
    """Correlation of scores with the number of turns of the agent that each is of; 0 where it
    cannot be told.
    """
    if len(shape.turns) < LEAST_IN_RANGE or len(set(shape.turns)) == 1:
        return 0.0
    # Agents are numbered from 1, in the order of the list.
    turns = _scores(np.array(shape.turns))[agents - 1]
    found = float(np.clip((scores * turns).mean() / (turns**2).mean(), -1, 1))
    return found if abs(found) >= LEAST_TIE else 0.0


def _likeness(agents: Ints, scores: Floats) -> float:
    """Mean product of two scores of one agent, at least 0."""
    products = pairs = 0.0
    for agent in np.unique(agents):
        own = scores[agents == agent]
        products += float(own.sum() ** 2 - (own**2).sum())
        pairs += len(own) * (len(own) - 1)
    return min(1.0, max(0.0, products / pairs)) if pairs else 0.0


def _correlation(left: Sequence[int], right: Sequence[int]) -> float:
    """Of the normal scores that two lists have behind their values; 0 where it cannot be told.

    The slope of the one on the other, which many equal values in the latter leave as it is.
    """
    if len(left) < LEAST_IN_RANGE or len(set(left)) == 1 or len(set(right)) == 1:
        return 0.0
    known, tied = _scores(np.array(left)), _scores(np.array(right))
    return float(np.clip((known * tied).mean() / (tied**2).mean(), -1, 1))


def _scores(values: Ints) -> Floats:
    """The mean standard normal score of each value's ranks; equal values have one."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    shares = np.cumsum(counts)[:-1] / len(values)
    density = np.array([0.0, *(NORMAL.pdf(NORMAL.inv_cdf(share)) for share in shares), 0.0])
    return (-np.diff(density) * len(values) / counts)[place]


def _launches(shape: Shape) -> list[int]:
    """Groups of sub-agents launched, one number a session."""
    counts = iter(shape.launches)
    return [next(counts) if agents else 0 for agents in shape.agents]


def _table(values: Sequence[float] | Ints, digits: int = 0) -> Quantiles:
    """Quantiles at even steps; all 0 of nothing, which is then never drawn."""
    if not len(values):
        return Quantiles((0.0, 0.0))
    at = np.linspace(0, 1, STEPS + 1)
    return Quantiles(tuple(round(float(q), digits) for q in np.quantile(values, at)))


def _weights(shape: Shape) -> tuple[float, ...]:
    """Shares of groups of 1, 2, … sub-agents; larger ones than the bound count as the bound."""
    if not shape.fan_out:
        return (1.0,)
    most = min(MOST_FAN_OUT, max(shape.fan_out))
    counts = [0] * most
    for size, count in shape.fan_out.items():
        counts[min(size, most) - 1] += count
    return tuple(count / sum(counts) for count in counts)
