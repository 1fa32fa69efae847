"""Bodies: the large ones say what small ones would, and cost the load's loop next to nothing."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from inferometer.core import Canned, Content, Prompt, Request, Said
from inferometer.load.ceiling import SETTINGS, make_request
from inferometer.load.endpoints import ENDPOINTS, enclosure
from inferometer.load.sheet import Sheet, Stored
from inferometer.load.transport import LARGE_TOKENS
from inferometer.load.wire import Post
from inferometer.run.bodies import Bodies
from inferometer.workload import WORDS, PromptRules, PromptText

TOKENS = 40_000
IDS = PromptRules(WORDS.lexicon, "token_ids", 0, 0, {})
TEMPLATE = PromptRules(WORDS.lexicon, "text", 7, 3, {})


def large(number: int = 1, tokens: int = TOKENS) -> Request:
    blocks = np.arange(100, dtype=np.int64) + (9 << 40)
    prompt = Prompt(blocks, 64, tokens - 64 * len(blocks), number)
    return replace(make_request(0, number, 5), prompt=prompt)


@pytest.fixture
def texts() -> Iterator[Bodies]:
    made = Bodies("m", PromptText(WORDS), SETTINGS)
    yield made
    made.close()


async def bytes_of(bodies: Bodies, request: Request) -> bytes:
    body = bodies.encode(request)
    if isinstance(body, bytes):
        return body
    sheet = await body
    posted = sheet.posted()
    whole = posted if isinstance(posted, bytes) else bytes(posted.opened())
    sheet.close()
    return whole


@pytest.mark.parametrize(
    ("endpoint", "rules"),
    [("chat", WORDS), ("chat", TEMPLATE), ("completions", WORDS), ("completions", IDS)],
)
def test_a_large_body_says_what_a_small_one_would(
    endpoint: Literal["chat", "completions"], rules: PromptRules
) -> None:
    settings = replace(SETTINGS, endpoint=endpoint, usage_every_chunk=True)
    bodies = Bodies('a "model"', PromptText(rules), settings)
    request = large()
    content = PromptText(rules).render(request.prompt)
    meant = ENDPOINTS[endpoint].body('a "model"', content, request, settings)
    try:
        body = asyncio.run(bytes_of(bodies, request))
    finally:
        bodies.close()
    assert json.loads(body) == json.loads(meant)
    if rules.form == "text":
        assert body == meant


def test_a_large_dialogue_says_what_a_small_one_would(texts: Bodies) -> None:
    recorded = large().prompt
    rest = replace(recorded, tail_id=2, tail_tokens=recorded.tail_tokens + 90)
    begun = Canned(recorded, 0, recorded.tokens)
    said = Said('so "it" is\n', 7)
    asked = Canned(rest, recorded.tokens + 30, rest.tokens)
    tokens = recorded.tokens + 7 + rest.tokens - recorded.tokens - 30
    talk = replace(rest, tail_tokens=tokens - rest.tokens + rest.tail_tokens)
    request = replace(large(), prompt=replace(talk, parts=(begun, said, asked)))
    small = ENDPOINTS["chat"].body("m", PromptText(WORDS).render(request.prompt), request, SETTINGS)
    texts.prepare(request.prompt)
    assert asyncio.run(bytes_of(texts, request)) == small
    assert [one["role"] for one in json.loads(small)["messages"]] == ["user", "assistant", "user"]


def test_a_model_that_is_called_like_the_mark_is_sent_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = "\x7fcontent\x7f"
    request = large()
    endpoint = ENDPOINTS["chat"]
    assert enclosure(endpoint, model, ids=False, request=request, settings=SETTINGS) is None
    writers: list[int] = []
    render = PromptText.render

    def noted(self: PromptText, prompt: Prompt) -> Content:
        writers.append(threading.get_ident())
        return render(self, prompt)

    monkeypatch.setattr(PromptText, "render", noted)
    bodies = Bodies(model, PromptText(WORDS), SETTINGS)
    try:
        found = json.loads(asyncio.run(bytes_of(bodies, request)))
    finally:
        bodies.close()
    assert found["model"] == model
    assert writers
    assert threading.get_ident() not in writers
    assert len(found["messages"][0]["content"].split()) == TOKENS


def test_a_small_body_is_made_at_once(texts: Bodies) -> None:
    request = large(tokens=LARGE_TOKENS - 1)
    assert isinstance(texts.encode(request), bytes)


def test_no_large_body_is_made_or_handed_over_by_the_loop(
    texts: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: who writes it, and how many bytes a message to a worker has."""
    writers: list[int] = []
    write = PromptText.write

    def noted(self: PromptText, prompt: Prompt, memory: memoryview) -> None:
        writers.append(threading.get_ident())
        write(self, prompt, memory)

    def never(*_: object) -> None:
        pytest.fail("a large prompt was made as a whole")

    monkeypatch.setattr(PromptText, "write", noted)
    monkeypatch.setattr(PromptText, "render", never)

    async def posted() -> Stored | bytes:
        texts.prepare(large(2).prompt)
        for number in (1, 2):
            promise = texts.encode(large(number))
            assert not isinstance(promise, bytes)
            sheet: Sheet = await promise
            message = sheet.posted()
            sheet.close()
        return message

    message = asyncio.run(posted())
    assert len(writers) == 2
    assert threading.get_ident() not in writers
    if isinstance(message, bytes):
        pytest.skip("no shared memory on this system")
    assert len(pickle.dumps([Post(1, message, 5)])) < 500


def test_what_was_made_ahead_is_taken_once_and_has_a_bound(
    texts: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    begin = Bodies._begin

    def noted(self: Bodies, prompt: Prompt) -> object:
        begun.append(prompt.tail_id)
        return begin(self, prompt)

    monkeypatch.setattr(Bodies, "_begin", noted)
    monkeypatch.setattr(texts, "_room", 2 * PromptText(WORDS).written_bytes(large().prompt))
    for number in (1, 1, 2, 3):  # the third finds no room
        texts.prepare(large(number).prompt)
    assert begun == [1, 2]
    first = asyncio.run(bytes_of(texts, large(1)))
    assert begun == [1, 2]
    texts.prepare(large(3).prompt)  # now it does
    again = asyncio.run(bytes_of(texts, large(1)))
    assert begun == [1, 2, 3, 1]
    assert first == again
