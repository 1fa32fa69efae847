"""Base URLs as people write them, and the bodies of both endpoints."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from loopback import SETTINGS, make_request

from inferometer.core import Dialogue
from inferometer.errors import InputError
from inferometer.load.chunks import READERS
from inferometer.load.endpoints import ENDPOINTS, parse_base_url
from inferometer.load.http import Server


@pytest.mark.parametrize(
    ("url", "server", "path"),
    [
        ("http://h", Server("h", 80, tls=False), "/v1/chat/completions"),
        ("http://h:8000/", Server("h", 8000, tls=False), "/v1/chat/completions"),
        (" http://h:8000/v1 ", Server("h", 8000, tls=False), "/v1/chat/completions"),
        ("http://h/a/b/v1/", Server("h", 80, tls=False), "/a/b/v1/chat/completions"),
        ("http://h/a", Server("h", 80, tls=False), "/a/v1/chat/completions"),
        ("https://h", Server("h", 443, tls=True), "/v1/chat/completions"),
        ("http://[::1]:9", Server("::1", 9, tls=False), "/v1/chat/completions"),
    ],
)
def test_base_urls(url: str, server: Server, path: str) -> None:
    assert parse_base_url(url, "chat") == (server, path)


def test_the_path_of_plain_completions() -> None:
    assert parse_base_url("http://h", "completions")[1] == "/v1/completions"


@pytest.mark.parametrize(
    ("url", "faults"),
    [
        ("localhost:8000", ["must start with http://"]),
        ("", ["must start with http://"]),
        ("http://h/v1/chat/completions", ["must end before /chat/completions"]),
        ("http://h/v1/completions/", ["must end before /chat/completions"]),
        ("http://", ["names no host"]),
        ("ftp://h:x", ["must start with http://", "a port that is not a number"]),
        ("http://h:70000", ["a port that is not a number"]),
        ("http://h?x=1", ["must not hold '?'"]),
        ("http://me:secret@h", ["must not hold a user name"]),
        ("http://[::1", ["is not a URL"]),
        ("http://h/a b", ["holds a space"]),
        ("http://a..b:8000", ["a host with an empty label"]),
        ("https://" + "a" * 64, ["a host with an empty label"]),
    ],
)
def test_every_fault_of_a_url_is_named(url: str, faults: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse_base_url(url, "chat")
    problems = caught.value.problems
    assert len(problems) == len(faults)
    for problem, fault in zip(problems, faults, strict=True):
        assert fault in problem.message
        assert problem.key == "base_url"
    assert "secret" not in str(caught.value)


def test_bodies() -> None:
    request = make_request("r", max_tokens=12)
    common = {
        "model": "m",
        "max_tokens": 12,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    chat = orjson.loads(ENDPOINTS["chat"].body("m", "hé", request, SETTINGS))
    assert chat == common | {"messages": [{"role": "user", "content": "hé"}]}
    plain = orjson.loads(ENDPOINTS["completions"].body("m", "hé", request, SETTINGS))
    assert plain == common | {"prompt": "hé"}
    ids = orjson.loads(ENDPOINTS["completions"].body("m", [7, 128_000], request, SETTINGS))
    assert ids == common | {"prompt": [7, 128_000]}


def test_what_only_engines_know_is_sent_only_where_wanted() -> None:
    settings = replace(SETTINGS, usage_every_chunk=True, ignore_eos=False)
    body = orjson.loads(ENDPOINTS["chat"].body("m", "x", make_request("r"), settings))
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert "ignore_eos" not in body


def test_token_ids_go_to_completions_only() -> None:
    ids, request = [1, 2, 70_000], make_request("r")
    body = orjson.loads(ENDPOINTS["completions"].body("m", ids, request, SETTINGS))
    assert body["prompt"] == ids
    with pytest.raises(InputError, match="token ids go to completions"):
        ENDPOINTS["chat"].body("m", ids, request, SETTINGS)


def test_every_endpoint_names_a_reader_that_there_is() -> None:
    assert {endpoint.reader for endpoint in ENDPOINTS.values()} <= set(READERS)


def test_a_dialogue_is_messages_or_one_text() -> None:
    said = Dialogue(("a b", " X\nY", "c"), (False, False, True))
    request = make_request("r")
    chat = orjson.loads(ENDPOINTS["chat"].body("m", said, request, SETTINGS))
    assert chat["messages"] == [
        {"role": "user", "content": "a b"},
        {"role": "assistant", "content": " X\nY"},
        {"role": "user", "content": "c"},
    ]
    plain = orjson.loads(ENDPOINTS["completions"].body("m", said, request, SETTINGS))
    assert plain["prompt"] == "a b X\nY c"
