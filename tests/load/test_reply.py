"""How responses are judged, and what of them is kept: no sockets, bytes with stamps."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.core import Status
from inferometer.load.reply import MAX_ERROR_BODY_BYTES, Ending, How, Reply

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
DONE = b"[DONE]"
FINISH = b'{"choices":[{"delta":{},"finish_reason":"length"}]}'
ROLE = b'{"choices":[{"delta":{"role":"assistant","content":""}}]}'
TOKEN = b'{"choices":[{"delta":{"content":"a"}}]}'
THOUGHT = b'{"choices":[{"delta":{"reasoning_content":"a"}}]}'


def counted(completion: int, delta: bytes = b'"content":"a"', prompt: int = 7) -> bytes:
    usage = b'{"prompt_tokens":%d,"completion_tokens":%d}' % (prompt, completion)
    return b'{"choices":[{"delta":{%b}}],"usage":%b}' % (delta, usage)


def sse(*texts: bytes) -> bytes:
    body = b"".join(b"data: " + text + b"\n\n" for text in texts)
    return b"%x\r\n%b\r\n" % (len(body), body)


def reply(*reads: bytes, kernel: bool = True) -> Reply:
    """Feed reads with the stamps 10, 20, 30, ..."""
    it = Reply()
    for number, read in enumerate(reads, 1):
        it.feed(read, number * 10, kernel)
    return it


def test_a_whole_answer() -> None:
    it = reply(HEAD, sse(ROLE), sse(THOUGHT), sse(TOKEN), sse(TOKEN), sse(FINISH), sse(DONE), END)
    assert it.ending == Ending("ok", None, 70)
    assert list(it.at_ns) == [30, 40, 50]
    assert not it.coalesced
    assert it.tokens is None
    assert (it.first_byte_ns, it.last_byte_ns, it.first_visible_ns) == (10, 70, 40)
    assert (it.http_status, it.token_source, it.kernel_stamps) == (200, "assumed", True)
    assert it.connection_reusable


@pytest.mark.parametrize(
    ("reads", "status", "error"),
    [
        ([sse(TOKEN), sse(DONE)], "ok", None),
        ([sse(TOKEN, FINISH), END], "ok", None),
        ([sse(TOKEN, FINISH)], None, None),
        ([sse(ROLE, FINISH, DONE)], "empty", "without a token"),
        ([sse(ROLE, FINISH), END], "empty", "without a token"),
        ([sse(DONE)], "empty", "without a token"),
        ([sse(TOKEN), END], "truncated", "without \\[DONE\\] and without a finish_reason"),
        ([END], "truncated", "without \\[DONE\\]"),
        ([sse(TOKEN, b'{"error":{"message":"boom"}}', DONE)], "in_band", "boom"),
        ([b"1d\r\nevent: error\ndata: overload\n\n\r\n"], "in_band", "overload"),
        ([sse(TOKEN, b'{"choices":[')], "malformed", "broken JSON"),
        ([sse(TOKEN), b"zz\r\n"], "malformed", "bad chunk size"),
        ([sse(TOKEN, counted(0, b""), DONE)], "malformed", "usage counts 0 tokens, 1 token "),
        ([sse(TOKEN, TOKEN, counted(1, b""), DONE)], "malformed", "1 tokens, 2 token events"),
        ([sse(TOKEN, TOKEN, counted(3, b""), DONE)], "ok", None),
        ([sse(counted(2**64 - 1), DONE)], "malformed", "holds 18446744073709551615"),
        ([sse(counted(3), counted(2))], "malformed", "fell from 3 to 2"),
        ([b'e\r\n{"id": "x", }\n\r\n', END], "malformed", "not an event stream \\(text/event"),
        ([sse(b""), sse(TOKEN), sse(DONE)], "ok", None),
    ],
)
def test_verdicts(reads: list[bytes], status: How | None, error: str | None) -> None:
    ending = reply(HEAD, *reads).ending
    if status is None:
        assert ending is None
        return
    assert ending is not None
    assert ending.status == status
    if error is None:
        assert ending.error is None
    else:
        assert ending.error is not None
        assert re.search(error, ending.error)


def test_after_done_only_the_body_is_followed() -> None:
    it = reply(HEAD, sse(TOKEN), sse(DONE))
    assert not it.body_complete
    it.feed(sse(TOKEN, b"{broken"), 99, kernel=False)
    it.feed(END, 100, kernel=False)
    assert it.connection_reusable
    assert it.ending == Ending("ok", None, 30)
    assert (len(it.at_ns), it.last_byte_ns, it.kernel_stamps) == (1, 30, True)


def test_a_status_keeps_the_start_of_its_body() -> None:
    body = b'{"error":{"message":"too many"}}'
    it = reply(b"HTTP/1.1 429 x\r\nContent-Length: %d\r\n\r\n" % len(body), body[:5], body[5:])
    assert it.ending == Ending("http_status", f"HTTP 429: {body.decode()}", 30)
    assert it.connection_reusable


def test_a_redirect_is_not_followed_but_told_without_its_query() -> None:
    it = reply(b"HTTP/1.1 307 x\r\nLocation: /v1/chat/?key=1\r\nContent-Length: 0\r\n\r\n")
    assert it.ending == Ending("http_status", "HTTP 307 to /v1/chat/: ", 10)


def test_a_long_error_page_is_not_read_to_its_end() -> None:
    it = reply(b"HTTP/1.1 500 x\r\n\r\n", b"x" * 10 * MAX_ERROR_BODY_BYTES)
    assert it.ending == Ending("http_status", "HTTP 500: " + "x" * MAX_ERROR_BODY_BYTES, 20)


@pytest.mark.parametrize(
    "stream",
    [
        b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n\xff\x00",
        b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno",
        b"Content-Length: none\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nbusy\r\nzz\r\n",
    ],
)
def test_a_status_tells_more_than_that_its_body_is_broken(stream: bytes) -> None:
    ending = reply(b"HTTP/1.1 502 x\r\n" + stream).ending
    assert ending is not None
    assert (ending.status, ending.error[:8]) == ("http_status", "HTTP 502")  # type: ignore[index]
    success = reply(b"HTTP/1.1 200 x\r\n" + stream).ending
    assert success is not None
    assert success.status == "malformed"


def test_a_token_that_more_of_its_read_followed_is_marked() -> None:
    plain = reply(HEAD, sse(TOKEN), sse(TOKEN))
    assert plain.plain is not None  # the last one was not parsed
    plain.feed(sse(TOKEN), 40, True, followed=True)
    parsed = reply(HEAD, sse(ROLE))
    parsed.feed(sse(THOUGHT), 30, True, followed=True)
    parsed.feed(sse(TOKEN), 40, True, followed=False)
    assert (list(plain.coalesced), list(parsed.coalesced)) == ([2], [0])


def test_a_json_body_instead_of_a_stream_is_no_success() -> None:
    it = reply(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    assert it.ending == Ending("malformed", "not an event stream (application/json): {}", 10)


@pytest.mark.parametrize(
    ("reads", "error", "expected"),
    [
        ([], None, ("truncated", "connection closed before the end of the answer")),
        (
            [HEAD, sse(TOKEN, FINISH)],
            ConnectionResetError(104, "Connection reset by peer"),
            (
                "truncated",
                "connection lost (Connection reset by peer) before the end of the answer",
            ),
        ),
        ([b"HTTP/1.1 200 OK\r\n\r\ndata: " + TOKEN + b"\n\ndata: " + FINISH + b"\n\n"], None, None),
        (
            [b"HTTP/1.1 502 x\r\nContent-Length: 9\r\n\r\nbad"],
            None,
            ("http_status", "HTTP 502: bad"),
        ),
    ],
)
def test_a_lost_connection(
    reads: list[bytes], error: OSError | None, expected: tuple[How, str] | None
) -> None:
    it = reply(*reads)
    assert not it.body_complete
    it.lost(error, 99)
    status, text = expected or ("ok", None)
    assert it.ending == Ending(status, text, 99)
    assert not it.connection_reusable


def test_counts_of_every_chunk() -> None:
    empty = b'"content":""'
    it = reply(HEAD, sse(counted(0, empty)), sse(counted(3)), sse(counted(4, empty)))
    it.feed(sse(counted(6), counted(6, b"", prompt=8), DONE), 50, kernel=True)
    assert it.tokens is not None
    assert list(it.tokens) == [3, 3], "the token that showed nothing came with the next text"
    assert it.token_source == "usage_per_chunk"
    assert it.usage == (8, None, 6)


def test_counts_at_the_end_or_on_some_chunks_are_not_counts_of_every_chunk() -> None:
    for events in ([TOKEN, TOKEN, counted(2, b"")], [counted(1), TOKEN, counted(2, b"")]):
        it = reply(HEAD, sse(*events, DONE))
        assert it.token_source == "usage_final"
        assert it.tokens is None
        assert it.usage.completion_tokens == 2


def test_events_of_one_read_share_its_stamp_and_say_so() -> None:
    it = reply(HEAD, sse(TOKEN), sse(TOKEN, TOKEN), sse(TOKEN) + b"f", b"\r\n", sse(DONE))
    assert list(it.at_ns) == [20, 30, 30, 40]
    assert list(it.coalesced) == [1, 3]


def test_one_read_without_a_kernel_stamp_makes_the_source_the_read() -> None:
    it = Reply()
    sources = []
    for read, kernel in ((HEAD, True), (sse(TOKEN), False), (END, True)):
        it.feed(read, 10, kernel)
        sources.append(it.kernel_stamps)
    assert sources == [True, False, False]


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2**31 - 1, 2**31, 2**63, 2**64 - 1, 2**64, 1.5, "", "a"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)


def having(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object of some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


FUNCTION = having(arguments=SCALARS) | JSON
DELTA = having(
    content=SCALARS,
    reasoning=SCALARS,
    tool_calls=st.lists(having(function=FUNCTION) | JSON, max_size=2) | JSON,
    function_call=FUNCTION,
)
CHOICE = having(delta=DELTA | JSON, text=SCALARS, finish_reason=SCALARS)
DETAILS = having(cached_tokens=SCALARS)
USAGE = having(
    prompt_tokens=SCALARS, completion_tokens=SCALARS, prompt_tokens_details=DETAILS | JSON
)
CHUNK = having(choices=st.lists(CHOICE | JSON, max_size=2) | JSON, usage=USAGE | JSON) | having(
    error=having(message=JSON) | JSON, object=st.just("error") | JSON
)


TOKEN_WITH_USAGE = st.fixed_dictionaries({"choices": st.just([{"text": "a"}]), "usage": USAGE})


@given(st.lists(CHUNK | TOKEN_WITH_USAGE, max_size=6))
def test_no_json_makes_an_answer_hang(stream: list[Any]) -> None:
    """A reader's callback has nobody to raise to: whatever comes, the answer ends, and is kept."""
    it = reply(HEAD, *(sse(json.dumps(value).encode()) for value in stream), sse(DONE))
    assert it.ending is not None
    assert all(0 <= index < len(it.at_ns) for index in it.coalesced)


