"""Reads known by their bytes say what parsing them says: the same, event for event."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer.load.chunks import ChunkReader
from inferometer.load.plain import Plain, learn
from inferometer.load.reply import Reply

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Parsing(Reply):
    """A reply that knows no read by its bytes."""

    def _learn(self, data: bytes) -> None:
        """Nothing."""


def body_of(text: str, count: int | None, key: str = "content") -> bytes:
    chunk: dict[str, Any] = {"id": "t1", "choices": [{"index": 0, "delta": {key: text}}]}
    if count is not None:
        total = {"total_tokens": 100 + count}
        chunk["usage"] = {"prompt_tokens": 100, "completion_tokens": count} | total
    return json.dumps(chunk, ensure_ascii=False).encode()


def framed(data: bytes, newline: bytes = b"\n", before: bytes = b"data: ") -> bytes:
    body = before + data + newline * 2
    return b"%x\r\n%b\r\n" % (len(body), body)


def learned(data: bytes) -> Plain:
    reader = ChunkReader()
    reader.read(data)
    assert reader.shape is not None
    plain = learn(framed(data), reader.shape)
    assert plain is not None
    return plain


@pytest.mark.parametrize(
    "text", ["a", "a" * 15, "a" * 200, "a" * 4000, "a" * 70_000, "\\n", "é語🙂"]
)
def test_another_text_of_any_length_matches(text: str) -> None:
    plain = learned(body_of("x", None))
    read = framed(body_of(text, None))
    assert plain.match(read, len(read)) == 0
    assert plain.match(bytearray(read) + b"left over", len(read)) == 0
    assert not plain.counts


@pytest.mark.parametrize(
    "read",
    [
        b"",
        framed(body_of("", None)),
        framed(body_of("a", None))[:-1],
        framed(body_of("a", None)) + b"0",
        framed(body_of("a", None)) * 2,
        framed(body_of("a", None, key="reasoning")),
        framed(body_of("a", 1)),
        framed(body_of("e\u0301", None).replace(b"\xcc\x81", b"\xcc")),
        framed(body_of("a", None).replace(b'"a"', b'"a","finish_reason":"x"')),
        framed(body_of("a", None).replace(b'"a"', b'"\\x"')),
        framed(body_of("ab", None)).replace(b"\r\n", b"\r\n\n", 1),
        b"1" + framed(body_of("a", None))[1:],
    ],
)
def test_what_says_anything_else_does_not_match(read: bytes) -> None:
    assert learned(body_of("x", None)).match(read, len(read)) == -1


@given(
    st.lists(st.sampled_from([0, 1, 1, 1, 2, 90]), max_size=12), st.sampled_from(["", "%", "%d"])
)
def test_counts_are_told_whether_they_grow_by_one_or_not(steps: list[int], sign: str) -> None:
    def body(count: int) -> bytes:
        return body_of("x" * (count % 3 + 1), count).replace(
            b'"total', f'"a{sign}": "", "total'.encode()
        )

    plain = learned(body(9))
    count = 9
    for step in steps:
        count += step
        read = framed(body(count))
        assert plain.match(read, len(read)) == count
        assert plain.run(read) == ([count], len(read))
        wrong = framed(body(count).replace(b'total_tokens": ', b'total_tokens": 0'))
        assert plain.match(wrong, len(wrong)) == -1


def test_counts_that_grow_match_and_are_told() -> None:
    plain = learned(body_of("x", 9))
    assert plain.counts
    for text, count in (("y", 10), ("zz", 9), ("long" * 90, 123_456_789)):
        read = framed(body_of(text, count))
        assert plain.match(read, len(read)) == count
    for wrong in (b":07,", b":1234567890,", b":-1,", b":1.5,", b":,"):
        read = framed(body_of("y", 10).replace(b": 10,", wrong))
        assert plain.match(read, len(read)) == -1, wrong


def test_a_prompt_count_that_changes_is_parsed() -> None:
    plain = learned(body_of("x", 9))
    read = framed(body_of("y", 10).replace(b'"prompt_tokens": 100', b'"prompt_tokens": 101'))
    assert plain.match(read, len(read)) == -1


def test_a_late_read_holds_several() -> None:
    plain = learned(body_of("x", 1))
    reads = [framed(body_of(text, count)) for text, count in (("a", 2), ("bb", 4), ("c", 5))]
    whole = b"".join(reads)
    assert plain.run(whole) == ([2, 4, 5], len(whole))
    assert plain.run(whole[:-1]) == ([2, 4], len(reads[0] + reads[1]))
    assert plain.run(whole + b"0\r\n\r\n") == ([2, 4, 5], len(whole))


def test_a_stream_is_known_after_its_first_token() -> None:
    it = Reply()
    known = []
    # The last read ends inside a chunk header, and so the next one is no whole chunk.
    for read in (HEAD, framed(body_of("a", None)), b"5"):
        it.feed(read, 1, kernel=True)
        known.append(it.plain is not None)
    assert known == [False, True, False]


TEXTS = st.sampled_from(["", "a", " tok", "é", 'q"q', "\\", "\n", "a" * 20, "\U0001f600"])
ODD = st.tuples(
    TEXTS, st.none() | st.integers(-3, 3), st.sampled_from(["content", "reasoning", "role"])
)


@st.composite
def events_of_a_stream(draw: st.DrawFn) -> list[tuple[str, int | None, str]]:
    """Mostly alike, as servers send them, with a few odd ones between."""
    counted, key = draw(st.booleans()), draw(st.sampled_from(["content", "reasoning"]))
    texts = draw(st.lists(st.sampled_from(["a", "bc", " tok", "a" * 20]), min_size=4, max_size=12))
    grows = st.integers(0, 3) if counted else st.none()
    events = [(text, draw(grows), key) for text in texts]
    for odd in draw(st.lists(ODD, max_size=2)):
        events.insert(draw(st.integers(0, len(events))), odd)
    return events


def stream_of(
    events: list[tuple[str, int | None, str]], newline: bytes, before: bytes, packing: list[int]
) -> tuple[list[bytes], bytes]:
    """Chunks of the body; completion tokens grow by what each event says.

    `packing` by event, in turns: 1 puts it before the next in one chunk, 2 parts it over two.
    """
    count, chunks, held = 0, [HEAD], b""
    for number, (text, grows, key) in enumerate(events):
        count = max(count + (grows or 0), 0)
        data = body_of(text, None if grows is None else count, key)
        held += before + data + newline * 2
        how = packing[number % len(packing)]
        parts = [held] if how == 0 else [held[:30], held[30:]] if how == 2 else []
        chunks += [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        held = held if how == 1 else b""
    chunks.append(DONE)
    return chunks, b"".join(chunks)


def account(reads: list[bytes], kind: type[Reply]) -> dict[str, Any]:
    it = kind()
    for number, read in enumerate(reads, 1):
        it.feed(read, number * 10, kernel=number % 3 > 0)
    return {
        "ending": it.ending,
        "at": list(it.at_ns),
        "coalesced": list(it.coalesced),
        "tokens": it.tokens and list(it.tokens),
        "usage": it.usage,
        "source": it.token_source,
        "kernel": it.kernel_stamps,
        "visible": it.first_visible_ns,
        "bytes": (it.first_byte_ns, it.last_byte_ns),
        "end": (it.body_complete, it.connection_reusable),
    }


@settings(max_examples=500)
@given(
    events_of_a_stream(),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.sampled_from([b"data: ", b"data:", b": ping\ndata: ", b"event: x\ndata: "]),
    st.just([0]) | st.lists(st.sampled_from([0, 0, 1, 2]), min_size=1, max_size=5),
    st.lists(st.integers(0, 3_000), max_size=6),
    st.sampled_from([True, True, False]),
)
def test_knowing_reads_by_their_bytes_changes_nothing(
    events: list[tuple[str, int | None, str]],
    newline: bytes,
    before: bytes,
    packing: list[int],
    cuts: list[int],
    by_chunk: bool,
) -> None:
    chunks, whole = stream_of(events, newline, before, packing)
    reads: list[bytes] = []
    if by_chunk:  # mostly one chunk a read, as servers send, and some that came late
        rest = list(chunks)
        while rest:
            take = 1 + (cuts[len(reads) % len(cuts)] % 3 if cuts else 0)
            reads.append(b"".join(rest[:take]))
            rest = rest[take:]
    else:
        edges = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
        reads = [whole[a:b] for a, b in pairwise(edges)]
        reads = [read for read in reads if read]
    assert account(reads, Reply) == account(reads, Parsing)


def one_chunk(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return b"%x\r\n%b\r\n" % (len(body), body)


THOUGHT = b"data: " + body_of("h", None, key="reasoning") + b"\n\n"


@pytest.mark.parametrize(
    ("reads", "events"),
    [
        # Half an event, and then a whole chunk: together they are no JSON.
        ([framed(body_of("a", None)), one_chunk(b"data: {"), framed(body_of("b", None))], 1),
        # Two events in one chunk, every time.
        ([one_chunk(THOUGHT, b"data: " + body_of(t, None) + b"\n\n") for t in "abc"], 6),
        # Counts that fall inside one late read.
        ([framed(body_of("a", 1)), framed(body_of("b", 5)) + framed(body_of("c", 4))], 3),
    ],
)
def test_what_only_looks_plain_is_parsed(reads: list[bytes], events: int) -> None:
    seen, parsed = account([HEAD, *reads], Reply), account([HEAD, *reads], Parsing)
    assert seen == parsed
    assert len(seen["at"]) == events
