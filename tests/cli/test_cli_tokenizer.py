"""`bench --tokenizer` over real sockets: lengths by the server's count are those meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call

from inferometer.engine.process import Command, EngineProcess
from inferometer.store import RunDir
from referee import free_port


@pytest.mark.sockets
@pytest.mark.parametrize("ids", [False, True])
def test_a_bench_with_a_tokenizer_is_exact_on_the_built_in_engine(
    tmp_path: Path, ids: bool
) -> None:
    port = str(free_port())
    url = f"http://127.0.0.1:{port}"
    argv = ["inferometer", "engine", "simulated", "--port", port]
    argv += ["--model", "Qwen/Qwen3-8B", "--gpu", "h200"]
    words = ["--isl", "300", "--osl", "4", "--requests", "20", "--concurrency", "2", "--seed", "1"]
    words += ["--endpoint", "completions", "--token-ids"] if ids else []
    with EngineProcess(Command("engine", argv), tmp_path / "log", url) as engine:
        engine.wait_ready(60, lambda: None)
        said = call("bench", url, *words, "--tokenizer", "bundled", "--out", tmp_path / "run")
    assert said.code in (0, 5), said.err
    (folder,) = RunDir(tmp_path / "run").finished()
    result = folder.result()
    assert result.counts["ok"] == 20
    assert result.metrics["input_mismatch"] == 0
    assert not {"counters_disagree", "token_mismatch"} & {r.code for r in result.verdict.reasons}
    notes = folder.client().client.workload_notes
    assert (notes["tokenizer_agrees"], notes["template_tokens"]) == (1, 0)
    assert notes["prompts_below_template"] == 0
    records = folder.records()
    assert all(one.exchange.prompt_tokens == one.input_tokens for one in records)
