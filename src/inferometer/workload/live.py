"""Conversations with real answers: what a turn sends when an earlier one was really answered.

A turn that goes on from another (`continuing`) sends, unchanged, what that one sent, then its real
answer, then as many tokens of the user as were recorded. Where the answer could not be had, the
recorded one stands in its place. Texts are kept until the last turn that goes on from theirs is
sent. Knows no clock and no transport; equal calls in equal order give equal prompts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from inferometer.core import Canned, Exchange, Phase, Prompt, Request, Said, Session, Status, Turn
from inferometer.workload.cachehits import HitCounter, sizes_with
from inferometer.workload.chains import Chain, Piece, canned_pieces
from inferometer.workload.continuing import Step, steps
from inferometer.workload.hashes import Ids
from inferometer.workload.numbering import numbering
from inferometer.workload.prefixcache import spaces
from inferometer.workload.prompts import LOCAL_BITS, MAX_LOCAL_ID

MAX_TEXT = 1 << 24
"""Characters of an answer that are kept; a longer one is replaced by the recorded one."""

CannedPrompt = Callable[[Session, Turn, int, int], Prompt]


@dataclass(slots=True, eq=False)
class _Node:
    """A turn that was made ready to be sent: what it says, and where its blocks stand."""

    prompt: Prompt
    chain: Chain
    answer: Said | None = None
    """Once it was answered."""
    extra: int = 0
    """Tokens that the server counted of the prompt beyond what was meant."""


@dataclass(slots=True, eq=False)
class _Talk:
    """The conversations of one play. `waiting`: turns by how many are still to go on from them."""

    session: Session
    steps: tuple[Step | None, ...]
    waiting: Counter[int]
    nodes: dict[int, _Node] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    """Turns that were sent."""
    numbers: dict[bytes, int] = field(default_factory=dict)
    """Blocks beyond the recorded ones, by what they hold and all before it."""


class Threads:
    """The conversations of all plays of a point.

    `canned` gives the recorded context of a turn in a play. Every turn is asked for by `prompt`,
    as often as one likes, then `sent`, then `heard`; a play that has drained is `over`.
    """

    def __init__(self, canned: CannedPrompt, pool_tokens: int | None = None) -> None:
        self._canned = canned
        self._sizes = sizes_with(pool_tokens)
        self._talks: dict[tuple[int, int], _Talk] = {}
        self._hits: HitCounter | None = None
        self._told: Counter[str] = Counter()

    def prompt(self, session: Session, turn: Turn, lane: int, play: int) -> Prompt:
        """What the turn sends, as blocks and as parts."""
        talk = self._talk(session, lane, play)
        node = talk.nodes.get(turn.index)
        if node is None and turn.index in talk.gone:
            return self._canned(session, turn, lane, play)  # made ready too late to matter
        if node is None:
            node = talk.nodes[turn.index] = self._made(talk, turn, lane, play)
        return node.prompt

    def sent(self, session: Session, turn: Turn, request: Request) -> None:
        """The turn leaves: caches see it, and what it goes on from is one turn less needed."""
        lane, play = request.lane, request.play
        talk = self._talk(session, lane, play)
        node = talk.nodes[turn.index]
        if self._hits is None:
            self._hits = HitCounter(session.block_size, self._sizes)
        common = ("common", session.scope)
        parts: list[tuple[Hashable, Ids]] = [
            (common if key == "common" else key, ids)
            for key, ids in spaces(session, node.chain.head, (lane, play))
        ]
        parts.append(((lane, play, "answers"), node.chain.numbers()))
        self._hits.send(parts, node.prompt.tokens, counts=request.phase is Phase.MEASURED)
        talk.gone.add(turn.index)
        self._release(talk, turn.index)

    def heard(self, turn: Turn, request: Request, exchange: Exchange) -> None:
        """The turn's request has ended, in whatever way."""
        talk = self._talks.get((request.lane, request.play))
        node = talk.nodes.get(turn.index) if talk else None
        if talk is None or node is None:
            return
        if not talk.waiting[turn.index]:
            del talk.nodes[turn.index]
            return
        if exchange.prompt_tokens is not None:
            node.extra = exchange.prompt_tokens - node.prompt.tokens
        why = _unusable(turn, request, exchange)
        if why is None:
            node.answer = _said(exchange)
        self._told[why or "threaded"] += 1

    def over(self, lane: int, play: int) -> None:
        """The play has drained: nothing of it is needed any more."""
        self._talks.pop((lane, play), None)
        if self._hits is not None:
            self._hits.drop((lane, play))
            self._hits.drop((lane, play, "answers"))

    @property
    def kept_texts(self) -> int:
        """Characters of real answers that are held for turns to come."""
        nodes = (node for talk in self._talks.values() for node in talk.nodes.values())
        texts = {
            id(part): len(part.text)
            for node in nodes
            for part in (*node.prompt.parts, node.answer)
            if isinstance(part, Said)
        }
        return sum(texts.values())

    def notes(self) -> Mapping[str, float]:
        """Answers by what became of them, and the hits of caches over what was really sent after
        warm-up.
        """
        names = ("threaded", "cut", "failed", "no_text")
        told = {f"answers_{name}": float(self._told[name]) for name in names}
        return told | (self._hits.shares() if self._hits is not None else {})

    def _talk(self, session: Session, lane: int, play: int) -> _Talk:
        talk = self._talks.get((lane, play))
        if talk is None:
            found = steps(session)
            waiting = Counter(step.base for step in found if step is not None)
            talk = self._talks[lane, play] = _Talk(session, found, waiting)
        return talk

    def _made(self, talk: _Talk, turn: Turn, lane: int, play: int) -> _Node:
        canned = self._canned(talk.session, turn, lane, play)
        step = talk.steps[turn.index]
        base = talk.nodes.get(step.base) if step is not None else None
        if step is None or base is None:
            # It begins a conversation, or goes on from a turn that was not sent in this play.
            chain = Chain.begun(turn, canned, talk.numbers)
            return self._node(talk, chain, canned, (Canned(canned, 0, canned.tokens),))
        first = canned.tokens - step.user
        said = base.answer or Canned(canned, first - step.answer, first)
        user = Canned(canned, first, canned.tokens)
        pieces = _answer_pieces(base, said, key=base.prompt.tail_id)
        chain = base.chain.extended([*pieces, *canned_pieces(user)], talk.numbers)
        return self._node(talk, chain, canned, (*base.prompt.parts, said, user))

    def _node(
        self, talk: _Talk, chain: Chain, canned: Prompt, parts: tuple[Canned | Said, ...]
    ) -> _Node:
        """Blocks of the chain are numbered behind those of the session."""
        key = canned.tail_id >> LOCAL_BITS << LOCAL_BITS
        own = (numbering(talk.session).total + chain.numbers()) & MAX_LOCAL_ID | np.int64(key)
        blocks = np.concatenate([chain.head_blocks, own])
        tail_tokens = chain.tokens - len(blocks) * canned.block_size
        prompt = Prompt(blocks, canned.block_size, tail_tokens, canned.tail_id, parts)
        return _Node(prompt, chain)

    def _release(self, talk: _Talk, index: int) -> None:
        """One turn less goes on from its base, which is let go of with the last."""
        step = talk.steps[index]
        if step is None:
            return
        talk.waiting[step.base] -= 1
        if not talk.waiting[step.base]:
            talk.nodes.pop(step.base, None)


def _answer_pieces(base: _Node, said: Canned | Said, key: int) -> list[Piece]:
    """What follows a prompt up to the user's part; the server's own count of the prompt holds."""
    if isinstance(said, Canned):
        added = [Piece(~key, 0, base.extra)] if base.extra > 0 else []
        return added + canned_pieces(said)
    return [Piece(~key, 0, max(1, said.tokens + base.extra))]


def _unusable(turn: Turn, request: Request, exchange: Exchange) -> str | None:
    """Why an answer cannot take the place of the recorded one, or None."""
    if exchange.status is not Status.OK:
        return "failed"
    if request.max_tokens < turn.output_tokens:
        return "cut"  # in warm-up one token is asked for
    answer = exchange.answer
    if answer is None or not answer.text.strip() or len(answer.text) > MAX_TEXT:
        return "no_text"
    return None


def _said(exchange: Exchange) -> Said:
    """Its tokens by the server's count, less the share of events that showed none of its text."""
    assert exchange.answer is not None
    events = len(exchange.arrivals)
    tokens = exchange.completion_tokens or events
    hidden = min(exchange.answer.hidden_events, events)
    visible = round(tokens * (events - hidden) / events) if events else tokens
    return Said(exchange.answer.text, max(1, visible))
