"""Streams that are damaged: no token is made up, and no count believed that contradicts the events.

A second reading of the same bytes, by the standard library and slowly, is the measure of what a
damaged stream still holds.
"""

from __future__ import annotations

import http.client
import io
import json
import re

import pytest
from fuzzing import CUTS, INTERIM, NAMES, check_sound, cut, replied, said
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import (
    DONE,
    END,
    HEAD,
    ODD,
    STREAMS,
    USAGE,
    chunk,
    counted,
    sse,
    stream,
    text,
)

from inferometer.load.chunks import ChunkReader, decode
from inferometer.load.http import HttpError, ResponseParser
from inferometer.load.reply import Reply
from inferometer.load.sse import Event


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
