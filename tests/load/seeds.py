"""Streams of bytes that parsers get wrong: where the fuzz tests begin, and examples by themselves.

`STREAMS` are whole valid responses with the token events they hold; `ODD` are pieces that were
once misread somewhere, valid or not.
"""

from __future__ import annotations

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
FINISH = b'{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}'
ROLE = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'
USAGE = b'{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":%d}}'
DONE = b"[DONE]"


def text(inside: str, key: str = "content") -> bytes:
    """A chunk with this between the quotes of its text."""
    return b'{"choices":[{"index":0,"delta":{"%b":"%b"}}]}' % (key.encode(), inside.encode())


def counted(inside: str, count: int) -> bytes:
    usage = b',"usage":{"prompt_tokens":9,"completion_tokens":%d}}' % count
    return text(inside)[:-1] + usage


def sse(*events: bytes, newline: bytes = b"\n", before: bytes = b"data: ") -> bytes:
    return b"".join(before + event + newline * 2 for event in events)


def chunk(body: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(body), extension, body)


def stream(*events: bytes, newline: bytes = b"\n", before: bytes = b"data: ") -> bytes:
    """A response with a chunk an event."""
    pieces = (chunk(sse(event, newline=newline, before=before)) for event in (*events, DONE))
    return HEAD + b"".join(pieces) + END


UTF8 = ["é", "漢字", "\U0001f600", "\u2028\u2029\x85", "e\u0301", "\ufeff"]
ESCAPES = [
    "\\n",
    "\\\\",
    '\\"',
    "\\u00e9",
    "\\u6f22",
    "\\ud83d\\ude00",
    "\\\\\\\\n",
    '\\\\\\"',
    "\\/",
]
FRAMES = ["data: x", "\\n\\ndata: [DONE]\\n\\n", "0\\r\\n\\r\\n", '"}}]}', "[DONE]", ": ping"]
"""Text that looks like the framing around it."""

WORDS = [*UTF8, *ESCAPES, *(frame.replace('"', '\\"') for frame in FRAMES)]

STREAMS: dict[str, tuple[bytes, int]] = {
    "text of every kind": (stream(ROLE, *map(text, WORDS), FINISH), len(WORDS)),
    "the same words again and again": (stream(*[text("a"), text("é"), text("\\n")] * 5), 15),
    "CRLF": (stream(ROLE, *map(text, WORDS), FINISH, newline=b"\r\n"), len(WORDS)),
    "CR": (stream(ROLE, *map(text, WORDS), FINISH, newline=b"\r"), len(WORDS)),
    "comments": (stream(ROLE, *map(text, "abc"), before=b": ping\ndata:"), 3),
    "fields around": (stream(*map(text, "abc"), before=b"id: 1\nevent: x\nretry: 5\ndata:"), 3),
    "counts": (stream(*(counted("ab", 2 * n) for n in range(1, 9)), FINISH, USAGE % 16), 8),
    "counts that jump": (stream(*(counted("é", n * n) for n in range(1, 6)), USAGE % 25), 5),
    "reasoning, then text": (
        stream(*[text("a", "reasoning")] * 3, *[text("b")] * 3, USAGE % 7),
        6,
    ),
    "two events in a chunk": (
        HEAD + chunk(sse(text("a"), text("b"))) + chunk(sse(text("c"), DONE)) + END,
        3,
    ),
    "an event over two chunks": (
        HEAD
        + b"".join(chunk(sse(text("漢"))[a:b]) for a, b in ((0, 50), (50, 99)))
        + chunk(sse(DONE))
        + END,
        1,
    ),
    "extensions and trailers": (
        HEAD + chunk(sse(text("a"), FINISH), b' ;q="1;2"') + b"0\r\nX-T: 1\r\nY: 2\r\n\r\n",
        1,
    ),
    "one data field over two lines": (
        HEAD
        + chunk(b'data: {"choices":\ndata: [{"delta":{"content":"a"}}]}\n\n')
        + chunk(sse(FINISH))
        + END,
        1,
    ),
    "a stated length": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 73\r\n\r\n" + sse(text("abc"), DONE),
        1,
    ),
    "until the connection closes": (
        b"HTTP/1.0 200 OK\r\n\r\n\xef\xbb\xbf" + sse(text("a"), text("é"), FINISH),
        2,
    ),
    "an interim response": (b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + stream(text("a")), 1),
}

ODD = [
    b"",
    b"\r",
    b"\n\n\n",
    b"\r\n\r\n",
    b"data",
    b"data:\n\ndata: \n\n",
    b"data: {}\n\n",
    b"data: []\n\n",
    b"data: null\n\n",
    b'data: {"choices":null}\n\n',
    b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
    b'data: {"error":null,"choices":[]}\n\n',
    b"data: " + b"[" * 3_000 + b"\n\n",
    b"data: [DONE] \n\n",
    b"event: error\ndata: x\n\n",
    b"\xef\xbb\xbf",
    b"\xef\xbb",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00",
    b"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\nno",
    b"0\r\n\r\n",
    b"00;x\r\nX: y\r\n\r\n",
    b"ffffffffffffff\r\n",
    b"-1\r\n",
    b"1_0\r\n",
    b"5\nhello\n",
]
