"""Arrivals of an open loop, and the places they wait for where their number is capped. No clock.

An arrival is due when its pacer says, whatever is open. Under a cap it may wait for a place, in
the client and in order; it stays due when it was, so the wait is in every latency from schedule.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from inferometer.clock import NS
from inferometer.core import WorkloadSettings
from inferometer.load.lane import Lane
from inferometer.load.pacers import Schedule, pacer
from inferometer.load.play import Play
from inferometer.load.workload import Workload


class Arrival(NamedTuple):
    """A session that may begin: when it was due, and when there was a place for it."""

    number: int
    due_ns: int
    ready_ns: int


class OpenLoop:
    """Hands out arrivals once they are due and have a place, and says which session each plays.

    `lanes` is the number of places where the settings cap them, and how sessions are dealt.
    """

    def __init__(
        self, lanes: int, settings: WorkloadSettings, workload: Workload, origin_ns: int
    ) -> None:
        starts_ns = workload.starts_ns() if settings.arrival == "timestamps" else ()
        offsets = pacer(settings, starts_ns)
        self.schedule = Schedule(offsets, origin_ns, settings.warmup_requests_per_lane)
        duration_s = settings.duration_s
        self._end_ns = (
            None if duration_s is None else self.schedule.opens_ns + round(duration_s * NS)
        )
        self._lanes = lanes
        self._workload = workload
        self._free_ns = deque([origin_ns] * lanes) if settings.cap_in_flight else None
        """Since when each free place is free; None without a cap."""
        self._ahead: tuple[int, Play] | None = None
        """Number and session of an arrival to come, made ready."""

    @property
    def next_ns(self) -> int | None:
        """When the next arrival may begin: None without one, or without a place for it."""
        if self.exhausted or (self._free_ns is not None and not self._free_ns):
            return None
        return self.schedule.next_ns

    @property
    def exhausted(self) -> bool:
        """No arrival of the window is left."""
        next_ns = self.schedule.next_ns
        return next_ns is None or (self._end_ns is not None and next_ns >= self._end_ns)

    @property
    def looks_out(self) -> bool:
        """Whether the session of the next arrival is yet to be made."""
        return self._ahead is None and not self.exhausted

    def take(self, now_ns: int) -> Arrival | None:
        """The next arrival that is due and has a place, if any."""
        next_ns = self.next_ns
        over = self._end_ns is not None and now_ns >= self._end_ns
        if over or next_ns is None or next_ns > now_ns:
            return None
        number, due_ns = self.schedule.take()
        free_ns = due_ns if self._free_ns is None else self._free_ns.popleft()
        return Arrival(number, due_ns, max(due_ns, free_ns))

    def lane(self, arrival: Arrival) -> Lane:
        """A lane for one session: the arrival's number says which, whatever else is open."""
        index, number = self._place(arrival.number)
        lane = Lane(index)
        lane.number = number
        lane.fruitless = 1
        if self._ahead is not None and self._ahead[0] == arrival.number:
            lane.play = self._ahead[1]
        else:
            lane.play = Play(self._workload.session(index, number))
        self._ahead = None
        return lane

    def look_out(self) -> tuple[int, int, Play] | None:
        """Make the session of the next arrival ready: (lane, play, it), or None if it is."""
        if not self.looks_out:
            return None
        arrival = self.schedule.taken
        index, number = self._place(arrival)
        play = Play(self._workload.session(index, number))
        self._ahead = arrival, play
        return index, number, play

    def leave(self, at_ns: int) -> None:
        """A session has drained: its place is free from `at_ns` on."""
        if self._free_ns is not None:
            self._free_ns.append(at_ns)

    def close(self, end_ns: int, *, counted: bool) -> tuple[int, int]:
        """(due, not sent) arrivals of the window that ends at `end_ns`.

        Those of a counted window that are beyond the count are none of its own.
        """
        until_ns = end_ns if self._end_ns is None else min(end_ns, self._end_ns)
        unsent = 0 if counted else self.schedule.left_until(until_ns)
        return self.schedule.taken_in_window + unsent, unsent

    def _place(self, arrival: int) -> tuple[int, int]:
        number, index = divmod(arrival, self._lanes)
        return index, number
