"""What a request says of itself, and at which address it arrives."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from loopback import (
    Script,
    make_request,
    make_transport,
    with_script,
)
from replies import (
    WHOLE,
    answers,
    one_after_the_other,
    talk,
)

from inferometer.core import Exchange, Status
from inferometer.errors import InputError
from inferometer.load.worker_transport import WorkerTransport

pytestmark = pytest.mark.sockets


def test_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    script = Script([])
    script.answers.append(answers(script, WHOLE))

    async def client(transport: WorkerTransport) -> list[Exchange]:
        return [await transport.send(make_request("id 1", affinity="play\r\n7 é"))]

    talk(script, client, headers={"X-Extra": "1"}, affinity_header="X-Session-ID")
    lines = script.heads[0].split("\r\n")
    assert lines[0] == "POST /v1/chat/completions HTTP/1.1"
    assert re.fullmatch(r"host: 127\.0\.0\.1:\d+", lines[1])
    assert lines[2:-2] == [
        "user-agent: inferometer",
        "accept: text/event-stream",
        "accept-encoding: identity",
        "content-type: application/json",
        "authorization: Bearer sk-secret",
        "x-extra: 1",
        "x-request-id: id 1",
        "x-correlation-id: play%0D%0A7 %C3%A9",
        "x-session-id: play%0D%0A7 %C3%A9",
        f"content-length: {len(script.bodies[0])}",
    ]
    assert json.loads(script.bodies[0])["model"] == "m"


def test_the_api_key_is_kept_out_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    script = Script([])
    page = b"HTTP/1.1 401 x\r\nContent-Length: 19\r\n\r\nbad key: sk-secret."
    script.answers.append(answers(script, page))
    (exchange,) = talk(script, one_after_the_other(1))
    assert exchange.error == "HTTP 401: bad key: [API key]."


def test_headers_that_cannot_be_sent_are_the_users_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk\nsecret")
    with pytest.raises(InputError) as caught:
        make_transport("http://h", headers={"a b": "x", "ok": "y", "c": "1\r\n2"})
    assert [problem.key for problem in caught.value.problems] == ["a b", "c", "OPENAI_API_KEY"]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "X-Session\r\nX", "X-Größe", "a:b", "x\n"])
def test_an_affinity_header_is_a_token(name: str) -> None:
    with pytest.raises(InputError, match="is not the name of a header") as caught:
        make_transport("http://h", affinity_header=name)
    assert [problem.key for problem in caught.value.problems] == ["affinity_header"]


def test_ipv6() -> None:
    script = Script([])
    script.answers.append(answers(script, WHOLE))
    try:
        (exchange,) = talk(script, one_after_the_other(1), host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    assert exchange.status is Status.OK
    assert re.search(r"host: \[::1\]:\d+", script.heads[0])


def test_localhost_finds_the_address_that_answers() -> None:
    script = Script([])
    script.answers += [answers(script, WHOLE), answers(script, WHOLE)]

    async def client(url: str) -> list[Exchange]:
        transport = make_transport(url.replace("127.0.0.1", "localhost"))
        exchanges = await asyncio.gather(*(transport.send(make_request(f"r{n}")) for n in range(2)))
        await transport.close()
        return exchanges

    exchanges = asyncio.run(with_script(script, client))
    assert [e.status for e in exchanges] == [Status.OK] * 2
