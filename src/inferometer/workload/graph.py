"""From recorded intervals to a graph of turns, by the replay rules `agentx-1`.

Within one agent a request waits for the earlier ones that had ended when it started, reduced to
those that no other of them waits for. A sub-agent waits for the turn that launched it; the turn
that joins it waits for its last turns. Knows nothing of files; all times are integer nanoseconds
from the start of the recording.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inferometer.core import Turn

ROOT = "root"


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One recorded request, open in [start_ns, end_ns]."""

    start_ns: int
    end_ns: int
    block_ids: npt.NDArray[np.int64]
    input_tokens: int
    output_tokens: int
    known: bool = True
    """Whether its duration is; else `end_ns` is `start_ns`."""
    chain: int = 0
    """0: the agent's own; else the number of a recovered agent below it. Moves no edge."""
    extra: Mapping[str, Any] | None = None
    """As of a turn."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedAgent:
    """The requests of one agent, ordered by start; at least one.

    A sub-agent runs from `launch_ns`; `joined_by` is the index of the request of its `parent` that
    waits for it, None where none does (in the background, or nothing follows).
    """

    name: str
    requests: tuple[Recorded, ...]
    launch_ns: int
    joined_by: int | None
    parent: str = ROOT
    """Of the root itself: nothing."""


class Graph(NamedTuple):
    """Turns in an order in which every predecessor comes first, and what did not fit."""

    turns: tuple[Turn, ...]
    early_starts: int
    """Turns recorded to start before a predecessor had ended; their gap is 0."""


def build_graph(root: RecordedAgent, subagents: Sequence[RecordedAgent]) -> Graph:
    """The turns of a session: every recorded request becomes exactly one.

    Sub-agents come after their parents.
    """
    agents = (root, *subagents)
    first = _first_nodes(agents)
    named = {agent.name: (agent, base) for agent, base in zip(agents, first, strict=True)}
    waits: list[set[int]] = []
    for agent, base in zip(agents, first, strict=True):
        waits += _waits(agent, base)
    for agent, base in zip(subagents, first[1:], strict=True):
        _attach(agent, base, named[agent.parent], waits)
    requests = [(agent, request) for agent in agents for request in agent.requests]
    order = _topological([request.start_ns for _, request in requests], waits)
    return _turns(requests, waits, order)


def frontier(starts: Sequence[int], ends: Sequence[int]) -> list[tuple[int, ...]]:
    """For each of an agent's intervals, in order of start, the indices that it waits for.

    Those earlier ones that ended by its start (touching is sequential), without those that ended
    by the start of another of them. As starts ascend, the last of them has the latest start, so
    one comparison with it decides.
    """
    start_at, end_at = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    found: list[tuple[int, ...]] = []
    for index, start in enumerate(starts):
        done = np.flatnonzero(end_at[:index] <= start)
        if len(done):
            last = done[-1]
            done = done[(end_at[done] > start_at[last]) | (done == last)]
        found.append(tuple(done.tolist()))
    return found


def _first_nodes(agents: Sequence[RecordedAgent]) -> list[int]:
    bases, total = [], 0
    for agent in agents:
        bases.append(total)
        total += len(agent.requests)
    return bases


def _waits(agent: RecordedAgent, base: int) -> list[set[int]]:
    inner = frontier(
        [request.start_ns for request in agent.requests],
        [request.end_ns for request in agent.requests],
    )
    return [{base + index for index in before} for before in inner]


def _attach(
    agent: RecordedAgent, base: int, above: tuple[RecordedAgent, int], waits: list[set[int]]
) -> None:
    """Add the edges from the launching turn and to the joining one; `above`: parent, first node."""
    parent, first = above
    nodes = range(base, base + len(agent.requests))
    last = set(nodes) - set().union(*(waits[node] for node in nodes))
    index = _launching(parent, agent)
    # Launched before its parent's first turn had ended, it waits for what that one waits for.
    launch = waits[first] if index is None else {first + index}
    for node in nodes:
        waits[node] = waits[node] or set(launch)
    if agent.joined_by is not None:
        # The join already waits for the launching turn, through the sub-agent.
        join = first + agent.joined_by
        waits[join] = (waits[join] - launch) | last


def _launching(parent: RecordedAgent, agent: RecordedAgent) -> int | None:
    """The parent's request that ended last before the sub-agent started, and before its join."""
    candidates = parent.requests[: agent.joined_by]
    ended = [(r.end_ns, i) for i, r in enumerate(candidates) if r.end_ns <= agent.launch_ns]
    return max(ended)[1] if ended else None


def _topological(starts: Sequence[int], waits: Sequence[set[int]]) -> list[int]:
    """Nodes with predecessors first, otherwise by recorded start."""
    missing = [len(before) for before in waits]
    after: list[list[int]] = [[] for _ in waits]
    for node, before in enumerate(waits):
        for other in before:
            after[other].append(node)
    ready = [(starts[node], node) for node, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for other in after[node]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready, (starts[other], other))
    return order


def _turns(
    requests: Sequence[tuple[RecordedAgent, Recorded]],
    waits: Sequence[set[int]],
    order: Sequence[int],
) -> Graph:
    index_of = {node: index for index, node in enumerate(order)}
    origin_ns = min(request.start_ns for _, request in requests)
    turns, early = [], 0
    for node in order:
        agent, request = requests[node]
        free_ns = max((requests[other][1].end_ns for other in waits[node]), default=origin_ns)
        early += request.start_ns < free_ns
        name, parent = _names(agent, request)
        turns.append(
            Turn(
                index=index_of[node],
                agent=name,
                parent_agent=parent,
                after=tuple(sorted(index_of[other] for other in waits[node])),
                gap_ns=max(0, request.start_ns - free_ns),
                block_ids=request.block_ids,
                input_tokens=request.input_tokens,
                output_tokens=request.output_tokens,
                duration_ns=request.end_ns - request.start_ns if request.known else None,
                extra=request.extra,
            )
        )
    return Graph(tuple(turns), early)


def _names(agent: RecordedAgent, request: Recorded) -> tuple[str, str | None]:
    """Name and parent of the agent that a request belongs to."""
    if request.chain:
        return f"{agent.name}/fan-{request.chain}", agent.name
    return agent.name, None if agent.name == ROOT else agent.parent
