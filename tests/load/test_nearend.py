"""From which event on a stream is read at once."""

from __future__ import annotations

from inferometer.load.nearend import FEW, KEPT, MARGIN, MOST_SHARE, NearEnd


def test_at_first_an_event_a_token_is_expected() -> None:
    near_end = NearEnd()
    assert near_end.event(256) == 256 - MARGIN
    for _ in range(FEW - 1):
        near_end.learn(200, 256)
    assert near_end.event(256) == 256 - MARGIN
    near_end.learn(200, 256)
    assert near_end.event(256) == 200 - MARGIN


def test_where_answers_have_as_many_events_nothing_changes() -> None:
    near_end = NearEnd()
    for length in range(50, 150):
        near_end.learn(length, length)
    assert near_end.event(1_000) == 1_000 - MARGIN


def test_most_answers_are_read_at_once_before_they_end_and_never_for_long() -> None:
    """Of 226 tokens 3 to 24 share an event with another, as on a busy server."""
    events = [226 - 3 - (7 * n) % 22 for n in range(300)]
    near_end = NearEnd()
    early = []
    for count in events:
        at = near_end.event(226)
        early.append(count - at)
        near_end.learn(count, 226)
    known = early[KEPT:]
    assert sum(left < 0 for left in known) <= 0.1 * len(known)
    assert max(known) <= 226 * MOST_SHARE + MARGIN + 22


def test_answers_that_end_when_they_like_are_not_all_read_at_once() -> None:
    near_end = NearEnd()
    for n in range(KEPT):
        near_end.learn(1 + 4 * n, 256)
    usual = 1 + 4 * (KEPT // 2)
    assert near_end.event(256) == int((usual / 256 - MOST_SHARE) * 256) - MARGIN


def test_what_a_server_did_long_ago_is_forgotten() -> None:
    near_end = NearEnd()
    for _ in range(KEPT):
        near_end.learn(100, 200)
    for _ in range(KEPT):
        near_end.learn(200, 200)
    assert near_end.event(200) == 200 - MARGIN
