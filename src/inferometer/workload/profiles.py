"""Named shapes of agentic sessions: the numbers `synthetic` draws from, and their origin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferometer.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class LogNormal:
    """exp(normal(log median, sigma)), clipped to [least, most]."""

    median: float
    sigma: float
    least: float
    most: float

    def draw(self, rng: np.random.Generator) -> float:
        """One value."""
        value = self.median * float(np.exp(self.sigma * rng.standard_normal()))
        return min(max(value, self.least), self.most)

    def whole(self, rng: np.random.Generator) -> int:
        """One value, rounded."""
        return round(self.draw(rng))


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """The shape of one agent: counts of turns and tokens, gaps in seconds from end to start."""

    turns: LogNormal
    first_tokens: LogNormal
    growth_tokens: LogNormal
    """Added to the context by each turn, the reply to the last included."""
    output_tokens: LogNormal
    short_gap_s: LogNormal
    """Tools at work."""
    long_gap_s: LogNormal
    """A person at work."""
    long_gap_share: float
    shared_tokens: int
    """Instructions and tools at the start of every context of this kind of agent in a session."""
    compact_share: float
    """Share of turns that start over from a smaller context."""
    compacted_tokens: LogNormal
    """That context, and at most what it would have been."""
    rewrite_share: float
    """Share of turns that keep their size but share only the instructions with the last one."""
    most_tokens: int
    """A context that would exceed this is compacted."""

    def gap_s(self, rng: np.random.Generator) -> float:
        """One gap, in seconds."""
        long = rng.random() < self.long_gap_share
        return (self.long_gap_s if long else self.short_gap_s).draw(rng)


@dataclass(frozen=True, slots=True)
class Profile:
    """The shape of a set of sessions."""

    name: str
    sessions: int
    """How many there are when a workload names the profile."""
    block_size: int
    root: AgentProfile
    subagent: AgentProfile
    subagent_session_share: float
    """Share of sessions that launch sub-agents at all."""
    launch_share: float
    """In those, share of root turns that do."""
    fan_out_weights: tuple[float, ...]
    """Probabilities of launching 1, 2, … at once; they add up to 1."""
    launch_gap_s: LogNormal
    background_share: float
    """Share of sub-agents that nobody waits for."""


QUICKSTART = Profile(
    name="quickstart",
    sessions=32,
    block_size=64,
    root=AgentProfile(
        turns=LogNormal(28, 0.2, 20, 40),
        first_tokens=LogNormal(2800, 0.25, 2000, 4000),
        growth_tokens=LogNormal(300, 0.5, 60, 1500),
        output_tokens=LogNormal(35, 0.35, 20, 60),
        short_gap_s=LogNormal(0.12, 0.5, 0.05, 0.3),
        long_gap_s=LogNormal(0.4, 0.2, 0.3, 0.5),
        long_gap_share=0.15,
        shared_tokens=1536,
        compact_share=0.01,
        compacted_tokens=LogNormal(3000, 0.25, 2000, 4000),
        rewrite_share=0.01,
        most_tokens=16_000,
    ),
    subagent=AgentProfile(
        turns=LogNormal(4, 0.3, 2, 6),
        first_tokens=LogNormal(1500, 0.2, 1200, 2200),
        growth_tokens=LogNormal(400, 0.5, 80, 1500),
        output_tokens=LogNormal(30, 0.3, 20, 60),
        short_gap_s=LogNormal(0.1, 0.4, 0.05, 0.3),
        long_gap_s=LogNormal(0.4, 0.2, 0.3, 0.5),
        long_gap_share=0.0,
        shared_tokens=1024,
        compact_share=0.0,
        compacted_tokens=LogNormal(1500, 0.2, 1200, 2200),
        rewrite_share=0.0,
        most_tokens=16_000,
    ),
    subagent_session_share=0.4,
    launch_share=0.06,
    fan_out_weights=(0.5, 0.3, 0.2),
    launch_gap_s=LogNormal(0.05, 0.2, 0.02, 0.1),
    background_share=0.1,
)
"""Small and fast, to try things out: a session plays in seconds on the built-in engine."""

CORPUS = Profile(
    name="corpus",
    sessions=64,
    block_size=64,
    root=AgentProfile(
        turns=LogNormal(59, 1.0, 3, 439),
        first_tokens=LogNormal(20_900, 0.9, 9_800, 150_000),
        growth_tokens=LogNormal(712, 1.15, 29, 235_000),
        output_tokens=LogNormal(239, 0.85, 1, 13_400),
        short_gap_s=LogNormal(9.1, 0.75, 0.08, 60),
        long_gap_s=LogNormal(136, 1.28, 60, 77_600),
        long_gap_share=0.16,
        shared_tokens=15_040,
        compact_share=0.005,
        compacted_tokens=LogNormal(47_000, 0.8, 10_000, 138_000),
        rewrite_share=0.013,
        most_tokens=165_000,
    ),
    subagent=AgentProfile(
        turns=LogNormal(10, 0.4, 2, 19),
        first_tokens=LogNormal(10_300, 0.15, 8_900, 18_300),
        growth_tokens=LogNormal(2_550, 1.36, 176, 72_300),
        output_tokens=LogNormal(228, 0.4, 70, 9_800),
        short_gap_s=LogNormal(3.9, 0.62, 1.0, 133),
        long_gap_s=LogNormal(136, 1.28, 60, 77_600),
        long_gap_share=0.0,
        shared_tokens=9_728,
        compact_share=0.0,
        compacted_tokens=LogNormal(47_000, 0.8, 10_000, 138_000),
        rewrite_share=0.0,
        most_tokens=165_000,
    ),
    subagent_session_share=10 / 48,
    launch_share=0.0134,
    fan_out_weights=(14 / 27, 9 / 27, 4 / 27),
    launch_gap_s=LogNormal(0.47, 0.7, 0.1, 1.04),
    background_share=4 / 44,
)
"""Shaped like 48 recorded coding-agent sessions (callanjfox/kv-cache-tester, 4,775 requests).

Medians are theirs; sigmas come from the quartiles, bounds from the extremes. Gaps split at 60 s
(16 % are longer). Of 4,293 root turns with a predecessor, 106 break its prefix within the first
half, most after the 15,040 tokens of instructions and tools: 56 keep the size, 50 are compacted,
mostly from about 150,000 tokens to about 47,000. Ten of the 48 launch sub-agents, 44 in all, by 27
root turns; sub-agents share no block with the root.
"""

PROFILES = {profile.name: profile for profile in (QUICKSTART, CORPUS)}


def named(name: str) -> Profile:
    """The profile of that name. Raises InputError, with the nearest one, when there is none."""
    if name not in PROFILES:
        known = ", ".join(sorted(PROFILES))
        hint = nearest(name, PROFILES)
        raise InputError(f"no synthetic profile {name!r}{hint} (there are: {known})")
    return PROFILES[name]
