"""From block ids to words: what is equal, what differs, what is kept, what a server teaches."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.core import Canned, Dialogue, Prompt, Said, Session, Turn
from inferometer.errors import InputError
from inferometer.workload import (
    WORDS,
    PromptRules,
    PromptText,
    calibrated,
    make_lexicon,
    paired,
    prompt_of,
)
from inferometer.workload.lexicon import PLAIN, floor_power
from inferometer.workload.numbering import numbering
from inferometer.workload.prompt_text import word_numbers, words_between

Ids = list[int]
SIZE = 8
TREES = st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=6)


def prompt(blocks: Ids, tail: int = 3, tail_id: int = 5) -> Prompt:
    return Prompt(np.array(blocks, np.int64), SIZE, tail, tail_id)


def words(made: Prompt, rules: PromptRules = WORDS) -> list[str]:
    return str(PromptText(rules).render(made)).split(" ")


def session_of(paths: list[Ids], tail: int = 3) -> Session:
    """Turns whose block ids stand for their whole prefix, as hashes do."""
    known: dict[tuple[int, ...], int] = {}
    turns = []
    for index, path in enumerate(paths):
        ids = [
            known.setdefault(tuple(path[: n + 1]), len(known) * 7 % 1009) for n in range(len(path))
        ]
        tokens = len(ids) * SIZE + tail
        turns.append(Turn(index, "root", None, (), 0, np.array(ids, np.int64), tokens, 1))
    return Session("s", SIZE, tuple(turns))


def common(left: list[str] | Ids, right: list[str] | Ids) -> int:
    pairs = zip(left, right, strict=False)
    least = min(len(left), len(right))
    return next((n for n, (a, b) in enumerate(pairs) if a != b), least)


def test_plain_words_are_distinct_and_of_one_length() -> None:
    assert len(set(PLAIN.words)) == 512 == PLAIN.starts
    assert all(len(word) == 4 and word.isalpha() and word.islower() for word in PLAIN.words)


def test_text_is_the_same_on_every_machine() -> None:
    first = "proc prov flow name used norm read pair"
    assert words(prompt([1, 2], 0))[:8] == first.split()


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 200))
def test_text_has_a_word_a_token(blocks: Ids, tail: int) -> None:
    made = prompt(blocks, tail)
    found = words(made)
    assert len(found) == max(1, made.tokens)
    assert set(found) <= set(PLAIN.words)


@given(TREES, st.integers(0, 2**40 - 1), st.integers(0, 20))
def test_words_part_exactly_where_ids_do(paths: list[Ids], key: int, head: int) -> None:
    session = session_of(paths)
    rules = replace(WORDS, head=head)
    texts = [words(prompt_of(session, turn, key), rules) for turn in session.turns]
    for turn, text in zip(session.turns, texts, strict=True):
        assert len(text) == max(1, turn.input_tokens - head)
        for other, beside in zip(session.turns, texts, strict=True):
            if turn is not other:
                blocks = common(turn.block_ids.tolist(), other.block_ids.tolist())
                least = min(len(text), len(beside))
                assert common(text, beside) == min(max(0, blocks * SIZE - head), least)


@given(TREES)
def test_numbers_of_siblings_are_consecutive(paths: list[Ids]) -> None:
    session = session_of(paths)
    numbers = numbering(session)
    families: dict[int, set[int]] = {}
    for turn, tail in zip(session.turns, numbers.tails.tolist(), strict=True):
        path = [-1, *turn.block_ids.tolist()]
        for before, block in pairwise(path):
            families.setdefault(before, set()).add(int(numbers.blocks[block]))
        families.setdefault(path[-1], set()).add(tail)
    found = sorted(number for family in families.values() for number in family)
    assert found == list(range(numbers.total))
    assert all(max(f) - min(f) == len(f) - 1 for f in families.values())


def test_a_session_of_too_many_blocks_is_refused() -> None:
    ids = np.arange(1 << 20, dtype=np.int64)
    session = Session("s", 1, (Turn(0, "root", None, (), 0, ids, len(ids), 1),))
    with pytest.raises(InputError, match="has 1048577 blocks and turns, too many"):
        prompt_of(session, session.turns[0], 1)


def test_the_head_leaves_blocks_where_the_server_has_them() -> None:
    bare = words(prompt([1, 2, 3], 4))
    for head in (1, 5, 8, 11, 16, 23):
        whole, part = divmod(head, SIZE)
        kept = bare[whole * SIZE :]
        kept = kept[: SIZE - part] + kept[SIZE:] if part else kept
        assert words(prompt([1, 2, 3], 4), replace(WORDS, head=head)) == kept
    assert words(prompt([1, 2, 3], 4), replace(WORDS, foot=6)) == bare[:-6]


def test_what_was_prepared_is_taken_once_and_never_too_much_of_it() -> None:
    text = PromptText(WORDS, kept_bytes=200)
    made = [prompt([n], 3, tail_id=n) for n in range(40)]
    for one in made:
        text.prepare(one)
        text.prepare(one)
    kept = text._kept
    assert sum(len(str(one)) for one in kept.values()) <= 200
    assert (made[-1].tail_id, made[-1].tokens) in kept
    assert [text.take(one) for one in made] == [PromptText().render(one) for one in made]
    assert not kept
    assert text._room == 200


def test_a_server_teaches_what_it_adds() -> None:
    rules = replace(WORDS, head=2, foot=3, notes={"prompt_words": 512.0})
    found = calibrated(rules, (16, 48), (27, 59))
    assert (found.head, found.foot) == (8, 3)
    assert found.notes == {
        "prompt_words": 512.0,
        "tokenizer_agrees": 1.0,
        "template_tokens_computed": 5.0,
        "template_tokens": 11.0,
    }
    none = calibrated(rules, (16, 48), (16, 48))
    assert (none.head, none.foot) == (0, 0)
    for counted in ((20, 53), (15, 47), (30, 90)):
        other = calibrated(rules, (16, 48), counted)
        assert (other.head, other.foot, other.notes["tokenizer_agrees"]) == (2, 3, 0)


def test_a_lexicon_is_cut_to_powers_of_two() -> None:
    made = make_lexicon(["ab", "cd", "ef", "gh", "ij"], [5, 6, 7, 8, 9], 3)
    assert made.words == ("ab", "cd", "ef", "gh")
    assert (made.token_ids.tolist(), made.starts) == ([5, 6, 7, 8], 2)
    assert [floor_power(n) for n in (0, 1, 2, 3, 4, 1023)] == [0, 1, 2, 2, 4, 512]
    with pytest.raises(ValueError, match="one length"):
        make_lexicon(["a", "bc"], [1, 2], 2)
    with pytest.raises(ValueError, match="open"):
        make_lexicon(["a", "b"], [1, 2], 0)


def test_a_prompt_opens_with_a_word_that_may() -> None:
    lexicon = make_lexicon([f"{n:02d}" for n in range(64)], range(64), 4)
    rules = PromptRules(lexicon, "text", 0, 0, {})
    first = {words(prompt([n << 20 | n], 0), rules)[0] for n in range(50)}
    assert first == {"00", "01", "02", "03"}


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(0, 20), st.data())
def test_words_between_are_those_of_the_whole(blocks: Ids, tail: int, data: st.DataObject) -> None:
    made = prompt(blocks, tail or (0 if blocks else 1))
    start = data.draw(st.integers(0, made.tokens - 1))
    stop = data.draw(st.integers(start + 1, made.tokens))
    whole = word_numbers(made, WORDS)
    assert words_between(made, start, stop, PLAIN).tolist() == whole[start:stop].tolist()


def dialogue(rules: PromptRules, canned: bool) -> Dialogue:
    first, then = prompt([1, 2], 3, 5), prompt([1, 2, 3, 4], 3, 6)
    answer = Canned(then, 19, 25) if canned else Said(" it said", 2)
    parts = (Canned(first, 0, 19), answer, Canned(then, 25, 35))
    made = PromptText(rules).render(replace(then, parts=parts))
    assert isinstance(made, Dialogue)
    return made


def test_a_conversation_is_its_parts() -> None:
    made = dialogue(WORDS, canned=False)
    whole = words(prompt([1, 2, 3, 4], 3, 6))
    assert made.texts == (
        " ".join(words(prompt([1, 2], 3, 5))),
        " it said",
        " ".join(whole[25:35]),
    )
    assert made.spaced == (False, False, True)
    recorded = dialogue(WORDS, canned=True)
    assert recorded.texts == (made.texts[0], " ".join(whole[19:25]), made.texts[2])
    assert recorded.spaced == (False, True, True)


def test_what_a_server_adds_to_a_conversation_takes_the_place_of_the_user_s_words() -> None:
    rules = replace(WORDS, head=4, foot=2, pair=6)
    made = dialogue(rules, canned=True)
    assert [len(text.split()) for text in made.texts] == [19 - 6, 6, 10 - 6]
    assert made.texts[0] == str(PromptText(rules).render(prompt([1, 2], 3, 5)))
    text = PromptText(replace(WORDS, pair=10))
    parts = (Canned(prompt([1]), 0, 11), Said("x", 1), Canned(prompt([1, 2]), 12, 19))
    taken = text.take(replace(prompt([1, 2]), parts=parts))
    assert isinstance(taken, Dialogue)
    assert len(taken.texts[2].split()) == 1
    assert text.notes()["prompts_below_template"] == 1


def test_a_conversation_teaches_what_it_adds() -> None:
    known = calibrated(PromptRules(PLAIN, "text", 1, 2, {}), (16, 48), (26, 58))
    assert paired(known, 48, 48 + 10 + 7).pair == 7
    assert paired(known, 48, 48 + 10 + 7).notes["template_pair_tokens"] == 7
    assert paired(known, 48, 50) is known, "fewer than one message adds"
    other = calibrated(PromptRules(PLAIN, "text", 1, 2, {}), (16, 48), (26, 100))
    assert paired(other, 48, 80) is other, "another tokenizer"
