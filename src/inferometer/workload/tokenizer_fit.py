"""Finds the words of a tokenizer that are one token wherever they stand, and what is put around.

Runs in a process of its own (`python -m`), which ends with its answer: a tokenizer takes up to a
second and hundreds of MB, and is not needed while a load runs. The answer is JSON on stdout, an
object of `Fit` or of `error`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from random import Random
from typing import NamedTuple

import numpy as np
import orjson
from tokenizers import Tokenizer

from inferometer.core import Prompt
from inferometer.errors import InputError
from inferometer.workload.chat_template import NoTemplate, chat_wrapper
from inferometer.workload.lexicon import make_lexicon
from inferometer.workload.prompt_text import PromptRules, PromptText
from inferometer.workload.tokenizer_files import tokenizer_files

_WORD = re.compile(r"([Ġ▁]?)([a-z]{2,8})")
_JOINED = re.compile(r"[Ġ▁]?[a-z]+[Ġ▁]([a-z]+)")
"""A token of two words: the second would not stay one of its own behind the first."""
MOST_LETTERS = 18
ENOUGH = 64
"""Words that can open a prompt from which on no others are taken."""
FEWEST = 16
PLENTY = 256
"""Words that can open a prompt from which on no other length is tried."""
LENGTHS_TRIED = 3
MOST_CANDIDATES = 3_000
_CHUNK = 64
_SAMPLE = (1, 2, 30, 127, 128, 1_000, 4_097, 20_000)
"""Prompts that are tokenized again, by length."""
_SAMPLE_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Fit:
    """Words of one length, those that can open a prompt first; tokens around the text; the proof.

    `added_known` is false where a chat template must be learned from the server; `why` says so.
    Drift is in tokens a prompt: re-tokenized length less intended.
    """

    words: list[str]
    token_ids: list[int]
    starts: int
    head: int
    foot: int
    added_known: bool
    why: str | None
    drift_max: int
    drift_mean: float


class _Context(NamedTuple):
    """The text as the server tokenizes it, with or without the tokenizer's own special tokens."""

    tokenizer: Tokenizer
    wrap: Callable[[str], str]
    special: bool

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        wrapped = [self.wrap(text) for text in texts]
        encoded = self.tokenizer.encode_batch(wrapped, add_special_tokens=self.special)
        return [list(one.ids) for one in encoded]


class _Words(NamedTuple):
    """Words, and whether each can open a prompt; token by word."""

    opening: list[str]
    others: list[str]
    tokens: dict[str, int]


def fit(source: str, endpoint: str) -> Fit:
    """The fit of a tokenizer to an endpoint. Raises InputError where it has no such words."""
    files = tokenizer_files(source)
    tokenizer = Tokenizer.from_file(str(files.tokenizer))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    why: str | None = None
    context = _Context(tokenizer, str, special=True)
    if endpoint == "chat":
        try:
            wrap = chat_wrapper(files)
            wrap("probe")
            context = _Context(tokenizer, wrap, special=False)
        except NoTemplate as error:
            # Most templates end the line before the content.
            context, why = _Context(tokenizer, "\n{}".format, special=False), str(error)
    found = _best_words(context)
    head, foot = _around(context, found) if why is None else (0, 0)
    chosen = found.opening if len(found.opening) >= ENOUGH else found.opening + found.others
    lexicon = make_lexicon(chosen, [found.tokens[word] for word in chosen], len(found.opening))
    rules = PromptRules(lexicon, "text", head, foot, {})
    drifts = _drifts(context, rules, 0 if why is None else _opening(context, found))
    return Fit(
        words=list(lexicon.words),
        token_ids=lexicon.token_ids.tolist(),
        starts=lexicon.starts,
        head=head,
        foot=foot,
        added_known=why is None,
        why=why,
        drift_max=max(map(abs, drifts)),
        drift_mean=sum(drifts) / len(drifts),
    )


def _best_words(context: _Context) -> _Words:
    """Of the lengths with most candidates, the one with most words. Raises InputError."""
    best = _Words([], [], {})
    for candidates in _candidates(context.tokenizer):
        found = _words_of(context, candidates)
        best = max(best, found, key=lambda one: (len(one.opening), len(one.others)))
        if len(best.opening) >= PLENTY:
            break
    if not best.opening or len(best.opening) + len(best.others) < FEWEST:
        raise InputError(
            "this tokenizer has too few words that are one token each; "
            "send token ids made elsewhere, or go without (--tokenizer words)"
        )
    return best


def _candidates(tokenizer: Tokenizer) -> list[list[str]]:
    """Words of the vocabulary by length, the length with most first; in each the commonest first.

    Where the vocabulary tells words with a space from others, both forms make a candidate: what has
    only one is not one token at the start of a text.
    """
    spaced: dict[str, int] = {}
    bare: dict[str, int] = {}
    joined: set[str] = set()
    for token, number in tokenizer.get_vocab(with_added_tokens=False).items():
        if len(token) > MOST_LETTERS:
            continue
        if match := _WORD.fullmatch(token):
            (spaced if match[1] else bare)[match[2]] = number
        elif match := _JOINED.fullmatch(token):
            joined.add(match[1])
    both = {word: number for word, number in spaced.items() if word in bare}
    ranks = both if len(both) >= ENOUGH else bare | spaced
    ranks = {word: number for word, number in ranks.items() if word not in joined}
    by_length: dict[int, list[str]] = {}
    for word in sorted(ranks, key=lambda word: (ranks[word], word)):
        by_length.setdefault(len(word), []).append(word)
    lengths = sorted(by_length, key=lambda length: (-len(by_length[length]), length))
    return [by_length[length][:MOST_CANDIDATES] for length in lengths[:LENGTHS_TRIED]]


