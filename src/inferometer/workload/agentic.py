"""Which session a lane plays, and where it starts, by the replay rules `agentx-1`.

Everything here is a function of the seed, the lane and the play, never of who finished first.
When turns are sent, and what happens when one fails, is for the lanes in `load`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from inferometer.core import Session, WorkloadSettings
from inferometer.errors import InputError
from inferometer.workload.cachehits import hits_of_caches, sizes_with
from inferometer.workload.graph import ROOT
from inferometer.workload.prefixcache import PrefixCache, spaces

HIT_TURNS = 10_000
"""Turns after which the hits of caches are known well enough; more would take seconds."""
_ORDER, _START = 1, 2
"""Apart in the seeds, so that the order of sessions does not move the starts."""


@dataclass(frozen=True, slots=True)
class StartPlan:
    """Where in a session a lane's first play starts; all are indices of `session.turns`."""

    start: int
    """The root turn t*."""
    skipped: frozenset[int]
    """Turns that count as done before the play starts."""
    warmup: tuple[int, ...]
    """The turns that the rules warm with: the root turn before t* with its whole prefix, then the
    next ones. The lanes send as many as there are here, for one token each and without gaps, as
    turns become ready: other ones, where a sub-agent is ahead of the recorded order."""


def plan_start(session: Session, lane: int, settings: WorkloadSettings) -> StartPlan:
    """The start of a lane's first play.

    t* is drawn uniformly from the root turns numbered floor(min · n) to floor(max · n) of n. What
    an agent does that was launched before t* is done, whether or not it had ended. The warm-up
    takes `warmup_requests_per_lane` turns from t* on, of any agent, but never the last one left.
    """
    roots = session.root_turns
    rng = np.random.default_rng(np.random.SeedSequence([settings.seed, _START, lane]))
    low = math.floor(settings.start_min_share * len(roots))
    high = math.floor(settings.start_max_share * len(roots))
    number = min(int(rng.integers(low, high, endpoint=True)), len(roots) - 1)
    start = roots[number].index
    primer = (roots[number - 1].index,) if number else ()
    done = _launched_before(session, start)
    live = [turn.index for turn in session.turns if turn.index not in done]
    count = min(settings.warmup_requests_per_lane, len(live) - 1)
    return StartPlan(start, done - set(primer), (*primer, *live[:count]))


def prefix_hit(sessions: Sequence[Session]) -> float:
    """Share of input tokens that an endless cache would hold: what no engine can exceed.

    Each session is sent once, from its first turn, in order; a block is a hit where it and all
    before it were sent before in the session. An id stands for its block and all before it, as KV
    block hashes do, so a lookup by id is exact. Replies are not cached: the next prompt holds the
    recorded ones.
    """
    if any(session.common_ids for session in sessions):
        return _prefix_hit_of_all(sessions)
    hits = total = 0
    for session in sessions:
        seen = np.zeros(1 + max(int(t.block_ids.max(initial=0)) for t in session.turns), np.bool_)
        for turn in session.turns:
            known = seen[turn.block_ids]
            leading = len(known) if known.all() else int(known.argmin())
            hits += leading * session.block_size
            total += turn.input_tokens
            seen[turn.block_ids] = True
    return hits / total


def _prefix_hit_of_all(sessions: Sequence[Session]) -> float:
    """The same where sessions have blocks in common, each sent once in the order given."""
    cache, hits, total = PrefixCache(), 0, 0
    for number, session in enumerate(sessions):
        for turn in session.turns:
            hits += len(cache.send(spaces(session, turn, number))) * session.block_size
            total += turn.input_tokens
        cache.drop(number)
    return hits / total


