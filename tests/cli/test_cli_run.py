"""`run` where an engine cannot be started: what is said and kept, and that it is tried again."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from command_line import Said, call

pytestmark = pytest.mark.sockets

MASTER = """\
qwen:
  image: inferometer/simulated:0.1.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: simulated
  runner: sim-h200
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 256
      osl: 16
      search-space:
      - { tp: 1, conc-list: [1] }
"""
RUNNERS = """\
labels:
  sim-h200: [local]
hardware:
  cluster:sim-h200:
    available-cpu-dram-mib: 1_000_000
    gpus-per-node: 8
"""
POINT = "qwen_256_16_tp1_c1"


def run(folder: Path) -> Said:
    files = folder / "master.yaml", "--runners", folder / "runners.yaml"
    return call("run", *files, "--out", folder / "out")


def test_an_engine_that_does_not_start_ends_with_3_and_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "master.yaml").write_text(MASTER)
    (tmp_path / "runners.yaml").write_text(RUNNERS)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "wrong.yaml").write_text("- argv:\n    --max-num-seq: 8\n")
    said = run(tmp_path)
    assert said.code == 3
    why = (
        "the engine ended with exit code 2; its log ends: "
        "error: --max-num-seq: unknown flag; did you mean '--max-num-seqs'?"
    )
    assert f"    {POINT}: failed: {why} | error: 8: unexpected argument" in said.err
    assert said.out == f"not measured: {POINT}\n", "no head of a table without rows"
    point = tmp_path / "out" / "points" / POINT
    assert said.err.splitlines()[-1] == (
        f"error: 1 of 1 points could not be measured (why: {tmp_path}/out/points/POINT/"
        "failure.json); run again to try them again"
    )
    assert orjson.loads((point / "failure.json").read_bytes())["error"].startswith(why)
    again = run(tmp_path)
    assert again.code == 3
    assert f"[1/1] {POINT}" in again.err
    assert {path.name for path in point.parent.iterdir()} == {POINT, f"{POINT}.attempt-1"}
