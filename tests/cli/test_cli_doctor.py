"""`doctor` on a log, on a point that did not start, on a run, and on what is none of these."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, call

from inferometer.analyze.verdict_load import ttft_for_lag_ms
from inferometer.cli import clientdoctor
from inferometer.engine.nullplan import Timetable
from inferometer.run.clientcheck import Level, Step, faults


def test_a_log_with_a_known_failure(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("01-02 03:04:05 Starting to load model\nCUDA out of memory. Tried 2 GiB\n")
    said = call("doctor", log)
    assert said.code == 0
    assert "loading weights after 0 s of log (line 1)" in said.out
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


def test_the_kept_end_of_a_long_log_and_the_logs_beside_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert call("predict", *SMALL, "--out", run).code == 0
    point = next((run / "points").iterdir())
    (point / "result.json").unlink()
    (point / "failure.json").write_text('{"format": 1, "error": "the engine ended"}')
    (point / "server.log").write_text("server is listening on x\n")
    (point / "server.tail.log").write_text("CUDA out of memory. Tried 2 GiB\n")
    (point / "router.log").write_text("[Errno 98] Address already in use\n")
    (point / "cache.log").write_text("KeyError: 'x'\n")
    said = call("doctor", point).out
    assert "failure: out of GPU memory (line 2): CUDA out of memory" in said
    assert "router, 1 lines\n    failure: port taken" in said
    assert "cache, 1 lines\n    no known failure; the last lines:\n      KeyError: 'x'" in said
    assert "failure: out of GPU memory (line 2)" in call("doctor", point / "server.log").out
    found = json.loads(call("doctor", point, "--format", "json").out)
    assert sorted(found["beside"]) == ["cache", "router"]


def test_an_engine_that_served_and_ended_by_itself_shows_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("server is listening on x\nTraceback (most recent call last):\nKeyError: 'x'\n")
    assert "no known failure; the last lines:" in call("doctor", log).out
    log.write_text("server is listening on x\nINFO done\n")
    assert "last lines" not in call("doctor", log).out


def test_the_cause_stands_first_and_what_followed_has_no_advice(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    died = "RuntimeError: Engine core initialization failed. See root cause above.\n"
    log.write_text(f"10:00:00 Starting to load model\nCUDA out of memory. Tried 2 GiB\n{died}")
    said = call("doctor", log).out.splitlines()
    assert said[2].startswith("    failure: out of GPU memory (line 2)")
    assert said[4].startswith("    and then: worker died (line 3)")
    assert "loading weights" in said[5]


def test_a_line_that_does_not_say_why_has_the_exception_beside_it(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "KeyError: 'frob'\nERROR 01-02 10:00:00 [core.py:1] EngineCore failed to start.\n"
    )
    said = call("doctor", log).out
    assert "failure: worker died (line 2)" in said
    assert "that line does not say why" in said
    assert "\n      KeyError: 'frob'" in said


def test_an_empty_log_says_so(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"")
    said = call("doctor", log)
    assert (said.code, said.out.splitlines()[1:]) == (0, ["  log: empty"])


def test_what_is_none_of_these(tmp_path: Path) -> None:
    assert call("doctor", tmp_path / "no").code == 2
    said = call("doctor", tmp_path)
    assert said.code == 2
    assert "neither a run, nor a point of one, nor a log" in said.err


TINY = [Step(2, 2, Timetable(ttft_ns=5_000_000, gap_ns=2_000_000, chunks=10))]


@pytest.mark.sockets
def test_the_client_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clientdoctor, "QUICK", TINY)
    said = call("doctor", "client", "--quick", "--format", "json")
    found = json.loads(said.out)
    assert found["name"] == "client"
    assert [level["ok"] for level in found["levels"]] == [4]
    assert found["trusted_streams"] in (None, 2)
    assert said.code == (5 if found["trusted_streams"] is None else 0)


@pytest.mark.sockets
def test_the_client_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clientdoctor, "FULL", TINY)
    said = call("doctor", "client")
    assert said.code in (0, 5)
    assert said.out.splitlines()[0].split()[0] == "streams"
    assert "trusted" in said.out


def level(streams: int, **changes: Any) -> Level:
    """Within every bound but for the changes."""
    lag_ms = changes.pop("lag_ms", 1.0)
    made = Level(
        streams=streams,
        workers=1,
        requests=streams,
        ok=streams,
        failure=None,
        chunks_per_s=40.0 * streams,
        cpu_us_per_chunk=20.0,
        first_error_p50_us=8.0,
        first_error_p99_us=60.0,
        last_error_p50_us=8.0,
        last_error_p99_us=60.0,
        coalesced_share=0.01,
        coalesced_first_share=0.0,
        schedule_lag_p50_ms=lag_ms / 2,
        schedule_lag_ms=lag_ms,
        schedule_lag_percent=99,
        trusted_from_ttft_ms=ttft_for_lag_ms(lag_ms),
        loop_lag_p99_ms=2.0,
        busiest_cpu_share=0.1,
        kernel_stamps=True,
        server_late_p99_ms=1.0,
        faults=(),
    )
    made = replace(made, **changes)
    return replace(made, faults=tuple(faults(made)))


def test_each_level_says_from_which_ttft_on_it_is_trusted() -> None:
    levels = [level(1), level(64, lag_ms=3.1), level(1000, lag_ms=30.0, first_error_p99_us=2e3)]
    said = list(clientdoctor.lines(levels))
    assert max(map(len, said)) <= 100
    assert said[5:-2] == [
        "trusted for any TTFT at 1 stream, 40 chunks/s",
        "trusted for TTFT above 310 ms at 64 streams, 2,560 chunks/s",
        "not trusted at 1,000 streams, 40,000 chunks/s:",
        "    first tokens are off by 2.00 ms (p99; bound 1 ms)",
    ]


def test_a_client_that_is_trusted_nowhere_has_an_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Level] = [level(16, lag_ms=200.0)]
    monkeypatch.setattr(clientdoctor, "examine", lambda *_: found)
    said = call("doctor", "client")
    assert said.code == 5
    assert "not trusted at any level measured" in said.out
    assert "not trusted on this machine" in said.err
    found[0] = level(16, lag_ms=90.0)
    said = call("doctor", "client")
    assert said.code == 0
    assert "trusted for TTFT above 9,000 ms at 16 streams" in said.out


def test_a_file_called_client_and_quick_of_no_client(tmp_path: Path) -> None:
    log = tmp_path / "client"
    log.write_text("[Errno 98] Address already in use\n")
    assert "failure: port taken" in call("doctor", log).out
    said = call("doctor", log, "--quick")
    assert said.code == 2
    assert "--quick goes only with" in said.err
