"""One play of a session: which turns are waiting, ready, open and done. Pure; knows no clock.

A turn is ready when all its recorded predecessors are done, and due its recorded gap later. A
failed turn ends its agent: turns of that agent not yet sent, and sub-agents it never spawned, are
dropped, and a dropped turn releases whoever waits for it (docs/replay.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from inferometer.core import Session, Turn


class Ready(NamedTuple):
    """A turn whose predecessors are done: `ready_ns` is the last of their ends, `due_ns` adds the
    recorded gap."""

    turn: Turn
    ready_ns: int
    due_ns: int


class Play:
    """The state of one session play. Every turn is handed out at most once."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ended_agents: set[str] = set()
        self._waits: list[int] = [len(turn.after) for turn in session.turns]
        self._followers: list[list[int]] = [[] for _ in session.turns]
        for turn in session.turns:
            for before in turn.after:
                self._followers[before].append(turn.index)
        self._handed = [False] * len(session.turns)
        self._closed = [False] * len(session.turns)
        self._ends_ns: list[int | None] = [None] * len(session.turns)
        self._left = len(session.turns)

    @property
    def drained(self) -> bool:
        """True when every turn is done or dropped."""
        return self._left == 0

    @property
    def first(self) -> list[Turn]:
        """The turns that wait for nothing, from the top."""
        return [turn for turn in self.session.turns if not turn.after]

    def freed_by(self, turn: Turn) -> list[Turn]:
        """What `done` would hand out for it now."""
        turns = (self.session.turns[follower] for follower in self._followers[turn.index])
        return [t for t in turns if self._waits[t.index] == 1 and not self._handed[t.index]]

    def ends_with(self, turn: Turn) -> bool:
        """Nothing but this turn is left."""
        return self._left == 1 and not self._closed[turn.index]

    def start(self, skipped: Iterable[int], at_ns: int) -> list[Ready]:
        """Take `skipped` as done long ago, and hand out every turn that waits for nothing.

        From the top, a turn without predecessors is due its gap after the session's start. In
        the middle, what is free starts at once: its gap lies in the past.
        """
        skipped = frozenset(skipped)
        for index in skipped:
            self._handed[index] = True
            self._close(index, None)
        free = [t for t in self.session.turns if not self._handed[t.index] and self._free(t)]
        for turn in free:
            self._handed[turn.index] = True
        gaps_ns = [0 if skipped else turn.gap_ns for turn in free]
        return [Ready(turn, at_ns, at_ns + gap) for turn, gap in zip(free, gaps_ns, strict=True)]

    def done(self, turn: Turn, end_ns: int) -> list[Ready]:
        """The turn succeeded; hand out what was waiting for it."""
        return self._hand(self._close(turn.index, end_ns), end_ns)

    def failed(self, turn: Turn, end_ns: int) -> list[Ready]:
        """The turn failed, or was never sent: its agent ends; hand out what was waiting for it."""
        self.ended_agents.add(turn.agent)
        gone = [turn.index]
        for other in self.session.turns:
            if not self._handed[other.index] and self._orphan(other):
                self._handed[other.index] = True
                gone.append(other.index)
        free = [turn for index in gone for turn in self._close(index, end_ns)]
        return self._hand(free, end_ns)

    def _orphan(self, turn: Turn) -> bool:
        agent = turn.agent
        if agent in self.ended_agents:
            return True
        # A sub-agent without any turn sent or ready was never spawned; one with is left to drain.
        if turn.parent_agent not in self.ended_agents:
            return False
        if any(self._handed[t.index] for t in self.session.turns if t.agent == agent):
            return False
        self.ended_agents.add(agent)
        return True

    def _free(self, turn: Turn) -> bool:
        return self._waits[turn.index] == 0

    def _close(self, index: int, end_ns: int | None) -> list[Turn]:
        """Count a turn as over; the turns that now wait for nothing and were not handed out."""
        if self._closed[index]:
            return []
        self._closed[index] = True
        self._ends_ns[index] = end_ns
        self._left -= 1
        for follower in self._followers[index]:
            self._waits[follower] -= 1
        turns = (self.session.turns[follower] for follower in self._followers[index])
        return [turn for turn in turns if self._free(turn) and not self._handed[turn.index]]

    def _hand(self, turns: list[Turn], at_ns: int) -> list[Ready]:
        ready = []
        for turn in turns:
            self._handed[turn.index] = True
            ends = [end for end in (self._ends_ns[b] for b in turn.after) if end is not None]
            ready_ns = max(ends, default=at_ns)
            ready.append(Ready(turn, ready_ns, ready_ns + turn.gap_ns))
        return ready
