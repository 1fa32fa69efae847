"""What a log of an engine says: how far its start came, what its memory went to, what repeats, and
which known failure it shows. Patterns are data (`data/log.yaml`); no engine is known by name.

A log may be huge and mostly one line over and over: it is read once, in bounded memory, and each
pattern is tried on one line of each shape only.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from inferometer.engine.logfacts import Facts
from inferometer.engine.loglevel import level_of
from inferometer.engine.logreport import Failure, LogPhase, LogReport, Repeated
from inferometer.engine.logtext import readable, shape_of
from inferometer.engine.patterns import known
from inferometer.errors import InputError, Problem

MAX_SHAPES = 20_000
"""Shapes of lines that are told apart; what comes new beyond them is counted as one."""
MAX_LINE = 4_096
"""Characters of a line that are looked at: progress bars write megabytes without a newline."""
PIECE_BYTES = 64 * MAX_LINE
"""Of a line that is longer, so much is held at a time."""
MAX_KEY = 300
"""Lines up to this length are recognised without being taken apart again."""
DOMINANT_SHARE = 0.20
"""One line that makes a fifth of a log hides the rest of it from a reader."""
MIN_REPEATS = 20
"""Fewer lines alike are no flood, however short the log."""
LAST_LINES = 8
ERROR_LINES = 4
STAMP_LINES = 16
"""How far back a stamp is looked for where a line has none."""
OTHER = "(other lines)"
STOP_MARK = "inferometer: the engine is asked to end"
"""A line of ours in a kept log. Behind it engines complain of workers that end: no failure."""
SERVING = "serving"
GZIP_MAGIC = b"\x1f\x8b"

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_CLOCK = re.compile(r"(?<![\d:])(\d\d):(\d\d):(\d\d)(?![\d:])")
_SINCE_START = re.compile(r"^(\d+)\.(\d\d)\.\d{3}\.\d{3} [A-Z] ")
"""llama.cpp's own: minutes, seconds, milliseconds and microseconds since it started."""
_ASKED = re.compile(r"\b(?:GET|POST|HEAD|PUT|DELETE|OPTIONS) /")
"""A line of an access log, whatever came of the request."""
_TELLS_A_CODE = re.compile(r"\b(?:errno|code|signal)\b\W{0,3}#", re.IGNORECASE)
"""Lines of these shapes mean different things by their number."""
_TROUBLE = re.compile(
    r"error|exception|fatal|critical|traceback|panic|abort|assert|fail|killed|denied|refused"
    r"|cannot|could not|unable"
)
_FRAME = re.compile(r"\bfile \".+\", line \d+|[\^~]{4}")
"""Where an exception passed by, and the marks below: never what it says."""
_RAISED = re.compile(r"(?:^|[\s\]])(?:[a-z_]\w*\.)*[a-z_]\w*(?:error|exception): ")
DAY_S = 86_400
HOUR_S = 3_600


def triage_file(path: Path) -> LogReport:
    """The report of a log file, also of one that gzip packed. Raises InputError where it cannot be
    read.
    """
    return triage_files([path])


def triage_files(paths: Sequence[Path]) -> LogReport:
    """The report of a log in parts, in their order. Raises InputError as `triage_file` does."""
    reader = LogReader()
    for path in paths:
        try:
            with path.open("rb") as file:
                _read(file, reader)
        except OSError as error:
            raise InputError(Problem(error.strerror or "cannot be read", str(path))) from None
    return reader.report()


def _read(file: BinaryIO, reader: LogReader) -> None:
    """All lines; those of a packed file that is cut off up to the cut."""
    packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    file.seek(0)
    with gzip.open(file) if packed else file as source:
        try:
            while piece := source.readline(PIECE_BYTES):
                reader.take(piece, goes_on=not piece.endswith(b"\n"))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            reader.cut_off = True


def triage(lines: Iterable[bytes]) -> LogReport:
    """The report of a log's lines, as bytes: what is no UTF-8 is replaced."""
    reader = LogReader()
    for line in lines:
        reader.take(line)
    return reader.report()


