"""Binds a point's workload to its lanes: siblings that know nothing of each other meet here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from inferometer.core import Prompt, Session, Turn
from inferometer.run.job import Job
from inferometer.workload import (
    PromptText,
    Workload,
    open_workload,
    play_key,
    prompt_of,
    reblock,
)

COMMON = -1
"""Stands for a lane in the key of blocks that all lanes share."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a lane's first play begins: turns taken as done, and how many follow as warm-up."""

    skipped: frozenset[int]
    warmup: int


class BoundWorkload:
    """A workload as the lanes take it: sessions, starts, and prompts that no other point shares.

    `block_size`: the engine's own, where prompts go to it as block ids and not as `text`.
    """

    def __init__(
        self, job: Job, workload: Workload, block_size: int | None, text: PromptText | None
    ) -> None:
        self._text = text
        self._settings = job.plan.workload
        self._workload = workload
        self._block_size = block_size
        digest, repeat, seed = job.digest, job.point.repeat, self._settings.seed
        self._key = lru_cache(maxsize=1 << 14)(
            lambda lane, play: play_key(seed, digest, repeat, lane, play)
        )

    @property
    def wrapped_lanes(self) -> int:
        """Lanes that play a session that another lane plays at the same time."""
        return self._workload.wrapped_lanes

    def session(self, lane: int, play: int) -> Session:
        """The session of a lane's play."""
        return self._workload.session(lane, play)

    def start(self, lane: int) -> Begin:
        """Where the lane's first play begins."""
        if self._workload.one_turn:
            # Each play is one whole request: the first few plays of a lane are its warm-up.
            return Begin(frozenset(), self._settings.warmup_requests_per_lane)
        plan = self._workload.start(lane)
        return Begin(plan.skipped, len(plan.warmup))

    def starts_ns(self) -> Sequence[int]:
        """When the sessions began, by their recording."""
        return self._workload.starts_ns()

    def prompt(self, session: Session, turn: Turn, lane: int, play: int) -> Prompt:
        """The turn's prompt in this play."""
        common = self._key(COMMON, session.scope)
        prompt = prompt_of(session, turn, self._key(lane, play), common)
        return prompt if self._block_size is None else reblock(prompt, self._block_size)

    def notes(self) -> Mapping[str, float]:
        """Numbers about the data and what it was sent as, for the result."""
        return {**self._workload.notes(), **(self._text.notes() if self._text else {})}


def bind_workload(
    job: Job, block_size: int | None = None, text: PromptText | None = None
) -> BoundWorkload:
    """Open the point's workload. Raises InputError where its data is unusable."""
    return BoundWorkload(job, open_workload(job.plan.workload, job.point.conc), block_size, text)
