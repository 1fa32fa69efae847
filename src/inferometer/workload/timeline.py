"""When the requests of sessions were, or would be, sent: the order that a cache sees.

Recorded times where all sessions share a clock; else the sessions side by side on a number of
lanes, each going on as recorded, with pauses cut as a replay cuts them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from inferometer.clock import NS
from inferometer.core import Session, Turn

IDLE_CAP_NS = 300 * NS
"""The longest gap that is waited, as in the rules `agentx-1`."""


class Sent(NamedTuple):
    """One request of a timeline: when, and which turn of which session by number."""

    at_ns: int
    session: int
    turn: int


def timeline(sessions: Sequence[Session], lanes: int) -> Iterator[Sent]:
    """Every turn of every session once, in order of time."""
    if sessions and all(session.start_ns is not None for session in sessions):
        return heapq.merge(*_recorded(sessions))
    return heapq.merge(*(_lane(sessions, lane, lanes) for lane in range(lanes)))


def _recorded(sessions: Sequence[Session]) -> list[list[Sent]]:
    """One list of all turns: sorted here, as one of a million parts could not be merged well."""
    found = [sent for number, session in enumerate(sessions) for sent in _played(session, number)]
    return [sorted(found)]


def _played(session: Session, number: int) -> list[Sent]:
    return [
        Sent(at_ns, number, turn.index)
        for turn, at_ns in zip(
            session.turns, starts(session, session.start_ns or 0, None), strict=True
        )
    ]


def _lane(sessions: Sequence[Session], lane: int, lanes: int) -> Iterator[Sent]:
    """A lane's sessions one after the other; the next begins when all of one has ended."""
    free_ns = 0
    for number in range(lane, len(sessions), lanes):
        session = sessions[number]
        times = starts(session, free_ns, IDLE_CAP_NS)
        yield from sorted(
            Sent(at_ns, number, turn.index)
            for turn, at_ns in zip(session.turns, times, strict=True)
        )
        free_ns = max(at + _took(turn) for turn, at in zip(session.turns, times, strict=True))


def starts(session: Session, begin_ns: int, cap_ns: int | None) -> list[int]:
    """When each turn starts, in the order of `session.turns`, as it was recorded."""
    ends: list[int] = []
    times: list[int] = []
    for turn in session.turns:
        gap_ns = turn.gap_ns if cap_ns is None else min(turn.gap_ns, cap_ns)
        at_ns = max((ends[before] for before in turn.after), default=begin_ns) + gap_ns
        times.append(at_ns)
        ends.append(at_ns + _took(turn))
    return times


def _took(turn: Turn) -> int:
    return turn.duration_ns or 0
