"""What the client says of itself against a server that only writes: true, and worse when it is."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferometer.analyze.verdict_load import schedule_lag_bound_ms, ttft_for_lag_ms
from inferometer.engine.nullplan import Timetable
from inferometer.errors import InputError
from inferometer.observe.processes import family
from inferometer.run import clientcheck
from inferometer.run.clientcheck import Level, Step, examine, faults, trusted

GOOD = Level(
    streams=16,
    workers=1,
    requests=32,
    ok=32,
    failure=None,
    chunks_per_s=800.0,
    cpu_us_per_chunk=20.0,
    first_error_p50_us=8.0,
    first_error_p99_us=60.0,
    last_error_p50_us=8.0,
    last_error_p99_us=60.0,
    coalesced_share=0.01,
    coalesced_first_share=0.0,
    schedule_lag_p50_ms=0.5,
    schedule_lag_ms=1.0,
    schedule_lag_percent=90,
    trusted_from_ttft_ms=0.0,
    loop_lag_p99_ms=2.0,
    busiest_cpu_share=0.1,
    kernel_stamps=True,
    server_late_p99_ms=1.0,
    faults=(),
)


def quiet(_: str) -> None:
    """Nobody is told."""


@pytest.mark.sockets
def test_every_answer_is_followed_and_held_against_the_write() -> None:
    table = Timetable(ttft_ns=5_000_000, gap_ns=2_000_000, chunks=20)
    levels = examine([Step(1, 2, table), Step(3, 2, table)], quiet)
    assert [(level.streams, level.ok, level.requests) for level in levels[:1]] == [(1, 2, 2)]
    for level in levels:
        assert level.ok == level.requests == level.streams * 2
        assert level.first_error_p50_us is not None
        assert level.first_error_p50_us > 0
        assert level.last_error_p99_us is not None
        assert level.schedule_lag_p50_ms is not None
        assert level.schedule_lag_p50_ms > 0
        assert 0 <= level.coalesced_share <= 1


@contextlib.contextmanager
def slowed_workers() -> Iterator[None]:
    """Every worker below this process runs a few ms, then stands still for eight gaps."""
    over = threading.Event()

    def disturb() -> None:
        while not over.wait(0.005):
            pids = workers()
            for pid in pids:
                _signal(pid, signal.SIGSTOP)
            over.wait(0.16)
            for pid in pids:
                _signal(pid, signal.SIGCONT)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def workers() -> list[int]:
    """The workers among the descendants of this process."""
    found = []
    for pid in family({os.getpid()}):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            if b"inferometer.load.worker" in words and int(parent) == os.getpid():
                found.append(pid)
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.mark.sockets
def test_a_slowed_client_is_reported_as_worse() -> None:
    plan = [Step(8, 2, Timetable(ttft_ns=20_000_000, gap_ns=20_000_000, chunks=30))]
    (as_it_is,) = examine(plan, quiet)
    with slowed_workers():
        (slowed,) = examine(plan, quiet)
    assert slowed.coalesced_share > as_it_is.coalesced_share
    assert slowed.loop_lag_p99_ms is not None
    assert slowed.loop_lag_p99_ms > 100
    assert any("first tokens are off" in fault for fault in slowed.faults)
    assert trusted([slowed]) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ok": 31}, "1 of 32 requests failed"),
        ({"ok": 31, "failure": "cannot connect"}, "1 of 32 requests failed: cannot connect"),
        ({"kernel_stamps": False}, "no kernel stamps"),
        ({"first_error_p99_us": 1500.0}, "off by 1.50 ms"),
        ({"coalesced_first_share": 0.6}, "60% of first tokens"),
        (
            {"schedule_lag_ms": 120.0, "trusted_from_ttft_ms": 12_000.0},
            "late by 120 ms (p90), 1 % of a TTFT of 12 s",
        ),
        ({"loop_lag_p99_ms": 250.0}, "loop is late by 250 ms"),
        ({"busiest_cpu_share": 0.95}, "95% of a core"),
    ],
)
def test_each_bound_is_said(change: dict[str, Any], said: str) -> None:
    assert list(faults(GOOD)) == []
    found = list(faults(replace(GOOD, **change)))
    assert len(found) == 1
    assert said in found[0]


@pytest.mark.parametrize("lag_ms", [0.1, 2.0, 2.1, 3.1, 40.0, 1e3])
def test_a_lag_is_trusted_from_the_ttft_on_at_which_a_verdict_allows_it(lag_ms: float) -> None:
    floor_ms = ttft_for_lag_ms(lag_ms)
    assert lag_ms <= schedule_lag_bound_ms(floor_ms) * (1 + 1e-9)
    if floor_ms:
        assert lag_ms > schedule_lag_bound_ms(floor_ms * 0.99)
    else:
        assert lag_ms <= 2.0


def test_without_kernel_stamps_a_loop_may_not_be_late_by_a_gap() -> None:
    late = replace(GOOD, loop_lag_p99_ms=25.0)
    assert list(faults(late)) == []
    said = list(faults(replace(late, kernel_stamps=False)))
    assert [fault.split(",")[0] for fault in said] == [
        "arrivals have no kernel stamps: whatever delays the client delays them too",
        "a worker's loop is late by 25 ms (p99; bound 20 ms)",
    ]


@pytest.mark.sockets
def test_levels_beyond_the_limit_of_open_files_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    monkeypatch.setattr(clientcheck, "PATIENCE", 1e6)
    table = Timetable(ttft_ns=5_000_000, gap_ns=2_000_000, chunks=3)
    told: list[str] = []
    levels = examine([Step(1, 2, table), Step(19, 2, table)], told.append)
    assert [level.streams for level in levels] == [1]
    assert told[-1].startswith("19 streams are left out: a concurrency of 19 may need 102 open")
    with pytest.raises(InputError, match="the limit is 100"):
        examine([Step(19, 2, table)], told.append)


def test_what_is_trusted_ends_below_the_first_fault() -> None:
    bad = replace(GOOD, streams=64, faults=("late",))
    high = replace(GOOD, streams=256)
    assert trusted([GOOD, bad, high]) == GOOD
    assert trusted([GOOD, high]) == high
    assert trusted([bad, high]) is None
    assert trusted([]) is None
