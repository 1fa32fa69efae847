"""Workers of the transport: ready, several, dead."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import closing

import pytest
from loopback import (
    Script,
    make_request,
    make_transport,
    with_script,
)
from replies import (
    HEAD,
    TOKEN,
    WHOLE,
    answers,
    chunk,
    holds,
)

from inferometer.core import Exchange, Status
from inferometer.load.crew import Crew

pytestmark = pytest.mark.sockets


def test_a_worker_that_dies_ends_its_requests_and_says_so() -> None:
    script = Script([])
    script.answers += [holds(script, HEAD + chunk(TOKEN)), answers(script, WHOLE)]
    told: list[str] = []

    async def main(url: str) -> list[Exchange]:
        with closing(Crew()) as crew:
            (worker,) = crew.muster(1)
            transport = make_transport(url, crew=crew)
            transport.on_fault = told.append
            sending = asyncio.ensure_future(transport.send(make_request("r0")))
            while not transport.tokens_seen:
                await asyncio.sleep(0.001)
            os.kill(worker.pid, signal.SIGKILL)
            exchanges = [await sending, await transport.send(make_request("r1"))]
            await transport.close()
            again = make_transport(url, crew=crew)  # the next point has a living one
            exchanges.append(await again.send(make_request("r2")))
            await again.close()
        return exchanges

    lost, after, revived = asyncio.run(with_script(script, main))
    assert told == ["a worker of the load ended by itself (exit code -9)"]
    assert (lost.status, lost.error) == (Status.CANCELLED, told[0])
    assert (after.status, after.error) == (Status.CANCELLED, "no worker is left")
    assert revived.status is Status.OK


def test_ready_is_when_every_worker_is_up_and_knows_the_server() -> None:
    script = Script([])
    script.answers.append(answers(script, WHOLE))

    async def main(url: str) -> list[Exchange]:
        with closing(Crew()) as crew:
            transport = make_transport(url, crew=crew, workers=2)
            await transport.ready()
            assert [len(account.pulses) for account in transport.accounts] == [1, 1]
            exchange = await transport.send(make_request("r0"))
            await transport.close()
        return [exchange]

    (exchange,) = asyncio.run(with_script(script, main))
    assert exchange.status is Status.OK


def test_ready_does_not_wait_for_the_dead_or_the_unknown(no_address: str) -> None:
    async def main() -> list[Exchange]:
        with closing(Crew()) as crew:
            (worker,) = crew.muster(1)
            os.kill(worker.pid, signal.SIGKILL)
            transport = make_transport("http://127.0.0.1:9", crew=crew)
            await transport.ready()
            await transport.close()
        unknown = make_transport(f"http://{no_address}")
        await unknown.ready()
        exchange = await unknown.send(make_request("r0"))
        await unknown.close()
        return [exchange]

    (exchange,) = asyncio.run(main())
    assert exchange.status is Status.CONNECT


def test_several_workers_share_the_load() -> None:
    script = Script([])
    script.answers += [answers(script, WHOLE), answers(script, WHOLE)]

    async def main(url: str) -> list[Exchange]:
        with closing(Crew()) as crew:
            transport = make_transport(url, crew=crew, workers=2)
            sends = (transport.send(make_request(f"r{n}")) for n in range(2))
            exchanges = await asyncio.gather(*sends)
            assert [account.finished_tokens for account in transport.accounts] == [2, 2]
            await transport.close()
        return exchanges

    exchanges = asyncio.run(with_script(script, main))
    assert [e.status for e in exchanges] == [Status.OK] * 2
