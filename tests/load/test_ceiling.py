"""The measure of the client itself: what it carried, what it cost, how wrong its stamps were."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from inferometer.core import Exchange
from inferometer.load.ceiling import Load, carry, stamp_errors_ns, ttft_error_ns
from referee import build_referee, running_referee

pytestmark = pytest.mark.sockets


def test_a_load_is_carried_and_its_stamps_are_held_against_the_log(tmp_path: Path) -> None:
    load = Load(streams=3, requests=2, max_tokens=20, workers=1)
    with running_referee(build_referee(tmp_path), tmp_path / "truth.csv") as referee:
        carried = asyncio.run(carry(referee.url, "ttft=5+itl=2+n=20", load))
        truths = referee.stop()
    assert (carried.ok, carried.chunks) == (6, 120)
    assert carried.workers_cpu_s > 0
    assert carried.coordinator_cpu_s > 0
    for key, exchange in carried.exchanges.items():
        truth = truths[key]
        errors = stamp_errors_ns(exchange, truth.chunk_ns)
        assert errors.min() > -1_000_000
        assert ttft_error_ns(exchange, truth.request_ns, truth.chunk_ns[0]) > -1_000_000
        with pytest.raises(ValueError, match="20 chunks came of 19 written"):
            stamp_errors_ns(exchange, truth.chunk_ns[1:])


def test_what_is_handed_on_is_not_held(tmp_path: Path) -> None:
    kept: dict[str, Exchange] = {}
    load = Load(streams=1, requests=3, max_tokens=1, workers=1)
    with running_referee(build_referee(tmp_path), tmp_path / "truth.csv") as referee:
        carried = asyncio.run(carry(referee.url, "ttft=1+n=1", load, kept.__setitem__))
    assert set(kept) == {"0-0", "0-1", "0-2"}
    assert carried.exchanges == {}
