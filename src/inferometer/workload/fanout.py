"""Recovers agents that a recording did not declare, from shared prefixes and overlapping times.

Works within one scope: the requests of a root, or of one declared sub-agent. Says who belongs
together and nothing else: what a turn waits for stays a matter of recorded times (`graph`). The
rule, and what it leaves ambiguous, is in docs/replay.md. Pure; times in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from inferometer.clock import NS
from inferometer.workload.hashes import Ids, shared_prefix

NEAR_NS = NS
"""Recorders write starts in whole seconds: so much overlap may be none."""
KEPT_SHARE = 0.5
"""A request goes on from another when it keeps at least this share of that one's blocks."""


class Call(NamedTuple):
    """One request of a scope, as this rule needs it: open in [start_ns, end_ns], and its ids."""

    start_ns: int
    end_ns: int
    block_ids: Ids


class FanOut(NamedTuple):
    """Who belongs together."""

    chains: tuple[int, ...]
    """For each request the number of its agent: 0 is the scope's own, others count from 1."""
    agents: int
    """Agents recovered: the highest of those numbers."""
    parallel: int
    """Those of which a request overlaps one of another agent; only prefixes tell the others."""
    resets: int
    """Times the scope's own agent went on from a context of which it kept less than half."""


class _Link(NamedTuple):
    """What a request goes on from, and whether it keeps all of its blocks."""

    request: int
    whole: bool


class _Chain(NamedTuple):
    """Requests that go on from each other, by index in order of time."""

    members: list[int]
    parent: int | None
    """The request it branched off from."""


def recover(calls: Sequence[Call]) -> FanOut:
    """Assign every request of a scope, ordered by start, to an agent.

    1. A request goes on from the one with which it shares most leading blocks, among those that
       had ended when it started and of whose blocks it keeps at least half, or that overlap it by
       less than a second and of which it keeps all; of equals, from the latest to end. Such
       requests form chains.
    2. Where several go on from one, the same chain is the one with most requests after it, of
       those that keep all of its blocks if there are such; each other begins a chain that branches
       off there. A request that goes on from none begins one that branches off nowhere.
    3. A chain is an agent of its own where the recording shows two at work: it overlaps the agent
       it branched off from (the scope's own where it branches off nowhere), or that one went on
       later from where it was before, and the chain has blocks to tell by. Else it is the same
       agent with another context.
    """
    before = _links(calls)
    chains = _chains(before)
    numbers, resets = _agents(calls, chains)
    agents = max(numbers, default=0)
    return FanOut(tuple(numbers), agents, _parallel(calls, numbers), resets)


def _links(calls: Sequence[Call]) -> list[_Link | None]:
    """The request that each one goes on from."""
    ends = np.array([call.end_ns for call in calls], np.int64)
    sharing = _Sharing(calls)
    lengths = sharing.lengths
    found: list[_Link | None] = []
    for index, call in enumerate(calls):
        if sharing.advance(index) and calls[index - 1].end_ns <= call.start_ns:
            found.append(_Link(index - 1, True))
            continue
        shared = sharing.now[:index]
        overlap_ns = ends[:index] - call.start_ns
        least = np.where(overlap_ns > 0, 1.0, KEPT_SHARE) * lengths[:index]
        able = np.flatnonzero((overlap_ns < NEAR_NS) & (lengths[:index] > 0) & (shared >= least))
        if len(able):
            best = int(able[np.lexsort((able, ends[able], shared[able]))[-1]])
            found.append(_Link(best, bool(shared[best] == lengths[best])))
        else:
            found.append(None)
    return found


