"""Live replay on whole loads in virtual time: what is sent is what was sent and received.

Every request is held against those before it in its play. Each check is also shown to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zlib import crc32

import numpy as np
import pytest
from fakes import CLIENT, WORKLOAD, FakeTransport
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rules import SIZE, UNCUT, sessions_
from test_replay_rules import forked

from inferometer.clock import VirtualClock, VirtualLoop, run_virtual
from inferometer.core import (
    Answer,
    Canned,
    Dialogue,
    Exchange,
    Prompt,
    Record,
    Request,
    Said,
    Session,
    Status,
    Turn,
    WorkloadSettings,
)
from inferometer.load.drive import Drive
from inferometer.load.lane import LanesConfig
from inferometer.run.binding import BoundWorkload
from inferometer.workload import WORDS, AgenticWorkload, PromptText, ReadOptions, read_corpus
from inferometer.workload.continuing import steps
from inferometer.workload.hashes import shared_prefix

LIVE = replace(UNCUT, replies="live")
Length = Callable[[Request], int]


class Talking(FakeTransport):
    """Answers in words of its own, as many as `length` says."""

    length: Length = staticmethod(lambda request: request.max_tokens)

    async def send(self, request: Request) -> Exchange:
        exchange = await super().send(request)
        if exchange.status is not Status.OK:
            return exchange
        count = self.length(request)
        text = "".join(f" {request.id}:{n}" for n in range(count))
        return replace(exchange, completion_tokens=count, answer=Answer(text, 0))


@dataclass(frozen=True)
class Load:
    sent: list[Request]
    records: list[Record]
    workload: BoundWorkload
    notes: dict[str, float]

    def exchange(self, request: Request) -> Exchange | None:
        found = (r.exchange for r in self.records if r.request_id == request.id)
        return next(found, None)


def load_of(
    sessions: Sequence[Session],
    lanes: int,
    rules: WorkloadSettings = LIVE,
    status: Callable[[Request], Status] = lambda _: Status.OK,
    length: Length = Talking.length,
) -> Load:
    point = SimpleNamespace(repeat=0)
    job = cast(Any, SimpleNamespace(plan=SimpleNamespace(workload=rules), digest="d", point=point))
    bound = BoundWorkload(job, AgenticWorkload(sessions, rules, lanes, {}), None, None)
    loop = VirtualLoop()
    clock = VirtualClock(loop)
    transport = Talking(clock, lambda r: 0.5 + (r.turn * 7 + r.lane * 3) % 11 / 4, status)
    transport.length = length
    records: list[Record] = []

    async def main() -> dict[str, float]:
        config = LanesConfig(lanes, "t", None, CLIENT, rules)
        text = PromptText(WORDS)
        drive = Drive(config, cast(Any, bound), transport, clock, records.append, text.prepare)
        return dict((await drive.run()).workload_notes)

    notes = run_virtual(main(), loop)
    return Load(transport.sent, records, bound, notes)


def texts_of(prompt: Prompt) -> tuple[str, ...]:
    made = PromptText(WORDS).render(prompt)
    return made.texts if isinstance(made, Dialogue) else (str(made),)


def before(load: Load, request: Request) -> tuple[Turn, Request | None, int, int]:
    """The turn, the request it goes on from if that was sent, and its answer and user tokens."""
    session = load.workload.session(request.lane, request.play)
    step = steps(session)[request.turn]
    if step is None:
        return session.turns[request.turn], None, 0, 0
    place = (request.lane, request.play, step.base)
    base = next((r for r in load.sent if (r.lane, r.play, r.turn) == place), None)
    return session.turns[request.turn], base, step.answer, step.user


def threaded(load: Load) -> Iterator[str]:
    """A prompt is that of its base byte for byte, the answer that came, and the user's words."""
    for request in load.sent:
        turn, base, answer, user = before(load, request)
        texts = texts_of(request.prompt)
        if base is None:
            if len(texts) != 1 or len(texts[0].split()) != turn.input_tokens:
                yield f"{request.id} is not its recorded context"
            continue
        if texts[:-2] != texts_of(base.prompt):
            yield f"{request.id} does not begin as {base.id} was sent"
        if len(texts[-1].split()) != user:
            yield f"{request.id}: {len(texts[-1].split())} words of the user, recorded {user}"
        exchange = load.exchange(base)
        assert exchange is not None
        cut = (
            base.max_tokens
            < load.workload.session(base.lane, base.play).turns[base.turn].output_tokens
        )
        if exchange.status is Status.OK and not cut:
            count = exchange.completion_tokens or 0
            wanted = "".join(f" {base.id}:{n}" for n in range(count))
        else:
            wanted, count = texts[-2], answer
            if isinstance(request.prompt.parts[-2], Said) or len(wanted.split()) != answer:
                yield f"{request.id}: the recorded answer should stand for a {exchange.status}"
        if texts[-2] != wanted:
            yield f"{request.id} does not repeat the answer of {base.id}"
        if request.prompt.tokens != base.prompt.tokens + count + user:
            yield f"{request.id}: {request.prompt.tokens} tokens"


