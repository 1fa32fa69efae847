"""What a prompt is sent as: words or token ids, as many as make the recorded length.

Every block id stands for a fixed run of words of one lexicon, each of which is one token wherever
it stands; so the text of blocks is as long as the sum of its parts, and two prompts agree, token by
token, exactly as far as their ids do. What the server adds (chat template, special tokens) takes
the place of words. Nothing here knows a tokenizer; `tokenizer_fit` has found the words.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from inferometer.core import Canned, Content, Dialogue, Part, Prompt
from inferometer.workload.lexicon import PLAIN, Lexicon
from inferometer.workload.mixing import GOLDEN, mixed, mixed_one
from inferometer.workload.prompts import LOCAL_BITS, MAX_LOCAL_ID

PROMPT_RULES = "blocks-2"
"""Version of the rule from ids to words. 1 was a word of three letters a token, of 256."""

Form = Literal["text", "token_ids"]
Numbers = npt.NDArray[np.uint16]

KEPT_BYTES = 32 * 1024 * 1024
"""Of prompts rendered ahead of time. What does not fit is rendered when it is sent: some 4 ms
for 200,000 tokens."""
_BLOCK, _TAIL = 1, 2
_KIND_BIT = LOCAL_BITS + 40
_STEPS = np.arange(512, dtype=np.uint64) * GOLDEN
_STEPS.setflags(write=False)


@dataclass(frozen=True, slots=True, eq=False)
class PromptRules:
    """How ids become what is sent.

    `head` and `foot` are the tokens that the server puts before and behind the text. `notes` say
    where these numbers come from, for the result.
    """

    lexicon: Lexicon
    form: Form
    head: int
    foot: int
    notes: Mapping[str, float]
    pair: int = 0
    """Tokens that the server adds where an answer and one more part of the user follow."""

    @property
    def added(self) -> int:
        """Tokens that are not ours."""
        return self.head + self.foot


WORDS = PromptRules(PLAIN, "text", 0, 0, {})
"""A word a token, nothing added: the built-in engine."""


def calibrated(rules: PromptRules, sent: tuple[int, int], counted: tuple[int, int]) -> PromptRules:
    """The rules as a server's own counts say: of two prompts of `sent` tokens of ours, `counted`.

    Counts that differ by as much as what was sent tell what the server adds to every prompt: it is
    taken for the head, less the foot that is known. Any others come from another tokenizer, and the
    rules stay as they are; `tokenizer_agrees` says so.
    """
    added = counted[0] - sent[0]
    agrees = added >= 0 and counted[1] - counted[0] == sent[1] - sent[0]
    notes = {**rules.notes, "tokenizer_agrees": float(agrees)}
    if not agrees:
        return replace(rules, notes=notes)
    foot = min(rules.foot, added)
    notes |= {"template_tokens_computed": float(rules.added), "template_tokens": float(added)}
    return replace(rules, head=added - foot, foot=foot, notes=notes)


class Cells(NamedTuple):
    """`cells` uint8[words, width]: what each word is written as. In front of a prompt `first` bytes
    are too many, behind it `last`: the space or the comma between two words.
    """

    cells: npt.NDArray[np.uint8]
    first: int
    last: int


def paired(rules: PromptRules, sent: int, counted: int) -> PromptRules:
    """The rules with what a server adds to a conversation, by its count of one.

    It had two parts of the user and an answer between them, of `sent` tokens of ours together.
    """
    pair = counted - sent - rules.added
    if pair < 0 or not rules.notes.get("tokenizer_agrees"):
        return rules
    return replace(rules, pair=pair, notes={**rules.notes, "template_pair_tokens": float(pair)})


class PromptText:
    """Renders prompts. What was prepared is kept, up to `kept_bytes`, until it is taken."""

    def __init__(self, rules: PromptRules = WORDS, kept_bytes: int = KEPT_BYTES) -> None:
        self._rules = rules
        self._room = kept_bytes
        self._kept: OrderedDict[tuple[int, int], Content] = OrderedDict()
        self._minimal = 0

    @property
    def form(self) -> Form:
        """What prompts are sent as."""
        return self._rules.form

    def notes(self) -> Mapping[str, float]:
        """What was assumed of the server, and the prompts that it left no room for."""
        return {**self._rules.notes, "prompts_below_template": float(self._minimal)}

    def prepare(self, prompt: Prompt) -> None:
        """Render a prompt that will be taken soon."""
        name = _name(prompt)
        if name in self._kept:
            return
        made = self.render(prompt)
        self._kept[name] = made
        self._room -= _size(made)
        while self._room < 0:
            _, oldest = self._kept.popitem(last=False)
            self._room += _size(oldest)

    def take(self, prompt: Prompt) -> Content:
        """The prompt as it is sent: `prompt.tokens` tokens with all that the server adds.

        Where that leaves none, one word is sent all the same, and counted.
        """
        self._minimal += self._leaves_none(prompt)
        made = self._kept.pop(_name(prompt), None)
        if made is None:
            return self.render(prompt)
        self._room += _size(made)
        return made

    @cached_property
    def table(self) -> Cells:
        """How each word of the lexicon is written where a prompt is written as bytes."""
        if self._rules.form == "text":
            return Cells(self._rules.lexicon.cells, first=1, last=0)
        ids = self._rules.lexicon.token_ids.tolist()
        width = len(str(max(ids)))
        text = "".join(f"{number:{width}d}," for number in ids)
        return Cells(np.frombuffer(text.encode("ascii"), np.uint8).reshape(len(ids), -1), 0, 1)

    def written_bytes(self, prompt: Prompt) -> int:
        """Bytes that `write` needs."""
        width = int(self.table.cells.shape[1])
        return max(1, prompt.tokens - self._rules.added) * width

    def write(self, prompt: Prompt, memory: memoryview) -> None:
        """`render` for large prompts and other threads: into `memory`, of `written_bytes`, without
        holding the interpreter for longer than a moment. The first and last few bytes that `table`
        names are none of the prompt's.

        Text as it stands in JSON, where no word has anything to escape; ids with commas.
        """
        numbers = word_numbers(prompt, self._rules)
        cells = self.table.cells
        out = np.frombuffer(memory, np.uint8).reshape(len(numbers), cells.shape[1])
        np.take(cells, numbers, axis=0, out=out, mode="clip")

    def render(self, prompt: Prompt) -> Content:
        """The words with single spaces between them, or their token ids; or message by message."""
        if len(prompt.parts) > 1:
            texts = tuple(self._part(part, at) for at, part in enumerate(prompt.parts))
            ours = (isinstance(part, Canned) for part in prompt.parts)
            return Dialogue(texts, tuple(at > 0 and own for at, own in enumerate(ours)))
        begin = prompt.parts[0] if prompt.parts else None
        numbers = word_numbers(begin.prompt if isinstance(begin, Canned) else prompt, self._rules)
        if self._rules.form == "token_ids":
            ids: list[int] = np.take(self._rules.lexicon.token_ids, numbers).tolist()
            return ids
        return self._text(numbers)

    def _part(self, part: Part, at: int) -> str:
        """The text of one message; what the server puts around it takes the place of words."""
        if not isinstance(part, Canned):
            return part.text
        if at == 0:
            return self._text(word_numbers(part.prompt, self._rules))
        added = 0 if at % 2 else self._rules.pair
        stop = max(part.start + 1, part.stop - added)
        return self._text(words_between(part.prompt, part.start, stop, self._rules.lexicon))

    def _text(self, numbers: Numbers) -> str:
        return self._rules.lexicon.cells.take(numbers, axis=0).tobytes()[1:].decode("ascii")

    def _leaves_none(self, prompt: Prompt) -> bool:
        """Whether what the server adds is as long as what it is added to."""
        if len(prompt.parts) < 2:
            return prompt.tokens <= self._rules.added
        return any(
            isinstance(part, Canned) and part.stop - part.start <= self._rules.pair
            for part in prompt.parts[2::2]
        )


def word_numbers(prompt: Prompt, rules: PromptRules) -> Numbers:
    """Places in the lexicon, uint16[n]; n is the prompt's length less what the server adds.

    The head takes the place of the first words, so that blocks end where the server's blocks of as
    many tokens do: whole blocks, and of the next one its end, since its first word tells it from
    others. The foot takes the last ones.
    """
    size = prompt.block_size
    whole, part = divmod(rules.head, size)
    blocks = prompt.blocks[whole:]
    text = run(_TAIL, prompt.tail_id, max(1, prompt.tail_tokens), rules.lexicon)
    if len(blocks):
        covered = stream(_BLOCK, blocks, size, rules.lexicon).reshape(-1)
        if part:
            covered = np.concatenate([covered[: size - part], covered[size:]])
        text = np.concatenate([covered, text])
    return text[: max(1, prompt.tokens - rules.added)]


def words_between(prompt: Prompt, start: int, stop: int, lexicon: Lexicon) -> Numbers:
    """The words [start, stop) of a prompt to which nothing is added, as places in the lexicon."""
    size = prompt.block_size
    whole = len(prompt.blocks) * size
    first = min(start, whole) // size
    covered = stream(_BLOCK, prompt.blocks[first : -(-stop // size)], size, lexicon).reshape(-1)
    if stop > whole:
        covered = np.append(covered, run(_TAIL, prompt.tail_id, prompt.tail_tokens, lexicon))
    return covered[start - first * size : stop - first * size]


def stream(kind: int, ids: npt.NDArray[np.int64], count: int, lexicon: Lexicon) -> Numbers:
    """`count` words for every id: uint16[ids, count].

    The first is the id's number within its play, moved by the play's key, modulo the words that may
    open a prompt; the others are 16 bits each of splitmix64, seeded by all of the id.
    """
    names = ids.astype(np.uint64)
    seeds = mixed(names ^ np.uint64(kind << _KIND_BIT))
    lanes = mixed(seeds[:, None] + _steps(count)).astype("<u8", copy=False).view("<u2")
    words = (lanes[:, :count] & np.uint16(len(lexicon.token_ids) - 1)).astype(np.uint16)
    numbers = (names & np.uint64(MAX_LOCAL_ID)) + mixed(names >> np.uint64(LOCAL_BITS))
    words[:, 0] = numbers & np.uint64(lexicon.starts - 1)
    return words


def run(kind: int, name: int, count: int, lexicon: Lexicon) -> Numbers:
    """`stream` of one id, with less work around it: uint16[count]."""
    seed = mixed_one(name ^ kind << _KIND_BIT)
    lanes = mixed(np.uint64(seed) + _steps(count)).astype("<u8", copy=False).view("<u2")
    words = (lanes[:count] & np.uint16(len(lexicon.token_ids) - 1)).astype(np.uint16, copy=False)
    number = (name & MAX_LOCAL_ID) + mixed_one(name >> LOCAL_BITS)
    words[:1] = number & lexicon.starts - 1
    return words


def _steps(count: int) -> npt.NDArray[np.uint64]:
    """What is added to a seed for each four of `count` words; not to be written to."""
    fours = -(-count // 4)
    return _STEPS[:fours] if fours <= len(_STEPS) else np.arange(fours, dtype=np.uint64) * GOLDEN


def _name(prompt: Prompt) -> tuple[int, int]:
    """A tail is that of one turn of one play."""
    return prompt.tail_id, prompt.tokens


def _size(made: Content) -> int:
    if isinstance(made, Dialogue):
        return sum(map(len, made.texts))
    return len(made) * (1 if isinstance(made, str) else 8)
