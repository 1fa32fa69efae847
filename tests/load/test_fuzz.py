"""Whatever comes: no fault but those that are known, no dependence on cuts, no token made up.

A second reading of the same bytes, by the standard library and slowly, is the measure of what a
damaged stream still holds.
"""

from __future__ import annotations

import http.client
import io
import json
import re
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from seeds import (
    DONE,
    END,
    ESCAPES,
    FINISH,
    HEAD,
    ODD,
    STREAMS,
    USAGE,
    UTF8,
    chunk,
    counted,
    sse,
    stream,
    text,
)

from inferometer.load.chunks import ChunkReader, decode
from inferometer.load.http import HttpError, ResponseParser
from inferometer.load.reply import Reply
from inferometer.load.sse import Event, SseError, SseParser

CLOSED_NS = 10**9
NAMES = sorted(STREAMS)
INTERIM = "an interim response"
"""Which the standard library takes for the real one."""
CUTS = st.lists(st.integers(0, 2_000), max_size=8)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """Reads of which none is empty."""
    edges = [0, *sorted({at % len(data) for at in cuts} - {0}), len(data)] if data else [0]
    return [data[a:b] for a, b in pairwise(edges)]


def replied(reads: list[bytes]) -> Reply:
    """An answer that came in these reads, with the stamps 1, 2, ..., and was then closed."""
    reply = Reply()
    for number, read in enumerate(reads, 1):
        reply.feed(read, number, kernel=True)
    reply.lost(None, CLOSED_NS)
    return reply


def said(reply: Reply) -> dict[str, Any]:
    """All that must not depend on how the bytes were cut, and so no stamp."""
    assert reply.ending is not None
    at = list(reply.at_ns)
    visible = None if reply.first_visible_ns is None else at.index(reply.first_visible_ns)
    return {
        "status": reply.ending.status,
        "events": len(at),
        "tokens": None if reply.tokens is None else list(reply.tokens),
        "source": reply.token_source,
        "usage": reply.usage,
        "http": reply.http_status,
        "visible": visible is not None,
        "complete": reply.body_complete,
    }


def check_sound(reply: Reply) -> None:
    """What holds of every answer, however broken."""
    assert reply.ending is not None
    at, marks = list(reply.at_ns), list(reply.coalesced)
    assert at == sorted(at)
    assert marks == sorted(set(marks) & set(range(len(at))))
    assert reply.first_visible_ns is None or reply.first_visible_ns in at
    if reply.tokens is not None:
        assert len(at) <= sum(reply.tokens) <= (reply.usage.completion_tokens or 0)
        assert min(reply.tokens) >= 0
    if reply.ending.status == "ok":
        assert at
        assert reply.ending.error is None
    else:
        assert reply.ending.error


# Valid streams.


@pytest.mark.parametrize("name", NAMES)
def test_valid_streams_say_the_same_wherever_they_are_cut(name: str) -> None:
    whole, events = STREAMS[name]
    expected = said(replied([whole]))
    assert (expected["status"], expected["events"]) == ("ok", events)
    for at in range(1, len(whole)):
        assert said(replied([whole[:at], whole[at:]])) == expected, at
    assert said(replied([bytes([byte]) for byte in whole])) == expected


@settings(max_examples=150)
@given(name=st.sampled_from(NAMES), cuts=CUTS)
def test_any_cuts_of_a_valid_stream_say_the_same(name: str, cuts: list[int]) -> None:
    whole, events = STREAMS[name]
    reply = replied(cut(whole, cuts))
    assert said(reply) == said(replied([whole]))
    assert len(reply.at_ns) == events
    check_sound(reply)


