"""The rules of a replay as checks of what was sent, and sessions that try them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from fakes import WORKLOAD, Outcome, drive
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from inferometer.clock import NS
from inferometer.core import Prompt, Record, Request, Session, Status, Turn, WorkloadSettings
from inferometer.run.binding import BoundWorkload
from inferometer.workload import (
    WORDS,
    AgenticWorkload,
    PromptText,
)
from inferometer.workload.hashes import shared_prefix
from inferometer.workload.prompts import LOCAL_BITS

ENDLESS_S = 1e9
UNCUT = replace(WORKLOAD, tree_idle_cap_s=ENDLESS_S, system_idle_cap_s=ENDLESS_S)
"""Gaps are kept whole, so that every start is known to the nanosecond."""


@dataclass(frozen=True)
class Load:
    """One load, and what it played."""

    run: Outcome
    workload: BoundWorkload
    lanes: int

    @property
    def plays(self) -> dict[tuple[int, int], list[Record]]:
        found: dict[tuple[int, int], list[Record]] = {}
        for record in self.run.records:
            found.setdefault((record.lane, record.play), []).append(record)
        return found

    def skipped(self, play: tuple[int, int]) -> frozenset[int]:
        return self.workload.start(play[0]).skipped if play[1] == 0 else frozenset()


def load_of(
    sessions: Sequence[Session],
    lanes: int,
    rules: WorkloadSettings = UNCUT,
    seconds: Callable[[Request], float] | None = None,
    status: Callable[[Request], Status] = lambda _: Status.OK,
    following: bool = False,
) -> Load:
    """Answers take a time that the request's place decides."""
    job = cast(
        Any,
        SimpleNamespace(
            plan=SimpleNamespace(workload=rules), digest="d", point=SimpleNamespace(repeat=0)
        ),
    )
    bound = BoundWorkload(job, AgenticWorkload(sessions, rules, lanes, {}), None, None)
    took = seconds or (lambda r: 0.5 + (r.turn * 7 + r.lane * 3) % 11 / 4)
    run = drive(cast(Any, bound), rules, lanes, took, status, following=following)
    return Load(run, bound, lanes)


def starts(load: Load) -> Iterator[str]:
    """No turn before its predecessors and its gap, and none later than due."""
    for play, records in load.plays.items():
        session = load.workload.session(*play)
        ends = {r.turn: r.exchange.end_ns for r in records}
        for record in records:
            sent_ns = record.exchange.sent_ns
            assert sent_ns is not None
            turn = session.turns[record.turn]
            before = [ends[index] for index in turn.after if index in ends]
            missing = set(turn.after) - ends.keys() - load.skipped(play)
            warming = record.max_tokens == 1 and record.scheduled_ns == record.ready_ns
            due_ns = max(before, default=record.ready_ns) + (0 if warming else turn.gap_ns)
            if missing:
                yield f"turn {turn.index} of {play} before {missing}"
            elif before and sent_ns != due_ns:
                yield f"turn {turn.index} of {play} at {sent_ns}, due at {due_ns}"


def trees(load: Load) -> Iterator[str]:
    """Never more trees alive than lanes, and a lane goes on at once when its tree has drained."""
    alive = [
        (min(r.ready_ns for r in records), max(r.exchange.end_ns for r in records))
        for records in load.plays.values()
    ]
    for begin_ns, _ in alive:
        count = sum(begin <= begin_ns < end for begin, end in alive)
        if count > load.lanes:
            yield f"{count} trees at {begin_ns}"
    for (lane, number), records in load.plays.items():
        if number and (lane, number - 1) in load.plays:
            last_ns = max(r.exchange.end_ns for r in load.plays[lane, number - 1])
            if min(r.ready_ns for r in records) != last_ns:
                yield f"lane {lane} idle after play {number - 1}"


def left_out(load: Load) -> Iterator[str]:
    """A turn whose predecessors are done was sent, unless its gap outlasts the window."""
    for play, records in load.plays.items():
        ends = {r.turn: r.exchange.end_ns for r in records}
        done = ends.keys() | load.skipped(play)
        for turn in load.workload.session(*play).turns:
            if turn.index in done or not set(turn.after) <= done:
                continue
            known = [ends[index] for index in turn.after if index in ends]
            ready_ns = max(known, default=min(r.ready_ns for r in records))
            if ready_ns + turn.gap_ns < load.run.report.window.end_ns:
                yield f"turn {turn.index} of {play} never sent"


def once(load: Load) -> Iterator[str]:
    sent = Counter((r.lane, r.play, r.turn) for r in load.run.transport.sent)
    yield from (f"{place} sent {count} times" for place, count in sent.items() if count > 1)


