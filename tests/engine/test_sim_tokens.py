"""The built-in tokenizer: counts, block keys, and what two prompts share."""

from __future__ import annotations

from inferometer.engine.simulated.tokens import prompt_of_ids, prompt_of_text


def test_a_token_is_a_word_and_messages_follow_each_other() -> None:
    prompt = prompt_of_text(["a b  c\n", "d e"], 2)
    assert (len(prompt.blocks), prompt.tail_tokens, prompt.tokens) == (2, 1, 5)
    assert prompt.blocks.tolist() == prompt_of_text(["a b c d e"], 2).blocks.tolist()


def test_blocks_agree_exactly_where_the_words_do() -> None:
    one = prompt_of_text(["a b c d e f"], 2).blocks
    other = prompt_of_text(["a b c x e f"], 2).blocks
    assert (one == other).tolist() == [True, False, True]


def test_token_ids_are_taken_as_they_are() -> None:
    prompt = prompt_of_ids([1, 2, 3, 4, 5], 2)
    assert (len(prompt.blocks), prompt.tail_tokens) == (2, 1)
    assert prompt.blocks[0] == prompt_of_ids([1, 2], 2).blocks[0]
    assert prompt.blocks[0] != prompt.blocks[1]


def test_a_short_prompt_has_no_block() -> None:
    prompt = prompt_of_text(["one"], 64)
    assert (len(prompt.blocks), prompt.tokens) == (0, 1)
    assert prompt.blocks.dtype == "int64"