def _words_of(context: _Context, candidates: Sequence[str]) -> _Words:
    """Those of the candidates that stay one token beside others, the most common ones first."""
    tokens = _single(context.tokenizer, candidates)
    firm = _firm(context.tokenizer, list(tokens), tokens)
    opening = _openers(context, firm)
    return _Words(
        [word for word in firm if word in opening],
        [word for word in firm if word not in opening],
        tokens,
    )


def _single(tokenizer: Tokenizer, words: Sequence[str]) -> dict[str, int]:
    """The words that are one token behind a space, which no other of them is."""
    texts = [f"{word} {word} {word}" for word in words]
    found: dict[str, int] = {}
    for word, one in zip(words, _encoded(tokenizer, texts), strict=True):
        # What the start of the text makes of the first word is for `_openers`.
        if len(one) >= 3 and one[-1] == one[-2]:
            found[word] = one[-1]
    times = Counter(found.values())
    return {word: token for word, token in found.items() if times[token] == 1}


def _firm(tokenizer: Tokenizer, words: list[str], tokens: dict[str, int]) -> list[str]:
    """Without words that merge with a neighbour, as seen in seeded orders of all of them."""
    left = list(words)
    for seed in range(4):
        order = list(left)
        Random(seed).shuffle(order)
        chunks = [order[at : at + _CHUNK] for at in range(0, len(order), _CHUNK)]
        texts = [" ".join(chunk) for chunk in chunks]
        encoded = _encoded(tokenizer, texts)
        bad: set[str] = set()
        for chunk, one in zip(chunks, encoded, strict=True):
            expected = [tokens[word] for word in chunk[1:]]
            if one[len(one) - len(expected) :] != expected:
                bad |= _merging(tokenizer, chunk, tokens)
        left = [word for word in left if word not in bad]
    return left


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [list(one.ids) for one in tokenizer.encode_batch(texts, add_special_tokens=False)]


def _merging(tokenizer: Tokenizer, chunk: Sequence[str], tokens: dict[str, int]) -> set[str]:
    """The second of each pair that does not come apart; all of the chunk where every pair does."""
    bad = set()
    for first, second in pairwise(chunk):
        ids = _encoded(tokenizer, [f"{first} {first} {second}"])[0]
        if ids[-2:] != [tokens[first], tokens[second]]:
            bad.add(second)
    return bad or set(chunk)


def _openers(context: _Context, words: Sequence[str]) -> set[str]:
    """The words that are one token, and not another's, where the text begins."""
    if not words:
        return set()
    encoded = context.ids([f"{word} {word}" for word in words])
    least = min(len(ids) for ids in encoded)
    return {word for word, ids in zip(words, encoded, strict=True) if len(ids) == least}


def _around(context: _Context, found: _Words) -> tuple[int, int]:
    """Tokens before and behind the text."""
    words = [found.opening[0], *(found.opening + found.others)[1:9]]
    ids = context.ids([" ".join(words)])[0]
    tokens = [found.tokens[word] for word in words[1:]]
    places = range(len(ids) - len(tokens) + 1)
    second = next((at for at in places if ids[at : at + len(tokens)] == tokens), None)
    if not second:
        raise InputError("the chat template changes the text of a message")
    return second - 1, len(ids) - second - len(tokens)


def _opening(context: _Context, found: _Words) -> int:
    """Tokens of what stands for an unknown template."""
    return len(context.ids([f"{found.opening[0]} {found.opening[0]}"])[0]) - 2


def _drifts(context: _Context, rules: PromptRules, besides: int) -> list[int]:
    """Lengths of sampled prompts as tokenized again, less what was meant."""
    text = PromptText(replace(rules, form="text"))
    prompts = [_sampled(number, rules.added + length) for number, length in enumerate(_SAMPLE)]
    encoded = context.ids([str(text.render(prompt)) for prompt in prompts])
    return [
        len(ids) - besides - prompt.tokens for ids, prompt in zip(encoded, prompts, strict=True)
    ]


def _sampled(number: int, tokens: int) -> Prompt:
    whole = tokens // _SAMPLE_BLOCK
    blocks = np.arange(whole, dtype=np.int64) + (number << 40)
    return Prompt(blocks, _SAMPLE_BLOCK, tokens - whole * _SAMPLE_BLOCK, (number << 40) + whole)


def main(source: str, endpoint: str) -> None:
    """Print the fit of a tokenizer, or what is wrong with it."""
    try:
        answer = asdict(fit(source, endpoint))
    except InputError as error:
        answer = {"error": str(error)}
    except Exception as error:  # the library raises no other for a file that it cannot read
        answer = {"error": f"not a tokenizer that the tokenizers library reads: {error}"}
    sys.stdout.buffer.write(orjson.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
