"""Whatever comes: no fault but those that are known, and no dependence on cuts."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

import pytest
from fuzzing import CUTS, NAMES, check_sound, cut, replied, said
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
    UTF8,
    chunk,
    counted,
    sse,
    text,
)

from inferometer.load.http import HttpError, ResponseParser
from inferometer.load.sse import SseError, SseParser


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
