"""Server-sent events: the standard's own cases, every split, and which stamps are exact."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.load import sse
from inferometer.load.sse import Event, SseError, SseParser


def parse(*pieces: bytes) -> list[Event]:
    """Feed pieces with stamps 1, 2, 3, ..."""
    parser = SseParser()
    return [event for at, piece in enumerate(pieces, 1) for event in parser.feed(piece, at)]


def texts(*pieces: bytes) -> list[bytes]:
    return [event.data for event in parse(*pieces)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b": ping\ndata: a\n: pong\n\n", [b"a"]),
        (b": ping\n\n\n\n", []),
        (b"id: 7\nretry: 10\nother: x\nevent: e\ndata: a\n\n", [b"a"]),
        (b"event: e\n\n", []),
        (b"data\n\ndata\ndata\n\ndata:", [b"", b"\n"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
        (b"data: x\n\ndata: unfinished\n", [b"x"]),
        ("data: ä\u2028ß\x85\x0b\x0c\x1c\n\n".encode(), ["ä\u2028ß\x85\x0b\x0c\x1c".encode()]),
        (b"data: [DONE]\n\n", [b"[DONE]"]),
        (b"data : a\n\n", []),
        (b"", []),
    ],
)
def test_streams(stream: bytes, expected: list[bytes]) -> None:
    assert texts(stream) == expected
    assert texts(*(bytes([byte]) for byte in stream)) == expected


def test_the_type_belongs_to_one_event() -> None:
    events = parse(b"event: error\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n")
    assert [(event.type, event.data) for event in events] == [
        (b"error", b"a"),
        (b"", b"b"),
        (b"", b"c"),
    ]


def test_an_event_bears_the_stamp_of_the_read_that_ended_it() -> None:
    events = parse(b"data: a", b"bc\n", b"\n", b"data: d\n\nda", b"ta: e\n\n")
    assert [(event.data, event.at_ns) for event in events] == [(b"abc", 3), (b"d", 4), (b"e", 5)]


@pytest.mark.parametrize(
    ("read", "flags"),
    [
        (b"data: a\n\n", [False]),
        (b"data: a\r\n\r\n", [False]),
        (b"data: a\n\ndata: b\n\n", [True, False]),
        (b"data: a\n\nd", [True]),
        (b"data: a\n\n: ping\n", [True]),
        (b": ping\ndata: a\n\n", [False]),
    ],
)
def test_what_follows_in_the_same_read_makes_a_stamp_doubtful(
    read: bytes, flags: list[bool]
) -> None:
    assert [event.coalesced for event in parse(read)] == flags


def test_framing_behind_the_stream_makes_the_last_stamp_doubtful() -> None:
    (event,) = SseParser().feed(b"data: a\n\n", 1, more_followed=True)
    assert event.coalesced


def test_the_second_half_of_a_crlf_may_come_later() -> None:
    assert texts(b"data: a\r", b"\n\r", b"\ndata: b\r", b"\r") == [b"a", b"b"]


def test_an_event_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 40)
    assert len(parse(*([b"data: 0123456789\n\n", b": a comment of some length\n\n"] * 20))) == 20
    for endless in (b"0123456789", b"data: 012\n"):
        with pytest.raises(SseError, match="longer than 40 bytes"):
            parse(*[endless] * 10)


LINE_END = st.sampled_from([b"\n", b"\r\n", b"\r"])
LINE = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8).map(
        lambda text: b"data: " + text.encode()
    ),
    st.sampled_from([b"", b"", b"data", b"data:", b":c", b"event: e", b"x"]),
)


@given(
    lines=st.lists(st.tuples(LINE, LINE_END), max_size=30),
    cuts=st.lists(st.integers(0, 400), max_size=20),
)
def test_any_split_gives_the_same_events(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    whole = [(event.type, event.data) for event in parse(stream)]
    assert [(event.type, event.data) for event in parse(*pieces)] == whole
