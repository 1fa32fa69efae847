"""Makes a profile of the generator from sessions: tables of quantiles and shares, no session.

Declared sub-agents only: read the sessions without recovered agents. Correlations within a session
are not kept; what that costs is bounded by a test on recorded sessions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferometer.core import Session
from inferometer.errors import InputError
from inferometer.workload.distributions import Quantiles
from inferometer.workload.profiles import AgentProfile, Profile
from inferometer.workload.shape import AgentShape, Shape, measure

STEPS = 40
LONG_GAP_S = 60.0
"""Gaps up to this are tools at work, longer ones a person: what the tail is like differs."""
MOST_FAN_OUT = 16
NEAR_SHARE = 0.8
"""Of the median context that was compacted: from here on, a context is near its limit."""


def calibrate(sessions: Sequence[Session], name: str) -> Profile:
    """The profile of sessions. Raises InputError where they have no turn after another."""
    shape = measure(sessions)
    if not shape.root.growth_tokens:
        raise InputError("no session has a turn that goes on from another: nothing to calibrate")
    root = _agent(shape.root, _typical(shape.root.broken_prefix_tokens))
    with_subagents = sum(count > 0 for count in shape.agents)
    agents = sum(shape.agents)
    sub = _agent(shape.sub, _typical(shape.sub_shared_tokens)) if agents else root
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
    )


def _agent(shape: AgentShape, shared_tokens: int) -> AgentProfile:
    short = [gap for gap in shape.gap_s if gap <= LONG_GAP_S]
    long = [gap for gap in shape.gap_s if gap > LONG_GAP_S]
    followers = max(1, shape.followers)
    # Contexts are compacted near a limit, or started over by choice; a few models have more room.
    near = NEAR_SHARE * float(np.median(shape.compacted_from or shape.highest_tokens))
    by_choice = sum(tokens < near for tokens in shape.compacted_from)
    return AgentProfile(
        turns=_table(shape.turns),
        first_tokens=_table(shape.first_tokens),
        growth_tokens=_table(shape.growth_tokens),
        output_tokens=_table(shape.output_tokens),
        short_gap_s=_table(short, 3),
        long_gap_s=_table(long, 3),
        long_gap_share=len(long) / max(1, len(shape.gap_s)),
        shared_tokens=shared_tokens,
        compact_share=by_choice / followers,
        compacted_tokens=_table(shape.compacted_tokens or shape.first_tokens),
        rewrite_share=shape.rewritten / followers,
        most_tokens=_table([most for most in shape.highest_tokens if most >= near]),
        keeps_replies=False,
        api_s=_table(shape.api_s, 3),
    )


def _table(values: Sequence[float], digits: int = 0) -> Quantiles:
    """Quantiles at even steps; all 0 of nothing, which is then never drawn."""
    if not values:
        return Quantiles((0.0, 0.0))
    at = np.linspace(0, 1, STEPS + 1)
    return Quantiles(tuple(round(float(q), digits) for q in np.quantile(values, at)))


def _typical(values: Sequence[int]) -> int:
    return int(np.median(values)) if values else 0


def _weights(shape: Shape) -> tuple[float, ...]:
    """Shares of groups of 1, 2, … sub-agents; larger ones than the bound count as the bound."""
    if not shape.fan_out:
        return (1.0,)
    most = min(MOST_FAN_OUT, max(shape.fan_out))
    counts = [0] * most
    for size, count in shape.fan_out.items():
        counts[min(size, most) - 1] += count
    return tuple(count / sum(counts) for count in counts)
