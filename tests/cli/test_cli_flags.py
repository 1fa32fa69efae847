"""`flags`: what is recorded, and the recording of a parser from an interpreter or a help text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import call

from inferometer.catalog import FlagSchema, recorded_flags


def test_list_has_a_line_a_version() -> None:
    said = call("flags", "list")
    assert (said.code, said.err) == (0, "")
    found = [tuple(line.split("\t")[:2]) for line in said.out.splitlines()]
    assert found == list(recorded_flags())
    assert ("vllm", "0.32.0") in found


def test_record_writes_a_file_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("def fill(parser): parser.add_argument('--seqs', type=int)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    out = tmp_path / "mine-1.0.json"
    words = ("--parser", "mine:fill", "--command", "mine serve", "--version", "1.0")
    said = call("flags", "record", "mine", "--python", sys.executable, *words, "-o", out)
    assert (said.code, said.out, said.err) == (0, "", "")
    found = FlagSchema.model_validate_json(out.read_bytes())
    assert (found.engine, found.version, found.commands) == ("mine", "1.0", (("mine", "serve"),))
    assert found.options[-1].names == ("--seqs",)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("vllm",), 2, "give --python, or --help-of"),
        (("vlm", "--python", "python"), 2, "did you mean 'vllm'?"),
        (("vllm", "--python", "/no/python"), 3, "/no/python: No such file"),
        (("x", "--help-of", "/no/server", "--version", "1"), 3, "/no/server: No such file"),
    ],
)
def test_mistakes(words: tuple[str, ...], code: int, message: str) -> None:
    said = call("flags", "record", *words)
    assert (said.code, said.out) == (code, "")
    assert message in said.err
