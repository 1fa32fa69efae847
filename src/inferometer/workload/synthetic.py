"""Makes agentic sessions from a named profile, for when no recording is at hand.

Contexts grow, are compacted and rewritten, sub-agents fan out and join, as in recordings; block
ids follow, so that prefixes are shared as there. A session depends on (profile, seed, its number)
alone, not on how many are made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inferometer.clock import NS
from inferometer.core import Session, Turn
from inferometer.workload.graph import ROOT
from inferometer.workload.profiles import AgentProfile, Profile

Ids = npt.NDArray[np.int64]


class _Step(NamedTuple):
    """One request of an agent, before it has blocks. `fresh`: its prefix is the shared one only."""

    tokens: int
    output: int
    fresh: bool


class _Request(NamedTuple):
    """One request of an agent, before it has a place in the session."""

    tokens: int
    output: int
    blocks: Ids


class _Ids:
    """Hands out block ids of a session, each once."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> Ids:
        """`count` new ids, int64[count]."""
        start, self._next = self._next, self._next + count
        return np.arange(start, self._next, dtype=np.int64)


def synthesize(profile: Profile, count: int, seed: int) -> tuple[Session, ...]:
    """`count` sessions of a profile."""
    return tuple(_Maker(profile, number, seed).session() for number in range(count))


class _Maker:
    """The making of one session: its random stream, its ids, and the turns so far."""

    def __init__(self, profile: Profile, number: int, seed: int) -> None:
        self._profile = profile
        self._number = number
        self._rng = np.random.default_rng(np.random.SeedSequence([seed, number]))
        self._durations = np.random.default_rng(np.random.SeedSequence([seed, number, 1]))
        self._ids = _Ids()
        self._turns: list[Turn] = []
        self._agents = 0
        instructions = profile.subagent.instructions(self._rng)
        self._sub_prefix = self._ids.take(instructions // profile.block_size)

    def session(self) -> Session:
        """Root turns in a row; where one launches sub-agents, the next waits for them."""
        profile, rng = self._profile, self._rng
        prefix = self._ids.take(profile.root.instructions(rng) // profile.block_size)
        score = float(rng.standard_normal())
        launching = profile.launching(score, rng)
        after: tuple[int, ...] = ()
        requests = self._requests(profile.root, score, prefix)
        chosen = self._chosen(launching, len(requests))
        for number, request in enumerate(requests):
            gap_s = profile.root.gap_s(rng) if after else 0.0
            index = self._add(ROOT, after, gap_s, request)
            launches = rng.random() < profile.launch_share if chosen is None else number in chosen
            after = self._fan_out(index) if launches else (index,)
        name = f"{profile.name}-{self._number:04d}"
        return Session(name, profile.block_size, tuple(self._turns))

    def _chosen(self, launching: int | None, turns: int) -> Collection[int] | None:
        """The root turns that launch sub-agents, by number; None where each draws for itself."""
        if launching is None:
            return None
        # Not the last turn, while there are others: somebody is to wait.
        able = max(1, turns - 1)
        return frozenset(self._rng.choice(able, min(launching, able), replace=False).tolist())

    def _fan_out(self, launching: int) -> tuple[int, ...]:
        """Sub-agents side by side; what the next root turn waits for."""
        profile, rng = self._profile, self._rng
        width = 1 + int(rng.choice(len(profile.fan_out_weights), p=profile.fan_out_weights))
        last = []
        for _ in range(width):
            self._agents += 1
            background = rng.random() < profile.background_share
            index, gap_s = launching, profile.launch_gap_s.draw(rng)
            score = float(rng.standard_normal())
            for request in self._requests(profile.subagent, score, self._sub_prefix):
                index = self._add(f"{ROOT}/agent-{self._agents}", (index,), gap_s, request)
                gap_s = profile.subagent.gap_s(rng)
            if not background:
                last.append(index)
        return tuple(last) or (launching,)

    def _add(self, agent: str, after: tuple[int, ...], gap_s: float, request: _Request) -> int:
        index = len(self._turns)
        self._turns.append(
            Turn(
                index=index,
                agent=agent,
                parent_agent=None if agent == ROOT else ROOT,
                after=after,
                gap_ns=round(gap_s * NS),
                block_ids=request.blocks,
                input_tokens=request.tokens,
                output_tokens=request.output,
                duration_ns=self._duration_ns(agent),
            )
        )
        return index

    def _duration_ns(self, agent: str) -> int | None:
        """Drawn apart, as it moves nothing: sessions are the same with and without."""
        api_s = (self._profile.root if agent == ROOT else self._profile.subagent).api_s
        return None if api_s is None else round(api_s.draw(self._durations) * NS)

    def _requests(self, agent: AgentProfile, score: float, prefix: Ids) -> list[_Request]:
        size = self._profile.block_size
        found: list[_Request] = []
        for epoch in _epochs(_steps(agent, score, self._rng)):
            most = max(step.tokens for step in epoch) // size
            held = np.concatenate([prefix[:most], self._ids.take(max(0, most - len(prefix)))])
            found += [_Request(s.tokens, s.output, held[: s.tokens // size]) for s in epoch]
        return found


def _steps(agent: AgentProfile, score: float, rng: np.random.Generator) -> list[_Step]:
    """Context sizes of one agent, of as many turns as a normal score says: growth, by at least the
    last reply where that is kept, and two kinds of break."""
    turns = round(agent.turns.at(score))
    tokens, limit = agent.start(score, rng)
    output, kind = agent.output(rng), agent.kind(score, rng)
    steps = [_Step(tokens, output, fresh=True)]
    for _ in range(turns - 1):
        growth = agent.growth(tokens, kind, rng)
        grown = tokens + (max(output, growth) if agent.keeps_replies else growth)
        chance = rng.random()
        compacted = grown > limit or chance < agent.compact_share
        rewritten = chance < agent.compact_share + agent.rewrite_share
        if compacted:
            grown = max(1, min(grown, agent.compacted_tokens.whole(rng)))
        tokens, output = grown, agent.output(rng)
        steps.append(_Step(tokens, output, fresh=compacted or rewritten))
    return steps


def _epochs(steps: Sequence[_Step]) -> list[list[_Step]]:
    """Steps between breaks; within one, contexts only grow."""
    epochs: list[list[_Step]] = []
    for step in steps:
        if step.fresh:
            epochs.append([])
        epochs[-1].append(step)
    return epochs