def ends_of_events(events: list[bytes], newline: bytes) -> tuple[bytes, list[int]]:
    """A stream with a chunk an event, and how many of its bytes are needed to end each."""
    pieces = [chunk(sse(event, newline=newline)) for event in events]
    starts = accumulate((len(piece) for piece in pieces), initial=len(HEAD))
    # Behind the event stands the chunk's CRLF, and of an empty line that ends in CRLF the CR is
    # enough.
    behind = 3 if newline == b"\r\n" else 2
    ends = [at + len(piece) - behind for at, piece in zip(starts, pieces, strict=False)]
    return HEAD + b"".join(pieces) + chunk(sse(DONE)) + END, ends


@settings(max_examples=150)
@given(
    words=st.lists(st.sampled_from(["a", "bc", *UTF8, *ESCAPES]), min_size=1, max_size=9),
    counts=st.booleans(),
    newline=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=CUTS,
)
def test_a_token_bears_the_stamp_of_the_read_that_ended_it(
    words: list[str], counts: bool, newline: bytes, cuts: list[int]
) -> None:
    events = [counted(word, n) if counts else text(word) for n, word in enumerate(words, 1)]
    whole, needed = ends_of_events(events, newline)
    reads = cut(whole, cuts)
    come = list(accumulate(len(read) for read in reads))
    expected = [next(n for n, size in enumerate(come, 1) if size >= need) for need in needed]
    reply = replied(reads)
    assert list(reply.at_ns) == expected
    shared = {i for i, (a, b) in enumerate(pairwise(expected)) if a == b}
    assert shared <= set(reply.coalesced), "two of one read, and the first one is not marked"


@pytest.mark.parametrize("word", [*UTF8, *ESCAPES])
def test_a_split_inside_a_character_or_an_escape(word: str) -> None:
    """At every byte of the text, parsed and known by its bytes, and the halves in two reads."""
    event = text(word)
    at_text = event.index(b'"content":"') + len(b'"content":"')
    frame = chunk(sse(event))
    start = frame.index(event)
    for at in range(start + at_text, start + at_text + len(word.encode()) + 1):
        reply = replied([HEAD, frame, frame[:at], frame[at:], frame, chunk(sse(DONE)) + END])
        assert reply.ending is not None
        assert (reply.ending.status, list(reply.at_ns)) == ("ok", [2, 4, 5])
        assert not reply.coalesced


def test_two_events_in_one_read() -> None:
    a, b = chunk(sse(text("a"))), chunk(sse(text("b")))
    for reads in (
        [HEAD + a, a + b],
        [HEAD + a, chunk(sse(text("a"), text("b")))],
        [HEAD, a, a + b],
    ):
        reply = replied([*reads, chunk(sse(DONE)) + END])
        first, last = len(reads) - 1, len(reads)
        assert list(reply.at_ns) == [first, last, last]
        assert list(reply.coalesced) == [1], "only the first of two has a stamp that is not its own"


# Any bytes.

A_CHUNK = chunk(sse(text("a")))
THE_END = chunk(sse(text("a"), DONE))
PIECES = st.lists(
    st.one_of(
        st.binary(max_size=24),
        st.sampled_from(ODD),
        st.sampled_from([HEAD, chunk(sse(text("a"))), chunk(sse(DONE)), END, FINISH]),
        st.sampled_from([sse(text("é")), sse(counted("b", 2)), b"\r", b"\n", b"data: ", b"{"]),
    ),
    max_size=7,
)


