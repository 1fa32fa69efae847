"""From block ids to prompts and text: who shares a prefix with whom, and nothing else.

A prompt is a list of block ids. Within one play they agree exactly as far as the trace's own ids
do; the key of the play is part of every id, so that no block is shared between plays, points or
repeats. That isolates plays completely, with no marker to send, and one seed gives the same bytes
again. Text is made for engines whose token is a whitespace-separated word; under another tokenizer
its token count is approximate, and the server's usage is the truth.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from inferometer.core import Prompt, Session, Turn
from inferometer.errors import InputError

LOCAL_BITS = 20
"""Bits of an id within its session; 40 bits of key go before them, 3 are left for `reblock`."""
KEY_BITS = 40
_ID_MASK = (1 << LOCAL_BITS + KEY_BITS) - 1
MAX_LOCAL_ID = (1 << LOCAL_BITS) - 1

WORDS = tuple(
    onset + vowel + coda for onset in "bcdfghlmnprstvwz" for vowel in "aeio" for coda in "lnrs"
)
"""256 words, so that one byte of a seeded stream picks one."""


def play_key(seed: int, point_digest: str, repeat: int, lane: int, play: int) -> int:
    """A 40-bit key, the same for the same arguments on any machine.

    Of 100,000 plays two share a key with a probability of 0.5 %, and then only those two share.
    """
    name = f"{seed}|{point_digest}|{repeat}|{lane}|{play}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=KEY_BITS // 8).digest(), "big")


def prompt_of(session: Session, turn: Turn, key: int, common_key: int = 0) -> Prompt:
    """The prompt of a turn in the play that `key` stands for; tokens equal `turn.input_tokens`.

    Ids that are common to sessions go with `common_key` instead, so that plays share their blocks.
    """
    own = (turn.block_ids - session.common_ids) | np.int64(key << LOCAL_BITS)
    blocks = with_common(session, turn, own, common_key)
    return Prompt(
        blocks=blocks,
        block_size=session.block_size,
        tail_tokens=turn.input_tokens - len(blocks) * session.block_size,
        tail_id=key << LOCAL_BITS | turn.index,
    )


def with_common(
    session: Session, turn: Turn, own: npt.NDArray[np.int64], common_key: int
) -> npt.NDArray[np.int64]:
    """`own` keyed ids of a turn's blocks, with those that sessions have in common keyed alike."""
    if not session.common_ids:
        return own
    # Of an id that is too large the rest is added to the key, which gives another good key.
    common = (turn.block_ids + np.int64(common_key << LOCAL_BITS)) & _ID_MASK
    return np.where(turn.block_ids < session.common_ids, common, own)


def reblock(prompt: Prompt, block_size: int) -> Prompt:
    """The same prompt in blocks of another size, one a multiple of the other; length is kept.

    Smaller: block `i` becomes `i·k … i·k + k - 1`, so that a shared prefix stays as long. Larger:
    a block is identified by all of those in it, and those that fill none join the tail, as an
    engine with larger blocks would not share them either. Raises InputError for any other size.
    """
    size = prompt.block_size
    if block_size == size:
        return prompt
    if size % block_size == 0:
        return _split(prompt, size // block_size)
    if block_size % size == 0:
        return _merged(prompt, block_size // size)
    raise InputError(
        f"the sessions have blocks of {size} tokens, which do not make the engine's blocks of "
        f"{block_size}: one must be a multiple of the other"
    )


def _split(prompt: Prompt, parts: int) -> Prompt:
    most = int(prompt.blocks.max(initial=0))
    if most * parts + parts - 1 > np.iinfo(np.int64).max:
        raise InputError(
            f"the sessions have blocks of {prompt.block_size} tokens, too many to be parted into "
            f"{parts} blocks each for the engine"
        )
    blocks = (prompt.blocks[:, None] * parts + np.arange(parts)).reshape(-1)
    return Prompt(blocks, prompt.block_size // parts, prompt.tail_tokens, prompt.tail_id)


def _merged(prompt: Prompt, parts: int) -> Prompt:
    whole = len(prompt.blocks) // parts
    groups = prompt.blocks[: whole * parts].reshape(whole, parts).astype(np.uint64)
    mixed: npt.NDArray[np.uint64] = np.zeros(whole, np.uint64)
    for column in groups.T:
        mixed = _mix(mixed ^ column)
    size = prompt.block_size * parts
    blocks = (mixed >> np.uint64(1)).astype(np.int64)
    return Prompt(blocks, size, prompt.tokens - whole * size, prompt.tail_id)


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """One step of splitmix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class PromptText:
    """Text of prompts whose blocks have `block_size` tokens, a word a token.

    Every block id stands for a fixed run of words, kept for the `cached_blocks` used last. Two
    prompts have the same words as far as their block ids agree; the first word beyond may agree
    by chance (1 in 256).
    """

    def __init__(self, block_size: int, cached_blocks: int = 1 << 16) -> None:
        self._block_size = block_size
        self._block = lru_cache(cached_blocks)(self._render_block)

    def text(self, prompt: Prompt) -> str:
        """`prompt.tokens` words, separated by single spaces."""
        if prompt.block_size != self._block_size:
            raise ValueError(f"blocks of {prompt.block_size} tokens, not of {self._block_size}")
        parts = [self._block(block) for block in prompt.blocks.tolist()]
        if prompt.tail_tokens:
            parts.append(_words(b"tail", prompt.tail_id, prompt.tail_tokens))
        return " ".join(parts)

    def _render_block(self, block: int) -> str:
        return _words(b"block", block, self._block_size)


def _words(kind: bytes, seed: int, count: int) -> str:
    stream = hashlib.shake_128(kind + seed.to_bytes(8, "big")).digest(count)
    return " ".join([WORDS[byte] for byte in stream])