class _Sharing:
    """Leading blocks that a request shares with each earlier one, request by request.

    Requests are a tree: each hangs below the one with which it shares most, at the block where they
    part. So another one is compared along one path only; what hangs off that path shares with it
    what the place on the path does, or less by where it hangs.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self.lengths = np.array([len(call.block_ids) for call in calls], np.int64)
        self.now = np.zeros(len(calls), np.int64)
        """int64[number of the request], and more behind them that mean nothing."""
        self._most = 0
        self._above: list[int] = []
        """What each request hangs below; itself where it shares nothing with any before it."""
        self._depth: list[int] = []
        """Blocks that they share."""
        self._branches: dict[tuple[int, int, int], int] = {}
        """By what it hangs below (-1: nothing), the blocks shared and the next id: a request."""

    def advance(self, index: int) -> bool:
        """Go on to a request. Whether it keeps all blocks of the one before it, and of any other
        fewer than those."""
        ids = self._calls[index].block_ids
        before = self._calls[index - 1].block_ids if index else ids[:0]
        last = shared_prefix(before, ids)
        alone = last > self._most
        if alone:
            self._hang(index, index - 1, last)
            self.now[index - 1] = self._most = last
        else:
            path = self._path(ids)
            above, depth = next(reversed(path.items()), (-1, 0))
            self.now[:index] = self._along(path)
            self._hang(index, above, depth)
            self._most = depth
        return alone and last == len(before)

    def _path(self, ids: Ids) -> dict[int, int]:
        """The requests along which the ids lie in the tree, each with the blocks it shares."""
        found: dict[int, int] = {}
        at, depth = -1, 0
        while depth < len(ids):
            below = self._branches.get((at, depth, int(ids[depth])))
            if below is None:
                break
            at = below
            depth += shared_prefix(self._calls[at].block_ids[depth:], ids[depth:])
            found[at] = depth
        return found

    def _along(self, path: dict[int, int]) -> list[int]:
        """Blocks shared with every request so far."""
        found: list[int] = []
        for index, (above, depth) in enumerate(zip(self._above, self._depth, strict=True)):
            shared = path.get(index)
            if shared is None:
                shared = found[above] if depth else 0
                if shared > depth:
                    shared = depth
            found.append(shared)
        return found

    def _hang(self, index: int, above: int, depth: int) -> None:
        self._above.append(above if depth else index)
        self._depth.append(depth)
        ids = self._calls[index].block_ids
        if depth < len(ids):
            self._branches[above, depth, int(ids[depth])] = index


def _chains(before: Sequence[_Link | None]) -> list[_Chain]:
    """The paths of the forest that `before` draws, in order of their first request."""
    weight = [1] * len(before)
    for index in range(len(before) - 1, -1, -1):
        if (link := before[index]) is not None:
            weight[link.request] += weight[index]
    heirs: dict[int, tuple[bool, int, int]] = {}
    for index, link in enumerate(before):
        if link is not None:
            # Of equals the earliest: a later one has the lower last number.
            claim = (link.whole, weight[index], -index)
            heirs[link.request] = max(claim, heirs.get(link.request, claim))
    chain_of: list[_Chain] = []
    chains = []
    for index, link in enumerate(before):
        if link is not None and heirs[link.request][2] == -index:
            chain = chain_of[link.request]
            chain.members.append(index)
        else:
            chain = _Chain([index], None if link is None else link.request)
            chains.append(chain)
        chain_of.append(chain)
    return chains


def _agents(calls: Sequence[Call], chains: Sequence[_Chain]) -> tuple[list[int], int]:
    """The agent of every request, and how often the first went on with another context."""
    numbers = [0] * len(calls)
    owners = {member: chain for chain in chains for member in chain.members}
    sent: list[list[int]] = [[]]
    resets = 0
    for chain in chains:
        parent = chain.parent
        agent = 0 if parent is None else numbers[parent]
        start_ns = calls[chain.members[0]].start_ns
        # A chain that takes no time is still at work at its instant.
        span = Call(start_ns, max(_end(calls, chain), start_ns + 1), calls[0].block_ids)
        after = [] if parent is None else [m for m in owners[parent].members if m > parent]
        # Without a block nothing but an overlap tells of another agent.
        shown = any(len(calls[member].block_ids) for member in chain.members)
        if _beside(calls, sent[agent], span) or (
            shown and _resumed(calls, sent[agent], after, span)
        ):
            agent = len(sent)
            sent.append([])
        elif chain is not chains[0] and agent == 0:
            resets += 1
        sent[agent] += chain.members
        for member in chain.members:
            numbers[member] = agent
    return numbers, resets


def _end(calls: Sequence[Call], chain: _Chain) -> int:
    return max(calls[member].end_ns for member in chain.members)


def _beside(calls: Sequence[Call], members: Sequence[int], span: Call) -> bool:
    """Whether a request of an agent is open within the span of a chain."""
    return any(calls[m].end_ns > span.start_ns and calls[m].start_ns < span.end_ns for m in members)


def _resumed(
    calls: Sequence[Call], members: Sequence[int], after: Sequence[int], span: Call
) -> bool:
    """Whether an agent of `members` went on from where it was before a chain began.

    Not where it was done by then; nor where the chain is over before the first of `after`, which
    went on from the request at which the chain branched off.
    """
    if all(calls[m].end_ns <= span.start_ns for m in members):
        return False
    return not after or any(calls[m].start_ns < span.end_ns for m in after)


def _parallel(calls: Sequence[Call], numbers: Sequence[int]) -> int:
    """How many recovered agents have a request that overlaps one of another agent."""
    if not any(numbers):
        return 0
    ends = np.array([call.end_ns for call in calls], np.int64)
    owner = np.array(numbers)
    found: set[int] = set()
    for index, call in enumerate(calls):
        open_now = np.flatnonzero((ends[:index] > call.start_ns) & (owner[:index] != owner[index]))
        if len(open_now):
            found |= {numbers[index], *owner[open_now].tolist()}
    return len(found - {0})