class AgenticWorkload:
    """Deals sessions to lanes.

    The lanes of a play take neighbouring places in one endless seeded deal: all sessions in random
    order, then all again in another. So no two lanes of a play have the same session while there
    are as many sessions as lanes and a deal does not end among them; beyond, lanes share.
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        settings: WorkloadSettings,
        lanes: int,
        notes: Mapping[str, float],
    ) -> None:
        if not sessions:
            raise InputError("an agentic workload needs at least one session")
        self._sessions = tuple(sessions)
        self._one_turn = all(len(session.turns) == 1 for session in self._sessions)
        self._starts_ns: tuple[int, ...] = ()
        if settings.arrival == "timestamps":
            self._sessions, self._starts_ns = _by_start(sessions)
        self._settings = settings
        self._lanes = lanes
        self._deal = lru_cache(maxsize=4)(self._shuffled)
        self._notes = {
            "sessions": float(len(self._sessions)),
            "turns": float(sum(len(session.turns) for session in self._sessions)),
            **notes,
        }

    def cached_hits(self, pool_tokens: int | None = None) -> Mapping[str, float]:
        """What prefix caches of some sizes would hold of the lanes' first sessions, and one of the
        engine's own.
        """
        chosen: list[Session] = []
        turns = 0
        for number in range(len(self._sessions)):
            if turns > HIT_TURNS and number >= 2 * self._lanes:
                break
            chosen.append(self._sessions[self._deal(0)[number]])
            turns += len(chosen[-1].turns)
        return hits_of_caches(chosen, self._lanes, sizes_with(pool_tokens))

    @property
    def wrapped_lanes(self) -> int:
        """Lanes beyond the number of sessions: each plays one that another lane plays too."""
        return max(0, self._lanes - len(self._sessions))

    @property
    def one_turn(self) -> bool:
        """Whether every session is one request: then there is no turn to start in."""
        return self._one_turn

    def session(self, lane: int, play: int) -> Session:
        """The session of a lane's play."""
        number = play * self._lanes + lane
        if self._starts_ns:
            return self._sessions[number]
        deal, place = divmod(number, len(self._sessions))
        session = self._sessions[self._deal(deal)[place]]
        # Played again, what sessions have in common is not in the cache from the last time.
        return replace(session, scope=deal) if session.common_ids and deal else session

    def start(self, lane: int) -> StartPlan:
        """Where the lane's first play starts; every later one starts at turn 0."""
        return plan_start(self.session(lane, 0), lane, self._settings)

    def starts_ns(self) -> Sequence[int]:
        """When the sessions began by their recording, in order; empty unless that is asked for."""
        return self._starts_ns

    def notes(self, pool_tokens: int | None = None) -> Mapping[str, float]:
        """Numbers about the data, for the result: what it holds and what was inferred."""
        hit = prefix_hit(self._sessions)
        hits = self.cached_hits(pool_tokens)
        return {**self._notes, "theoretical_prefix_hit": hit, **hits}

    def _shuffled(self, deal: int) -> tuple[int, ...]:
        seeds = np.random.SeedSequence([self._settings.seed, _ORDER, deal])
        order = np.random.default_rng(seeds).permutation(len(self._sessions))
        return tuple(order.tolist())


def _by_start(sessions: Sequence[Session]) -> tuple[tuple[Session, ...], tuple[int, ...]]:
    """The sessions in the order in which they began, and when. InputError where any is silent."""
    timed = [(session.start_ns, session) for session in sessions if session.start_ns is not None]
    if len(timed) < len(sessions):
        raise InputError(
            f"arrival: timestamps: {len(sessions) - len(timed)} of {len(sessions)} sessions do not "
            "say when they began on a clock that all share; give a rate instead"
        )
    timed.sort(key=lambda item: item[0])
    return tuple(session for _, session in timed), tuple(at_ns for at_ns, _ in timed)


def _launched_before(session: Session, start: int) -> frozenset[int]:
    """Root turns before `start`, and all turns of agents whose first turn comes before it."""
    first: dict[str, int] = {}
    for turn in session.turns:
        first.setdefault(turn.agent, turn.index)
    return frozenset(
        turn.index
        for turn in session.turns
        if (turn.index if turn.agent == ROOT else first[turn.agent]) < start
    )