class _Seen(NamedTuple):
    """A failure, and how much its line says: `follows` as in the table."""

    follows: int
    warned: bool
    weak: bool
    failure: Failure

    def order(self) -> tuple[bool, float, bool, int]:
        """What is named first: a warning comes behind the errors that can tell a cause."""
        failure = self.failure
        behind = self.follows + (1.5 if self.warned else 0)
        return failure.served_after, behind, self.weak, failure.line

    def tells_more(self, held: _Seen) -> bool:
        """Than the line of its class that is held."""
        if held.failure.served_after:
            return True
        return (self.warned, self.weak) < (held.warned, held.weak)


class LogReader:
    """Takes a log line by line, while it grows; `report` may be asked for at any time."""

    def __init__(self) -> None:
        self.cut_off = False
        self._lines = self._bytes = 0
        self._goes_on = False
        self._keys: dict[bytes, str] = {}
        self._shapes: dict[str, list[int]] = {}
        self._routine: dict[str, list[int]] = {}
        self._answers: dict[str, bool] = {}
        self._phases: dict[str, LogPhase] = {}
        self._furthest: str | None = None
        self._facts = Facts()
        self._telling: set[str] = set()
        self._silent: set[str] = set()
        self._failures: dict[str, _Seen] = {}
        self._last: deque[tuple[str, bytes]] = deque(maxlen=64)
        self._errors: deque[tuple[str, str]] = deque(maxlen=64)
        self._raised: str | None = None
        self._before: deque[bytes] = deque(maxlen=STAMP_LINES)
        self._blamed: set[str] = set()
        self._stopped = False
        self._first_s: int | None = None
        self._at_s: int | None = None

    @property
    def phase(self) -> str | None:
        """How far a start has come: the furthest phase seen."""
        return self._furthest

    def take(self, raw: bytes, goes_on: bool = False) -> None:
        """One line, or a piece of one that `goes_on` with the next piece."""
        self._lines += not self._goes_on
        self._goes_on = goes_on
        self._bytes += len(raw)
        for piece in raw[:PIECE_BYTES].split(b"\r"):
            if piece := piece[:MAX_LINE].strip():
                self._take_piece(piece)
                self._before.append(piece)

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
        last = [readable(piece) for shape, piece in self._last if shape not in loud]
        errors = [text for shape, text in self._errors if shape not in loud]
        return LogReport(
            lines=self._lines,
            bytes=self._bytes,
            phases=tuple(self._ordered()),
            facts=self._facts.values(),
            repeated=tuple(sorted(repeated, key=lambda r: -r.count)),
            failures=self._failed(),
            last=tuple(last[-LAST_LINES:]),
            routine=tuple(sorted(routine, key=lambda r: -r.count)),
            errors=tuple(self._told(errors)),
            cut_off=self.cut_off,
            stopped=self._stopped,
        )

    def _told(self, errors: list[str]) -> list[str]:
        """The last ones, and before them the first exception: what follows may follow from it."""
        last = errors[-ERROR_LINES:]
        if self._raised is None or self._raised in last:
            return last
        return [self._raised, *last[1 - ERROR_LINES :]]

    def _take_piece(self, piece: bytes) -> None:
        key, text = piece.translate(_DIGITS), ""
        if (shape := self._keys.get(key)) is None:
            text = readable(piece)
            shape = self._remember(key, shape_of(text))
        if not shape:
            return
        if self._answers.get(shape) is not False or shape not in self._silent:
            text = text or readable(piece)
            low = text.lower()
            if (name := self._routine_of(shape, text, low)) is not None:
                _count(self._routine, name, piece)
                return
            if shape not in self._shapes:
                shape = self._new(shape, text, low)
            elif shape in self._telling:
                self._look(shape, text, low)
        seen = _count(self._shapes, shape, piece)
        if not self._stopped and not self._loud(seen):
            self._last.append((shape, piece))

    def _remember(self, key: bytes, shape: str) -> str:
        """`shape_of` a line depends on where its digits stand, and not on which they are."""
        if len(key) <= MAX_KEY and len(self._keys) < MAX_SHAPES:
            self._keys[key] = shape
        return shape

    def _new(self, shape: str, text: str, low: str) -> str:
        """Look at the first line of a shape; returns the shape that it counts as."""
        self._stopped = self._stopped or text == STOP_MARK
        told = self._look(shape, text, low)
        if len(self._shapes) >= MAX_SHAPES:
            return OTHER
        telling = told or _TELLS_A_CODE.search(shape)
        (self._telling if telling else self._silent).add(shape)
        return shape

    def _look(self, shape: str, text: str, low: str) -> bool:
        """Try every pattern on a line; whether it told a fact."""
        if self._first_s is None:
            self._since([text])
        if not self._stopped:
            self._fail(shape, text, low)
        if not known().fact_hints.may_be_in(low):
            return False
        if not self._stopped:
            self._mark_phases(text, low)
        return self._facts.take(text, low)

    def _loud(self, count: int) -> bool:
        """Whether a line seen so often would push all else out of the last ones."""
        return count >= MIN_REPEATS and count >= DOMINANT_SHARE * self._lines

    def _routine_of(self, shape: str, text: str, low: str) -> str | None:
        """Which routine a line is. Lines of a shape differ in their status alone, so each of an
        access log is looked at, and one line of every other shape.
        """
        if self._answers.get(shape) is False:
            return None
        found = None
        if known().routine_hints.may_be_in(low):
            found = next((name for name, routine in known().routine if routine.search(low)), None)
        if shape not in self._answers and len(self._answers) < MAX_SHAPES:
            self._answers[shape] = found is not None or _ASKED.search(text) is not None
        return found

    def _ordered(self) -> list[LogPhase]:
        order = [name for name, _ in known().phases]
        return sorted(self._phases.values(), key=lambda phase: order.index(phase.name))

    def _failed(self) -> tuple[Failure, ...]:
        """What follows from others behind them, and then by line; what came before the engine
        served behind all else.
        """
        found = sorted(self._failures.values(), key=_Seen.order)
        return tuple(seen.failure for seen in found)

    def _mark_phases(self, text: str, low: str) -> None:
        for name, pattern in known().phases:
            if name not in self._phases and pattern.search(low):
                self._since([text, *map(readable, reversed(self._before))])
                self._phases[name] = LogPhase(name, self._lines, self._at_s)
                self._furthest = self._ordered()[-1].name
                if name == SERVING:
                    self._served()

    def _served(self) -> None:
        """Whatever was before: the start went on. A warning of it was no more than that."""
        self._errors.clear()
        self._raised = None
        # What is said again after this is said of the run.
        self._telling |= self._blamed
        self._silent -= self._blamed
        self._failures = {
            name: seen._replace(failure=replace(seen.failure, served_after=True))
            for name, seen in self._failures.items()
            if not seen.warned
        }

    def _fail(self, shape: str, text: str, low: str) -> None:
        """Note the first class of failure that a line shows, and whether it speaks of trouble."""
        if known().stops.search(low):
            self._stopped = True
            self._last.append((shape, text.encode()))
            return
        if (level := level_of(low)) == "quiet":
            return
        rule = known().finder.find(low, self._furthest, self._furthest == SERVING)
        if rule is not None:
            self._blamed.add(shape)
            failure = Failure(
                rule.name,
                self._lines,
                text,
                rule.advice,
                says_why=not rule.weak,
                follows=rule.follows > 0,
            )
            seen = _Seen(rule.follows, level == "warning", rule.weak, failure)
            held = self._failures.get(rule.name)
            if held is None or seen.tells_more(held):
                self._failures[rule.name] = seen
        if not level and _TROUBLE.search(low) and not _FRAME.search(low):
            self._errors.append((shape, text))
            if self._raised is None and _RAISED.search(low):
                self._raised = text

    def _since(self, lines: Iterable[str]) -> None:
        """Seconds from the log's first stamp to that of the first line which has one; a day has
        passed where it is less, but for the disorder of several writers.
        """
        for said in lines:
            if since := _SINCE_START.match(said):
                self._at_s = int(since[1]) * 60 + int(since[2])
                return
            if found := _CLOCK.search(said):
                at_s = int(found[1]) * HOUR_S + int(found[2]) * 60 + int(found[3])
                if self._first_s is None:
                    self._first_s = at_s
                passed = (at_s - self._first_s) % DAY_S
                self._at_s = passed if passed < DAY_S - HOUR_S else 0
                return


def _count(table: dict[str, list[int]], name: str, piece: bytes) -> int:
    if (counted := table.get(name)) is None:
        counted = table.setdefault(name, [0, 0])
    counted[0] += 1
    counted[1] += len(piece) + 1
    return counted[0]
