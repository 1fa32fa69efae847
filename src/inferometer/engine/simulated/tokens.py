"""The tokenizer of the built-in engine: a token is a word between white space.

The chat template adds no tokens and roles count for nothing: the prompt is the text of all
messages, in order. Token ids (a list of integers) are taken as they are. A block is keyed by a
hash of its tokens that is stable within the process, which is all that a prefix cache needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferometer.core import Prompt


def prompt_of_text(texts: Sequence[str], block_size: int) -> Prompt:
    """The prompt that the texts spell, one after the other; no token spans two of them."""
    words = [word for text in texts for word in text.split()]
    return _prompt(words, block_size)


def prompt_of_ids(ids: Sequence[int], block_size: int) -> Prompt:
    """The prompt of these token ids."""
    return _prompt(ids, block_size)


def _prompt(tokens: Sequence[str] | Sequence[int], block_size: int) -> Prompt:
    """Tuples hash by content; the tail is shared by nothing, so it needs no key."""
    whole = len(tokens) // block_size
    keys = [
        hash(tuple(tokens[start : start + block_size]))
        for start in range(0, whole * block_size, block_size)
    ]
    blocks = np.array(keys, dtype=np.int64)
    return Prompt(blocks, block_size, len(tokens) - whole * block_size, 0)
