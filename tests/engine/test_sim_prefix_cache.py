"""The block pool and prefix tree: small cases by hand, and invariants over random use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.engine.simulated.prefix_cache import Hold, PrefixCache

Ids = npt.NDArray[np.int64]


def ids(*values: int) -> Ids:
    return np.array(values, dtype=np.int64)


def run(cache: PrefixCache, blocks: Ids, extra: int = 0) -> Hold:
    """Admit, compute and publish a whole prompt, with `extra` private blocks after it."""
    hold = cache.acquire(cache.match(blocks, len(blocks)))
    cache.grow(hold, len(blocks) + extra)
    cache.publish(hold, blocks, len(blocks))
    return hold


def test_a_published_prefix_is_hit_as_far_as_it_agrees() -> None:
    cache = PrefixCache(10)
    cache.release(run(cache, ids(1, 2, 3, 4)))
    assert cache.match(ids(1, 2, 3, 4, 5), 5).blocks == 4
    assert cache.match(ids(1, 2, 9, 4), 4).blocks == 2
    assert cache.match(ids(1, 2, 3, 4), 3).blocks == 3
    assert cache.match(ids(2), 1).blocks == 0
    assert (cache.used, cache.free, cache.cached) == (0, 6, 4)


def test_shared_blocks_are_counted_once() -> None:
    cache = PrefixCache(10)
    first = run(cache, ids(1, 2, 3), extra=1)
    second = run(cache, ids(1, 2, 7))
    assert (cache.used, cache.free, cache.cached) == (5, 5, 0)
    cache.release(first)
    assert (cache.used, cache.free, cache.cached) == (3, 6, 1)
    cache.release(second)
    assert (cache.used, cache.free, cache.cached) == (0, 6, 4)


def test_two_that_compute_the_same_keep_one_copy() -> None:
    cache = PrefixCache(10)
    blocks = ids(1, 2, 3)
    holds = [cache.acquire(cache.match(blocks, 3)) for _ in range(2)]
    for hold in holds:
        cache.grow(hold, 3)
    assert cache.used == 6
    for hold in holds:
        cache.publish(hold, blocks, 3)
    assert (cache.used, cache.free) == (3, 7)
    assert [hold.blocks for hold in holds] == [3, 3]


def test_eviction_takes_the_tail_of_the_least_recently_used() -> None:
    cache = PrefixCache(6)
    cache.release(run(cache, ids(1, 2, 3)))
    cache.release(run(cache, ids(4, 5, 6)))
    hold = cache.acquire(cache.match(ids(), 0))
    cache.grow(hold, 2)
    assert cache.match(ids(1, 2, 3), 3).blocks == 1
    assert cache.match(ids(4, 5, 6), 3).blocks == 3
    cache.grow(hold, 4)
    assert cache.match(ids(1, 2, 3), 3).blocks == 0
    assert cache.match(ids(4, 5, 6), 3).blocks == 2


def test_a_held_prefix_survives_while_its_unheld_tail_goes() -> None:
    cache = PrefixCache(4)
    cache.release(run(cache, ids(1, 2, 3, 4)))
    hold = cache.acquire(cache.match(ids(1, 2, 9), 3))
    cache.grow(hold, 4)
    assert cache.match(ids(1, 2, 3, 4), 4).blocks == 2
    assert (cache.used, cache.available) == (4, 0)


def test_a_growing_session_stays_one_run() -> None:
    cache = PrefixCache(100)
    for turn in range(1, 30):
        cache.release(run(cache, np.arange(3 * turn, dtype=np.int64)))
    assert len(cache._root.children) == 1
    (only,) = cache._root.children.values()
    assert len(only.blocks) == 87
    assert not only.children


def test_disabled_shares_nothing() -> None:
    cache = PrefixCache(10, enabled=False)
    cache.release(run(cache, ids(1, 2, 3)))
    assert cache.match(ids(1, 2, 3), 3).blocks == 0
    assert (cache.used, cache.free, cache.cached) == (0, 10, 0)


def check(cache: PrefixCache, holds: list[tuple[Hold, Ids]]) -> None:
    """Every invariant, from a walk of the tree."""
    cached = held = 0
    stack = list(cache._root.children.values())
    while stack:
        node = stack.pop()
        assert node.parent is not None
        assert len(node.blocks) > 0
        assert node.start == node.parent.end
        assert node.holders >= sum(child.holders for child in node.children.values())
        if node.holders:
            held += len(node.blocks)
        else:
            cached += len(node.blocks)
        stack += node.children.values()
    assert cache.cached == cached
    assert cache.used == held + sum(hold.private for hold, _ in holds)
    assert cache.used + cache.free + cache.cached == cache.total
    assert cache.free >= 0
    for hold, blocks in holds:
        match = cache.match(blocks, len(blocks))
        assert match.blocks >= hold.shared


Prompts = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(12, 40),
    st.lists(
        st.tuples(Prompts, st.integers(0, 3), st.integers(1, 12), st.integers(0, 5)), max_size=40
    ),
)
def test_invariants_hold_over_random_use(
    total: int, script: list[tuple[list[int], int, int, int]]
) -> None:
    cache, holds = PrefixCache(total), list[tuple[Hold, Ids]]()
    published: list[Ids] = []
    for values, extra, first, release in script:
        # A block id stands for its whole prefix in use; cumulated, so that runs share prefixes.
        blocks = np.cumsum(np.array(values) + np.arange(len(values)) * 3, dtype=np.int64)
        match = cache.match(blocks, len(blocks))
        assert match.blocks <= max((common(blocks, other) for other in published), default=0)
        if len(blocks) + extra - match.blocks <= cache.available - match.cached:
            hold = cache.acquire(match)
            for upto in (min(first, len(blocks)), len(blocks)):
                cache.grow(hold, upto)
                cache.publish(hold, blocks, upto)
            cache.grow(hold, len(blocks) + extra)
            published.append(blocks)
            holds.append((hold, blocks))
        check(cache, holds)
        if holds and release > 1:
            cache.release(holds.pop(release % len(holds))[0])
            check(cache, holds)
    while holds:
        cache.release(holds.pop()[0])
    check(cache, holds)
    assert cache.used == 0


def common(a: Ids, b: Ids) -> int:
    """Length of the common prefix."""
    length = min(len(a), len(b))
    differ = np.flatnonzero(a[:length] != b[:length])
    return int(differ[0]) if len(differ) else length
