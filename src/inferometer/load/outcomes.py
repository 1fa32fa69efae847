"""What a worker told of a request, as an exchange; and exchanges of requests that never left."""

from __future__ import annotations

import numpy as np

from inferometer.core import Answer, Arrivals, Exchange, Status
from inferometer.load.wire import Outcome


def exchange_of(outcome: Outcome, error: str | None) -> Exchange:
    """What a worker saw, as the lanes take it; `error` has no secrets."""
    at_ns = np.frombuffer(outcome.at_ns, dtype=np.int64)
    coalesced = None
    if outcome.coalesced:
        coalesced = np.zeros(len(at_ns), dtype=np.bool_)
        coalesced[np.frombuffer(outcome.coalesced, dtype=np.int64)] = True
    tokens = outcome.tokens
    counts = None if tokens is None else np.frombuffer(tokens, dtype=np.int64).astype(np.int32)
    return Exchange(
        connected_ns=outcome.connected_ns,
        sent_ns=outcome.sent_ns,
        body_sent_ns=outcome.body_sent_ns,
        first_byte_ns=outcome.first_byte_ns,
        first_visible_ns=outcome.first_visible_ns,
        end_ns=outcome.end_ns,
        arrivals=Arrivals(at_ns=at_ns, tokens=counts, coalesced=coalesced),
        status=Status(outcome.status),
        error=error,
        http_status=outcome.http_status,
        prompt_tokens=outcome.prompt_tokens,
        cached_tokens=outcome.cached_tokens,
        completion_tokens=outcome.completion_tokens,
        token_source=outcome.token_source,
        stamp_source="kernel" if outcome.kernel_stamps else "read",
        reused_connection=outcome.reused,
        answer=None if outcome.said is None else Answer(*outcome.said),
    )


def nothing_but(key: int, error: str | None, end_ns: int, status: Status) -> Outcome:
    """Of a request of which nothing is known but how it ended."""
    return Outcome(
        key=key,
        connected_ns=None,
        sent_ns=None,
        body_sent_ns=None,
        first_byte_ns=None,
        first_visible_ns=None,
        end_ns=end_ns,
        at_ns=b"",
        tokens=None,
        coalesced=b"",
        status=status.value,
        error=error,
        http_status=None,
        prompt_tokens=None,
        cached_tokens=None,
        completion_tokens=None,
        token_source="assumed",
        kernel_stamps=False,
        reused=False,
    )


def unsent(status: Status, error: str | None, end_ns: int) -> Exchange:
    """Of a request of which no byte left."""
    return exchange_of(nothing_but(-1, error, end_ns, status), error)
