"""The context limit of a predicted engine: by option, by model, and what it leaves out is told."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from command_line import call
from test_cli_mistakes import write

from inferometer.core import Origin, Result
from inferometer.store import PointDir, RunDir

DEPLOYMENT = ("--model", "Qwen/Qwen3-8B", "--gpu", "h200", "--tp", "1", "--concurrency", "1")
SMALL = (*DEPLOYMENT, "--warmup", "0", "--requests", "4")
OWN = 40_960
"""Tokens that the model is made for."""


def predicted(out: Path, *words: str | Path) -> tuple[Result, PointDir, str]:
    said = call("predict", *words, "--out", out)
    assert said.code in (0, 5), said.err
    (folder,) = RunDir(out).finished()
    return folder.result(), folder, " ".join(said.err.split())


def flag_of(folder: PointDir) -> tuple[str | None, Origin | None]:
    plan = folder.launch().plan
    if "--max-model-len" not in plan.argv:
        return None, None
    value = plan.argv[plan.argv.index("--max-model-len") + 1]
    return value, plan.origins.get("argv.--max-model-len")


def test_a_larger_limit_takes_what_the_model_would_not(tmp_path: Path) -> None:
    long = (*SMALL[:-1], "1", "--isl", "52000", "--osl", "2")
    result, folder, told = predicted(tmp_path / "more", *long, "--max-model-len", "60000")
    assert (result.counts["ok"], result.counts["context_overflows"]) == (1, 0)
    assert result.point.max_model_len == 60_000
    value, origin = flag_of(folder)
    assert (value, origin and origin.layer) == ("60000", "command line")
    assert told.startswith("warning: --max-model-len 60,000: Qwen/Qwen3-8B is made for 40,960 tok")
    assert "not sent" not in told


def test_a_limit_is_another_experiment(tmp_path: Path) -> None:
    words = (*SMALL, "--isl", "64", "--osl", "4")
    one, _, _ = predicted(tmp_path / "a", *words)
    other, _, told = predicted(tmp_path / "b", *words, "--max-model-len", "30000")
    assert one.digest != other.digest
    assert "warning" not in told


def sessions(path: Path, tokens: int) -> Path:
    """One session of two requests with 1,000 tokens, and one whose second has `tokens`."""
    files = path / "traces"
    files.mkdir()
    for name, second in (("a", 1_000), ("b", tokens)):
        requests = [
            {"t": 0, "in": 640, "out": 8, "hash_ids": list(range(10)), "api_time": 1, "type": "n"},
            {"t": 2, "in": second, "out": 8, "api_time": 1, "type": "n"},
        ]
        requests[1]["hash_ids"] = list(range(second // 64))
        session = {"id": name, "block_size": 64, "requests": requests, "hash_id_scope": "local"}
        (files / f"{name}.json").write_bytes(orjson.dumps(session))
    return files


def test_turns_of_sessions_are_told_before_and_after(tmp_path: Path) -> None:
    traces = sessions(tmp_path, 50_000)
    words = (*SMALL[:-2], "--requests", "6", "--workload", traces)
    result, _, told = predicted(tmp_path / "own", *words)
    assert result.counts["context_overflows"] > 0
    assert f"1 turns exceed {OWN:,} tokens, input and output together; they are not sent" in told
    assert f"not sent, nor what follows them: longer than the context limit of {OWN:,} tok" in told
    assert "--max-model-len sets another" in told
    result, _, told = predicted(tmp_path / "more", *words, "--max-model-len", "60000")
    assert result.counts["context_overflows"] == 0
    assert "not sent" not in told


@pytest.mark.parametrize(("limit", "overflows"), [("280", False), ("200", True)])
def test_points_of_config_files_take_it_too(limit: str, overflows: bool, tmp_path: Path) -> None:
    write(tmp_path)
    files = (tmp_path / "master.yaml", "--runners", tmp_path / "runners.yaml", "--conc", "1")
    result, folder, told = predicted(tmp_path / "run", *files, "--max-model-len", limit)
    assert result.point.max_model_len == int(limit)
    assert flag_of(folder)[0] == limit
    assert (result.counts["context_overflows"] > 0) == overflows
    assert ("not sent" in told) == overflows


@pytest.mark.parametrize("limit", ["0", "-1", "many", "99999999999"])
def test_what_is_no_limit(limit: str, tmp_path: Path) -> None:
    said = call("predict", *SMALL, "--max-model-len", limit, "--out", tmp_path / "run")
    assert said.code == 2
    assert "--max-model-len" in said.err
    assert not (tmp_path / "run").exists()
