"""What goes along while traces are read: options, counts, and the problems found so far.

Problems are bounded in number, a file and in all; beyond, they are only counted. Readers decide
nothing silently: every decision is a count here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from inferometer.core import Session
from inferometer.errors import InputError, Problem, nearest

MAX_PROBLEMS_PER_FILE = 20
MAX_PROBLEMS = 200
MAX_TOKENS = 100_000_000
"""Of one request: more is a fault of the file, and would be memory asked for."""

Rows = Literal["auto", "cumulative", "delta"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a path is read with; every option has a default that decides by content."""

    format: str | None = None
    """A reader's name; None is told by content, file by file."""
    rows: Rows = "auto"
    """Mooncake rows of one session: whole contexts, or what each adds."""
    block_size: int | None = None
    """Tokens a block, where the format does not say (Mooncake: 512)."""
    fan_out: bool = True
    """Recover agents that the recording did not declare (docs/replay.md)."""
    skip_bad: bool = False
    """Leave out sessions with problems instead of refusing all."""


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What was read, and what had to be decided on the way; all counts."""

    sessions: int
    turns: int
    subagents: int
    background_subagents: int
    api_time_inferred: int
    api_time_unknown: int
    """Requests whose end is taken to be their start, so that the gap after them is too long."""
    zero_input: int
    """Requests recorded with no input; one token is sent."""
    zero_output: int
    """Requests recorded with no output; one token is asked for."""
    output_unknown: int
    """Requests that do not say what came back; one token is asked for."""
    hash_floor: int
    """Requests whose ids cover the whole blocks of the input."""
    hash_ceil: int
    """Requests with an id for the partial last block too; that id is dropped."""
    hash_none: int
    """Requests without ids: they share nothing, except within a session."""
    nested_relative: int
    nested_absolute: int
    """Sub-agents by the time base of their requests."""
    stamped_at_end: int
    stamped_at_start: int
    """Joined sub-agents by what their `t` was found to be."""
    early_starts: int
    """Turns recorded to start before a predecessor had ended; their gap is 0."""
    inversions: int
    """Requests listed after one that began up to a second later; put in order of their times."""
    odd_status: int
    """Sub-agents with another status than `completed` that a background has not; they returned."""
    ends_inferred: int
    """Sub-agents that say neither how long they ran nor how they ended: with their last request."""
    empty_subagents: int
    """Sub-agents without a request of their own; they are left out, with all below them."""
    empty_sessions: int
    """Sessions whose root sends nothing, left out."""
    unnamed: int
    """Sessions without an id: they are called after their file, and line."""
    scope_assumed: int
    """Sessions that do not say whose their block ids are; they are their own."""
    duplicates: int
    """Sessions that were read before, from another place; left out."""
    renamed: int
    """Sessions with the id of another one; they got a number behind it."""
    near_overlaps: int
    """Neighbours that overlap by under 1 s, to which times are recorded; they get no edge."""
    fanned_agents: int
    """Agents recovered from shared prefixes and overlaps, which the recording did not declare."""
    fanned_turns: int
    """Their turns."""
    fanned_parallel: int
    """Those agents that overlap with another agent of their scope; the rest is ambiguous."""
    context_resets: int
    """Times an agent went on from a context of which it kept less than half."""
    rows_cumulative: int
    rows_delta: int
    """Rows of Mooncake sessions, by what their lengths were taken to be."""
    rows_disagreeing: int
    """Rows that speak for the other reading than the one taken."""
    renumbered: int
    """Sessions whose block ids were too large and were numbered anew."""
    skipped: int
    """Sessions left out for their problems, as asked."""
    unknown_fields: Mapping[str, int]
    """Fields that the format does not have; they move nothing."""


class Reading:
    """The account of one reading of one path."""

    def __init__(self, options: ReadOptions, *, keeps: bool = False) -> None:
        self.options = options
        self.keeps = keeps
        """Whether fields that a format does not have go along (`extra`), to be written again."""
        self.tally: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.formats: Counter[str] = Counter()
        """Files by the format they were read as."""
        self.problems: list[Problem] = []
        self.found = 0
        """Problems in all, those not kept included."""
        self._of_file: Counter[str] = Counter()
        self._seen: dict[bytes, list[bytes]] = {}
        """What sessions hold, by their id."""
        self.block_size: int | None = None
        """Tokens a block of most sessions, where that was looked up before reading them."""
        self._sizes: dict[int, _OfSize] = {}

    def fault(self, problem: Problem) -> None:
        """Note a problem."""
        self.found += 1
        name = problem.file or ""
        self._of_file[name] += 1
        if self._of_file[name] <= MAX_PROBLEMS_PER_FILE and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def accepted(self, placed: Placed, file: str) -> Session | None:
        """The session as it is to be played, under an id of its own; None where it is left out.

        Of sessions with blocks of different sizes those of the first size go on for now; which one
        is odd is decided by the most, in the end or before (`block_size`).
        """
        session = self._own_id(placed)
        if session is None:
            self.tally["duplicates"] += 1
            return None
        size = session.block_size
        if (group := self._sizes.get(size)) is None:
            group = self._sizes[size] = _OfSize()
        group.add(session, (file, placed.line))
        if size != (self.block_size or next(iter(self._sizes))):
            return None
        self.tally["sessions"] += 1
        self.tally["turns"] += len(session.turns)
        return session

    def _own_id(self, placed: Placed) -> Session | None:
        """None where the very session was read before."""
        session = placed.session
        if not placed.named:
            return session
        name = hashlib.blake2b(session.id.encode(), digest_size=8).digest()
        before = self._seen.setdefault(name, [])
        content = _content(session)
        if content in before:
            return None
        before.append(content)
        if len(before) == 1:
            return session
        self.tally["renamed"] += 1
        return replace(session, id=f"{session.id}#{len(before)}")

    def settle(self) -> None:
        """All was read: sessions whose blocks are of another size than those of most are odd."""
        if len(self._sizes) < 2:
            return
        sizes = sorted(self._sizes, key=lambda size: -self._sizes[size].sessions)
        most, total = sizes[0], sum(group.sessions for group in self._sizes.values())
        count = self._sizes[most].sessions
        for size in sizes[1:]:
            odd = self._sizes[size]
            text = f"blocks of {size} tokens, where {count} of {total} sessions have {most}"
            for file, line in odd.places:
                self.fault(Problem(text, file, line, "block_size"))
            self.found += odd.sessions - len(odd.places)
            self.tally["skipped"] += odd.sessions
        self.tally["sessions"] = count
        self.tally["turns"] = self._sizes[most].turns
        self._sizes = {most: self._sizes[most]}

    def listed(self) -> tuple[Problem, ...]:
        """The problems that are shown, file by file, and a line for those that are not."""
        shown = Counter(problem.file or "" for problem in self.problems)
        told = list(self.problems)
        for file, count in self._of_file.items():
            if 0 < shown[file] < count:
                told.append(Problem(f"and {count - shown[file]} more problems", file or None))
        silent = [count for file, count in self._of_file.items() if not shown[file]]
        if silent:
            told.append(Problem(f"and {sum(silent)} problems in {len(silent)} more files"))
        return tuple(told)

    def finish(self) -> None:
        """Raise InputError with the problems, unless the sound sessions were asked for."""
        self.settle()
        if self.found and not (self.options.skip_bad and self.tally["sessions"]):
            raise InputError(*self.listed())

    def report(self) -> ReadReport:
        """The counts so far."""
        names = [field.name for field in fields(ReadReport) if field.name != "unknown_fields"]
        counts = {name: self.tally[name] for name in names}
        return ReadReport(**counts, unknown_fields=dict(self.unknown))


class _OfSize:
    """The sessions of one block size: how many, and where the first ones stand."""

    def __init__(self) -> None:
        self.sessions = 0
        self.turns = 0
        self.places: list[tuple[str, int | None]] = []

    def add(self, session: Session, place: tuple[str, int | None]) -> None:
        """One more."""
        self.sessions += 1
        self.turns += len(session.turns)
        if len(self.places) < MAX_PROBLEMS:
            self.places.append(place)


def _content(session: Session) -> bytes:
    """What tells a session from others of its id: its turns, without most of their ids."""
    digest = hashlib.blake2b(digest_size=8)
    for turn in session.turns:
        last = int(turn.block_ids[-1]) if len(turn.block_ids) else -1
        row = (turn.agent, turn.gap_ns, turn.input_tokens, turn.output_tokens, last)
        digest.update(repr(row).encode())
    return digest.digest()


class Placed(NamedTuple):
    """A session and the line it stands on, where it is one of several in a file."""

    session: Session
    line: int | None
    named: bool = True
    """Whether the file gave the id; one made of the file's name and the line is unique."""


