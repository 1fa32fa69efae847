"""Live replies and the table of sessions, by the command line, in virtual time."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import orjson
import pytest
from command_line import Said, call

from inferometer.store import RunDir

CHAT = ("predict", "--workload", "chat:turns=4,isl=200,osl=30", "--concurrency", "2")
LENGTH = ("--duration", "10", "--seed", "3")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, call(*CHAT, *LENGTH, "--replies", "live", "--out", out, "--format", "json")


def test_a_live_replay_says_so_and_caches_what_it_sent(live: tuple[Path, Said]) -> None:
    out, said = live
    result = orjson.loads(said.out)
    metrics = result["metrics"]
    assert "live" in result["verdict"]["labels"]
    assert result["point"]["scenario"] == {"family": "chat"}
    assert (metrics["live_turn_share"], metrics["live_reply_share"]) == (
        pytest.approx(0.75, abs=0.05),
        pytest.approx(1, abs=0.01),
    )
    # The built-in engine says as much as it is asked to: a chat's context is as it was drawn.
    assert metrics["context_drift_share"] == metrics["input_mismatch"] == 0
    # Its pool holds all of it, so what it found is what theory says of what was really sent.
    assert metrics["cached_share"] == pytest.approx(metrics["theoretical_prefix_hit"], abs=0.005)
    assert metrics["theoretical_prefix_hit_engine"] == metrics["theoretical_prefix_hit"]
    assert metrics["engine_kv_pool_tokens"] > 1_000_000
    (folder,) = RunDir(out).finished()
    assert folder.launch().plan.workload.replies == "live"
    records = folder.records()
    assert {record.threading is not None for record in records} == {True}


def test_two_live_predictions_are_the_same(live: tuple[Path, Said], tmp_path: Path) -> None:
    again = call(*CHAT, *LENGTH, "--replies", "live", "--out", tmp_path / "b", "--format", "json")
    first, second = orjson.loads(live[1].out), orjson.loads(again.out)
    assert first["metrics"] == second["metrics"]
    assert first["digest"] == second["digest"]


def test_canned_is_the_default(tmp_path: Path) -> None:
    results = [
        orjson.loads(
            call(
                *CHAT,
                "--duration",
                "2",
                "--seed",
                "3",
                *more,
                "--out",
                tmp_path / name,
                "--format",
                "json",
            ).out
        )
        for name, more in (("a", ()), ("b", ("--replies", "canned")))
    ]
    assert results[0]["digest"] == results[1]["digest"]
    assert "live_turn_share" not in results[0]["metrics"]


def test_live_needs_later_turns_and_text() -> None:
    fixed = call("predict", "--replies", "live", "--concurrency", "1")
    assert fixed.code == 2
    assert "workload.replies: no later turn in fixed lengths" in fixed.err


def test_sessions_are_shown_a_row_each(live: tuple[Path, Said]) -> None:
    out, _ = live
    rows = [
        orjson.loads(line)
        for line in call("show", out, "--sessions", "--format", "json").out.splitlines()
    ]
    assert len(rows) > 10
    assert {row["point"] for row in rows} == {"predict_chat_tp8_c2"}
    (folder,) = RunDir(out).finished()
    records = folder.records()
    for row in rows:
        mine = [r for r in records if r.request_id.startswith(row["records"] + "-")]
        assert len(mine) == row["requests"]
        assert {r.session for r in mine} == {row["session"]}
        assert row["makespan_s"] >= row["critical_path_s"] > 0
    told = csv.DictReader(io.StringIO(call("show", out, "--sessions", "--format", "csv").out))
    assert [row["records"] for row in told] == [row["records"] for row in rows]
    table = call("show", out, "--sessions", "--point", "*_c2").out
    assert rows[0]["session"] in table
    assert "critical path s" in table


def test_a_table_of_sessions_of_nothing_is_a_mistake(live: tuple[Path, Said]) -> None:
    out, _ = live
    none = call("show", out, "--sessions", "--point", "predict_chat_tp8_c3")
    assert none.code == 2
    assert "did you mean 'predict_chat_tp8_c2'?" in none.err
    assert call("show", out, "--point", "x").code == 2
