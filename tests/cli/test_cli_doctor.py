"""`doctor` on a log, on a point that did not start, on a run, and on what is none of these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import SMALL, call

from inferometer.cli import clientdoctor
from inferometer.engine.nullplan import Timetable
from inferometer.run.clientcheck import Plan


def test_a_log_with_a_known_failure(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("01-02 03:04:05 Starting to load model\nCUDA out of memory. Tried 2 GiB\n")
    said = call("doctor", log)
    assert said.code == 0
    assert "loading weights after 0 s (line 1)" in said.out
    assert "failure: out of GPU memory (line 2): CUDA out of memory" in said.out


def test_a_log_as_json(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("[Errno 98] Address already in use\n")
    said = call("doctor", log, "--format", "json")
    assert json.loads(said.out)["log"]["failures"][0]["name"] == "port taken"


def test_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert call("predict", *SMALL, "--out", run).code == 0
    said = call("doctor", run)
    assert said.code == 0
    names = [line for line in said.out.splitlines() if not line.startswith(" ")]
    assert names == [path.name for path in sorted((run / "points").iterdir())]
    assert "advice, KV pool: the KV pool was at most" in said.out or "  valid" in said.out


def test_a_point_that_did_not_start(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert call("predict", *SMALL, "--out", run).code == 0
    point = next((run / "points").iterdir())
    (point / "result.json").unlink()
    (point / "failure.json").write_text('{"format": 1, "error": "the engine ended"}')
    (point / "server.log").write_text("KeyError: 'x'\n")
    said = call("doctor", point)
    assert "not measured: the engine ended" in said.out
    assert "no known failure; the last lines:\n      KeyError: 'x'" in said.out


def test_what_is_none_of_these(tmp_path: Path) -> None:
    assert call("doctor", tmp_path / "no").code == 2
    said = call("doctor", tmp_path)
    assert said.code == 2
    assert "neither a run, nor a point of one, nor a log" in said.err


TINY = Plan((2,), 2, Timetable(ttft_ns=5_000_000, gap_ns=2_000_000, chunks=10))


@pytest.mark.sockets
def test_the_client_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clientdoctor, "QUICK", TINY)
    said = call("doctor", "client", "--quick", "--format", "json")
    assert said.code == 0
    found = json.loads(said.out)
    assert found["name"] == "client"
    assert [level["ok"] for level in found["levels"]] == [4]
    assert found["trusted_streams"] in (None, 2)


@pytest.mark.sockets
def test_the_client_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clientdoctor, "FULL", TINY)
    said = call("doctor", "client")
    assert said.code == 0
    assert said.out.splitlines()[0].split()[0] == "streams"
    assert "trusted" in said.out


def test_a_file_called_client_and_quick_of_no_client(tmp_path: Path) -> None:
    log = tmp_path / "client"
    log.write_text("[Errno 98] Address already in use\n")
    assert "failure: port taken" in call("doctor", log).out
    said = call("doctor", log, "--quick")
    assert said.code == 2
    assert "--quick goes only with" in said.err