class Reader(NamedTuple):
    """One format: a module of its own makes one, and `corpus.READERS` names it."""

    name: str
    claims: Callable[[bytes], bool]
    """Whether a file that begins with these bytes is of this format."""
    read: Callable[[Path, Reading], Iterator[Placed]]
    """The sound sessions of a file, in order; problems go to the reading."""


def options_of(values: Mapping[str, str]) -> ReadOptions:
    """Options from texts, as in `PATH?rows=delta,skip_bad=yes`. Raises InputError, all at once."""
    made: dict[str, object] = {}
    problems: list[Problem | str] = []
    names = [field.name for field in fields(ReadOptions)]
    for key, text in values.items():
        if key not in names:
            problems.append(f"no option {key!r} of a path{nearest(key, names)}")
        elif key in ("fan_out", "skip_bad"):
            if text in ("yes", "no"):
                made[key] = text == "yes"
            else:
                problems.append(f"{key}: expected yes or no, got {text!r}")
        elif key == "block_size":
            if text.isascii() and text.isdigit() and 0 < int(text) <= MAX_TOKENS:
                made[key] = int(text)
            else:
                problems.append(f"{key}: expected an integer >= 1, got {text!r}")
        elif key == "rows" and text not in get_args(Rows):
            expected = ", ".join(get_args(Rows))
            problems.append(
                f"rows: expected one of {expected}, got {text!r}{nearest(text, get_args(Rows))}"
            )
        else:
            made[key] = text
    if problems:
        raise InputError(*problems)
    return ReadOptions(**made)  # type: ignore[arg-type]
