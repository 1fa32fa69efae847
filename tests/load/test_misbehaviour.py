"""Every way in which the truthserver misbehaves, alone and in pairs: class, counts and times.

Each stream is compared with the server's own log by `truthcheck.judge`; that the comparison can
fail is shown with faults put into records that were right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from loopback import SETTINGS, SETTLED_S, make_request, make_transport, stamping
from truthcheck import (
    BROKEN,
    CLOCKS_NS,
    DIED,
    ENDED,
    NO_TOKEN,
    NS,
    Case,
    check_times,
    drawn,
    judge,
)

from inferometer.core import Arrivals, Exchange, Request, Status
from inferometer.load.endpoints import ENDPOINTS
from inferometer.load.worker import FEW_FLIGHTS
from referee import Referee, Truth, build_referee, running_referee

pytestmark = pytest.mark.sockets

EACH = 2
"""Requests of one case, together."""
LIMIT_S = 2.0
"""Deadline of streams that stall. No other pause of the server is nearly as long."""

SILENT = "between bytes: nothing came for 2 s"

ALONE = [
    Case("n=8"),
    Case("role=0"),
    Case("think=3"),
    Case("think=8"),
    Case("tool=3"),
    Case("tool=8"),
    Case("crlf=1"),
    Case("nospace=1"),
    Case("comment=1"),
    Case("split=1"),
    Case("split=50"),
    Case("batch=4"),
    Case("batch=99"),
    Case("usage=0"),
    Case("usage=2"),
    Case("done=0"),
    Case("err=0", Status.IN_BAND, 0, DIED),
    Case("err=3", Status.IN_BAND, 3, DIED),
    Case("err=8", Status.IN_BAND, 8, DIED),
    Case("drop=0", Status.TRUNCATED, 0, ENDED),
    Case("drop=4", Status.TRUNCATED, 4, ENDED),
    Case("drop=8", Status.TRUNCATED, 8, ENDED),
    Case("empty=1", Status.EMPTY, 0, NO_TOKEN),
    Case("n=0", Status.EMPTY, 0, NO_TOKEN),
    Case("status=400", Status.HTTP_STATUS, 0, "^HTTP 400: .*asked to fail"),
    Case("status=404", Status.HTTP_STATUS, 0, "^HTTP 404: "),
    Case("status=429", Status.HTTP_STATUS, 0, "^HTTP 429: "),
    Case("status=500", Status.HTTP_STATUS, 0, "^HTTP 500: "),
    Case("status=503", Status.HTTP_STATUS, 0, "^HTTP 503: "),
    Case("bad=0", Status.MALFORMED, 0, BROKEN),
    Case("bad=5", Status.MALFORMED, 5, BROKEN),
]

STALLS = [
    Case("stall=0", Status.TIMEOUT, 0, SILENT),
    Case("stall=2", Status.TIMEOUT, 2, SILENT),
    Case("stall=8", Status.TIMEOUT, 8, SILENT),
    Case("stall=2+role=0+usage=2", Status.TIMEOUT, 2, SILENT),
    Case("stall=3+split=9", Status.TIMEOUT, 3, SILENT),
    Case("stall=6+batch=4", Status.TIMEOUT, 4, SILENT, held=2),
]

PAIRS = [
    Case("split=7+crlf=1"),
    Case("split=1+comment=1"),
    Case("split=3+usage=2+k=2"),
    Case("split=5+nospace=1+crlf=1"),
    Case("split=11+batch=4"),
    Case("split=2+done=0"),
    Case("split=1+err=3", Status.IN_BAND, 3, DIED),
    Case("split=50+drop=3+itl=60", Status.TRUNCATED, 3, ENDED),  # a reset discards what waits
    Case("split=1+bad=3", Status.MALFORMED, 3, BROKEN),
    Case("batch=3+usage=2+k=3"),
    Case("batch=4+think=2"),
    Case("batch=4+comment=1+crlf=1"),
    Case("batch=4+err=6", Status.IN_BAND, 6, DIED),
    Case("batch=4+drop=6", Status.TRUNCATED, 4, ENDED, held=2),
    Case("batch=4+bad=2", Status.MALFORMED, 2, BROKEN),
    Case("think=3+tool=3+usage=2"),
    Case("think=3+err=3", Status.IN_BAND, 3, DIED),
    Case("tool=4+usage=2"),
    Case("tool=4+done=0+usage=0"),
    Case("role=0+empty=1", Status.EMPTY, 0, NO_TOKEN),
    Case("role=1+empty=1+usage=0+done=0", Status.EMPTY, 0, NO_TOKEN),
    Case("role=0+think=8+nospace=1"),
    Case("role=0+drop=0", Status.TRUNCATED, 0, ENDED),
    Case("done=0+usage=0"),
    Case("done=0+usage=2"),
    Case("done=0+drop=5", Status.TRUNCATED, 5, ENDED),
    Case("done=0+crlf=1+comment=1"),
    Case("usage=2+err=4", Status.IN_BAND, 4, DIED),
    Case("usage=2+drop=4", Status.TRUNCATED, 4, ENDED),
    Case("usage=2+bad=4", Status.MALFORMED, 4, BROKEN),
    Case("usage=0+err=2", Status.IN_BAND, 2, DIED),
    Case("usage=1+k=5+pt=4321"),
    Case("crlf=1+nospace=1+comment=1+usage=2"),
    Case("crlf=1+err=2", Status.IN_BAND, 2, DIED),
    Case("status=503+split=1", Status.HTTP_STATUS, 0, "^HTTP 503: "),
    Case("status=429+empty=1+done=0", Status.HTTP_STATUS, 0, "^HTTP 429: "),
]


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with stamping():
        yield build_referee(tmp_path_factory.mktemp("truthserver"))


@pytest.fixture
def referee(binary: Path, tmp_path: Path) -> Iterator[Referee]:
    with running_referee(binary, tmp_path / "truth.csv") as running:
        yield running


def send(url: str, cases: Sequence[Case], in_turn: bool = False, **changes: Any) -> list[Exchange]:
    """One request a case, all at once or in turn; the n-th has the id `r<n>`."""
    settings = replace(SETTINGS, usage_every_chunk=True, **changes)

    def encode(request: Request) -> bytes:
        return ENDPOINTS["chat"].body(cases[int(request.id[1:])].model, "hello", request, settings)

    async def every() -> list[Exchange]:
        transport = make_transport(url, encode=encode, usage_every_chunk=True, **changes)
        sends = [transport.send(make_request(f"r{n}")) for n in range(len(cases))]
        try:
            if in_turn:
                exchanges = []
                for one in sends:
                    exchanges.append(await one)
                    await asyncio.sleep(SETTLED_S)
                return exchanges
            return await asyncio.gather(*sends)
        finally:
            await transport.close()

    return asyncio.run(every())


def judge_all(referee: Referee, cases: Sequence[Case], exchanges: Sequence[Exchange]) -> None:
    referee.settle()
    truths = referee.stop()
    for number, (case, exchange) in enumerate(zip(cases, exchanges, strict=True)):
        judge(case, exchange, truths.get(f"r{number}"))


@pytest.mark.parametrize("case", [*ALONE, *PAIRS], ids=lambda case: case.plan)
def test_misbehaviour(referee: Referee, case: Case) -> None:
    exchanges = send(referee.url, [case] * EACH)
    assert [exchange.status for exchange in exchanges] == [case.status] * EACH
    judge_all(referee, [case] * EACH, exchanges)


def test_all_of_them_at_once(referee: Referee) -> None:
    """More than a worker needs to gather streams: the same answers by the way of many."""
    cases = [*ALONE, *PAIRS, *ALONE, *PAIRS]
    assert len(cases) > 2 * FEW_FLIGHTS
    exchanges = send(referee.url, cases)
    assert len(exchanges) == len(cases)
    judge_all(referee, cases, exchanges)


@pytest.mark.parametrize("seed", range(4))
def test_any_of_them_together(referee: Referee, seed: int) -> None:
    random = Random(seed)
    cases = [drawn(random) for _ in range(40)]
    exchanges = send(referee.url, cases)
    assert len({exchange.status for exchange in exchanges}) > 4
    judge_all(referee, cases, exchanges)


def test_streams_that_stall_meet_the_deadline_between_bytes(referee: Referee) -> None:
    """Watched alone and gathered; the deadline counts from the last byte that came."""
    cases = STALLS * (1 + FEW_FLIGHTS // len(STALLS))
    exchanges = [
        *send(referee.url, STALLS, between_bytes_timeout_s=LIMIT_S),
        *send(referee.url, cases, between_bytes_timeout_s=LIMIT_S),
    ]
    for case, exchange in zip([*STALLS, *cases], exchanges, strict=True):
        last = max(exchange.first_byte_ns or 0, *exchange.arrivals.at_ns.tolist(), 0)
        assert exchange.end_ns - last >= LIMIT_S * NS, case.plan
    referee.settle()
    truths = referee.stop()  # an id was used twice: the later stream has its line
    for number, case in enumerate(cases):
        judge(case, exchanges[len(STALLS) + number], truths[f"r{number}"])


def test_a_stalled_stream_meets_the_total_deadline_though_bytes_came(referee: Referee) -> None:
    case = Case("stall=2+comment=1", Status.TIMEOUT, 2, "total: not complete within 2 s")
    exchanges = send(referee.url, [case] * EACH, total_timeout_s=LIMIT_S)
    assert [exchange.status for exchange in exchanges] == [Status.TIMEOUT] * EACH
    judge_all(referee, [case] * EACH, exchanges)


def test_which_failures_leave_the_connection_to_be_used_again(referee: Referee) -> None:
    """A status with its whole body does; an answer that broke off inside a stream does not."""
    busy = Case("status=503", Status.HTTP_STATUS, 0, "^HTTP 503: ")
    died = Case("err=1", Status.IN_BAND, 1, DIED)
    broken = Case("bad=1", Status.MALFORMED, 1, BROKEN)
    cases = [busy, busy, Case("n=2+ttft=1"), died, busy, broken, busy]
    exchanges = send(referee.url, cases, in_turn=True)
    reused = [exchange.reused_connection for exchange in exchanges]
    assert reused[:3] == [False, True, True]
    assert [reused[4], reused[6]] == [False, False]
    judge_all(referee, cases, exchanges)


# The comparison itself.

Fault = Callable[[Exchange, Truth], Exchange]


def with_arrivals(exchange: Exchange, **changes: Any) -> Exchange:
    return replace(exchange, arrivals=replace(exchange.arrivals, **changes))


def moved(exchange: Exchange, by_ns: int, only: slice = slice(None)) -> Exchange:
    """A client whose stamps are off by so much, of these events or of all."""
    at_ns = exchange.arrivals.at_ns.copy()
    at_ns[only] += by_ns
    end_ns = max(exchange.end_ns, exchange.end_ns + by_ns)
    return replace(with_arrivals(exchange, at_ns=at_ns), end_ns=end_ns, first_visible_ns=at_ns[0])


def late(exchange: Exchange, truth: Truth) -> Exchange:
    return moved(exchange, truth.end_ns - truth.chunk_ns[0] + 2 * CLOCKS_NS)


def early(exchange: Exchange, truth: Truth) -> Exchange:
    return moved(exchange, -(int(exchange.arrivals.at_ns[-1]) - truth.chunk_ns[-1] + 2 * CLOCKS_NS))


def one_late(exchange: Exchange, truth: Truth) -> Exchange:
    """The third is stamped when the fourth had been written, and is not marked."""
    at_ns = exchange.arrivals.at_ns.copy()
    at_ns[2:] = np.maximum(at_ns[2:], truth.chunk_ns[3] + 2 * CLOCKS_NS)
    return with_arrivals(exchange, at_ns=at_ns, coalesced=None)


def disordered(exchange: Exchange, truth: Truth) -> Exchange:
    at_ns = exchange.arrivals.at_ns.copy()
    at_ns[3] = at_ns[4] + 1
    return with_arrivals(exchange, at_ns=at_ns)


def without(exchange: Exchange, index: int) -> Exchange:
    arrivals = exchange.arrivals
    keep = np.arange(len(arrivals)) != index
    tokens = None if arrivals.tokens is None else arrivals.tokens[keep]
    marks = None if arrivals.coalesced is None else arrivals.coalesced[keep]
    return replace(exchange, arrivals=Arrivals(arrivals.at_ns[keep], tokens, marks))


def twice(exchange: Exchange, truth: Truth) -> Exchange:
    at_ns = np.repeat(exchange.arrivals.at_ns, [1] * 7 + [2])
    return with_arrivals(exchange, at_ns=at_ns, coalesced=None)


FAULTS: dict[str, Fault] = {
    "stamps all chunks late": late,
    "stamps all chunks early": early,
    "stamps one chunk late and marks it not": one_late,
    "drops the first chunk": lambda exchange, _: without(exchange, 0),
    "drops the last chunk": lambda exchange, _: without(exchange, 7),
    "counts a chunk twice": twice,
    "counts a token too few": lambda exchange, _: replace(exchange, completion_tokens=7),
    "makes a success a failure": lambda exchange, _: replace(exchange, status=Status.TRUNCATED),
    "puts a stamp out of order": disordered,
    "sends before it says": lambda exchange, truth: replace(
        exchange, connected_ns=truth.request_ns, sent_ns=truth.request_ns + 2 * CLOCKS_NS
    ),
    "takes text for reasoning": lambda exchange, _: replace(exchange, first_visible_ns=None),
}


def test_the_comparison_finds_what_a_wrong_client_would_record(referee: Referee) -> None:
    case = Case("ttft=60+itl=20")
    (exchange,) = send(referee.url, [case])
    truth = referee.stop()["r0"]
    judge(case, exchange, truth)
    missed = [n for n, fault in FAULTS.items() if passes(case, fault(exchange, truth), truth)]
    assert missed == []


def passes(case: Case, exchange: Exchange, truth: Truth) -> bool:
    try:
        judge(case, exchange, truth)
    except AssertionError:
        return False
    return True


def test_the_comparison_finds_a_client_that_hides_a_failure(referee: Referee) -> None:
    case = Case("err=3", Status.IN_BAND, 3, DIED)
    (exchange,) = send(referee.url, [case])
    truth = referee.stop()["r0"]
    judge(case, exchange, truth)
    with pytest.raises(AssertionError):
        judge(case, replace(exchange, status=Status.OK, error=None), truth)
    with pytest.raises(AssertionError, match="the server knows nothing"):
        judge(case, exchange, None)


def test_the_comparison_finds_a_batch_that_is_not_marked(referee: Referee) -> None:
    case = Case("batch=4+itl=10")
    (exchange,) = send(referee.url, [case])
    truth = referee.stop()["r0"]
    judge(case, exchange, truth)
    with pytest.raises(AssertionError, match="is not marked"):
        judge(case, with_arrivals(exchange, coalesced=None), truth)


def test_a_relay_that_holds_chunks_back_is_seen_in_the_stamps(referee: Referee) -> None:
    """A client behind something slow is right about itself, and the server's log says otherwise."""
    case = Case("n=8+ttft=5+itl=5")

    async def main() -> Exchange:
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", referee.port)
            to_writer.write(await reader.readuntil(b"}"))
            to_writer.write(await reader.read(65_536))
            held = await to_reader.readuntil(b"0\r\n\r\n")
            to_writer.close()
            await asyncio.sleep(5 * CLOCKS_NS / NS)
            writer.write(held)
            writer.close()
            ended.set()

        relay = await asyncio.start_server(serve, "127.0.0.1", 0)
        transport = make_transport(
            f"http://127.0.0.1:{relay.sockets[0].getsockname()[1]}", case.model
        )
        try:
            exchange = await transport.send(make_request("r0"))
            await ended.wait()
            return exchange
        finally:
            await transport.close()
            relay.close()
            await relay.wait_closed()

    exchange = asyncio.run(main())
    assert (exchange.status, len(exchange.arrivals)) == (Status.OK, 8)
    truth = referee.stop()["r0"]
    with pytest.raises(AssertionError, match="after the stream had ended"):
        check_times(case, exchange, truth)
