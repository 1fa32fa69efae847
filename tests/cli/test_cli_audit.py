"""`audit`: its forms, its exit codes, and that the default command needs no name."""

from __future__ import annotations

import json
import os
import re
import subprocess
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
      - { tp: 4, conc-list: [4, 8] }
"""
RUNNERS = "labels: { h200: [a] }\nhardware: {}\n"


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Two directories: the head has another image and a longer ladder, and no entry."""
    for name in ("base", "head"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "master.yaml").write_text(MASTER)
        (tmp_path / name / "runners.yaml").write_text(RUNNERS)
    changed = MASTER.replace("v0.26.0", "v0.27.0").replace("[4, 8]", "[4, 8, 16]")
    (tmp_path / "head" / "master.yaml").write_text(changed)
    return tmp_path / "base", tmp_path / "head"


def audit(sides: tuple[Path, Path], *words: str | Path) -> Said:
    return call("audit", *sides, *words)


def test_the_gate_says_no_with_a_code_of_its_own(sides: tuple[Path, Path]) -> None:
    said = audit(sides)
    assert said.code == 6
    assert "image vllm/vllm-openai:v0.26.0 -> vllm/vllm-openai:v0.27.0" in said.out
    assert "ladder +16" in said.out
    assert "the record does not hold" in said.out
    assert said.err == "error: the record and the change do not agree: 2 errors\n"


def test_equal_sides_pass(sides: tuple[Path, Path]) -> None:
    said = call("audit", sides[0], sides[0])
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("the record holds\n")
    assert call("audit", "compare", sides[0], sides[0]).out == said.out


def test_the_draft_makes_it_pass(sides: tuple[Path, Path]) -> None:
    said = call("audit", "draft", *sides)
    assert said.code == 0
    folder = sides[1] / "changelog.d"
    folder.mkdir()
    (folder / "x.yaml").write_text(said.out)
    unfilled = json.loads(audit(sides, "--format", "json").out)
    assert {found["rule"] for found in unfilled["findings"]} == {"link", "placeholder"}
    assert audit(sides, "--open").code == 0
    text = said.out.replace("TODO: say why", "newer")
    text = text.replace("'TODO: link to the discussion'", "https://example.org/1")
    (folder / "x.yaml").write_text(text)
    assert audit(sides).code == 0


def test_nothing_to_draft(sides: tuple[Path, Path]) -> None:
    said = call("audit", "draft", sides[0], sides[0])
    assert (said.code, said.out) == (0, "")
    assert "no entry is needed" in said.err


def test_json_has_all_of_it(sides: tuple[Path, Path]) -> None:
    data = json.loads(audit(sides, "--format", "json", "--full").out)
    assert data["passed"] is False
    assert data["points"]["added"] == ["qwen_8k1k_tp4_c16"]
    assert data["points"]["changed"] == ["qwen_8k1k_tp4_c4", "qwen_8k1k_tp4_c8"]
    assert [d["key"] for d in data["differences"]] == ["image", "ladder"]
    assert [found["rule"] for found in data["findings"]] == ["uncovered", "uncovered"]
    assert len(data["to_measure"]) == 3
    assert data["read"][str(sides[1])]["configs"][0]["masters"] == ["master.yaml"]


def test_json_is_as_its_page_says(sides: tuple[Path, Path]) -> None:
    page = (Path(__file__).parents[2] / "docs/audit.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", page.partition("JSON has:")[2], re.MULTILINE)[:10]
    told = {key: re.findall(r"`(\w+)`", text) for keys, text in rows for key in names_of(keys)}
    data = json.loads(audit(sides, "--format", "json", "--compat", "inferencex").out)
    assert set(told) == set(data)
    for key, count in (("findings", 10), ("differences", 10)):
        assert set(data[key][0]) == set(told[key][:count])
    for key in ("points", "record"):
        assert set(data[key]) == set(told[key])
    read = {*data["read"][str(sides[1])], *data["read"][str(sides[1])]["configs"][0]}
    assert read == set(told["read"])
    assert set(told["differences"]) >= set(data["differences"][0]["cases"][0])


def names_of(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_github_has_annotations_and_a_comment(sides: tuple[Path, Path], tmp_path: Path) -> None:
    said = audit(sides, "--format", "github", "--comment", tmp_path / "comment.md")
    assert said.code == 6
    lines = said.out.splitlines()
    assert lines[0].startswith("::error file=master.yaml,line=1,title=audit uncovered::image ")
    body = (tmp_path / "comment.md").read_text()
    assert body.startswith("<!-- inferometer audit -->\n### Audit says no: 2 errors\n")
    assert said.out.endswith(body + "\n")


def test_what_cannot_be_read_is_annotated_too(sides: tuple[Path, Path]) -> None:
    (sides[1] / "master.yaml").write_text(MASTER.replace("tp: 4", "tp: four"))
    said = audit(sides, "--format", "github")
    assert said.code == 2
    assert said.out.startswith("::error file=master.yaml,line=")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("audit", "no-such-ref", "."), "neither a git ref nor a directory"),
        (("audit", "."), "Missing argument"),
        (("audit",), "Usage"),
        (("audit", ".", ".", "--config", "*.nothing"), "neither side holds a master file"),
    ],
)
def test_mistakes(
    words: tuple[str, ...], message: str, sides: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sides[0])
    said = call(*words)
    assert message in said.err + said.out
    assert said.code in (0, 2)


def test_refs_of_the_repository_here(
    sides: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sides[1]
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    (folder / "master.yaml").write_text(MASTER)
    # Nothing of the user's: a hook, a signature, another repository that is meant.
    bare = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "base")):
        subprocess.run([*git, *words], check=True, env=bare)
    (folder / "master.yaml").write_text(MASTER.replace("v0.26.0", "v0.27.0"))
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    assert call("audit", "HEAD", "HEAD").code == 0
    said = call("audit", "HEAD", folder)
    assert said.code == 6
    assert "2 points changed" in said.out
    (folder / "deep" / "HEAD").mkdir()
    assert "is a git ref and a directory" in call("audit", "HEAD", "HEAD").err


def test_stale_points_need_a_store_that_is_there(sides: tuple[Path, Path], tmp_path: Path) -> None:
    words = (sides[0] / "master.yaml", "--runners", sides[0] / "runners.yaml")
    assert "no such store" in call("plan", *words, "--stale", tmp_path / "gone").err
    said = call("plan", *words, "--stale", tmp_path, "--format", "json")
    assert [json.loads(line)["id"] for line in said.out.splitlines()] == [
        "qwen_8k1k_tp4_c4",
        "qwen_8k1k_tp4_c8",
    ]
