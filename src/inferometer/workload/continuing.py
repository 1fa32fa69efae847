"""Which turn of a session goes on from which: whose prompt, and whose answer, it repeats.

A recording knows a prompt as block ids, not as messages. That a prompt begins with all whole blocks
of an earlier one, and is longer, says that it repeats it; the answer of that turn is then taken to
be what follows, as far as the prompt grew. Pure, and a function of the session alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from inferometer.core import Session, Turn

KEPT = 1024
"""Sessions whose steps are kept: as many as lanes play at a time."""
LEAST_GROWTH = 2
"""A token of the answer, and one of the user."""


class Step(NamedTuple):
    """How a prompt goes on from that of turn `base`, in tokens: all of it, `answer`, `user`."""

    base: int
    answer: int
    user: int


@lru_cache(KEPT)
def steps(session: Session) -> tuple[Step | None, ...]:
    """For each turn the step that leads to it; None where it begins a conversation.

    Of the turns that it waits for, directly or through others, it goes on from the one with the
    longest prompt whose whole blocks, at least one, its own prompt begins with; of equals from the
    last. The answer is taken to be as long as recorded, but never all of the growth: the last token
    at least is the user's.
    """
    before: list[int] = []
    """Bit sets of the turns that each waits for."""
    found: list[Step | None] = []
    for turn in session.turns:
        mask = 0
        for index in turn.after:
            mask |= before[index] | 1 << index
        before.append(mask)
        found.append(_step(session, turn, mask))
    return tuple(found)


def _step(session: Session, turn: Turn, mask: int) -> Step | None:
    best: Turn | None = None
    for base in reversed(session.turns[: turn.index]):
        if not mask >> base.index & 1:
            continue
        if (best is None or base.input_tokens > best.input_tokens) and _repeats(turn, base):
            best = base
    if best is None:
        return None
    growth = turn.input_tokens - best.input_tokens
    answer = min(best.output_tokens, growth - 1)
    return Step(best.index, answer, growth - answer)


def _repeats(turn: Turn, base: Turn) -> bool:
    """Whether a prompt begins with all whole blocks of another, and is longer."""
    blocks = len(base.block_ids)
    if not 0 < blocks <= len(turn.block_ids):
        return False
    if turn.input_tokens < base.input_tokens + LEAST_GROWTH:
        return False
    # The last of them tells most of the others, as an id stands for all before it.
    if turn.block_ids[blocks - 1] != base.block_ids[blocks - 1]:
        return False
    return bool(np.array_equal(turn.block_ids[:blocks], base.block_ids))
