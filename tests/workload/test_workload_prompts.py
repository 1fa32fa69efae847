"""Prompts, their keys, and blocks of another size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.core import Prompt, Session, Turn
from inferometer.errors import InputError
from inferometer.workload import play_key, prompt_of, reblock
from inferometer.workload.numbering import numbered, numbering
from inferometer.workload.prompts import KEY_BITS, LOCAL_BITS, MAX_LOCAL_ID

Ids = list[int]
ids = st.lists(st.integers(0, 40), max_size=12)


def prompt(blocks: Ids, size: int = 8, tail: int = 3, tail_id: int = 5) -> Prompt:
    return Prompt(np.array(blocks, np.int64), size, tail, tail_id)


def common(left: object, right: object) -> int:
    """Length of the common prefix of two sequences."""
    pairs = list(zip(list(left), list(right), strict=False))  # type: ignore[call-overload]
    return next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))


def session_of(*prompts: tuple[Ids, int]) -> Session:
    turns = [
        Turn(n, "root", None, (), 0, np.array(blocks, np.int64), tokens, 1)
        for n, (blocks, tokens) in enumerate(prompts)
    ]
    return Session("s", 8, tuple(turns))


def test_play_key_is_stable_and_depends_on_everything() -> None:
    arguments = (42, "abc", 0, 1, 2)
    # printf %s '42|abc|0|1|2' | b2sum --length 40
    assert play_key(*arguments) == 0xD7AAC809EE
    others = {play_key(*o) for o in [(43, "abc", 0, 1, 2), (42, "abd", 0, 1, 2)]}
    others |= {play_key(42, "abc", *o) for o in [(1, 1, 2), (0, 2, 2), (0, 1, 3), (0, 2, 1)]}
    assert len(others | {play_key(*arguments)}) == 7
    assert all(0 <= key < 1 << KEY_BITS for key in others)


def test_prompt_of_a_turn_keeps_ids_apart_by_key() -> None:
    session = session_of(([1, 2], 19), ([1, 2, MAX_LOCAL_ID], 30))
    first, second = (prompt_of(session, turn, 3) for turn in session.turns)
    # Numbers by what precedes: the first block, the second, what follows it (a block and a tail).
    assert first.blocks.tolist() == [(3 << LOCAL_BITS), (3 << LOCAL_BITS) + 1]
    assert second.blocks.tolist()[:2] == first.blocks.tolist()
    assert (first.tokens, first.tail_tokens, second.tokens, second.tail_tokens) == (19, 3, 30, 6)
    assert first.tail_id != second.tail_id
    other = prompt_of(session, session.turns[1], 4)
    assert not set(other.blocks.tolist()) & set(second.blocks.tolist())
    assert other.tail_id not in (first.tail_id, second.tail_id)
    assert prompt_of(session, session.turns[1], (1 << KEY_BITS) - 1).blocks.min() > 0


@given(ids, ids, ids, st.sampled_from([1, 2, 4, 8, 16, 24]))
def test_reblock_keeps_length_and_sharing(shared: Ids, left: Ids, right: Ids, size: int) -> None:
    pair = prompt(shared + left), prompt(shared + right, tail_id=6)
    made = [reblock(one, size) for one in pair]
    assert [one.tokens for one in made] == [one.tokens for one in pair]
    assert all(one.block_size == size and one.blocks.dtype == np.int64 for one in made)
    shared_tokens = common(pair[0].blocks, pair[1].blocks) * 8
    assert common(made[0].blocks, made[1].blocks) == shared_tokens // size
    assert all((one.blocks >= 0).all() for one in made)


def test_reblock_by_hand() -> None:
    smaller = reblock(prompt([5, 7]), 2)
    assert smaller.blocks.tolist() == [20, 21, 22, 23, 28, 29, 30, 31]
    assert (smaller.block_size, smaller.tail_tokens, smaller.tail_id) == (2, 3, 5)
    larger = reblock(prompt([5, 7, 9]), 16)
    assert (len(larger.blocks), larger.block_size, larger.tail_tokens) == (1, 16, 11)
    same = prompt([5])
    assert reblock(same, 8) is same


def test_reblock_refuses_what_does_not_divide() -> None:
    with pytest.raises(
        InputError, match="of 8 tokens, which do not make the engine's blocks of 12"
    ):
        reblock(prompt([1]), 12)


def test_reblock_has_room_for_every_key() -> None:
    session = session_of(([MAX_LOCAL_ID], 8))
    last = prompt_of(session, session.turns[0], (1 << KEY_BITS) - 1)
    assert (reblock(last, 1).blocks > 0).all()
    with pytest.raises(InputError, match="of 8 tokens, too many to be parted into 2"):
        reblock(prompt([2**62]), 4)


@given(st.integers(0, 70) | st.lists(st.integers(0, 9), max_size=9, unique=True))
def test_one_turn_of_ids_in_a_row_is_numbered_as_any_session(blocks: int | Ids) -> None:
    ids = list(range(blocks)) if isinstance(blocks, int) else blocks
    session = session_of((ids, 8 * len(ids)))
    short, whole = numbering(session), numbered(session)
    assert short.blocks.tolist() == whole.blocks.tolist()
    assert (short.tails.tolist(), short.total) == (whole.tails.tolist(), whole.total)
