"""What a log of an engine says: how far its start came, what its memory went to, what repeats, and
which known failure it shows. Patterns are data (`data/log.yaml`); no engine is known by name.

A log may be huge and mostly one line over and over: it is read once, in bounded memory, and each
pattern is tried on one line of each shape only.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

from inferometer.errors import InputError, Problem

MAX_SHAPES = 20_000
"""Shapes of lines that are told apart; what comes new beyond them is counted as one."""
MAX_LINE = 4_096
"""Characters of a line that are looked at: progress bars write megabytes without a newline."""
DOMINANT_SHARE = 0.20
"""One line that makes a fifth of a log hides the rest of it from a reader."""
MIN_REPEATS = 20
"""Fewer lines alike are no flood, however short the log."""
LAST_LINES = 8
OTHER = "(other lines)"
STOP_MARK = "inferometer: the engine is asked to end"
"""A line of ours in a kept log. Behind it engines complain of workers that end: no failure."""

_STAMP = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[.,]?\d*|\d\d-\d\d \d\d:\d\d:\d\d[.,]?\d*"
    r"|\d\d:\d\d:\d\d[.,]?\d*"
)
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:[.,]\d+)*", re.IGNORECASE)
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_RANK = re.compile(r"(?:\b|_)DP_?(\d+)")
"""Engines of a data-parallel deployment write one log; each names its rank so."""
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)")
_SINCE_START = re.compile(r"^(\d+)\.(\d\d)\.\d{3}\.\d{3} [A-Z] ")
"""llama.cpp's own: minutes, seconds, milliseconds and microseconds since it started."""
_ASKED = re.compile(r"\b(?:GET|POST|HEAD|PUT|DELETE|OPTIONS) /")
"""A line of an access log, whatever came of the request."""
DAY_S = 86_400


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    name: str
    patterns: list[str]


class _Fact(_Strict):
    scale: int
    ranks: Literal["sum", "max"] = "max"


class _Failure(_Strict):
    advice: str


