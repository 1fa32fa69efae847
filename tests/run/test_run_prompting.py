"""The rules of a point's prompts: from a tokenizer in its own process, and by a server's count."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest

from inferometer.core import FixedSeqLen
from inferometer.errors import InputError
from inferometer.run import prompting
from inferometer.run.job import Job
from inferometer.run.jobs import AdHoc, Overrides, jobs_of_flags
from inferometer.run.prompting import learned, rules_of
from inferometer.workload import WORDS, tokenizer_digest
from inferometer.workload.tokenizer_files import tokenizer_files
from referee import refused_port
from webserver import Quiet, serving

AD_HOC = AdHoc(
    config="bench",
    image="external",
    model="m",
    precision="fp8",
    framework="external",
    hardware="h200",
    gpus=1,
    scenario=FixedSeqLen(128, 16),
    max_model_len=None,
)


def job(endpoint: str = "chat", **workload: Any) -> Job:
    (made,) = jobs_of_flags(AD_HOC, (1,), Overrides(workload, {"endpoint": endpoint}))
    return made


class Counting(Quiet):
    """Counts words, one for every `per`, and adds `added` for a template."""

    per, added, status = 1, 23, 200
    asked: ClassVar[list[dict[str, Any]]]

    def do_POST(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(body)
        content = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        tokens = len(content) if isinstance(content, list) else len(content.split())
        data = orjson.dumps({"usage": {"prompt_tokens": tokens * self.per + self.added}})
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("os.kill(os.getpid(), 9)", "its process was ended by SIGKILL"),
        ("sys.exit(3)", "its process ended with exit code 3"),
        ("sys.exit('first\\nlast')", "last"),
    ],
)
def test_a_reading_that_is_killed_says_so(
    monkeypatch: pytest.MonkeyPatch, last: str, why: str
) -> None:
    def begun(source: str, endpoint: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", f"import os, sys; {last}"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    monkeypatch.setattr(prompting, "_begin", begun)
    with pytest.raises(InputError, match=f"t.json: reading it failed: {why}$"):
        prompting._fit("t.json", why, "chat")


def test_without_a_tokenizer_nothing_is_read_and_nothing_asked() -> None:
    made = job()
    assert rules_of(made.plan) is WORDS
    assert learned(WORDS, made.plan.client, "http://127.0.0.1:1", "m") is WORDS


def test_a_tokenizer_is_part_of_the_point(tmp_path: Path) -> None:
    plain, bundled = job(), job(tokenizer="bundled")
    assert bundled.plan.workload.tokenizer_digest == tokenizer_digest("bundled")
    assert len({plain.digest, bundled.digest}) == 2
    source = tokenizer_files("bundled").tokenizer.parent
    for name in ("tokenizer.json", "chat_template.jinja"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    assert job(tokenizer=str(tmp_path)).digest == bundled.digest


def test_the_rules_of_the_bundled_tokenizer() -> None:
    rules = rules_of(job(tokenizer="bundled").plan)
    assert (rules.head, rules.foot, rules.form) == (4, 8, "text")
    assert rules.notes == {
        "prompt_words": 512.0,
        "prompt_drift_max_tokens": 0.0,
        "prompt_drift_mean_tokens": 0.0,
        "template_known": 1.0,
    }
    ids = rules_of(job("completions", tokenizer="bundled", prompt_form="token_ids").plan)
    assert (ids.head, ids.foot, ids.form) == (0, 0, "token_ids")


def test_a_server_is_asked_for_what_it_adds() -> None:
    class Server(Counting):
        asked: ClassVar[list[dict[str, Any]]] = []

    made = job(tokenizer="bundled")
    with serving(Server) as url:
        rules = learned(rules_of(made.plan), made.plan.client, url, "m")
    assert (rules.head, rules.foot) == (15, 8)
    assert (rules.notes["template_tokens"], rules.notes["tokenizer_agrees"]) == (23, 1)
    first, second = Server.asked
    assert first["max_tokens"] == second["max_tokens"] == 1
    texts = [one["messages"][0]["content"].split() for one in (first, second)]
    assert [len(text) for text in texts] == [16, 48]
    assert texts[0] != texts[1][:16]


def test_token_ids_are_asked_for_as_ids() -> None:
    class Server(Counting):
        asked: ClassVar[list[dict[str, Any]]] = []
        added = 1

    made = job("completions", tokenizer="bundled", prompt_form="token_ids")
    with serving(Server) as url:
        rules = learned(rules_of(made.plan), made.plan.client, url, "m")
    assert [len(one["prompt"]) for one in Server.asked] == [16, 48]
    assert all(isinstance(token, int) for token in Server.asked[0]["prompt"])
    assert (rules.head, rules.foot) == (1, 0)


@pytest.mark.parametrize(("per", "status", "agrees"), [(2, 200, 0.0), (1, 500, None)])
def test_a_server_that_teaches_nothing_leaves_what_was_computed(
    per: int, status: int, agrees: float | None
) -> None:
    kind = type("Server", (Counting,), {"per": per, "status": status, "asked": []})
    made = job(tokenizer="bundled")
    with serving(kind) as url:
        rules = learned(rules_of(made.plan), made.plan.client, url, "m")
    assert (rules.head, rules.foot) == (4, 8)
    assert rules.notes.get("tokenizer_agrees") == agrees


def test_a_server_that_is_not_there_leaves_what_was_computed() -> None:
    made = job(tokenizer="bundled")
    rules = rules_of(made.plan)
    with refused_port() as port:
        assert learned(rules, made.plan.client, f"http://127.0.0.1:{port}", "m") is rules


def test_mistakes_are_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="prompt_form: token ids need a tokenizer"):
        job("completions", prompt_form="token_ids")
    with pytest.raises(InputError, match="only the completions endpoint takes token ids"):
        job("chat", tokenizer="bundled", prompt_form="token_ids")
    with pytest.raises(InputError, match="no such file; a tokenizer is"):
        job(tokenizer=str(tmp_path / "none"))
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "New"}}')
    with pytest.raises(InputError, match="not a tokenizer that the tokenizers library reads"):
        rules_of(job(tokenizer=str(tmp_path)).plan)
    torn = replace(job().plan.workload, tokenizer=str(tmp_path / "gone"))
    with pytest.raises(InputError, match="no such file"):
        rules_of(replace(job().plan, workload=torn))


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_a_live_replay_asks_what_a_conversation_adds(endpoint: str) -> None:
    class Server(Counting):
        asked: ClassVar[list[dict[str, Any]]] = []

        def do_POST(self) -> None:
            # 23 tokens for one message, 9 more for two further ones.
            length = int(self.headers["content-length"])
            body = orjson.loads(self.rfile.read(length))
            self.asked.append(body)
            texts = [m["content"] for m in body.get("messages", [])] or [body["prompt"]]
            tokens = len(" ".join(texts).split()) + 23 + 9 * (len(texts) > 1)
            data = orjson.dumps({"usage": {"prompt_tokens": tokens}})
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    made = job(endpoint, tokenizer="bundled")
    with serving(Server) as url:
        rules = learned(rules_of(made.plan), made.plan.client, url, "m", live=True)
    assert len(Server.asked) == 3
    assert rules.pair == (9 if endpoint == "chat" else 0)
    if endpoint == "chat":
        roles = [message["role"] for message in Server.asked[2]["messages"]]
        assert roles == ["user", "assistant", "user"]
