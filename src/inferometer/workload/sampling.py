"""Chooses sessions of a stream: those that pass a filter, and of these a seeded sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from inferometer.core import Session


@dataclass(frozen=True, slots=True)
class Filter:
    """What a session must be like; None asks for nothing."""

    max_context: int | None = None
    """No turn has more tokens, input and output together."""
    min_turns: int | None = None
    max_turns: int | None = None
    subagents: bool | None = None
    """Whether it has any."""

    def passes(self, session: Session) -> bool:
        """Whether a session is like that."""
        turns = session.turns
        if self.max_context is not None and longest(session) > self.max_context:
            return False
        if self.min_turns is not None and len(turns) < self.min_turns:
            return False
        if self.max_turns is not None and len(turns) > self.max_turns:
            return False
        has = any(turn.parent_agent is not None for turn in turns)
        return self.subagents is None or has == self.subagents


def longest(session: Session) -> int:
    """Tokens of the longest turn, input and output together."""
    return max(turn.input_tokens + turn.output_tokens for turn in session.turns)


def chosen(sessions: Iterable[Session], wanted: Filter) -> Iterator[Session]:
    """Those that pass."""
    return (session for session in sessions if wanted.passes(session))


def sample(sessions: Iterable[Session], count: int, seed: int) -> list[Session]:
    """`count` sessions, each choice as likely, in the order of the stream; all where there are
    fewer. Holds no more than `count` at a time (Vitter, Random sampling with a reservoir, 1985).
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed]))
    held: list[tuple[int, Session]] = []
    for number, session in enumerate(sessions):
        if number < count:
            held.append((number, session))
        elif (place := int(rng.integers(number + 1))) < count:
            held[place] = (number, session)
    return [session for _, session in sorted(held, key=lambda item: item[0])]