@settings(max_examples=150)
@given(pieces=PIECES, cuts=CUTS)
def test_the_sse_parser_takes_any_bytes(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    events = [[], []]  # type: list[list[tuple[bytes, bytes]]]
    for reads, found in zip((cut(data, []), cut(data, cuts)), events, strict=True):
        parser = SseParser()
        try:
            for read in reads:
                found += [(event.type, event.data) for event in parser.feed(read, 1)]
        except SseError:
            pytest.fail("no event is as long as that")
    assert events[0] == events[1]
    assert len(events[0]) <= len(re.findall(rb"data", data))


def http_read(reads: list[bytes]) -> tuple[bytes, bool, bool, int | None]:
    """The body, whether it was complete, whether it was broken, and the status."""
    parser, body, broken = ResponseParser(), b"", False
    for read in reads:
        try:
            body += parser.feed(read)
        except HttpError as fault:
            body += fault.body
            broken = True
    if not broken:
        parser.eof()
    assert not (broken and parser.reusable)
    return body, parser.complete, broken, parser.status


@settings(max_examples=200)
@given(
    before=st.sampled_from([b"", HEAD, b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n"]),
    pieces=PIECES,
    cuts=CUTS,
)
@example(HEAD, [b"1\r\na\r\nzz\r\n"], [len(HEAD) + 6])
@example(HEAD, [b"1\r\nab", END], [len(HEAD) + 4])
def test_the_http_parser_takes_any_bytes(
    before: bytes, pieces: list[bytes], cuts: list[int]
) -> None:
    data = before + b"".join(pieces)
    assert http_read(cut(data, cuts)) == http_read(cut(data, []))


@settings(max_examples=250)
@given(before=st.sampled_from([b"", HEAD]), pieces=PIECES, cuts=CUTS)
@example(HEAD, [A_CHUNK, b"zz\r\n"], [len(HEAD + A_CHUNK)])
@example(HEAD, [THE_END, b"zz\r\n"], [len(HEAD + THE_END)])
def test_an_answer_takes_any_bytes(before: bytes, pieces: list[bytes], cuts: list[int]) -> None:
    data = before + b"".join(pieces)
    whole, parted = replied(cut(data, [])), replied(cut(data, cuts))
    check_sound(whole)
    check_sound(parted)
    assert said(parted) == said(whole)


# Damaged streams.


def second_reading(data: bytes) -> int:
    """Token events that the standard library finds, lenient where it can be."""
    response = http.client.HTTPResponse(_Socket(data.lstrip(b"\r\n")))  # type: ignore[arg-type]
    try:
        response.begin()
        body = _body(response)
    except (http.client.HTTPException, ValueError):
        return 0
    found, fields = 0, []
    for line in re.split(rb"\r\n|\n|\r", body.removeprefix(b"\xef\xbb\xbf")):
        if line.startswith(b"data:"):
            fields.append(line[5:].removeprefix(b" "))
        elif not line:
            found += _has_text(b"\n".join(fields))
            fields = []
    return found


class _Socket:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _body(response: http.client.HTTPResponse) -> bytes:
    body = b""
    try:
        while piece := response.read1(65_536):
            body += piece
    except (http.client.HTTPException, ValueError):
        pass  # as far as it came
    return body


def _has_text(data: bytes) -> bool:
    try:
        value = json.loads(data.decode("utf-8", "replace"), strict=False)
        deltas = [choice.get("delta", choice) for choice in value["choices"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return any(value for delta in deltas for key, value in delta.items() if key != "role")


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A valid stream of which a few bytes were lost, changed, moved or sent twice."""
    data = STREAMS[draw(st.sampled_from(NAMES))][0]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        size = draw(st.sampled_from([1, 1, 2, 5, 40, 200]))
        match draw(st.sampled_from(["cut", "lose", "change", "twice", "insert"])):
            case "cut":
                data = data[: max(at, 80)]
            case "lose":
                data = data[:at] + data[at + size :]
            case "change":
                data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
            case "twice":
                data = data[: at + size] + data[at:]
            case "insert":
                data = data[:at] + draw(st.sampled_from(ODD)) + data[at:]
    return data


@pytest.mark.parametrize("name", [name for name in NAMES if name != INTERIM])
def test_the_second_reading_agrees_on_what_is_whole(name: str) -> None:
    data, events = STREAMS[name]
    assert second_reading(data) == events
    assert second_reading(data[: data.index(b'"delta')]) == 0


class Doubling(Reply):
    """Counts a token twice where its text has an escape."""

    def _take_event(self, event: Event) -> None:
        super()._take_event(event)
        if b"\\n" in event.data:
            super()._take_event(event)


def test_the_second_reading_finds_a_token_made_up() -> None:
    data, events = STREAMS["text of every kind"]
    reply = Doubling()
    reply.feed(data, 1, kernel=True)
    assert len(reply.at_ns) > events == second_reading(data)


@settings(max_examples=300)
@given(data=damaged(), cuts=CUTS)
def test_a_damaged_stream_counts_no_more_tokens_than_it_holds(data: bytes, cuts: list[int]) -> None:
    reply = replied(cut(data, cuts))
    check_sound(reply)
    assert said(reply) == said(replied([data] if data else []))
    if b" 103 " not in data:
        assert len(reply.at_ns) <= second_reading(data)


# What counts may say.


@pytest.mark.parametrize(
    ("events", "status", "tokens"),
    [
        # As many as events, or more: text that was held back, tokens without any.
        ([counted("a", 1), counted("b", 2), USAGE % 2], "ok", [1, 1]),
        ([counted("a", 3), counted("", 5), counted("b", 6), USAGE % 7], "ok", [3, 3]),
        ([text("a"), text("b"), USAGE % 2], "ok", None),
        ([text("a"), text("b"), USAGE % 9], "ok", None),
        # Two texts of one count, made up for by another event: the sum is what it should be.
        ([counted("a", 2), counted("b", 2), counted("c", 3), USAGE % 3], "ok", [2, 0, 1]),
        # Fewer: the count is wrong, whichever way it was given.
        ([text("a"), text("b"), USAGE % 1], "malformed", None),
        ([text("a"), USAGE % 0], "malformed", None),
        ([counted("a", 1), counted("b", 1), USAGE % 1], "malformed", None),
        ([counted("a", 0), counted("b", 1), USAGE % 1], "malformed", None),
        # Counts of each chunk instead of sums, and the right sum at the end: that one is taken.
        ([counted("a", 1), counted("b", 1), counted("c", 1), USAGE % 3], "ok", None),
    ],
)
def test_a_count_of_fewer_tokens_than_events_is_not_believed(
    events: list[bytes], status: str, tokens: list[int] | None
) -> None:
    reply = replied([HEAD, *(chunk(sse(event)) for event in events), chunk(sse(DONE)) + END])
    assert reply.ending is not None
    assert reply.ending.status == status
    assert (reply.tokens and list(reply.tokens)) == tokens
    if status == "malformed":
        assert reply.ending.error is not None
        assert re.search(r"usage counts \d tokens, \d token events came", reply.ending.error)
        assert len(reply.at_ns) == len(events) - 1, "what came is kept"


@pytest.mark.parametrize(
    "half", ["\\ud83d", "\\ude00", "a\\ud83d", "\\ud83d\\u0041", "\\uD83D\\uD83D"]
)
def test_half_a_surrogate_pair_is_refused_by_every_way(half: str) -> None:
    """The first chunk of a stream is decoded, later ones are known by their bytes."""
    for before in ([], [text("a")]):
        reply = replied([stream(*before, text(half))])
        assert reply.ending is not None
        assert (reply.ending.status, len(reply.at_ns)) == ("malformed", len(before))
    reader = ChunkReader()
    assert reader.read(text("a")) == decode(text("a"))
    for pair in ("\\ud83d\\ude00", "\\uDBFF\\uDFFF", "\\ud7ff", "\\ue000"):
        assert reader.read(text(pair)) == decode(text(pair))


def test_what_follows_a_fault_in_the_framing_is_not_read() -> None:
    """A response that once broke is never complete, and its connection never used again."""
    parser = ResponseParser()
    parser.feed(HEAD)
    for read in (b"zz\r\n", END, stream(text("a"))):
        with pytest.raises(HttpError, match="bad chunk size"):
            parser.feed(read)
    assert not parser.complete
    assert not parser.reusable
    reply = replied([HEAD, chunk(sse(text("a"))), chunk(sse(DONE)) + b"zz\r\n", END])
    assert reply.ending is not None
    assert (reply.ending.status, reply.ending.at_ns) == ("ok", 3)
    assert not reply.connection_reusable
