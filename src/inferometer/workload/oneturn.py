"""A session of one turn, as traces of single requests and drawn lengths give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferometer.core import Turn
from inferometer.workload.graph import ROOT
from inferometer.workload.hashes import Ids


def single(
    ids: Ids, input_tokens: int, output_tokens: int, extra: Mapping[str, Any] | None = None
) -> Turn:
    """The only turn of a session, or its first."""
    return Turn(
        index=0,
        agent=ROOT,
        parent_agent=None,
        after=(),
        gap_ns=0,
        block_ids=ids,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        extra=extra,
    )
