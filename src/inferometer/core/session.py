"""What is sent: sessions as graphs of turns, and the request that one turn becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inferometer.core.record import Phase

if TYPE_CHECKING:  # as in record.py
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A prompt by identity: two prompts share a prefix exactly as far as their block ids agree.

    `blocks` are int64[n] ids of whole blocks of `block_size` tokens, unique across everything that
    must not share (sessions, plays, points), followed by `tail_tokens` (< block_size, or what a
    trace leaves uncovered) that nothing else shares; `tail_id` seeds them.
    """

    blocks: npt.NDArray[np.int64]
    block_size: int
    tail_tokens: int
    tail_id: int
    parts: tuple[Part, ...] = ()
    """What a conversation with real answers is sent as, in order: the user's part and the
    assistant's in turn, the user's first and last. Empty: the recorded context as one message."""

    @property
    def tokens(self) -> int:
        """Length in tokens."""
        return len(self.blocks) * self.block_size + self.tail_tokens


@dataclass(frozen=True, slots=True, eq=False)
class Canned:
    """The tokens [start, stop) of a recorded context, as if `prompt` were sent whole."""

    prompt: Prompt
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """A real answer: its text, byte for byte, and how many tokens of a context it takes."""

    text: str
    tokens: int


Part = Canned | Said


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A prompt of several messages, of the user and the assistant in turn, both ends the user's.

    `spaced` says of each text whether a space stands before it where all are one text: an answer
    goes on as it came.
    """

    texts: tuple[str, ...]
    spaced: tuple[bool, ...]

    @property
    def joined(self) -> str:
        """All of it as one text."""
        return "".join(
            f" {text}" if space else text
            for text, space in zip(self.texts, self.spaced, strict=True)
        )


Content = str | list[int] | Dialogue
"""What a prompt is made of: one text, a list of token ids, or several messages."""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One recorded or generated request of a session.

    It starts `gap_ns` after the last of `after` (indices of turns of the same session) has ended;
    with `after` empty, `gap_ns` after the session's start.
    """

    index: int
    agent: str
    """`root`, or the path of a sub-agent such as `root/explore-1`."""
    parent_agent: str | None
    after: tuple[int, ...]
    gap_ns: int
    block_ids: npt.NDArray[np.int64]
    """int64[n]: equal ids are equal blocks within the session (see `Session.common_ids`)."""
    input_tokens: int
    output_tokens: int
    duration_ns: int | None = None
    """How long it took in the recording; None where that is unknown. Moves nothing in a replay."""
    extra: Mapping[str, Any] | None = None
    """Fields of the recording that its format does not have, where they are to be written again.
    They move nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A tree of turns. `turns` is ordered so that every predecessor comes first.

    Block ids below `common_ids` are the same blocks in every session of the same `scope`; all
    others mean nothing beyond the session.
    """

    id: str
    block_size: int
    turns: tuple[Turn, ...]
    start_ns: int | None = None
    """When it was recorded to begin, on one clock for all sessions; None where nothing says."""
    common_ids: int = 0
    scope: int = 0
    extra: Mapping[str, Any] | None = None
    """As of a turn."""

    @property
    def root_turns(self) -> tuple[Turn, ...]:
        """The turns of the root agent, in order."""
        return tuple(turn for turn in self.turns if turn.agent == "root")


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One turn about to be sent. The transport turns `prompt` into bytes, or does not need to."""

    id: str
    phase: Phase
    lane: int
    play: int
    turn: int
    session: str
    agent: str
    parent_agent: str | None
    affinity: str
    """One stable id for the whole session play."""
    prompt: Prompt
    max_tokens: int
    ready_ns: int
    """When the recorded predecessors were done."""
    scheduled_ns: int
    """`ready_ns` plus the recorded gap, less any shift by an idle cap."""
    recorded_tokens: int | None = None
    """Where answers are threaded: the recorded length of the context. None where the recorded
    context itself is sent, and nobody needs the answer's text."""

    @property
    def wants_answer(self) -> bool:
        """Whether the answer's text is needed."""
        return self.recorded_tokens is not None