@given(
    st.lists(st.binary(max_size=40), max_size=6), st.sampled_from([b"", HEAD, HEAD + sse(TOKEN)])
)
def test_no_bytes_make_an_answer_hang(reads: list[bytes], before: bytes) -> None:
    it = reply(before, *reads)
    it.lost(None, 10**6)
    assert it.ending is not None


def test_a_reply_ends_in_the_ways_that_a_record_knows() -> None:
    assert set(get_args(How)) == {status.value for status in Status}


def said(*texts: bytes) -> tuple[str, int] | None:
    it = Reply(keep_text=True)
    it.feed(HEAD, 10, True)
    for number, text in enumerate(texts, 2):
        it.feed(sse(text), number * 10, True)
    return it.said


def test_an_answer_s_text_is_kept_only_where_it_is_wanted() -> None:
    assert reply(HEAD, sse(TOKEN), sse(TOKEN), sse(DONE)).said is None
    assert said(ROLE, TOKEN, counted(2, b'"content":" b\\n"'), FINISH, DONE) == ("a b\n", 0)
    assert said(b'{"choices":[{"index":0,"text":" x"}]}', DONE) == (" x", 0)
    assert said(ROLE) == ("", 0)


def test_reasoning_is_left_out_of_a_text_and_counted() -> None:
    both = b'{"choices":[{"delta":{"reasoning_content":"t","content":"v"}}]}'
    assert said(ROLE, THOUGHT, THOUGHT, both, TOKEN, DONE) == ("va", 2)


def test_calls_of_tools_and_refusals_are_text() -> None:
    first = b'{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{"}}]}}]}'
    more = b'{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}]}'
    no = b'{"choices":[{"delta":{"refusal":"no"}}]}'
    assert said(TOKEN, first, more, DONE) == ("a\nf {}", 0)
    assert said(no, DONE) == ("no", 0)
    old = b'{"choices":[{"delta":{"function_call":{"name":"g","arguments":"1"}}}]}'
    assert said(old, DONE) == ("\ng 1", 0)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=20), st.integers(1, 40))
def test_a_text_is_what_was_written_however_it_is_cut(words: list[str], size: int) -> None:
    chunks = [json.dumps({"choices": [{"delta": {"content": word}}]}).encode() for word in words]
    stream = HEAD + b"".join(map(sse, chunks)) + sse(DONE) + END
    it = Reply(keep_text=True)
    for at in range(0, len(stream), size):
        it.feed(stream[at : at + size], 10, True)
    assert it.said == ("".join(words), 0)
    assert it.ending == Ending("ok", None, 10)
    assert len(it.at_ns) == len(words)
