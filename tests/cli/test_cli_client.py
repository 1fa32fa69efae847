"""Headers and the API key are sent and nowhere written; the number of workers is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call

from inferometer.cli.clientoptions import without_secrets
from inferometer.engine.ask import generates
from inferometer.errors import EngineError
from inferometer.store import RunDir
from referee import build_referee, running_referee
from webserver import Quiet, serving


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


def test_every_header_that_cannot_be_sent_is_told_at_once_without_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk\nsecret")
    monkeypatch.chdir(tmp_path)
    wrong = ("bad name:secret", "X-A:se\ncret", "X-B:sécret", "Content-Length:7", "X-Request-ID:7")
    twice = ("X-C:1", "x-c:2")
    headers = [word for header in (*wrong, *twice) for word in ("--header", header)]
    for verb in (("bench", "http://127.0.0.1:1"), ("run", "quickstart")):
        said = call(*verb, *headers)
        assert said.code == 2
        assert sorted(said.err.splitlines()) == sorted(
            [
                *(
                    f"error: --header: {name}: a header is a name of letters, digits and '-', "
                    "and one line of ASCII"
                    for name in ("bad name", "X-A", "X-B")
                ),
                "error: --header: Content-Length: is the client's own to set",
                "error: --header: X-Request-ID: is the client's own to set",
                "error: --header: x-c: is given twice",
                "error: environment: OPENAI_API_KEY: not one line of ASCII",
            ]
        )
        assert "cret" not in said.err
        assert list(tmp_path.iterdir()) == []


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


class Echo(Quiet):
    """Refuses everything, and repeats what it was sent."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> tuple[int, bytes]:
        if self.command == "GET":
            return 200, b'{"data":[{"id":"m"}]}'
        self.rfile.read(int(self.headers["content-length"]))
        sent = f"{self.headers['authorization']} and {self.headers['x-token']}"
        return 401, b'{"error":{"message":"denied: %b"}}' % sent.encode()

    do_POST = Quiet.do_GET


@pytest.mark.sockets
def test_secrets_that_a_server_repeats_are_in_no_file_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    out = tmp_path / "run"
    words = ["--concurrency", "2", "--requests", "4", "--warmup", "0"]
    with serving(Echo) as url:
        said = call("bench", url, *words, "--header", "X-Token: Basic also-secret", "--out", out)
        with pytest.raises(EngineError) as refused:
            generates(url, "m")
    assert "denied: Bearer [API key] and" in str(refused.value)
    assert said.code == 5
    (folder,) = RunDir(out).finished()
    # A request that was under way when the point was given up is cancelled, without an error.
    errors = {record.exchange.error for record in folder.records()} - {None}
    assert errors == {'HTTP 401: {"error":{"message":"denied: Bearer [API key] and [header]"}}'}
    texts = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert any(b"[API key]" in text for text in texts)
    assert not any(b"very-secret" in text or b"also-secret" in text for text in texts)
    assert "-secret" not in said.out + said.err


@pytest.mark.parametrize(
    "url", ["http://me:pass-77@host/v1", "http://host/?key=pass-77", "//u:pass-77@h"]
)
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    said = call("bench", url, "--out", tmp_path / "run")
    assert said.code == 2
    assert "[not kept]" in said.err
    assert "pass-77" not in said.out + said.err
    assert not (tmp_path / "run").exists()
