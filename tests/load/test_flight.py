"""The deadlines of a request: which of them ends it, and when; and what becomes of its body."""

from __future__ import annotations

import pytest

from inferometer.load.connection import Connection
from inferometer.load.dial import Dial, Done
from inferometer.load.flight import DRAIN_NS, Flight
from inferometer.load.http import Server
from inferometer.load.stamps import NS
from inferometer.load.wire import Limits, Outcome, Post, Target

LIMITS = Limits(connect_s=5.0, first_byte_s=30.0, between_bytes_s=7.0, total_s=100.0)
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


class Wire:
    """Stands for a connection: nothing comes but what the test hands over."""

    def __init__(self) -> None:
        self.receiver: object = None
        self.floor_ns = 0
        self.at_end = self.wrote = False
        self.open = True
        self.sent: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.open = False


class Owner:
    """Stands for a worker, its pool and its clock."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.gives_way_ns = 0
        self.outcomes: list[Outcome] = []
        self.followed: list[bool] = []
        self.kept: list[object] = []
        self.idle: list[Wire] = []
        self.dialed: list[Done] = []
        target = Target(Server("h", 80, tls=False), [], LIMITS, "openai", 4.0)
        self.flight = Flight(Post(1, b"POST", 32), target, self, lambda: self.now_ns, self, 29)

    def take(self) -> Connection | None:
        return self.idle.pop() if self.idle else None  # type: ignore[return-value]

    def put(self, connection: Connection) -> None:
        self.kept.append(connection)

    def dial(self, done: Done) -> Dial:
        self.dialed.append(done)
        return Still()  # type: ignore[return-value]

    def sending(self) -> None:
        self.now_ns += self.gives_way_ns

    def heard(self, flight: Flight) -> None:
        assert flight is self.flight

    def ended(self, flight: Flight) -> None:
        self.outcomes.append(flight.outcome())
        self.followed.append(flight.follow())

    def wait_until_it_ends(self) -> None:
        while not self.outcomes:
            self.now_ns = max(self.now_ns, self.flight.due_ns)
            self.flight.check(self.now_ns)


def test_what_gives_way_to_others_is_not_in_the_time_of_the_answer() -> None:
    owner = Owner()
    owner.gives_way_ns = 70_000
    owner.flight.start()
    owner.flight._send_on(Wire(), reused=False)  # type: ignore[arg-type]
    owner.wait_until_it_ends()
    outcome = owner.outcomes[0]
    assert (outcome.connected_ns, outcome.sent_ns) == (0, 70_000)


class Still:
    """A dial that goes on for ever."""

    def start(self) -> None:
        """Nothing comes of it."""

    def cancel(self) -> None:
        """Nothing to give up."""


def fly(sent_s: float | None, reads_s: list[float]) -> Outcome:
    """Send and hear at these times; then let time pass until something ends it."""
    owner = Owner()
    owner.flight.start()
    if sent_s is not None:
        owner.now_ns = round(sent_s * NS)
        owner.flight._send_on(Wire(), reused=False)  # type: ignore[arg-type]
    for number, at_s in enumerate(reads_s):
        owner.now_ns = round(at_s * NS)
        owner.flight.received(TOKEN if number else HEAD, owner.now_ns, kernel=True)
    owner.wait_until_it_ends()
    return owner.outcomes[0]


@pytest.mark.parametrize(
    ("sent_s", "reads_s", "end_s", "phase"),
    [
        (None, [], 5.0, "connect"),
        (4.0, [], 34.0, "first byte"),
        (4.0, [33.0], 40.0, "between bytes"),
        (1.0, [2.0, 8.0, 14.5, 20.0], 27.0, "between bytes"),
        (1.0, [2.0 + 6 * n for n in range(16)] + [98.0], 100.0, "total"),
    ],
)
def test_the_first_deadline_that_passes_ends_it(
    sent_s: float | None, reads_s: list[float], end_s: float, phase: str
) -> None:
    outcome = fly(sent_s, reads_s)
    assert outcome.status == "timeout"
    assert outcome.error is not None
    assert outcome.error.split(":")[0] == phase
    assert outcome.end_ns == end_s * NS
    assert outcome.sent_ns == (None if sent_s is None else sent_s * NS)
    assert len(outcome.at_ns) // 8 == max(len(reads_s) - 1, 0)


def started(wire: Wire, kept: bool = True) -> Owner:
    """A flight on this connection, its request written."""
    owner = Owner()
    if kept:
        owner.idle.append(wire)
    owner.flight.start()
    if not kept:
        owner.flight._send_on(wire, reused=False)  # type: ignore[arg-type]
    return owner


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def test_the_answer_is_handed_over_at_done_and_the_connection_at_the_end_of_the_body() -> None:
    wire = Wire()
    owner = started(wire)
    owner.flight.written()
    owner.flight.received(CHUNKED + chunk(TOKEN + DONE), 1, kernel=True)
    assert [outcome.end_ns for outcome in owner.outcomes] == [1]
    assert owner.followed == [True]
    assert owner.kept == []
    assert not owner.flight.done(2)
    owner.flight.received(b"0\r\n\r\n", 2, kernel=True)
    assert owner.kept == [wire]
    assert owner.flight.done(3)
    assert wire.open


def test_a_body_that_never_ends_costs_the_connection() -> None:
    wire = Wire()
    owner = started(wire)
    owner.flight.written()
    owner.flight.received(CHUNKED + chunk(TOKEN + DONE), 1, kernel=True)
    assert not owner.flight.done(DRAIN_NS)
    assert owner.flight.done(1 + DRAIN_NS)
    assert not wire.open
    assert owner.kept == []


@pytest.mark.parametrize(
    ("wrote", "kept", "again"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_only_a_kept_connection_that_took_nothing_is_replaced(
    wrote: bool, kept: bool, again: bool
) -> None:
    wire, fresh = Wire(), Wire()
    owner = started(wire, kept)
    wire.wrote = wrote
    owner.idle.append(fresh)
    owner.flight.lost(ConnectionResetError(104, "reset"))
    assert fresh.sent == ([b"POST"] if again else [])
    assert [outcome.status for outcome in owner.outcomes] == ([] if again else ["truncated"])
    assert wire.open is False


def test_an_answer_before_the_request_is_written_ends_the_connection() -> None:
    wire = Wire()
    owner = started(wire)
    owner.flight.received(b"HTTP/1.1 413 x\r\nContent-Length: 3\r\n\r\nbig", 5, kernel=True)
    assert [(o.status, o.body_sent_ns) for o in owner.outcomes] == [("http_status", None)]
    assert not wire.open
