"""A log kept in bounded space: what floods it, what cannot be written, and that an engine never
waits for either.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from inferometer.engine import capture
from inferometer.engine.capture import LogCapture
from inferometer.engine.process import Command, EngineProcess

FULL = Path("/dev/full")
NOBODY = "http://127.0.0.1:1"


def printed(log: Path, *pieces: bytes) -> LogCapture:
    """A capture of what an engine prints, which has ended."""
    kept = LogCapture(log)
    read_end, write_end = os.pipe()
    kept.start(read_end)

    def write() -> None:
        with os.fdopen(write_end, "wb") as pipe:
            for piece in pieces:
                pipe.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    writer.join(30)
    assert not writer.is_alive(), "the engine stands still"
    kept.finish(30)
    return kept


def test_a_flood_keeps_its_head_and_its_end_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "HEAD_BYTES", 1000)
    monkeypatch.setattr(capture, "TAIL_BYTES", 500)
    lines = [b"WARNING the same again, number %d\n" % number for number in range(2000)]
    kept = printed(tmp_path / "server.log", b"Starting to load model\n", *lines, b"the end\n")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"server.log", "server.tail.log", "server.tail.1.log"}
    assert 900 < sizes["server.log"] <= 1000
    assert max(sizes["server.tail.log"], sizes["server.tail.1.log"]) <= 500
    assert (tmp_path / "server.tail.log").read_bytes().endswith(b"number 1999\nthe end\n")
    report = kept.report()
    assert report.lines == 2002
    (flood,) = report.repeated
    assert (flood.text, flood.count) == ("WARNING the same again, number #", 2000)
    assert report.last == ("Starting to load model", "the end")[-len(report.last) :]
    assert kept.problem is None


def test_a_disk_that_is_full_loses_the_file_and_not_what_it_said(tmp_path: Path) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full")
    (tmp_path / "server.log").symlink_to(FULL)
    kept = printed(tmp_path / "server.log", b"Application startup complete\n", b"x\n" * 100_000)
    assert kept.problem == "the log could not be kept: No space left on device"
    assert kept.phase == "serving"
    assert kept.report().lines == 100_001


def test_a_file_that_cannot_be_made_is_no_fault_of_the_engines(tmp_path: Path) -> None:
    kept = printed(tmp_path / "gone" / "server.log", b"word\n" * 100_000)
    assert kept.problem == "the log could not be kept: No such file or directory"
    assert kept.report().lines == 100_000


def test_what_has_no_newline_is_taken_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "LINE_BYTES", 4096)
    asked: list[int] = []

    class Counting(LogCapture):
        def _keep(self, head: BinaryIO, line: bytes) -> None:
            asked.append(len(line))
            super()._keep(head, line)

    monkeypatch.setattr(f"{__name__}.LogCapture", Counting)
    bar = b"\r".join(b"loading %7d/9999999" % done for done in range(5000))
    printed(tmp_path / "server.log", bar)
    assert max(asked) == 4096
    assert (tmp_path / "server.log").read_bytes() == bar


def test_a_death_says_that_its_log_is_not_whole(tmp_path: Path) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full")
    (tmp_path / "server.log").symlink_to(FULL)
    command = Command("engine", ["/bin/sh", "-c", "echo farewell; exit 3"])
    with EngineProcess(command, tmp_path / "server.log", NOBODY) as engine:
        engine.log.finish(30)
        assert engine.last_words() == (
            "its log ends: farewell (the log could not be kept: No space left on device)"
        )