class _Table(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    routine: list[_Strict]
    phases: list[_Strict]
    facts: list[_Fact]
    failures: list[_Failure]


@dataclass(frozen=True, slots=True)
class LogPhase:
    """A part of a start: `at_s` from the first stamp of the log, None where lines carry none."""

    name: str
    line: int
    at_s: int | None


@dataclass(frozen=True, slots=True)
class Repeated:
    """A line that takes a large share; `text` with its numbers as `#`."""

    text: str
    count: int
    line_share: float
    byte_share: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A known class of failure, the line that shows it first, and what to do."""

    name: str
    line: int
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class LogReport:
    """What a log says. `facts` by the names of the table: bytes, seconds, counts."""

    lines: int
    bytes: int
    phases: tuple[LogPhase, ...]
    facts: dict[str, float]
    repeated: tuple[Repeated, ...]
    failures: tuple[Failure, ...]
    last: tuple[str, ...]
    """The last lines that say something: no repeated and no routine one."""
    routine: tuple[Repeated, ...] = ()
    """Lines that any sound run has many of, by the names of the table; no flood however many."""

    @property
    def phase(self) -> str | None:
        """How far a start has come."""
        return self.phases[-1].name if self.phases else None


class _Known(NamedTuple):
    routine: list[tuple[str, re.Pattern[str]]]
    phases: list[tuple[str, re.Pattern[str]]]
    facts: list[tuple[str, int, re.Pattern[str]]]
    summed: frozenset[str]
    failures: list[tuple[str, str, re.Pattern[str]]]


@cache
def _known() -> _Known:
    text = resources.files("inferometer.engine").joinpath("data", "log.yaml").read_text("utf-8")
    table = TypeAdapter(_Table).validate_python(yaml.safe_load(text))
    return _Known(
        [(r.name, _any(r.patterns)) for r in table.routine],
        [(p.name, _any(p.patterns)) for p in table.phases],
        [(f.name, f.scale, re.compile(p, re.I)) for f in table.facts for p in f.patterns],
        frozenset(f.name for f in table.facts if f.ranks == "sum"),
        [(f.name, f.advice, _any(f.patterns)) for f in table.failures],
    )


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


def triage_file(path: Path) -> LogReport:
    """The report of a log file. Raises InputError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return triage(file)
    except OSError as error:
        raise InputError(Problem(error.strerror or "cannot be read", str(path))) from None


def triage(lines: Iterable[bytes]) -> LogReport:
    """The report of a log's lines, as bytes: what is no UTF-8 is replaced."""
    reader = LogReader()
    for line in lines:
        reader.take(line)
    return reader.report()


class LogReader:
    """Takes a log line by line, while it grows; `report` may be asked for at any time."""

    def __init__(self) -> None:
        self._lines = self._bytes = 0
        self._shapes: dict[str, list[int]] = {}
        self._routine: dict[str, list[int]] = {}
        self._answers: dict[str, bool] = {}
        self._phases: dict[str, LogPhase] = {}
        self._facts: dict[str, dict[str, float]] = {}
        self._telling: set[str] = set()
        self._failures: dict[str, Failure] = {}
        self._last: deque[tuple[str, str]] = deque(maxlen=64)
        self._stopped = False
        self._first_s: int | None = None
        self._at_s: int | None = None

    @property
    def phase(self) -> str | None:
        """How far a start has come: the furthest phase seen."""
        ordered = self._ordered()
        return ordered[-1].name if ordered else None

    def take(self, raw: bytes) -> None:
        """One line."""
        self._lines += 1
        self._bytes += len(raw)
        for text in _parts(raw):
            self._stopped = self._stopped or text == STOP_MARK
            shape = shape_of(text)
            if (name := self._routine_of(shape, text)) is not None:
                counted = self._routine.setdefault(name, [0, 0])
                counted[0] += 1
                counted[1] += len(text) + 1
                continue
            seen = self._shapes.get(shape)
            if seen is None:
                if len(self._shapes) >= MAX_SHAPES:
                    shape = OTHER
                seen = self._shapes.setdefault(shape, [0, 0])
                if not self._stopped:
                    self._match(text)
                if self._take_facts(text):
                    self._telling.add(shape)
            elif shape in self._telling:
                self._take_facts(text)
            seen[0] += 1
            seen[1] += len(text) + 1
            if not self._stopped and not self._loud(seen[0]):
                self._last.append((shape, text))

    def report(self) -> LogReport:
        """What has been seen."""
        counted = [*self._shapes.values(), *self._routine.values()]
        total = max(1, sum(count for count, _ in counted))
        size = max(1, sum(held for _, held in counted))
        repeated = [
            Repeated(shape, count, count / total, held / size)
            for shape, (count, held) in self._shapes.items()
            if count >= MIN_REPEATS
            and shape != OTHER
            and max(count / total, held / size) >= DOMINANT_SHARE
        ]
        routine = [
            Repeated(name, count, count / total, held / size)
            for name, (count, held) in self._routine.items()
        ]
        loud = {line.text for line in repeated}
        said = [text for shape, text in self._last if shape not in loud]
        order = [name for name, _, _ in _known().failures]
        return LogReport(
            lines=self._lines,
            bytes=self._bytes,
            phases=tuple(self._ordered()),
            facts={
                name: sum(ranks.values()) if name in _known().summed else max(ranks.values())
                for name, ranks in self._facts.items()
            },
            repeated=tuple(sorted(repeated, key=lambda r: -r.count)),
            failures=tuple(sorted(self._failures.values(), key=lambda f: order.index(f.name))),
            last=tuple(said[-LAST_LINES:]),
            routine=tuple(sorted(routine, key=lambda r: -r.count)),
        )

    def _loud(self, count: int) -> bool:
        """Whether a line seen so often would push all else out of the last ones."""
        return count >= MIN_REPEATS and count >= DOMINANT_SHARE * self._lines

    def _routine_of(self, shape: str, text: str) -> str | None:
        """Which routine a line is. Lines of a shape differ in their status alone, so each of an
        access log is looked at, and one line of every other shape.
        """
        if self._answers.get(shape) is False:
            return None
        found = next((name for name, known in _known().routine if known.search(text)), None)
        if shape not in self._answers and len(self._answers) < MAX_SHAPES:
            self._answers[shape] = found is not None or _ASKED.search(text) is not None
        return found

    def _ordered(self) -> list[LogPhase]:
        order = [name for name, _ in _known().phases]
        return sorted(self._phases.values(), key=lambda phase: order.index(phase.name))

    def _match(self, text: str) -> None:
        """Try every pattern on a line of a new shape."""
        self._since(text)
        known = _known()
        for name, pattern in known.phases:
            if name not in self._phases and pattern.search(text):
                self._phases[name] = LogPhase(name, self._lines, self._at_s)
        for name, advice, pattern in known.failures:
            if name not in self._failures and pattern.search(text):
                self._failures[name] = Failure(name, self._lines, text, advice)

    def _take_facts(self, text: str) -> bool:
        """Numbers of a line, each for the data-parallel rank that wrote it, the latest counts."""
        found_any = False
        for name, scale, number in _known().facts:
            if found := number.search(text):
                rank = _RANK.search(text)
                value = float(found[1].replace(",", "")) * scale
                self._facts.setdefault(name, {})[rank[1] if rank else "0"] = value
                found_any = True
        return found_any

    def _since(self, text: str) -> None:
        """Seconds from the log's first stamp to this line's; a day has passed where it is less."""
        if since := _SINCE_START.match(text):
            self._at_s = int(since[1]) * 60 + int(since[2])
            return
        if (found := _CLOCK.search(text)) is None:
            return
        at_s = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
        if self._first_s is None:
            self._first_s = at_s
        self._at_s = (at_s - self._first_s) % DAY_S


def shape_of(text: str) -> str:
    """A line without what differs each time: its stamp is dropped, each number becomes `#`."""
    return _NUMBER.sub("#", _STAMP.sub("", text)).strip()


def _parts(raw: bytes) -> Iterator[str]:
    """The pieces of a line that a terminal would have shown over each other, without colours."""
    for piece in raw[: 64 * MAX_LINE].decode("utf-8", "replace").split("\r"):
        text = _ESCAPE.sub("", piece[:MAX_LINE]).strip()
        if text:
            yield text
