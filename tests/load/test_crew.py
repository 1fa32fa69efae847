"""The coordinator's side of the workers: how many, what crosses, what a worker must not load."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from inferometer.load.crew import Crew
from inferometer.load.headcount import LANES_A_WORKER, workers_for
from inferometer.load.wire import Abort, FrameReader, FrameWriter, Post, Pulse
from inferometer.load.worker import Worker
from inferometer.load.worker_transport import Account


@pytest.mark.parametrize(
    ("lanes", "cores", "workers"),
    [
        (1, 1, 1),
        (1, 64, 1),
        (LANES_A_WORKER, 64, 1),
        (LANES_A_WORKER + 1, 64, 2),
        (LANES_A_WORKER + 1, 2, 1),
        (100 * LANES_A_WORKER, 16, 15),
    ],
)
def test_workers_by_need_and_cores(lanes: int, cores: int, workers: int) -> None:
    assert workers_for(lanes, cores) == workers


def test_a_worker_starts_without_what_only_analysis_needs() -> None:
    heavy = {"numpy", "duckdb", "pydantic", "plotly", "aiohttp", "asyncio", "inferometer.core"}
    code = "import sys, inferometer.load.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy & set(done.stdout.split()) == set()


def test_frames_cross_in_any_pieces() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        writer, reader = FrameWriter(ours), FrameReader(theirs)
        sent = [Post(1, b"x" * 3_000_000, 7), Abort(1, "cancelled"), Post(2, b"", 1)]
        writer.add(sent[:2])
        writer.add(sent[2:])
        got: list[object] = []
        while not writer.flush() or len(got) < 3:
            messages = reader.read()
            assert messages is not None
            got += messages
        assert got == sent
        ours.close()
        assert reader.read() is None


def test_a_crew_grows_and_ends_with_its_workers() -> None:
    with closing(Crew()) as crew:
        (first,) = crew.muster(1)
        both = crew.muster(2)
        assert both[0] is first
        assert crew.muster(1) == [first]
        pids = [end.pid for end in both]
    assert len(set(pids)) == 2
    for end in both:
        assert end.why_it_ended().endswith("(exit code 0)")


def test_a_worker_ends_when_its_coordinator_is_gone() -> None:
    crew = Crew()
    (end,) = crew.muster(1)
    end._sock.close()  # as a killed process's would be
    assert end._process.wait(20) == 0
    crew.close()


def test_what_is_sent_in_one_turn_of_the_loop_leaves_together() -> None:
    async def main() -> list[list[object]]:
        with closing(Crew()) as crew:
            (end,) = crew.muster(1)
            frames: list[list[object]] = []
            end.attach(lambda message: None, lambda dead: None)
            end._writer.add = frames.append  # type: ignore[method-assign, assignment]
            end.send(Abort(1, "cancelled"))
            end.send(Abort(2, "cancelled"))
            await asyncio.sleep(0)
            end.send(Abort(3, "cancelled"))
            await asyncio.sleep(0)
            end.detach()
        return frames

    assert [len(frame) for frame in asyncio.run(main())] == [2, 1]


def test_a_workers_account() -> None:
    account = Account()
    assert (account.tokens, account.peak_rss, account.cpu_share(0, 10)) == (0, 0, None)
    for at_s, cpu_s, tokens in ((1, 0.5, 10), (2, 0.75, 20), (3, 1.0, 30), (9, 9.0, 40)):
        at_ns = at_s * 10**9
        account.pulses.append(Pulse(at_ns, cpu_s, tokens, 5, [(at_ns, at_s * 10**6)]))
    assert account.cpu_share(10**9, 3 * 10**9) == pytest.approx(0.25)
    assert account.lags_ms(10**9, 3 * 10**9) == [1.0, 2.0]
    assert account.tokens == 40
    account.finished_tokens = 50
    assert account.tokens == 50, "outcomes that came after the last pulse count"


def test_an_idle_worker_that_something_wakes_was_not_late() -> None:
    # As by a server that closes a kept connection after its five seconds, for nobody to wait for.
    ours, theirs = socket.socketpair()
    worker = Worker(theirs)
    with theirs, worker._stamping:
        worker._probe_ns -= 5 * 10**9
        ours.close()
        worker.run()
    assert worker._lags_ns == []
