"""Blocks of a context that is put together from pieces: each is what it holds and all before it.

Two chains have equal blocks exactly as far as they were put together alike, as the block hashes of
an engine's prefix cache are. A piece is a run of tokens of one source; sources are integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inferometer.core import Canned, Prompt, Turn
from inferometer.workload.hashes import Ids


class Piece(NamedTuple):
    """Tokens [first, first + tokens) of a source."""

    source: int
    first: int
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A context. `head` is the recorded turn that it begins with, `head_blocks` its whole blocks.

    Behind those come `runs` of numbered blocks, then `rest`, which fills no block yet.
    """

    head: Turn
    head_blocks: Ids
    block_size: int
    runs: tuple[Ids, ...]
    digest: bytes
    rest: tuple[Piece, ...]
    tokens: int

    @classmethod
    def begun(cls, turn: Turn, canned: Prompt, numbers: dict[bytes, int]) -> Chain:
        """A recorded context as it is; its tail, where that fills blocks, in blocks too."""
        size, blocks = canned.block_size, canned.blocks
        digest = blocks[-1:].tobytes()
        whole = len(blocks) * size
        chain = cls(turn, blocks, size, (), digest, (), whole)
        return chain.extended([Piece(canned.tail_id, 0, canned.tail_tokens)], numbers)

    def extended(self, pieces: Iterable[Piece], numbers: dict[bytes, int]) -> Chain:
        """The chain with pieces behind it; a block that `numbers` lacks gets the next number."""
        digest, rest, room = self.digest, list(self.rest), self.block_size
        room -= sum(piece.tokens for piece in rest)
        found: list[int] = []
        tokens = self.tokens
        for source, first, count in pieces:
            tokens += count
            while count > 0:
                part = min(count, room)
                _append(rest, Piece(source, first, part))
                first, count, room = first + part, count - part, room - part
                if not room:
                    digest = _digest(digest, rest)
                    found.append(numbers.setdefault(digest, len(numbers)))
                    rest, room = [], self.block_size
        runs = (*self.runs, np.array(found, np.int64)) if found else self.runs
        return Chain(
            self.head, self.head_blocks, self.block_size, runs, digest, tuple(rest), tokens
        )

    def numbers(self) -> Ids:
        """Of the blocks behind the head's, in order: int64[n]."""
        return np.concatenate(self.runs) if self.runs else np.empty(0, np.int64)


def canned_pieces(part: Canned) -> list[Piece]:
    """A part of a recorded context: a piece a block, and one of its tail."""
    prompt, size = part.prompt, part.prompt.block_size
    whole = len(prompt.blocks) * size
    pieces = []
    at = part.start
    while at < min(part.stop, whole):
        index, offset = divmod(at, size)
        count = min(size - offset, part.stop - at)
        pieces.append(Piece(int(prompt.blocks[index]), offset, count))
        at += count
    if at < part.stop:
        pieces.append(Piece(prompt.tail_id, at - whole, part.stop - at))
    return pieces


def _append(rest: list[Piece], piece: Piece) -> None:
    """Runs of one source are one piece, however they were cut."""
    last = rest[-1] if rest else None
    if last and last.source == piece.source and last.first + last.tokens == piece.first:
        rest[-1] = last._replace(tokens=last.tokens + piece.tokens)
    else:
        rest.append(piece)


def _digest(before: bytes, pieces: list[Piece]) -> bytes:
    digest = hashlib.blake2b(before, digest_size=16)
    for piece in pieces:
        digest.update(b"%d,%d,%d;" % piece)
    return digest.digest()