def lengths(load: Load) -> Iterator[str]:
    for request in load.run.transport.sent:
        turn = load.workload.session(request.lane, request.play).turns[request.turn]
        if request.prompt.tokens != turn.input_tokens:
            yield f"{request.id}: {request.prompt.tokens} tokens, recorded {turn.input_tokens}"


def prefixes(load: Load, pairs: int | None = None, text: bool = True) -> Iterator[str]:
    """Any two requests share exactly what their ids share: as blocks, and word by word."""
    written = lru_cache(64)(PromptText(WORDS).render)
    by_play: dict[tuple[int, int], list[Request]] = {}
    for request in load.run.transport.sent:
        by_play.setdefault((request.lane, request.play), []).append(request)
    for place, requests in by_play.items():
        session = load.workload.session(*place)
        found = list(combinations(requests, 2))
        if pairs is not None and len(found) > pairs:
            found = random.Random(len(found)).sample(found, pairs)
        for one, two in found:
            left, right = (session.turns[r.turn].block_ids for r in (one, two))
            wanted = shared_prefix(left, right)
            blocks = shared_prefix(one.prompt.blocks, two.prompt.blocks)
            if blocks != wanted:
                yield f"{one.id} and {two.id} share {blocks} blocks, recorded {wanted}"
            if text:
                words = [str(written(r.prompt)).split() for r in (one, two)]
                size = session.block_size
                tokens = next(
                    (n for n, (a, b) in enumerate(zip(*words, strict=False)) if a != b),
                    min(map(len, words)),
                )
                if tokens != wanted * size or len(words[0]) != one.prompt.tokens:
                    yield f"{one.id} and {two.id} share {tokens} tokens, {wanted} blocks"


def apart(load: Load) -> Iterator[str]:
    """No key of blocks is in two plays."""
    owner: dict[int, tuple[int, int]] = {}
    for request in load.run.transport.sent:
        place = (request.lane, request.play)
        for key in np.unique(request.prompt.blocks >> LOCAL_BITS).tolist():
            if owner.setdefault(key, place) != place:
                yield f"key {key} in {owner[key]} and {place}"


def faults(load: Load) -> list[str]:
    checks = (starts, trees, left_out, once, lengths, prefixes)
    return [fault for check in checks for fault in check(load)]


def sent_bytes(load: Load) -> list[tuple[object, ...]]:
    """All that two runs must have alike, in order."""
    return [
        (r.id, r.affinity, r.agent, r.ready_ns, r.scheduled_ns, r.max_tokens, _bytes(r.prompt))
        for r in load.run.transport.sent
    ] + [(r.request_id, r.exchange.sent_ns, r.exchange.end_ns) for r in load.run.records]


def _bytes(prompt: Prompt) -> tuple[bytes, int, int]:
    return prompt.blocks.tobytes(), prompt.tail_tokens, prompt.tail_id


SIZE = 4


@st.composite
def sessions_(draw: st.DrawFn) -> Session:
    """A tree of agents with joins, children in the background, overlaps and shared prefixes."""
    turns: list[Turn] = []
    fresh = iter(range(1, 10_000))
    context: dict[str, list[int]] = {}
    last: dict[str, list[int]] = {}

    def add(agent: str, after: tuple[int, ...]) -> int:
        kept = context.get(agent, context.get("root", []))
        kept = kept[: draw(st.integers(0, len(kept)))] if draw(st.booleans()) else kept
        ids = [*kept, *(next(fresh) for _ in range(draw(st.integers(0, 3))))]
        context[agent] = ids
        gap_ns = draw(st.sampled_from((0, 1, NS // 2, 3 * NS, 40 * NS)))
        turns.append(
            Turn(
                index=len(turns),
                agent=agent,
                parent_agent=None if agent == "root" else "root",
                after=after,
                gap_ns=gap_ns,
                block_ids=np.array(ids, np.int64),
                input_tokens=len(ids) * SIZE + draw(st.integers(1, SIZE - 1)),
                output_tokens=draw(st.integers(1, 3)),
            )
        )
        last[agent] = [turns[-1].index]
        return turns[-1].index

    at = add("root", ())
    for number in range(draw(st.integers(0, 5))):
        joined: list[int] = []
        for child in range(draw(st.integers(0, 2))):
            agent = f"root/{number}-{child}"
            inner = at
            for _ in range(draw(st.integers(1, 3))):
                inner = add(agent, (inner,))
            if draw(st.booleans()):
                joined.append(inner)
        at = add("root", tuple(sorted(joined or [at])))
    return Session(f"s{draw(st.integers(0, 10**6))}", SIZE, tuple(turns))


made_loads = st.tuples(st.lists(sessions_(), min_size=1, max_size=4), st.integers(1, 4))
slow = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
