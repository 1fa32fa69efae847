"""How far a load is: what its process tells the one with the screen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a load is, for a screen; none of it enters a result."""

    phase: str
    elapsed_s: float
    of_s: float | None
    sent: int
    ok: int
    failed: int
    in_flight: int
    tokens: int
    ttft_s: float | None
    """TTFT of the request that finished last."""
