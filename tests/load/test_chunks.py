"""Chunks of each engine: token-bearing or not, and the short cut against the full decoding."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.load import chunks
from inferometer.load.chunks import (
    MAX_COUNT,
    Chunk,
    ChunkError,
    ChunkReader,
    Usage,
    decode,
    is_text,
)


def chat(delta: dict[str, Any], finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return json.dumps({"id": "c-1", "choices": [choice], **more}).encode()


def says(*, token: bool = False, visible: bool = False, finished: bool = False) -> Chunk:
    return Chunk(token, visible, finished, None, None)


VISIBLE = says(token=True, visible=True)
HIDDEN = says(token=True)
NOTHING = says()
NESTED = b"[" * 300 + b"]" * 300


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"content": "a"}, VISIBLE),
        ({"content": " "}, VISIBLE),
        ({"role": "assistant", "content": ""}, NOTHING),
        ({"role": "assistant", "content": None}, NOTHING),
        ({}, NOTHING),
        ({"reasoning_content": "a"}, HIDDEN),
        ({"reasoning": "a"}, HIDDEN),
        ({"reasoning": "a", "reasoning_content": "a"}, HIDDEN),
        ({"content": None, "reasoning_content": "a"}, HIDDEN),
        ({"content": "a", "reasoning_content": "b"}, VISIBLE),
        ({"refusal": "no"}, VISIBLE),
        ({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}, VISIBLE),
        ({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, NOTHING),
        ({"tool_calls": []}, NOTHING),
        ({"tool_calls": None, "content": "a"}, VISIBLE),
        ({"function_call": {"arguments": "{"}}, VISIBLE),
    ],
)
def test_which_deltas_bear_a_token(delta: dict[str, Any], expected: Chunk) -> None:
    assert decode(chat(delta)) == expected


def test_text_of_plain_completions() -> None:
    assert decode(b'{"choices":[{"index":0,"text":" a","finish_reason":null}]}') == VISIBLE
    stop = b'{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}'
    assert decode(stop) == says(finished=True)


def test_the_last_token_may_come_with_the_finish() -> None:
    expected = says(token=True, visible=True, finished=True)
    assert decode(chat({"content": "a"}, "length")) == expected


def test_usage() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    assert decode(chat({}, usage=usage)).usage == Usage(9, None, 3)
    details = {"prompt_tokens_details": {"cached_tokens": 8}}
    assert decode(b'{"choices":[],"usage":%b}' % json.dumps(usage | details).encode()) == Chunk(
        False, False, False, Usage(9, 8, 3), None
    )
    assert decode(chat({}, usage=usage | {"prompt_tokens_details": None})).usage == Usage(
        9, None, 3
    )
    assert decode(chat({}, usage=None)).usage is None


def test_the_largest_count_is_taken() -> None:
    usage = {"prompt_tokens": MAX_COUNT, "completion_tokens": MAX_COUNT}
    assert decode(chat({}, usage=usage)).usage == Usage(MAX_COUNT, None, MAX_COUNT)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b'{"error":{"message":"engine died","code":500}}', "engine died"),
        (b'{"error":"busy"}', "busy"),
        (b'{"error":{"code":500}}', '{"error":{"code":500}}'),
        (b'{"error":%b}' % NESTED, ('{"error":' + NESTED.decode())[:120]),
        (b'{"object":"error","message":"too long","code":400}', "too long"),
    ],
)
def test_errors_inside_the_stream(data: bytes, error: str) -> None:
    assert decode(data) == Chunk(False, False, False, None, error)


def test_a_null_error_is_none() -> None:
    assert decode(chat({"content": "a"}, error=None)) == VISIBLE


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"choices":[{"delta":{"content":', "broken JSON"),
        (b'{"choices":[{"delta":{"content":"\xff"}}]}', "broken JSON"),
        (b"[]", "not a JSON object"),
        (b'{"choices":{}}', "'choices' is not a list"),
        (b'{"choices":[1]}', "a choice is not an object"),
        (b'{"usage":3}', "'usage' is not an object"),
        (b'{"usage":{"completion_tokens":-1}}', "holds -1"),
        (b'{"usage":{"completion_tokens":true}}', "holds True"),
        (b'{"usage":{"prompt_tokens":"3"}}', "holds '3'"),
        (b'{"usage":{"prompt_tokens":2147483648}}', "holds 2147483648 for a count"),
        (b'{"usage":{"completion_tokens":18446744073709551615}}', "holds 18446744073709551615"),
        (b'{"usage":{"completion_tokens":36893488147419103232}}', "holds 3.6"),
        (b'{"usage":{"prompt_tokens_details":{"cached_tokens":2147483648}}}', "holds 2147483648"),
        (b'{"usage":{"prompt_tokens_details":{"cached_tokens":1.5}}}', "holds 1.5"),
    ],
)
def test_what_is_broken(data: bytes, message: str) -> None:
    with pytest.raises(ChunkError, match=message):
        decode(data)


def test_plain_chunks_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def counting(data: bytes) -> Chunk:
        decoded.append(data)
        return decode(data)

    monkeypatch.setattr(chunks, "decode", counting)
    reader = ChunkReader()
    words = ["a", " b", '"', "\\", "\n", "x" * 300, "{}"]
    assert [reader.read(chat({"content": word})) for word in words] == [VISIBLE] * len(words)
    assert len(decoded) == 1
    others = [
        (chat({"content": ""}), NOTHING),
        (chat({"content": "a"}, "stop"), says(token=True, visible=True, finished=True)),
        (chat({"reasoning": "a"}), HIDDEN),
        (chat({"reasoning": "b"}), HIDDEN),
    ]
    assert [reader.read(data) for data, _ in others] == [expected for _, expected in others]
    assert len(decoded) == 4, "the second reasoning chunk is like the first"


@pytest.mark.parametrize(
    "inside", [b'"', b"\\", b"\\x", b"\\u12g4", b"\n", b"\xff", b'a","content":"', b'","x":"']
)
def test_the_short_cut_sees_what_is_not_the_inside_of_a_string(inside: bytes) -> None:
    before, after = b'{"choices":[{"delta":{"content":"', b'"}}]}'
    reader = ChunkReader()
    assert reader.read(before + b"a" + after) == VISIBLE
    assert outcome(reader, before + inside + after) == outcome(None, before + inside + after)


def outcome(reader: ChunkReader | None, data: bytes) -> Chunk | str:
    try:
        return reader.read(data) if reader else decode(data)
    except ChunkError as error:
        return str(error)


DELTA = st.dictionaries(
    st.sampled_from(["content", "reasoning", "reasoning_content", "refusal", "role", "x"]),
    st.one_of(st.none(), st.sampled_from(["", "a", '"content":"', '","content":"']), st.text()),
    max_size=3,
)


@given(
    stream=st.lists(
        st.tuples(DELTA, st.sampled_from([None, None, None, "stop"]), st.booleans()), max_size=12
    ),
    escaped=st.booleans(),
)
def test_the_short_cut_agrees_with_the_full_decoding(
    stream: list[tuple[dict[str, Any], str | None, bool]], escaped: bool
) -> None:
    reader = ChunkReader()
    for delta, finish, tool in stream:
        calls = {"tool_calls": [{"function": {"arguments": delta.get("content")}}]} if tool else {}
        choice = {"delta": delta | calls, "finish_reason": finish}
        data = json.dumps({"choices": [choice]}, ensure_ascii=escaped).encode()
        assert reader.read(data) == decode(data)


def is_taken(inside: bytes) -> bool:
    """By the decoder, and not empty."""
    try:
        return bool(orjson.loads(b'"' + inside + b'"'))
    except orjson.JSONDecodeError:
        return False


def test_which_bytes_are_text_outside_ascii() -> None:
    """At every edge of what UTF-8 allows, and one beside it."""
    edges = (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0)
    leads = [bytes((lead, *edge)) for lead in range(0x80, 0x100) for edge in ((), *zip(edges))]
    ends = (b"", b"\x80", b"\xbf", b"\xc0", b"\x80\x80", b"\xbf\xbf", b"\x80\x7f", b"\x80\x80\x80")
    insides = [lead + end for lead in leads for end in ends]
    wrong = [inside for inside in insides if (is_text(inside) is not None) != is_taken(inside)]
    assert wrong == []
    assert 0 < sum(map(is_taken, insides)) < len(insides)


pieces = st.sampled_from(
    [*'aé語🙂"\\\x00\x1f\x7f', "\\n", "\\u00e9", "\\ud83d", "\\ude42", "\\u", "\\x"]
)


@given(st.lists(pieces).map("".join).map(str.encode) | st.binary() | st.text().map(str.encode))
def test_a_text_is_known_by_its_bytes_if_and_only_if_the_decoder_takes_it(inside: bytes) -> None:
    assert (is_text(inside) is not None) == is_taken(inside)


@given(st.text(min_size=1))
def test_text_in_any_script_is_not_decoded_again(text: str) -> None:
    def event(said: str) -> bytes:
        choice = {"index": 0, "delta": {"content": said}, "finish_reason": None}
        return orjson.dumps({"id": "c-1", "choices": [choice]})

    reader = ChunkReader()
    first = reader.read(event("語"))
    assert reader.read(event(text)) is first
