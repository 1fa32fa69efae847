"""What a null server is told to write, and what it says that it wrote."""

from __future__ import annotations

from typing import NamedTuple


class Timetable(NamedTuple):
    """What each answer is: `chunks` chunks, the first `ttft_ns` to twice that after the request,
    the others `gap_ns` apart. Gives a fresh account as well.
    """

    ttft_ns: int
    gap_ns: int
    chunks: int


class Account(NamedTuple):
    """What was written since the timetable was given: by request id, int64 ns in native order."""

    wrote_ns: dict[str, bytes]
    late_ns: bytes
    """Of each answer, how much later than planned its latest chunk was written."""
