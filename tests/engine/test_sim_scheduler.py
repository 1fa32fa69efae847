"""The scheduler: small schedules by hand, and properties over random arrivals."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.core import Arrivals, Prompt
from inferometer.engine.simulated.contract import Limits
from inferometer.engine.simulated.prefix_cache import PrefixCache
from inferometer.engine.simulated.roofline import Chunk
from inferometer.engine.simulated.scheduler import Scheduler
from inferometer.engine.simulated.sequence import (
    Acceptance,
    Sequence,
    StepLog,
    acceptance_probability,
)
from inferometer.errors import InputError

SIZE = 4


class Constant:
    """10 a step, and 1 more for each prefilled token."""

    def decode_ns(self, batch: int, contexts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.full(len(contexts), 10, dtype=np.int64)

    def mixed_ns(self, batch: int, context: int, chunks: Seq[Chunk]) -> int:
        return 10 + sum(chunk.tokens for chunk in chunks)


class Growing:
    """Depends on everything that a cost may depend on."""

    def decode_ns(self, batch: int, contexts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return 100 + 3 * batch + contexts

    def mixed_ns(self, batch: int, context: int, chunks: Seq[Chunk]) -> int:
        return 100 + 3 * batch + context + sum(7 * chunk.tokens + chunk.context for chunk in chunks)


@dataclass(frozen=True)
class Asked:
    """A request of a test, with its blocks given by (family, whole blocks, tail tokens)."""

    at: int
    id: str
    family: int
    blocks: int
    tail: int
    output: int

    @property
    def prompt(self) -> Prompt:
        ids = np.arange(self.blocks, dtype=np.int64) + 1000 * self.family
        return Prompt(ids, SIZE, self.tail, 0)


@dataclass(frozen=True)
class Ran:
    sequence: Sequence
    arrivals: Arrivals


def scheduler(
    cost: Constant | Growing | None = None,
    *,
    pool: int = 100,
    budget: int = 8,
    seqs: int = 8,
    drafts: int = 0,
    length: float = 1.0,
    caching: bool = True,
) -> Scheduler:
    limits = Limits(200, seqs, budget, SIZE, drafts, length, seed=5)
    return Scheduler(limits, cost or Constant(), PrefixCache(pool, enabled=caching))


def drive(engine: Scheduler, asked: list[Asked], max_steps: int = 4096) -> dict[str, Ran]:
    """Play the requests: the segment is cut at the step under way when the next one arrives."""
    pending = sorted(asked, key=lambda request: request.at)[::-1]
    ran: dict[str, Ran] = {}
    now = 0
    while pending or not engine.idle:
        while pending and pending[-1].at <= now:
            request = pending.pop()
            engine.submit(request.id, request.prompt, request.output, request.at)
        segment = engine.next_segment(now, max_steps)
        if segment is None:
            now = pending[-1].at
            continue
        steps = segment.steps_until(pending[-1].at) if pending else len(segment.ends_ns)
        for sequence in engine.commit(steps).finished:
            ran[sequence.id] = Ran(sequence, engine.arrivals(sequence))
        cache = engine.cache
        assert cache.used + cache.free + cache.cached == cache.total
        assert cache.free >= 0
        now = int(segment.ends_ns[steps - 1])
    return ran


def times(ran: dict[str, Ran], id: str) -> list[int]:
    return [int(at) for at in ran[id].arrivals.at_ns]


def test_two_requests_by_hand() -> None:
    """Budget 8. a: 6 prompt tokens at 0; b: 10 at 20, during the step of a that ends at 26."""
    ran = drive(scheduler(), [Asked(0, "a", 1, 1, 2, 3), Asked(20, "b", 2, 2, 2, 2)])
    # Prefill of 6 takes 16, a decode 10; then a decodes beside 7 tokens of b (17), b's last 3 (13).
    assert times(ran, "a") == [16, 26, 43]
    assert times(ran, "b") == [56, 66]
    assert ran["b"].sequence.admitted_ns == 26


def test_a_full_hit_still_computes_the_last_block() -> None:
    asked = [Asked(0, "a", 1, 2, 0, 1), Asked(50, "b", 1, 2, 0, 1), Asked(90, "c", 1, 2, 1, 1)]
    ran = drive(scheduler(), asked)
    assert times(ran, "a") == [18]
    # b may use one of its two blocks: the last token must be computed. c may use both.
    assert (times(ran, "b"), ran["b"].sequence.cached_tokens) == ([64], 4)
    assert (times(ran, "c"), ran["c"].sequence.cached_tokens) == ([101], 8)


def test_a_prefix_is_shared_from_the_step_that_computes_it() -> None:
    engine = scheduler(budget=32)
    ran = drive(engine, [Asked(0, "a", 1, 2, 1, 1), Asked(0, "b", 1, 2, 1, 1)])
    assert times(ran, "a") == times(ran, "b") == [10 + 9 + 1]
    assert (engine.counters.prefix_queries, engine.counters.prefix_hits) == (18, 8)


def test_the_sequence_cap_queues_first_come_first_served() -> None:
    asked = [Asked(0, name, family, 0, 2, 2) for family, name in enumerate("abc")]
    ran = drive(scheduler(seqs=1), asked)
    assert [times(ran, name) for name in "abc"] == [[12, 22], [34, 44], [56, 66]]


def test_preemption_by_hand() -> None:
    """Pool of 4 blocks, 4 tokens each. Two prompts of 7 tokens fill it; at 8 tokens both want a
    third block for their second decode, and the younger gives its own up.
    """
    engine = scheduler(pool=4, budget=14)
    ran = drive(engine, [Asked(0, "a", 1, 1, 3, 4), Asked(0, "b", 2, 1, 3, 4)])
    # Prefill of 14: 24. Decode 34 (8th token). a: 44, 54, ends. b: hit of 4, recomputes 5 (15).
    assert times(ran, "a") == [24, 34, 44, 54]
    assert times(ran, "b") == [24, 34, 69, 79]
    assert ran["b"].sequence.preemptions == engine.counters.preemptions == 1
    assert engine.counters.prompt_tokens == 14
    assert engine.counters.generation_tokens == 8


def test_speculative_tokens_are_counted_and_the_last_event_is_cut() -> None:
    engine = scheduler(drafts=3, length=4.0)  # every draft is accepted
    ran = drive(engine, [Asked(0, "a", 1, 0, 2, 7)])
    assert ran["a"].arrivals.tokens is not None
    assert ran["a"].arrivals.tokens.tolist() == [1, 4, 2]
    assert times(ran, "a") == [12, 22, 32]
    counters = engine.counters
    assert (counters.drafts, counters.draft_tokens, counters.accepted_tokens) == (2, 6, 6)


def test_acceptance_has_its_mean_and_depends_on_nothing_but_seed_and_id() -> None:
    draw = Acceptance(1, 3, 2.5).draw("x", 40_000)
    assert draw is not None
    steps = np.diff(draw)
    assert (steps.min(), steps.max()) == (1, 4)
    assert steps.mean() == pytest.approx(2.5, abs=0.03)
    again, other = Acceptance(1, 3, 2.5).draw("x", 10), Acceptance(1, 3, 2.5).draw("y", 10)
    assert again is not None
    assert other is not None
    assert again.tolist() == draw[:11].tolist() != other.tolist()
    assert acceptance_probability(2, 1.75) == pytest.approx(0.5)  # 1 + 1/2 + 1/4


def test_requests_that_can_never_run_are_refused() -> None:
    engine = scheduler(pool=10)
    for request, message in (
        (Asked(0, "a", 1, 50, 0, 1), "maximum model length of 200"),
        (Asked(0, "b", 1, 10, 0, 1), "KV pool of 40 tokens"),
        (Asked(0, "c", 1, 0, 0, 1), "at least one prompt token"),
    ):
        with pytest.raises(InputError, match=message):
            engine.submit(request.id, request.prompt, request.output, 0)
    with pytest.raises(InputError, match="blocks of 8 tokens, the engine of 4"):
        engine.submit("d", Prompt(np.zeros(1, dtype=np.int64), 8, 0, 0), 1, 0)
    assert engine.counters.rejected == 4
    assert engine.idle


def test_cancelling_frees_at_the_end_of_the_step_under_way() -> None:
    engine = scheduler()
    for request in (
        Asked(0, "a", 1, 1, 0, 9),
        Asked(0, "b", 2, 1, 0, 9),
        Asked(0, "c", 3, 1, 0, 9),
    ):
        engine.submit(request.id, request.prompt, request.output, 0)
    assert engine.next_segment(0) is not None
    engine.cancel("a")  # running
    engine.cancel("c")  # waiting: the budget of 8 took two
    engine.cancel("unknown")
    assert engine.cache.used == 2
    engine.commit(1)
    assert (engine.running, engine.waiting, engine.cache.used) == (1, 0, 1)
    assert engine.counters.cancelled == 2


def test_step_log_forgets_and_keeps_numbers() -> None:
    log = StepLog()
    log.append(np.arange(1000, dtype=np.int64))
    log.forget(600)
    log.append(np.arange(1000, 3000, dtype=np.int64))
    assert len(log) == 3000
    sequence = Sequence("a", Prompt(np.zeros(0, np.int64), SIZE, 1, 0), 5, 0, None)
    sequence.generated, sequence.runs = 5, [(700, 702), (2997, 3000)]
    assert log.arrivals(sequence).at_ns.tolist() == [700, 701, 2997, 2998, 2999]


Request = st.tuples(
    st.integers(0, 4000),
    st.integers(0, 3),
    st.integers(0, 6),
    st.integers(1, 5),
    st.integers(1, 14),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(Request, min_size=1, max_size=14),
    st.integers(12, 40),
    st.integers(1, 6),
    st.integers(6, 30),
    st.sampled_from([(0, 1.0), (2, 1.7)]),
    st.booleans(),
)
def test_bulk_segments_equal_single_steps_and_preemption_conserves_tokens(
    requests: list[tuple[int, int, int, int, int]],
    pool: int,
    seqs: int,
    budget: int,
    drafts: tuple[int, float],
    caching: bool,
) -> None:
    asked = [Asked(request[0], str(i), *request[1:]) for i, request in enumerate(requests)]

    def play(max_steps: int) -> tuple[dict[str, Ran], Scheduler]:
        engine = scheduler(
            Growing(),
            pool=pool,
            budget=budget,
            seqs=seqs,
            drafts=drafts[0],
            length=drafts[1],
            caching=caching,
        )
        return drive(engine, asked, max_steps), engine

    bulk, engine = play(4096)
    single, stepped = play(1)
    assert engine.counters == stepped.counters
    assert engine.cache.used == 0
    assert sorted(bulk) == sorted(request.id for request in asked)
    for request in asked:
        arrivals, tokens = bulk[request.id].arrivals, bulk[request.id].arrivals.tokens
        assert arrivals.at_ns.tolist() == single[request.id].arrivals.at_ns.tolist()
        assert tokens is not None
        assert tokens.min() >= 1
        assert tokens.sum() == request.output
        assert (np.diff(arrivals.at_ns) > 0).all()
        assert arrivals.at_ns[0] > request.at
    assert engine.counters.generation_tokens == sum(request.output for request in asked)
