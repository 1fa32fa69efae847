"""Binds a point's workload to its lanes: siblings that know nothing of each other meet here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from inferometer.core import Exchange, Prompt, Request, Session, Turn, WorkloadSettings
from inferometer.deferred import Deferred
from inferometer.run.job import Job
from inferometer.workload import (
    PromptText,
    Workload,
    open_workload,
    play_key,
    prompt_of,
    reblock,
)

if TYPE_CHECKING:
    from inferometer.workload import live as _live
    from inferometer.workload import sources as _sources
else:
    # What counts the hits of caches, which a replay of recorded answers does without; what reads
    # sessions, which fixed lengths do without.
    _live = Deferred("inferometer.workload.live")
    _sources = Deferred("inferometer.workload.sources")

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
    `pool_tokens`: how much its KV pool holds, where that is known.
    """

    def __init__(
        self,
        job: Job,
        workload: Workload,
        block_size: int | None,
        text: PromptText | None,
        pool_tokens: int | None = None,
    ) -> None:
        self._text = text
        self._settings = job.plan.workload
        self._workload = workload
        self._block_size = block_size
        self._pool_tokens = pool_tokens
        digest, repeat, seed = job.digest, job.point.repeat, self._settings.seed
        self._key = lru_cache(maxsize=1 << 14)(
            lambda lane, play: play_key(seed, digest, repeat, lane, play)
        )
        self._threads: _live.Threads | None = None
        if self._settings.replies == "live":
            self._threads = _live.Threads(self._canned, pool_tokens)

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
        """The turn's prompt in this play: the recorded context, or with real answers in it."""
        of = self._threads.prompt if self._threads else self._canned
        prompt = of(session, turn, lane, play)
        return prompt if self._block_size is None else reblock(prompt, self._block_size)

    def sent(self, session: Session, turn: Turn, request: Request) -> None:
        """The turn's request leaves now."""
        if self._threads:
            self._threads.sent(session, turn, request)

    def heard(self, turn: Turn, request: Request, exchange: Exchange) -> None:
        """Its request has ended."""
        if self._threads:
            self._threads.heard(turn, request, exchange)

    def over(self, lane: int, play: int) -> None:
        """The play has drained."""
        if self._threads:
            self._threads.over(lane, play)

    def notes(self) -> Mapping[str, float]:
        """Numbers about the data and what it was sent as, for the result."""
        pool = self._pool_tokens
        found = {**self._workload.notes(pool), **(self._text.notes() if self._text else {})}
        if pool is not None:
            found["engine_kv_pool_tokens"] = float(pool)
        return {**found, **(self._threads.notes() if self._threads else {})}

    def _canned(self, session: Session, turn: Turn, lane: int, play: int) -> Prompt:
        """The recorded context."""
        common = self._key(COMMON, session.scope)
        return prompt_of(session, turn, self._key(lane, play), common)


def bind_workload(
    job: Job,
    block_size: int | None = None,
    text: PromptText | None = None,
    pool_tokens: int | None = None,
) -> BoundWorkload:
    """Open the point's workload. Raises InputError where its data is unusable."""
    opened = open_workload(job.plan.workload, job.point.conc)
    return BoundWorkload(job, opened, block_size, text, pool_tokens)


def data_of(settings: WorkloadSettings, limit: int | None) -> tuple[str, ...]:
    """See that the data of a workload can be used, and say what a person should know of it where
    a model takes `limit` tokens, in lines. Raises InputError where it cannot be used.
    """
    open_workload(settings, lanes=1)
    if settings.kind == "fixed" or settings.sessions is None:
        return ()
    told: tuple[str, ...] = _sources.account(settings.sessions, settings.seed, limit)
    return told
