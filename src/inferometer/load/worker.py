"""A worker process: it sends what the coordinator gives it and follows the answers, no more.

One loop, no asyncio, no tokenizer, no statistics. Streams are drained once a tick, all else at
once; what has ended leaves together. Time is CLOCK_MONOTONIC, arrivals are the kernel's stamps.

    python -m inferometer.load.worker FD      FD: the worker's end of the socket pair
"""

from __future__ import annotations

import contextlib
import gc
import resource
import socket
import sys
import time

from inferometer.load.ahead import Ahead
from inferometer.load.chunks import is_text
from inferometer.load.connection import Link
from inferometer.load.dial import Pool
from inferometer.load.flight import Flight
from inferometer.load.followers import BODY_END_NS, Followers
from inferometer.load.nearend import NearEnd
from inferometer.load.outbox import Outbox
from inferometer.load.plain import chunk_header
from inferometer.load.poller import READ, SLICE, WRITE, Poller
from inferometer.load.sheet import Stored, Taken
from inferometer.load.stamps import (
    ANCILLARY_BYTES,
    ArrivalStamps,
    WallOffset,
    enable_kernel_stamps,
)
from inferometer.load.strand import Strand
from inferometer.load.wire import (
    Abort,
    FrameReader,
    Post,
    Pulse,
    Recall,
    Recalled,
    Release,
    Target,
)

TICK_S = 0.002
"""How late a gathered stream may be read. Its stamps are the kernel's and are not late."""
FEW_FLIGHTS = 16
"""Below this, waking at every arrival costs little, and no tick is needed."""
PROBE_NS = 50_000_000
"""Between two looks at the deadlines, and at how late the loop is."""
PULSE_EVERY = 4
"""Probes between two pulses."""
LONG_NS = 4 * PULSE_EVERY * PROBE_NS
"""A request that is likely to take as long gets its successor in time, though the coordinator hears
only with the next pulse that it has begun."""
BURST = 8
"""Requests that may leave, one after the other, before the server is given way: some 0.3 ms. A
count, as a time would be reading, for the most part, between sends that follow ends."""
MOST_HURRIED = 64
"""Streams read at once because their end is near. More are read for less by the tick."""
GIVE_WAY_S = 0.00005
"""The shortest sleep there is. A server of this machine that a write has woken waits, as a rule, on
the writer's own core until the writer sleeps: it would read what was sent ms later.
"""

_now_ns = time.monotonic_ns
_recvmsg_into = socket.socket.recvmsg_into