def shared(load: Load) -> Iterator[str]:
    """Blocks are shared as far as the words that are sent are, and no further."""
    by_play: dict[tuple[int, int], list[Request]] = {}
    for request in load.sent:
        by_play.setdefault((request.lane, request.play), []).append(request)
    for requests in by_play.values():
        words = {r.id: " ".join(texts_of(r.prompt)).split() for r in requests}
        for one, two in combinations(requests, 2):
            size = one.prompt.block_size
            blocks = shared_prefix(one.prompt.blocks, two.prompt.blocks)
            pairs = zip(words[one.id], words[two.id], strict=False)
            common = sum(1 for _ in _while_equal(pairs))
            # Unequal words may be alike by chance, so the bound above is a little loose.
            if not blocks * size <= common < (blocks + 2) * size:
                yield f"{one.id} and {two.id} share {blocks} blocks and {common} words"


def _while_equal(pairs: Iterator[tuple[str, str]]) -> Iterator[None]:
    for left, right in pairs:
        if left != right:
            return
        yield None


def told(load: Load) -> Iterator[str]:
    """Records say of every prompt what its answers are, and how long it was recorded to be."""
    sent = {request.id: request for request in load.sent}
    for record in load.records:
        parts = sent[record.request_id].prompt.parts[1::2]
        canned = sum(isinstance(part, Canned) for part in parts)
        turn = load.workload.session(record.lane, record.play).turns[record.turn]
        found = record.threading
        if found is None or record.exchange.answer is not None:
            yield f"{record.request_id} is not told"
        elif (found.live, found.canned) != (len(parts) - canned, canned):
            yield f"{record.request_id}: {found}"
        elif found.recorded_tokens != turn.input_tokens:
            yield f"{record.request_id}: recorded {found.recorded_tokens}"


def faults(load: Load) -> list[str]:
    return [fault for check in (threaded, shared, told) for fault in check(load)]


made_loads = st.tuples(st.lists(sessions_(), min_size=1, max_size=3), st.integers(1, 3))
slow = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(made_loads, st.integers(0, 3), st.integers(0, 4))
def test_made_trees_repeat_what_was_said(
    made: tuple[list[Session], int], warmups: int, longer: int
) -> None:
    rules = replace(LIVE, warmup_requests_per_lane=warmups, duration_s=50.0)
    load = load_of(*made, rules, length=lambda r: r.max_tokens + longer)
    assert load.sent
    assert faults(load) == []


@slow
@given(made_loads, st.integers(0, 2**16))
def test_a_failed_answer_is_replaced_by_the_recorded_one(
    made: tuple[list[Session], int], seed: int
) -> None:
    def status(request: Request) -> Status:
        return Status.IN_BAND if crc32(f"{request.id} {seed}".encode()) % 12 == 0 else Status.OK

    load = load_of(*made, replace(LIVE, duration_s=50.0), status=status)
    assert faults(load) == []


@slow
@given(made_loads)
def test_two_live_loads_send_the_same(made: tuple[list[Session], int]) -> None:
    first, second = (load_of(*made, replace(LIVE, duration_s=40.0)) for _ in range(2))
    assert [_all(r) for r in first.sent] == [_all(r) for r in second.sent]
    assert first.notes == second.notes


def _all(request: Request) -> tuple[object, ...]:
    prompt = request.prompt
    return request.id, texts_of(prompt), prompt.blocks.tobytes(), prompt.tail_tokens, prompt.tail_id


