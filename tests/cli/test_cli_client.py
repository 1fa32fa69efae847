"""Headers and the API key are sent and nowhere written; the number of workers is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call

from inferometer.cli.clientoptions import without_secrets
from inferometer.store import RunDir
from referee import build_referee, running_referee


def test_the_text_of_a_header_is_left_out_of_a_command() -> None:
    typed = ["bench", "URL", "--header", "X-Key: abc", "--header=Other:def", "--seed", "1"]
    assert without_secrets(typed) == [
        *("bench", "URL", "--header", "X-Key:[not kept]", "--header=Other:[not kept]"),
        *("--seed", "1"),
    ]


@pytest.mark.parametrize("header", ["X-Key", ":text", ""])
def test_a_header_without_name_or_text_is_a_mistake(header: str) -> None:
    said = call("bench", "http://127.0.0.1:1", "--header", header)
    assert said.code == 2
    assert "is not NAME:TEXT" in said.err


@pytest.mark.sockets
def test_secrets_are_in_no_file_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    out = tmp_path / "run"
    words = ["--concurrency", "2", "--requests", "8", "--warmup", "0", "--workers", "2"]
    with running_referee(build_referee(tmp_path), tmp_path / "truth.csv") as referee:
        model = "ttft=5+itl=1+n=3"
        header = "X-Token: also-secret"
        said = call(
            "bench", referee.url, "--model", model, *words, "--header", header, "--out", out
        )
    assert said.code in (0, 5)
    (folder,) = RunDir(out).finished()
    assert folder.result().counts["ok"] == 8
    texts = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert any(b"X-Token:[not kept]" in text for text in texts)
    assert not any(b"very-secret" in text or b"also-secret" in text for text in texts)
    assert "-secret" not in said.out + said.err
