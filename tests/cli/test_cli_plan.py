"""`plan`: what it prints in each form, what it warns of, and when it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Said, call

MASTER = """\
qwen:
  image: vllm/vllm-openai:v0.26.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: vllm
  runner: h200
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 8192
      osl: 1024
      search-space:
      - { tp: 4, conc-start: 4, conc-end: 64 }
      - { tp: 8, conc-list: [1, 2] }
"""
MULTI = """\
pools:
  image: vllm/vllm-openai:nightly-TBD
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: dynamo-vllm
  runner: h20
  kv-p2p-transfer: nixl
  multinode: true
  disagg: true
  scenarios:
    fixed-seq-len:
    - isl: 8192
      osl: 1024
      search-space:
      - conc-list: [64, 8]
        prefill: { num-worker: 1, tp: 4, ep: 4, dp-attn: true,
          additional-settings: ["DECODE_NODES=2"] }
        decode: { num-worker: 2, tp: 8, ep: 8, dp-attn: false }
"""
RUNNERS = """\
labels: { h200: [a] }
hardware: { h200: { available-cpu-dram-mib: 1_000_000, gpus-per-node: 8 } }
"""
RANGE = "qwen_8k1k_tp4_c"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.yaml").write_text(MASTER)
    (tmp_path / "two.yaml").write_text(MULTI)
    (tmp_path / "runners.yaml").write_text(RUNNERS)
    return tmp_path


def plan(folder: Path, *words: str, files: tuple[str, ...] = ("one.yaml",)) -> Said:
    return call("plan", *(folder / f for f in files), "--runners", folder / "runners.yaml", *words)


def objects(said: Said) -> list[dict[str, object]]:
    assert said.code == 0
    return [json.loads(line) for line in said.out.splitlines()]


def ids(folder: Path, *words: str) -> list[object]:
    return [found["id"] for found in objects(plan(folder, "--format", "json", *words))]


def test_the_table_counts(folder: Path) -> None:
    said = plan(folder, files=("one.yaml", "two.yaml"))
    assert said.code == 0
    lines = said.out.splitlines()
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines[3:5]]
    assert cells == [
        ["qwen", "h200", "8k1k", "TP4, TP8", "1..64", "4..8", "7", "7", "2"],
        ["pools", "h20", "8k1k", "P1xDEP4+D2xTEP8", "8..64", "20", "2", "1", "1"],
    ]
    assert lines[-1] == "2 configs, 9 points in 8 jobs, 3 evals"


def test_rows_of_inferencex(folder: Path) -> None:
    found = objects(plan(folder, "--format", "inferencex", files=("one.yaml", "two.yaml")))
    assert [row["conc"] for row in found] == [4, 8, 16, 32, 64, 1, 2, [64, 8]]
    assert [row["run-eval"] for row in found] == [False] * 3 + [True] * 2 + [False] * 2 + [True]
    assert found[-1]["prefill"] == {
        "additional-settings": ["DECODE_NODES=2"],
        "dcp-size": 1,
        "dp-attn": True,
        "ep": 4,
        "num-worker": 1,
        "pcp-size": 1,
        "pp": 1,
        "tp": 4,
    }
    assert found[-1]["eval-conc"] == 64


def test_json_has_a_point_a_line(folder: Path) -> None:
    first, last = objects(plan(folder, "--format", "json", files=("two.yaml",)))
    assert (first["gpus"], first["eval"], last["eval"]) == (20, True, False)
    assert str(first["id"]).startswith("pools_8k1k_p1xdep4ep4dpa_d2xtep8ep8_")
    point = first["point"]
    assert isinstance(point, dict)
    assert point["multi_node"]["prefill"]["settings"] == [["DECODE_NODES", "2"]]


@pytest.mark.parametrize(("chunk", "sizes"), [((), [8]), (("--chunk", "3"), [3, 3, 2])])
def test_a_matrix_for_github(folder: Path, chunk: tuple[str, ...], sizes: list[int]) -> None:
    files = ("one.yaml", "two.yaml")
    lines = objects(plan(folder, "--format", "github-matrix", *chunk, files=files))
    rows = objects(plan(folder, "--format", "inferencex", files=files))
    jobs = [line["include"] for line in lines]
    assert [len(each) for each in jobs if isinstance(each, list)] == sizes
    assert [row for each in jobs if isinstance(each, list) for row in each] == rows


def test_a_chunk_of_more_than_github_takes_is_refused(folder: Path) -> None:
    said = plan(folder, "--format", "github-matrix", "--chunk", "257")
    assert said.code == 2
    assert "257 is not in the range 1<=x<=256" in said.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--conc-max 4", ["qwen_8k1k_tp4_c4", "qwen_8k1k_tp8_c1", "qwen_8k1k_tp8_c2"]),
        # Nothing is clamped: 3 lies between two points and makes none.
        ("--conc-max 3", ["qwen_8k1k_tp8_c1", "qwen_8k1k_tp8_c2"]),
        ("--conc-min 32", [f"{RANGE}32", f"{RANGE}64"]),
        (
            "--step 4",
            [f"{RANGE}4", f"{RANGE}16", f"{RANGE}64", *(f"qwen_8k1k_tp8_c{c}" for c in (1, 2))],
        ),
        ("--lowest", [f"{RANGE}4", "qwen_8k1k_tp8_c1"]),
        ("--lowest --conc-min 2", [f"{RANGE}4", "qwen_8k1k_tp8_c2"]),
        ("--tp-min 5 --conc 2", ["qwen_8k1k_tp8_c2"]),
        ("--tp-max 4 --ep-max 1 --conc 8", [f"{RANGE}8"]),
        ("--evals only", [f"{RANGE}32", f"{RANGE}64"]),
        ("--evals all --tp-min 8", ["qwen_8k1k_tp8_c1", "qwen_8k1k_tp8_c2"]),
        (
            "--conc 1 --key qw* --scenario fixed --framework vllm --precision fp8 --runner h200 "
            "--hardware h200 --model-prefix qwen3 --seq-len 8k1k --nodes single",
            ["qwen_8k1k_tp8_c1"],
        ),
    ],
)
def test_filters(folder: Path, words: str, expected: list[str]) -> None:
    assert ids(folder, *words.split()) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--runner h20", "no point has runner 'h20'; did you mean 'h200'?; there are: h200"),
        ("--ep-min 2", "no point has ep 2..; there are: 1"),
        ("--seq-len 1k1k", "no point has lengths '1k1k'; did you mean '8k1k'?; there are: 8k1k"),
        ("--evals only --conc 1", "none of the selected points has an eval (--evals only)"),
        ("--tp-min 8 --conc 4", "each filter passes some of 7 points, all together none"),
    ],
)
def test_a_filter_that_keeps_nothing(folder: Path, words: str, message: str) -> None:
    said = plan(folder, *words.split())
    assert (said.code, said.out) == (2, "")
    assert said.err == f"error: {message}\n"


def test_warnings_are_told_and_strict_makes_them_errors(folder: Path) -> None:
    told = plan(folder, files=("two.yaml",))
    strict = plan(folder, "--strict", files=("two.yaml",))
    place = folder / "two.yaml"
    label = f"runner label 'h20' is not defined in {folder}/runners.yaml; did you mean 'h200'?"
    warnings = [
        f"{place}:2: pools.image: the tag 'nightly-TBD' is a placeholder",
        f"{place}:7: pools.runner: {label}",
    ]
    assert told.code == 0
    assert told.err.splitlines() == [f"warning: {text}" for text in warnings]
    assert (strict.code, strict.out) == (2, "")
    assert strict.err.splitlines() == [f"error: {text}" for text in warnings]
    assert plan(folder, "--strict").code == 0


def test_quickstart_is_planned_too() -> None:
    said = call("plan", "quickstart")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[-1] == "4 configs, 16 points in 16 jobs, 0 evals"


def test_a_list_without_end_is_refused_and_a_range_is_not(folder: Path) -> None:
    (folder / "one.yaml").write_text(MASTER.replace("conc-end: 64", "conc-end: 65_536"))
    assert len(ids(folder, "--tp-max", "4")) == 15
    longest = ", ".join(map(str, range(1, 10_002)))
    (folder / "one.yaml").write_text(MASTER.replace("[1, 2]", f"[{longest}]"))
    said = plan(folder)
    key = "qwen.scenarios.fixed-seq-len[0].search-space[1].conc-list"
    assert said.err.startswith(f"error: {folder}/one.yaml:15: {key}: expected at most 10000")
    (folder / "one.yaml").write_text(MASTER.replace("[1, 2]", f"[{'1, ' * 10**6}1]"))
    said = plan(folder)
    assert said.code == 2
    assert "more than 200000 values" in said.err
    (folder / "one.yaml").write_text(MASTER.replace("conc-end: 64", "conc-end: 65_537"))
    assert "expected an integer of at most 65536, got 65537" in plan(folder).err


@pytest.mark.parametrize("verb", ["run", "predict"])
def test_pools_are_planned_and_not_started(folder: Path, verb: str) -> None:
    out = folder / "out"
    files = folder / "two.yaml", "--runners", folder / "runners.yaml"
    said = call(verb, *files, "--out", out)
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines()[-1] == (
        "error: multi-node deployments are planned, not started yet; `inferometer plan` shows them"
    )
    assert not out.exists()


def test_check_tells_each_fault_once_with_its_rule_and_points(folder: Path) -> None:
    (folder / "recipes").mkdir()
    (folder / "recipes" / "mine.yaml").write_text("- argv:\n    --max-num-sequences: 8\n")
    (folder / "one.yaml").write_text(MASTER.replace("v0.26.0", "v0.32.0"))
    said = plan(folder, "--check", files=("one.yaml",))
    assert (said.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert line.startswith(
        f"error: {folder}/recipes/mine.yaml:2: --max-num-sequences: is unknown; did you mean"
    )
    assert line.endswith("(vllm 0.32.0) [7 points]")
    assert "[1 point]" in plan(folder, "--check", "--conc", "64").err


def test_check_warns_where_the_version_is_another_and_notes_what_it_leaves_out(
    folder: Path,
) -> None:
    (folder / "recipes").mkdir()
    (folder / "recipes" / "mine.yaml").write_text("- argv:\n    --max-num-sequences: 8\n")
    (folder / "one.yaml").write_text(MASTER.replace("v0.26.0", "v0.99.0"))
    (folder / "two.yaml").write_text(MULTI.replace("runner: h20\n", "runner: h200\n"))
    files = ("one.yaml", "two.yaml")
    said = plan(folder, "--check", files=files)
    assert said.code == 0
    told = [line for line in said.err.splitlines() if "points]" in line]
    assert [line.partition(": ")[0] for line in told] == ["note", "warning", "note"]
    assert "v0.99.0 says 0.99.0 [7 points]" in told[0]
    # Dynamo starts vLLM by a module of its own.
    assert told[2].startswith("note: the command is not ")
    assert told[2].endswith("flags not checked [2 points]")
    assert said.out == plan(folder, files=files).out
    assert plan(folder, "--check", "--strict", files=("one.yaml",)).code == 2


def test_check_tells_of_a_point_that_does_not_resolve(folder: Path) -> None:
    (folder / "recipes").mkdir()
    (folder / "recipes" / "mine.yaml").write_text("- refuse: not on this machine\n")
    said = plan(folder, "--check")
    assert said.code == 2
    assert said.err == (
        f"error: {folder}/recipes/mine.yaml:1: refuse: not on this machine [7 points]\n"
    )
