"""The deadlines of a request, in virtual time: which of them ends it, and exactly when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loopback import SETTINGS

from inferometer.clock import NS, VirtualClock, VirtualLoop, run_virtual
from inferometer.core import Exchange, Status
from inferometer.load.flight import Flight
from inferometer.load.stamps import Arrival

LIMITS = replace(
    SETTINGS,
    connect_timeout_s=5.0,
    first_byte_timeout_s=30.0,
    between_bytes_timeout_s=7.0,
    total_timeout_s=100.0,
)
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
TOKEN = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'


class Wire:
    """Stands for a connection: nothing comes but what the test hands over."""

    receiver: object = None
    floor_ns = 0
    at_end = False


def fly(sent_s: float | None, reads_s: list[float]) -> Exchange:
    """Send and hear at these times; then wait for what ends it."""
    loop = VirtualLoop()
    clock = VirtualClock(loop)

    async def main() -> Exchange:
        flight = Flight(LIMITS, clock, lambda events: None)
        if sent_s is not None:
            await clock.sleep_until(round(sent_s * NS))
            flight.start_on(Wire(), reused=False)  # type: ignore[arg-type]
        for number, at_s in enumerate(reads_s):
            await clock.sleep_until(round(at_s * NS))
            flight.received(TOKEN if number else HEAD, Arrival(clock.now_ns(), kernel=True))
        ending = await flight.ended
        flight.stop_watching()
        return flight.exchange(ending, ending.error)

    return run_virtual(main(), loop)


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
    exchange = fly(sent_s, reads_s)
    assert exchange.status is Status.TIMEOUT
    assert exchange.error is not None
    assert exchange.error.split(":")[0] == phase
    assert exchange.end_ns == pytest.approx(end_s * NS, abs=2)
    assert exchange.sent_ns == (None if sent_s is None else sent_s * NS)
    assert len(exchange.arrivals) == max(len(reads_s) - 1, 0)


def test_the_end_of_a_body_may_come_before_the_answer_is_taken() -> None:
    """[DONE] and the end of the body in two reads of one readiness: both are followed."""
    loop = VirtualLoop()
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def main() -> Flight:
        flight = Flight(LIMITS, VirtualClock(loop), lambda events: None)
        flight.start_on(Wire(), reused=False)  # type: ignore[arg-type]
        flight.body_sent_ns = 0
        body = TOKEN + b"data: [DONE]\n\n"
        flight.received(chunked + b"%x\r\n%b\r\n" % (len(body), body), Arrival(1, kernel=True))
        flight.received(b"0\r\n\r\n", Arrival(2, kernel=True))
        assert (await flight.ended).at_ns == 1
        flight.stop_watching()
        return flight

    flight = run_virtual(main(), loop)
    assert flight.ended_well
    assert flight.reply.connection_reusable