def talk(turns: int = 5, growth: int = 10, output: int = 3) -> Session:
    """A root alone, whose prompt grows by an answer and a user's part each turn."""
    ids = np.arange(1, 1 + (7 + turns * growth) // SIZE, dtype=np.int64)
    made = []
    for index in range(turns):
        tokens = 6 + index * growth
        after = (index - 1,) if index else ()
        made.append(Turn(index, "root", None, after, 0, ids[: tokens // SIZE], tokens, output))
    return Session("talk", SIZE, tuple(made))


def test_answers_longer_than_recorded_make_every_context_longer() -> None:
    load = load_of([talk()], 1, replace(LIVE, duration_s=60.0), length=lambda r: r.max_tokens + 2)
    later = [request for request in load.sent if request.play > 0]
    assert later
    for request in later:
        assert request.prompt.tokens == 6 + request.turn * 10 + 2 * request.turn
        assert request.recorded_tokens == 6 + request.turn * 10
    assert load.notes["answers_threaded"] >= 4
    assert load.notes["answers_failed"] == load.notes["answers_no_text"] == 0


def test_a_warm_up_of_one_token_leaves_the_recorded_answer() -> None:
    rules = replace(LIVE, duration_s=60.0, warmup_requests_per_lane=2, start_min_share=0.2)
    rules = replace(rules, start_max_share=0.3)
    load = load_of([talk(8)], 1, rules)
    first = [r for r in load.sent if r.play == 0]
    warm = [r for r in first if r.max_tokens == 1]
    assert warm
    assert load.notes["answers_cut"] == len(warm)
    last = first[-1].prompt
    kinds = [isinstance(part, Said) for part in last.parts[1::2]]
    assert kinds == [False] * len(warm) + [True] * (len(kinds) - len(warm))
    assert last.tokens == first[-1].recorded_tokens, "recorded answers are as long as recorded"
    assert faults(load) == []


def test_texts_are_kept_no_longer_than_needed() -> None:
    load = load_of([talk()], 1, replace(LIVE, duration_s=60.0))
    threads = load.workload._threads
    assert threads is not None
    drained = [r for r in load.sent if r.turn == 4]
    assert drained
    left = load.sent[-1].turn + 1
    # Of the last play alone, and of that the turn which the next one would go on from.
    assert threads.kept_texts == sum(len(part.text) for part in _said(load, left))
    assert threads.kept_texts < 5 * len(" t-0000-0000-00000:0") * 3


def _said(load: Load, turns: int) -> list[Said]:
    request = load.sent[-1]
    found = [part for part in request.prompt.parts if isinstance(part, Said)]
    exchange = load.exchange(request)
    if turns < 5 and exchange is not None and exchange.status is Status.OK:
        count = exchange.completion_tokens or 0
        found.append(Said("".join(f" {request.id}:{n}" for n in range(count)), count))
    return found


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> tuple[Session, ...]:
    return read_corpus(shared_data / "agentic", ReadOptions()).sessions


def test_the_recorded_sessions_repeat_what_was_said(recorded: tuple[Session, ...]) -> None:
    rules = replace(WORKLOAD, replies="live", duration_s=60.0, warmup_requests_per_lane=1)
    load = load_of(recorded, 4, rules)
    assert len(load.sent) > 15
    assert list(threaded(load)) == []
    assert list(told(load)) == []
    answers = [part for r in load.sent for part in r.prompt.parts[1::2]]
    assert sum(isinstance(part, Said) for part in answers) > 10


def test_nearly_every_recorded_turn_goes_on_from_another(recorded: tuple[Session, ...]) -> None:
    found = [step for session in recorded for step in steps(session)]
    going_on = [step for step in found if step is not None]
    assert (len(found), len(going_on)) == (4775, 4555)
    assert all(step.answer >= 1 and step.user >= 1 for step in going_on)


def test_a_canned_load_threads_nothing() -> None:
    load = load_of([talk()], 1, replace(UNCUT, duration_s=20.0))
    assert all(request.prompt.parts == () for request in load.sent)
    assert all(record.threading is None for record in load.records)
    assert "answers_threaded" not in load.notes


def test_a_sound_load_has_no_fault() -> None:
    assert faults(load_of([forked(), talk()], 2, replace(LIVE, duration_s=100.0))) == []


def test_broken_threading_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = replace(LIVE, duration_s=60.0)
    load = load_of([talk()], 1, rules)
    request = next(r for r in load.sent if r.turn == 2)
    said = next(part for part in request.prompt.parts if isinstance(part, Said))
    parts = tuple(Said(p.text + "!", p.tokens) if p is said else p for p in request.prompt.parts)
    changed = replace(request, prompt=replace(request.prompt, parts=parts))
    broken = replace(load, sent=[changed if r is request else r for r in load.sent])
    assert any("does not begin as" in text or "repeat" in text for text in threaded(broken))
    blocks = replace(request, prompt=replace(request.prompt, blocks=request.prompt.blocks + 1))
    assert list(shared(replace(load, sent=[blocks if r is request else r for r in load.sent])))
    untold = [replace(record, threading=None) for record in load.records]
    assert list(told(replace(load, records=untold)))
    monkeypatch.setattr("inferometer.workload.live._unusable", lambda *_: "failed")
    assert list(threaded(load_of([talk()], 1, rules)))
