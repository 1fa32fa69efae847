"""What sessions are made of, as lists of numbers: turns, contexts, growth, gaps, sub-agents.

The one measure behind the calibration of the generator, the test of it, and `workload inspect`, so
that all mean the same by a word. Tokens and seconds.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from inferometer.clock import NS
from inferometer.core import Session, Turn
from inferometer.workload.graph import ROOT
from inferometer.workload.hashes import shared_prefix

KEPT_SHARE = 0.5
"""A turn that keeps less of its agent's last prompt has broken the prefix."""
COMPACTED_SHARE = 0.8
"""Such a turn is compacted where it is also shorter than this share of the last one."""


@dataclass(slots=True)
class AgentShape:
    """Numbers of one kind of agent: of roots, or of sub-agents."""

    turns: list[int] = field(default_factory=list)
    """One number an agent."""
    first_tokens: list[int] = field(default_factory=list)
    growth_tokens: list[int] = field(default_factory=list)
    """Added to the prompt since the agent's last turn, where the prefix was kept."""
    input_tokens: list[int] = field(default_factory=list)
    highest_tokens: list[int] = field(default_factory=list)
    """The longest prompt, one number an agent."""
    compactions: list[int] = field(default_factory=list)
    """How often its context was compacted, one number an agent."""
    grown_from: list[tuple[int, int]] = field(default_factory=list)
    """(number of the agent, prompt before), one pair a growth."""
    output_tokens: list[int] = field(default_factory=list)
    gap_s: list[float] = field(default_factory=list)
    """From the end of the last predecessor; none where its duration is unknown."""
    api_s: list[float] = field(default_factory=list)
    """How long requests took in the recording, where that is known."""
    compacted_tokens: list[int] = field(default_factory=list)
    compacted_from: list[int] = field(default_factory=list)
    """The prompt before each of them."""
    rewritten: int = 0
    """Turns that broke the prefix and kept their size."""
    broken_prefix_tokens: list[int] = field(default_factory=list)
    """What a turn that broke the prefix still shared."""

    @property
    def followers(self) -> int:
        """Turns that have one of their agent before them."""
        return len(self.growth_tokens) + len(self.compacted_tokens) + self.rewritten


@dataclass(slots=True)
class Shape:
    """Numbers of a set of sessions."""

    root: AgentShape = field(default_factory=AgentShape)
    sub: AgentShape = field(default_factory=AgentShape)
    turns: list[int] = field(default_factory=list)
    """One number a session, of all agents."""
    agents: list[int] = field(default_factory=list)
    """Sub-agents, one number a session."""
    depth: list[int] = field(default_factory=list)
    """Levels of agents, one number a session; 1 is a root alone."""
    fan_out: Counter[int] = field(default_factory=Counter)
    """Groups of sub-agents launched by one turn, by size."""
    launch_gap_s: list[float] = field(default_factory=list)
    launches: list[int] = field(default_factory=list)
    """Groups a session, of those that launch any."""
    background: int = 0
    """Sub-agents that nobody waits for, though something follows."""
    sub_shared_tokens: list[int] = field(default_factory=list)
    """What the first prompts of two sub-agents of a session share."""


def measure(sessions: Iterable[Session]) -> Shape:
    """The numbers of sessions."""
    shape = Shape()
    for session in sessions:
        _add(shape, session)
    return shape


def _add(shape: Shape, session: Session) -> None:
    by_agent: dict[str, list[Turn]] = {}
    for turn in session.turns:
        by_agent.setdefault(turn.agent, []).append(turn)
    for name, turns in by_agent.items():
        _add_agent(shape.root if name == ROOT else shape.sub, session, turns)
    subs = [turns for name, turns in by_agent.items() if name != ROOT]
    shape.turns.append(len(session.turns))
    shape.agents.append(len(subs))
    shape.depth.append(1 + max(name.count("/") for name in by_agent))
    if subs:
        _add_launches(shape, session, subs)


def _add_agent(shape: AgentShape, session: Session, turns: Sequence[Turn]) -> None:
    shape.turns.append(len(turns))
    shape.first_tokens.append(turns[0].input_tokens)
    shape.highest_tokens.append(max(turn.input_tokens for turn in turns))
    compacted = len(shape.compacted_tokens)
    for turn in turns:
        shape.input_tokens.append(turn.input_tokens)
        shape.output_tokens.append(turn.output_tokens)
        if turn.duration_ns is not None:
            shape.api_s.append(turn.duration_ns / NS)
    for before, turn in itertools.pairwise(turns):
        if turn.after and all(session.turns[i].duration_ns is not None for i in turn.after):
            shape.gap_s.append(turn.gap_ns / NS)
        _add_step(shape, session.block_size, before, turn)
    shape.compactions.append(len(shape.compacted_tokens) - compacted)


def _add_step(shape: AgentShape, size: int, before: Turn, turn: Turn) -> None:
    shared = shared_prefix(before.block_ids, turn.block_ids)
    if shared >= KEPT_SHARE * len(before.block_ids):
        shape.growth_tokens.append(max(0, turn.input_tokens - before.input_tokens))
        shape.grown_from.append((len(shape.turns), before.input_tokens))
        return
    shape.broken_prefix_tokens.append(shared * size)
    if turn.input_tokens < COMPACTED_SHARE * before.input_tokens:
        shape.compacted_tokens.append(turn.input_tokens)
        shape.compacted_from.append(before.input_tokens)
    else:
        shape.rewritten += 1


def _add_launches(shape: Shape, session: Session, subs: Sequence[Sequence[Turn]]) -> None:
    waited = {before for turn in session.turns for before in turn.after if turn.agent == ROOT}
    last_root = max(turn.index for turn in session.turns if turn.agent == ROOT)
    groups: Counter[tuple[int, ...]] = Counter()
    for turns in subs:
        first = turns[0]
        groups[first.after] += 1
        if first.after and session.turns[first.after[0]].duration_ns is not None:
            shape.launch_gap_s.append(first.gap_ns / NS)
        joined = any(turn.index in waited for turn in turns)
        shape.background += not joined and any(before < last_root for before in first.after)
        if first is not subs[0][0]:
            shared = shared_prefix(subs[0][0].block_ids, first.block_ids)
            shape.sub_shared_tokens.append(shared * session.block_size)
    shape.launches.append(len(groups))
    shape.fan_out.update(groups.values())
