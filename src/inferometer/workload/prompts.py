"""From recorded turns to prompts as block ids: who shares a prefix with whom, and nothing else.

Within one play prompts agree exactly as far as the trace's own ids do; the key of the play is part
of every id, so that no block is shared between plays, points or repeats. That isolates plays
completely, with no marker to send, and one seed gives the same ids again. What ids are sent as is
in `prompt_text`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from inferometer.core import Prompt, Session, Turn
from inferometer.errors import InputError
from inferometer.workload.mixing import mixed
from inferometer.workload.numbering import numbering

LOCAL_BITS = 20
"""Bits of an id within its session; 40 bits of key go before them, 3 are left for `reblock`."""
KEY_BITS = 40
_ID_MASK = (1 << LOCAL_BITS + KEY_BITS) - 1
MAX_LOCAL_ID = (1 << LOCAL_BITS) - 1
NO_BLOCKS = np.empty(0, np.int64)
"""Of every prompt below one block."""
NO_BLOCKS.setflags(write=False)


def play_key(seed: int, point_digest: str, repeat: int, lane: int, play: int) -> int:
    """A 40-bit key, the same for the same arguments on any machine.

    Of 100,000 plays two share a key with a probability of 0.5 %, and then only those two share.
    """
    name = f"{seed}|{point_digest}|{repeat}|{lane}|{play}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=KEY_BITS // 8).digest(), "big")


def prompt_of(session: Session, turn: Turn, key: int, common_key: int = 0) -> Prompt:
    """The prompt of a turn in the play that `key` stands for; tokens equal `turn.input_tokens`.

    Ids that are common to sessions go with `common_key` instead, so that plays share their blocks.
    Raises InputError for a session with more blocks and turns than an id has room for.
    """
    numbers = numbering(session)
    if numbers.total > MAX_LOCAL_ID:
        raise InputError(f"session {session.id!r} has {numbers.total} blocks and turns, too many")
    blocks, tail_tokens = NO_BLOCKS, turn.input_tokens
    if count := len(turn.block_ids):
        own = numbers.of(turn) | np.int64(key << LOCAL_BITS)
        blocks = with_common(session, turn, own, common_key)
        tail_tokens -= count * session.block_size
    tail_id = key << LOCAL_BITS | int(numbers.tails[turn.index])
    return Prompt(blocks, session.block_size, tail_tokens, tail_id)


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
    return replace(prompt, blocks=blocks, block_size=prompt.block_size // parts)


def _merged(prompt: Prompt, parts: int) -> Prompt:
    whole = len(prompt.blocks) // parts
    groups = prompt.blocks[: whole * parts].reshape(whole, parts).astype(np.uint64)
    digests: npt.NDArray[np.uint64] = np.zeros(whole, np.uint64)
    for column in groups.T:
        digests = mixed(digests ^ column)
    size = prompt.block_size * parts
    blocks = (digests >> np.uint64(1)).astype(np.int64)
    tail_tokens = prompt.tokens - whole * size
    return replace(prompt, blocks=blocks, block_size=size, tail_tokens=tail_tokens)
