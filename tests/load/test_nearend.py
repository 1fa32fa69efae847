"""From which event on a stream is read at once."""

from __future__ import annotations

import pytest

from inferometer.load.nearend import FEW, KEPT, MARGIN, MOST_OPEN, MOST_SHARE, NearEnd


def learn(near_end: NearEnd, events: list[int], max_tokens: int, first: int = 0) -> None:
    """Answers, one after the other, with keys from `first` on."""
    for key, count in enumerate(events, first):
        near_end.begin(key)
        near_end.end(key, count / max_tokens)


def test_at_first_an_event_a_token_is_expected() -> None:
    near_end = NearEnd()
    assert near_end.event(256) == 256 - MARGIN
    learn(near_end, [200] * (FEW - 1), 256)
    assert near_end.event(256) == 256 - MARGIN
    learn(near_end, [200], 256)
    assert near_end.event(256) == 200 - MARGIN


def test_where_answers_have_as_many_events_nothing_changes() -> None:
    near_end = NearEnd()
    learn(near_end, [100] * KEPT, 100)
    assert near_end.event(1_000) == 1_000 - MARGIN


def test_most_answers_are_read_at_once_before_they_end_and_never_for_long() -> None:
    """Of 226 tokens 3 to 24 share an event with another, as on a busy server."""
    near_end = NearEnd()
    early = []
    for count in [226 - 3 - (7 * n) % 22 for n in range(300)]:
        early.append(count - near_end.event(226))
        learn(near_end, [count], 226)
    known = early[KEPT:]
    assert sum(left < 0 for left in known) <= 0.1 * len(known)
    assert max(known) <= 226 * MOST_SHARE + MARGIN


@pytest.mark.parametrize("shortest", [1, 85])
def test_of_answers_that_end_when_they_like_none_is_read_at_once_before_the_length_asked_for(
    shortest: int,
) -> None:
    """Otherwise those that go on would be, for most of their length."""
    near_end = NearEnd()
    learn(near_end, [shortest + (256 - shortest) * n // KEPT for n in range(KEPT)], 256)
    assert near_end.event(256) == 256 - MARGIN


def test_the_first_ones_to_end_are_not_taken_for_all() -> None:
    """Of answers that begin together the shortest end first."""
    lengths = [100 + (37 * n) % 100 for n in range(KEPT)]
    near_end = NearEnd()
    for key in range(KEPT):
        near_end.begin(key)
    for key in sorted(range(KEPT), key=lengths.__getitem__):
        near_end.end(key, lengths[key] / 200)
        assert near_end.event(200) == 200 - MARGIN


def test_what_failed_says_nothing_and_holds_nothing_up() -> None:
    near_end = NearEnd()
    near_end.begin(-1)
    learn(near_end, [100] * FEW, 200)
    assert near_end.event(200) == 200 - MARGIN  # it may be a long one
    near_end.end(-1, None)
    learn(near_end, [100], 200)
    assert near_end.event(200) == 100 - MARGIN


def test_one_that_never_ends_is_waited_for_no_longer_than_there_is_room() -> None:
    near_end = NearEnd()
    near_end.begin(-1)
    learn(near_end, [100] * (MOST_OPEN - 1), 200)
    assert near_end.event(200) == 200 - MARGIN
    learn(near_end, [100], 200, first=MOST_OPEN)
    assert near_end.event(200) == 100 - MARGIN
    near_end.end(-1, 1.0)  # too late to tell anything
    assert near_end.event(200) == 100 - MARGIN


def test_what_a_server_did_long_ago_is_forgotten() -> None:
    near_end = NearEnd()
    learn(near_end, [100] * KEPT, 200)
    learn(near_end, [200] * KEPT, 200)
    assert near_end.event(200) == 200 - MARGIN
