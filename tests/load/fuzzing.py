"""What the tests of bytes share: cuts of a stream, and what an answer says of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from seeds import (
    STREAMS,
)

from inferometer.load.reply import Reply

CLOSED_NS = 10**9
NAMES = sorted(STREAMS)
INTERIM = "an interim response"
"""Which the standard library takes for the real one."""
CUTS = st.lists(st.integers(0, 2_000), max_size=8)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """Reads of which none is empty."""
    edges = [0, *sorted({at % len(data) for at in cuts} - {0}), len(data)] if data else [0]
    return [data[a:b] for a, b in pairwise(edges)]


def replied(reads: list[bytes]) -> Reply:
    """An answer that came in these reads, with the stamps 1, 2, ..., and was then closed."""
    reply = Reply()
    for number, read in enumerate(reads, 1):
        reply.feed(read, number, kernel=True)
    reply.lost(None, CLOSED_NS)
    return reply


def said(reply: Reply) -> dict[str, Any]:
    """All that must not depend on how the bytes were cut, and so no stamp."""
    assert reply.ending is not None
    at = list(reply.at_ns)
    visible = None if reply.first_visible_ns is None else at.index(reply.first_visible_ns)
    return {
        "status": reply.ending.status,
        "events": len(at),
        "tokens": None if reply.tokens is None else list(reply.tokens),
        "source": reply.token_source,
        "usage": reply.usage,
        "http": reply.http_status,
        "visible": visible is not None,
        "complete": reply.body_complete,
    }


def check_sound(reply: Reply) -> None:
    """What holds of every answer, however broken."""
    assert reply.ending is not None
    at, marks = list(reply.at_ns), list(reply.coalesced)
    assert at == sorted(at)
    assert marks == sorted(set(marks) & set(range(len(at))))
    assert reply.first_visible_ns is None or reply.first_visible_ns in at
    if reply.tokens is not None:
        assert len(at) <= sum(reply.tokens) <= (reply.usage.completion_tokens or 0)
        assert min(reply.tokens) >= 0
    if reply.ending.status == "ok":
        assert at
        assert reply.ending.error is None
    else:
        assert reply.ending.error


# Valid streams.