class Worker:
    """The loop. `run` returns when the coordinator is gone."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._stamping = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        stamped = enable_kernel_stamps(self._stamping)
        self._poller = Poller(kernel_stamps=stamped)
        stamps = ArrivalStamps(WallOffset(_now_ns))
        self._link = Link(self._poller, stamps, _now_ns)
        self._control = control
        self._reader = FrameReader(control)
        self._outbox = Outbox(control, self._want_room, self._stop)
        self._running = True
        self._target: Target | None = None
        self._pool: Pool | None = None
        self._flights: dict[int, Flight] = {}
        self._followers = Followers()
        self._ahead = Ahead()
        self._near_end = NearEnd()
        self._hurried = 0
        """Streams that are read at once because their end is near."""
        self._streams: list[Strand | None] = []
        """Those that are gathered, by descriptor."""
        self._drains: set[Flight] = set()
        """Flights that have ended, whose body has not."""
        self._ended_tokens = 0
        self._lags_ns: list[tuple[int, int]] = []
        self._probe_ns = _now_ns() + PROBE_NS
        self._tick_ns = 0
        self._probes = 0
        self._sent = 0
        """Requests that have left without a break in this turn."""
        self._poller.watch(control.fileno(), self._on_control)

    def run(self) -> None:
        """Serve until the coordinator closes its end."""
        while self._running:
            self._sent = 0
            patience_s = self._patience_s()
            wait_s = self._ahead.wait_s(_now_ns(), patience_s)
            self._poller.dispatch(wait_s, exact=wait_s != patience_s)
            for post in self._ahead.due(_now_ns()):
                self._start(post)
            if self._followers.waiting:
                self._followers.start(_now_ns())
            # Somebody waits for what has ended; what is streaming has its stamps already.
            self._outbox.tell()
            now_ns = _now_ns()
            if self._poller.gathering and now_ns >= self._tick_ns:
                if self._sent:
                    time.sleep(GIVE_WAY_S)  # a drain would keep the server from its core
                all_read = self._drain(now_ns)
                self._tick_ns = now_ns + round(TICK_S * 1e9) if all_read else 0
                self._outbox.tell()
            if patience_s is None and not self._flights:
                # Idle, and woken by a server that closed a kept connection: nobody waited for it.
                self._probe_ns = now_ns + PROBE_NS
            if now_ns >= self._probe_ns:
                self._probe(now_ns)
                self._outbox.tell()

    def _patience_s(self) -> float | None:
        """How long nothing needs to be done of itself; None: until somebody speaks."""
        if self._poller.gathering and not self._tick_ns:
            return 0.0  # what is left of a drain does not wait; a new request may come in between
        if self._followers.waiting:
            return BODY_END_NS / 1e9
        if self._poller.gathering:
            return TICK_S
        if self._flights or self._drains:
            return max(0.0, (self._probe_ns - _now_ns()) / 1e9)
        return None

    def _drain(self, now_ns: int) -> bool:
        """Read gathered streams that have something: the hot path, a few µs a chunk. False where
        there may be more of them.
        """
        streams, link = self._streams, self._link
        buffer, buffers = link.buffer, link.buffers
        kernel_ns = link.stamps.kernel_ns
        link.stamps.refresh(now_ns)
        ready = self._poller.gathered()
        for fd, events in ready:
            strand = streams[fd]
            assert strand is not None
            before, at = strand.before, strand.at_ns
            if events != READ or not before:
                self._read_all(strand)
                continue
            try:
                size, ancillary, _, _ = _recvmsg_into(strand.sock, buffers, ANCILLARY_BYTES)
            except OSError as error:
                strand.connection.failed(error)  # the socket tells it once, and then a proper end
                continue
            at_ns = kernel_ns(ancillary, at[-1], now_ns)
            header, after, plain = chunk_header(size), strand.after, False
            start = len(header)
            if at_ns and buffer.startswith(header) and buffer.startswith(before, start):
                start += len(before)
                if not after:
                    plain = strand.take_counted(buffer, start, size, at_ns)
                elif buffer.startswith(after, size - len(after)) and is_text(
                    buffer, start, size - len(after)
                ):
                    at.append(at_ns)
                    plain = True
            if not plain:
                self._parse(strand, size, at_ns)
            elif len(at) >= strand.hurry_at:
                self._hurry(strand.flight)
        return len(ready) < SLICE

    def _read_all(self, strand: Strand) -> None:
        """Read a gathered stream in the way of those that are not."""
        strand.settle()
        strand.connection.read_all()
        self._renew(strand)

    def _parse(self, strand: Strand, size: int, at_ns: int) -> None:
        """What was read of a gathered stream is no plain read."""
        if not size:
            self._read_all(strand)  # meets the same end, and knows what to make of it
            return
        floor_ns = strand.connection.floor_ns = at_ns or _now_ns()
        data = bytes(memoryview(self._link.buffer)[:size])
        strand.flight.received(data, floor_ns, at_ns > 0)
        self._renew(strand)

    def _renew(self, strand: Strand) -> None:
        if strand.flight.gathered:
            strand.renew()
            self._poller.tell_again(strand.connection.fd)

    # What a flight tells its owner.

    def sending(self) -> None:
        """In a burst, let the server read what has left before."""
        self._sent += 1
        if self._sent > BURST:
            time.sleep(GIVE_WAY_S)
            self._sent = 1

    def heard(self, flight: Flight) -> None:
        """Something came: gather the stream, or watch it by itself, as it now deserves."""
        reply = flight.reply
        if flight.overdue:
            self._hurried -= flight.hurried
            flight.go_on()
        near_end = len(reply.at_ns) >= flight.hurry_at
        if flight.gathered:
            if not reply.kernel_stamps:
                self._single_out(flight)
            elif near_end:
                self._hurry(flight)
        elif (
            reply.at_ns
            and flight.posted  # until then its connection is watched for room to write
            and not near_end
            and reply.kernel_stamps
            and self._poller.gathers
            and len(self._flights) >= FEW_FLIGHTS
        ):
            assert flight.connection is not None
            flight.gathered = True
            fd = flight.connection.fd
            self._streams += [None] * (fd + 1 - len(self._streams))
            self._streams[fd] = Strand(flight)
            self._poller.gather(fd)

    def ended(self, flight: Flight) -> None:
        """Its outcome leaves at the end of this turn of the loop."""
        del self._flights[flight.key]
        if flight.gathered:
            self._single_out(flight)
        self._hurried -= flight.hurried
        events = len(flight.reply.at_ns)
        whole = flight.ending is not None and flight.ending.status == "ok"
        self._near_end.end(flight.key, events / flight.max_tokens if whole else None)
        self._ended_tokens += events
        now_ns = _now_ns()
        post = self._followers.take(flight, now_ns)
        followed = None if post is None else (post.key, now_ns)
        urgent = post is None or flight.lasted_ns(post.max_tokens) < LONG_NS
        self._outbox.add(flight.outcome(followed), urgent=urgent)
        if flight.follow():
            self._drains.add(flight)
        if post is not None:
            self._followers.begin(self._flight(post), flight, now_ns)

    def _hurry(self, flight: Flight) -> None:
        """Read it at once from now on, unless that is so of many."""
        if self._hurried < MOST_HURRIED:
            self._hurried += 1
            flight.hurried = True
            self._single_out(flight)

    def _single_out(self, flight: Flight) -> None:
        assert flight.connection is not None
        flight.gathered = False
        fd = flight.connection.fd
        strand, self._streams[fd] = self._streams[fd], None
        assert strand is not None
        strand.settle()
        self._poller.single_out(fd)

    # The coordinator.

    def _on_control(self, events: int) -> None:
        if events & WRITE:
            self._outbox.flush()
        if not events & ~WRITE:
            return
        messages = self._reader.read()
        if messages is None:
            self._stop()
            return
        for message in messages:
            self._take(message)

    def _take(self, message: object) -> None:
        match message:
            case Post(after=None) if message.start_ns > _now_ns():
                self._ahead.hold(message)
            case Post(after=None):
                self._start(message)
            case Post(after=before):
                # Of one that has ended the outcome is on its way, and says that nothing followed.
                if before in self._flights:
                    self._followers.hold(message)
            case Recall():
                self._followers.clear()
                self._outbox.add(Recalled())
            case Abort(key, status):
                self._outbox.hasten()
                if (post := self._ahead.take(key)) is not None:
                    self._flight(post)
                if (open_flight := self._flights.get(key)) is not None:
                    open_flight.end(status, None)
            case Target():
                self._target = message
                self._near_end = NearEnd()
                self._ended_tokens = 0
                addresses = list(message.addresses)
                self._pool = Pool(message.server, addresses, self._link, message.keep_alive_s)
                self._pulse(_now_ns())  # says that it is ready
            case Release():
                self._release()

    def _start(self, post: Post) -> None:
        if not self._flights:
            self._probe_ns = _now_ns() + PROBE_NS
        flight = self._flight(post)
        flight.start()
        if isinstance(post.payload, Stored) and flight.ending is None:
            self._outbox.add(Taken(post.key))

    def _flight(self, post: Post) -> Flight:
        assert self._target is not None
        assert self._pool is not None
        hurry_at = self._near_end.event(post.max_tokens)
        flight = Flight(post, self._target, self._pool, _now_ns, self, hurry_at)
        self._flights[post.key] = flight
        self._near_end.begin(post.key)
        return flight

    def _release(self) -> None:
        self._followers.clear()
        for post in self._ahead.clear():
            self._flight(post)
        for flight in list(self._flights.values()):
            flight.end("cancelled", None)
        for flight in self._drains:
            flight.let_go()
        self._drains.clear()
        if self._pool is not None:
            self._pool.close()
        gc.collect()

    def _probe(self, now_ns: int) -> None:
        """Deadlines, and how late this look at them is."""
        self._lags_ns.append((now_ns, now_ns - self._probe_ns))
        self._probe_ns = max(self._probe_ns + PROBE_NS, now_ns)
        for flight in [f for f in self._flights.values() if f.due_ns <= now_ns]:
            flight.check(now_ns)
        for flight in [f for f in self._drains if f.done(now_ns)]:
            self._drains.remove(flight)
        self._probes += 1
        if self._probes % PULSE_EVERY == 0:
            self._pulse(now_ns)

    def _pulse(self, now_ns: int) -> None:
        tokens = self._ended_tokens + sum(len(f.reply.at_ns) for f in self._flights.values())
        peak = peak_rss()
        self._outbox.add(Pulse(now_ns, time.process_time(), tokens, peak, self._lags_ns))
        self._lags_ns = []

    def _want_room(self, wanted: bool) -> None:
        events = READ | WRITE if wanted else READ
        self._poller.watch(self._control.fileno(), self._on_control, events)

    def _stop(self) -> None:
        self._running = False


def peak_rss() -> int:
    """Bytes of memory that this process has held at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    """Serve the socket whose descriptor is the only argument."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # A collection is a pause; what a request leaves behind holds no cycles.
    gc.freeze()
    gc.disable()
    with contextlib.closing(socket.socket(fileno=int(sys.argv[1]))) as control:
        Worker(control).run()


if __name__ == "__main__":
    main()
