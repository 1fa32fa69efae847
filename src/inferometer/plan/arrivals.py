"""Rules between the settings of a workload that say when its sessions arrive.

A setting that could do nothing is a mistake of whoever wrote it, and so is a fault here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from inferometer.core import Arrival
from inferometer.plan.fields import Fault

RATED = ("constant", "poisson", "gamma")


class Arriving(Protocol):
    """The settings looked at, each right by itself."""

    @property
    def kind(self) -> str: ...
    @property
    def requests(self) -> int | None: ...
    @property
    def warmup_grace_s(self) -> float: ...
    @property
    def arrival(self) -> Arrival: ...
    @property
    def rate(self) -> float | None: ...
    @property
    def burstiness(self) -> float: ...
    @property
    def rate_from(self) -> float | None: ...
    @property
    def rate_ramp_s(self) -> float | None: ...
    @property
    def rate_ramp_steps(self) -> int | None: ...
    @property
    def cap_in_flight(self) -> bool: ...
    @property
    def conc_from(self) -> int | None: ...
    @property
    def conc_ramp_s(self) -> float | None: ...
    @property
    def conc_ramp_steps(self) -> int | None: ...


def arrival_faults(given: Arriving) -> Iterator[Fault]:
    """Every broken rule."""
    yield from _rate_faults(given)
    yield from _ramp_faults("rate", given.rate_from, given.rate_ramp_s, given.rate_ramp_steps)
    yield from _ramp_faults("conc", given.conc_from, given.conc_ramp_s, given.conc_ramp_steps)
    if given.arrival != "gamma" and given.burstiness != 1:
        yield Fault(("burstiness",), f"goes only with gamma arrivals, not with {given.arrival}")
    if given.arrival == "burst" and given.requests is None:
        yield Fault(("requests",), "a burst has no end of its own: it needs a number of requests")
    if given.arrival == "timestamps" and given.kind == "fixed":
        yield Fault(("arrival",), "fixed lengths have no timestamps; they go with sessions")
    if given.cap_in_flight and given.arrival == "closed":
        yield Fault(("cap_in_flight",), "a closed loop is its own cap; it goes with arrivals")
    if given.conc_ramp_s is not None and given.arrival != "closed":
        text = "a ramp of concurrency goes only with a closed loop; ramp the rate instead"
        yield Fault(("conc_ramp_s",), text)
    if given.conc_ramp_s is not None and given.conc_ramp_s > given.warmup_grace_s:
        text = f"is longer than warmup_grace_s, {given.warmup_grace_s:g}: the window never opens"
        yield Fault(("conc_ramp_s",), text)


def _rate_faults(given: Arriving) -> Iterator[Fault]:
    if given.arrival in RATED:
        if given.rate is None:
            yield Fault(("rate",), f"{given.arrival} arrivals need a rate")
        return
    for name in ("rate", "rate_from", "rate_ramp_s"):
        if getattr(given, name) is not None:
            text = f"goes only with {', '.join(RATED)} arrivals, not with {given.arrival}"
            yield Fault((name,), text)


def _ramp_faults(
    of: str, first: float | None, seconds: float | None, steps: int | None
) -> Iterator[Fault]:
    if (first is None) != (seconds is None):
        yield Fault((f"{of}_ramp_s",), f"a ramp needs both {of}_from and {of}_ramp_s, or neither")
    if steps is not None and seconds is None:
        yield Fault((f"{of}_ramp_steps",), f"goes only with {of}_ramp_s")
