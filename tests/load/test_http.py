"""HTTP responses: each kind of body, every split, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.load.http import (
    MAX_CHUNK_LINE_BYTES,
    MAX_HEAD_BYTES,
    HttpError,
    ResponseParser,
    Server,
    request_head,
)


class Parsed(NamedTuple):
    body: bytes
    status: int | None
    complete: bool
    reusable: bool


def parse(*pieces: bytes) -> Parsed:
    parser = ResponseParser()
    body = b"".join(parser.feed(piece) for piece in pieces)
    return Parsed(body, parser.status, parser.complete, parser.reusable)


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
STREAMS = {
    "chunked": (CHUNKED + b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", Parsed(b"hello!", 200, True, True)),
    "chunk extensions and trailers": (
        CHUNKED + b'A ;q="1;2"\r\n0123456789\r\n00\r\nX-T: 1\r\nY: 2\r\n\r\n',
        Parsed(b"0123456789", 200, True, True),
    ),
    "chunks that look like framing": (
        CHUNKED + b"7\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n",
        Parsed(b"0\r\n\r\n\r\n", 200, True, True),
    ),
    "length": (OK + b"content-length: 3\r\n\r\nabc", Parsed(b"abc", 200, True, True)),
    "the same length twice": (
        OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        Parsed(b"abc", 200, True, True),
    ),
    "no bytes": (OK + b"Content-Length: 0\r\n\r\n", Parsed(b"", 200, True, True)),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", Parsed(b"", 204, True, True)),
    "until close": (OK + b"X: y\r\n\r\nabc", Parsed(b"abc", 200, False, False)),
    "short": (OK + b"Content-Length: 4\r\n\r\nabc", Parsed(b"abc", 200, False, False)),
    "the server closes": (
        OK + b"Connection: Close\r\nContent-Length: 1\r\n\r\na",
        Parsed(b"a", 200, True, False),
    ),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", Parsed(b"a", 200, True, False)),
    "old but kept": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na",
        Parsed(b"a", 200, True, True),
    ),
    "interim responses first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno",
        Parsed(b"no", 503, True, True),
    ),
    "lines that end in LF": (
        b"HTTP/1.1 200\nContent-Length: 1\n\na",
        Parsed(b"a", 200, True, True),
    ),
    "more than the response": (
        OK + b"Content-Length: 1\r\n\r\nab",
        Parsed(b"a", 200, True, False),
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_responses_whole_and_byte_by_byte(name: str) -> None:
    stream, expected = STREAMS[name]
    assert parse(stream) == expected
    pieces = [bytes([byte]) for byte in stream]
    if name == "more than the response":
        pieces = [stream[:-2], stream[-2:]]
    assert parse(*pieces) == expected


@given(name=st.sampled_from(sorted(STREAMS)), cuts=st.lists(st.integers(0, 200), max_size=12))
def test_any_split_gives_the_same_response(name: str, cuts: list[int]) -> None:
    stream, expected = STREAMS[name]
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    got = parse(*pieces)
    # what lies behind a response may come when nobody reads any more
    assert got._replace(reusable=expected.reusable) == expected


def test_a_body_until_close_is_complete_when_the_connection_closes() -> None:
    parser = ResponseParser()
    assert parser.feed(OK + b"\r\nab") == b"ab"
    assert parser.feed(b"c") == b"c"
    assert parser.eof()
    assert parser.complete
    assert not parser.reusable


@pytest.mark.parametrize(
    "stream", [b"", OK, CHUNKED + b"3\r\nabc\r\n", OK + b"Content-Length: 4\r\n\r\nabc"]
)
def test_any_other_response_that_the_connection_ends_is_not(stream: bytes) -> None:
    parser = ResponseParser()
    parser.feed(stream)
    assert not parser.eof()


def test_headers_are_found_in_lower_case_and_joined() -> None:
    parser = ResponseParser()
    parser.feed(OK + b"X-A:  1 \r\nx-a: 2\r\nEmpty:\r\n\r\n")
    assert parser.headers == {"x-a": "1, 2", "empty": ""}


def test_a_header_may_be_folded_and_so_may_a_trailer() -> None:
    parser = ResponseParser()
    parser.feed(OK + b"X-A: 1\r\n  2 \r\n\t3\r\nX-B: 4\r\nTransfer-Encoding:\r\n chunked\r\n\r\n")
    assert (parser.headers["x-a"], parser.headers["x-b"]) == ("1 2 3", "4")
    assert parser.feed(b"1\r\na\r\n0\r\nX-C: 5\r\n 6\r\n\r\n") == b"a"
    assert parser.complete


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"SSH-2.0-OpenSSH", "not an HTTP/1.1 response"),
        (b"HTTP/2 200\r\n\r\n", "not an HTTP/1.1 response"),
        (b"HTTP/1.1 abc\r\n\r\n", "bad status line"),
        (b"HTTP/1.1 999 x\r\n\r\n", "bad status line"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "switched protocols"),
        (OK + b"no colon\r\n\r\n", "bad header line"),
        (OK + b"bad name: x\r\n\r\n", "bad header line"),
        (OK + b" folded: x\r\n\r\n", "bad header line"),
        (OK + b"Content-Length: -1\r\n\r\n", "bad content-length"),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "bad content-length"),
        (OK + b"Content-Length: 0x1\r\n\r\n", "bad content-length"),
        (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "unknown transfer-encoding"),
        (OK + b"Content-Encoding: br\r\n\r\n", "content-encoding 'br' was not asked"),
        (OK + b"Content-Encoding: gzip\r\n\r\nplain text", "not the gzip that its head says"),
        (CHUNKED + b"\r\n", "bad chunk size"),
        (CHUNKED + b"-1\r\n", "bad chunk size"),
        (CHUNKED + b"0x5\r\n", "bad chunk size"),
        (CHUNKED + b"fffffffffffffffff\r\n", "bad chunk size"),
        (CHUNKED + b"3\r\nabcd\r\n", "not followed by CRLF"),
        (CHUNKED + b"0\r\nno colon\r\n\r\n", "bad header line"),
    ],
)
def test_what_is_not_http_is_refused(stream: bytes, message: str) -> None:
    with pytest.raises(HttpError, match=message):
        parse(stream)
    with pytest.raises(HttpError, match=message):
        parse(*(bytes([byte]) for byte in stream))


@pytest.mark.parametrize(
    ("start", "limit"),
    [
        (OK + b"X: ", MAX_HEAD_BYTES),
        (CHUNKED + b"1;", MAX_CHUNK_LINE_BYTES),
        (CHUNKED + b"0\r\nX: ", MAX_HEAD_BYTES),
    ],
)
def test_heads_chunk_lines_and_trailers_have_a_largest_size(start: bytes, limit: int) -> None:
    for more in (b"x" * (limit + 1), b"x" * limit + b"\r\n\r\n"):
        with pytest.raises(HttpError, match=f"longer than {limit} bytes"):
            parse(start, more)


def test_framing_behind_the_body_is_seen() -> None:
    parser = ResponseParser()
    seen = []
    for piece in (CHUNKED, b"1\r\na\r\n", b"1\r\nb\r\n1", b"\r\nc", b"\r\n0\r\n\r\n"):
        parser.feed(piece)
        seen.append(parser.ends_inside_framing)
    assert seen == [False, False, True, False, True]


def test_the_head_of_a_request() -> None:
    head = request_head("POST", "/v1/x", {"host": "h:1", "a": "ü"})
    assert head == b"POST /v1/x HTTP/1.1\r\nhost: h:1\r\na: \xfc\r\n\r\n"


@pytest.mark.parametrize(
    ("server", "authority"),
    [
        (Server("h", 80, tls=False), "h"),
        (Server("h", 443, tls=True), "h"),
        (Server("h", 443, tls=False), "h:443"),
        (Server("::1", 8000, tls=False), "[::1]:8000"),
    ],
)
def test_the_host_header(server: Server, authority: str) -> None:
    assert server.authority == authority
