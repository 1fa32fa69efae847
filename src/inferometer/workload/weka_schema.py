"""The fields of the weka trace format, and the check of one parsed trace against them.

Finds every problem of a trace, each with its JSON path; fields that the format does not have are
counted, not refused, since recorders add some. Interprets nothing: what times mean is in
`weka_times`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from inferometer.errors import Problem
from inferometer.workload.hashes import Parsed, misfit
from inferometer.workload.reading import MAX_TOKENS

Row = Mapping[str, Any]
"""A JSON object; once checked, its known fields have the types that this module demands."""

IDS = "_ids"
"""Key under which a checked request holds its `hash_ids` as int64[n]; None where it has none: a
list without ids says nothing of a prompt of whole blocks."""


EXTRA = "_extra"
"""Key under which a checked object holds fields that the format does not have, or has otherwise."""
MAX_SECONDS = 2e9
"""Sums of a few such times stay within int64 nanoseconds."""


class Field(NamedTuple):
    """One field: its name, what is expected in words, and the test of a value."""

    name: str
    expected: str
    accepts: Callable[[object], bool]
    required: bool
    used: bool = True
    """Whether a replay needs it; of one that it does not need, any other value is left out."""


def _is_int(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_seconds(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= MAX_SECONDS


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_count(value: object) -> bool:
    return _is_int(value, 0)


def _is_tokens(value: object) -> bool:
    return isinstance(value, int) and _is_int(value, 0) and value <= MAX_TOKENS


def _is_positive(value: object) -> bool:
    return _is_int(value, 1)


def _whole(value: object) -> object:
    """An integer that was written with a point, as tables with gaps write it; else the value."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _or_null(accepts: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or accepts(value)


_SECONDS = "a number of seconds in [0, 2e9]"
_COUNT = "an integer >= 0"
_TOKENS = f"an integer from 0 to {MAX_TOKENS} (tokens)"
_LOCAL = _or_null(lambda value: value == "local")


def _unused(name: str, expected: str, accepts: Callable[[object], bool]) -> Field:
    return Field(name, expected, _or_null(accepts), required=False, used=False)


TRACE = (
    Field("id", "a non-empty string", _or_null(_is_id), False),
    Field("block_size", "an integer >= 1 (tokens a block)", _is_positive, True),
    Field("hash_id_scope", '"local" (ids are of this trace alone)', _LOCAL, False),
    Field("requests", "a list", _is_list, True),
    _unused("models", "a list", _is_list),
    _unused("tool_tokens", _COUNT, _is_count),
    _unused("system_tokens", _COUNT, _is_count),
    _unused("totals", "an object", lambda v: isinstance(v, dict)),
)
REQUEST = (
    Field("t", _SECONDS, _is_seconds, True),
    _unused("type", '"n" or "s"', lambda v: v in ("n", "s")),
    Field("in", _TOKENS, _is_tokens, True),
    Field("out", _TOKENS + " or null", _or_null(_is_tokens), True),
    Field("hash_ids", "a list of integers", lambda _: True, True),
    _unused("model", "a string", _is_text),
    _unused("input_types", "a list", _is_list),
    _unused("output_types", "a list", _is_list),
    _unused("stop", "a string", _is_text),
    Field("api_time", _SECONDS + " or null", _or_null(_is_seconds), False),
    _unused("think_time", _SECONDS, _is_seconds),
    _unused("ttft", _SECONDS, _is_seconds),
)
SUBAGENT = (
    Field("t", _SECONDS, _is_seconds, True),
    _unused("type", '"subagent"', lambda v: v == "subagent"),
    Field("requests", "a list", _or_null(_is_list), True),
    _unused("agent_id", "a string", _is_text),
    _unused("subagent_type", "a string", _is_text),
    Field("status", "a string or null", _or_null(_is_text), False),
    Field("duration_ms", "milliseconds in [0, 2e9] or null", _or_null(_is_seconds), False),
    _unused("total_tokens", _COUNT, _is_count),
    _unused("tool_use_count", _COUNT, _is_count),
    _unused("models", "a list", _is_list),
    _unused("tool_tokens", _COUNT, _is_count),
    _unused("system_tokens", _COUNT, _is_count),
)
_NAMES = {
    id(fields): frozenset(("block_size", *(field.name for field in fields)))
    for fields in (TRACE, REQUEST, SUBAGENT)
}
MOST_LEVELS = 32
"""Of agents below each other; a file that goes deeper is no recording."""


UNFINISHED = frozenset(
    ("active", "in_progress", "open", "pending", "queued", "running", "started", "working")
)
"""What a sub-agent's status says while it has not come back; any other word is of an ending, in
failure or by being stopped too, or of one that nobody waits for."""
BACKGROUND = ("async_launched", "remote_launched", "teammate_spawned")
"""Status of a sub-agent whose parent goes on at once."""
CLOCK_S = 1.0
"""Recorders write starts in whole seconds: an order that is off by less is no fault."""


def is_subagent(row: Row) -> bool:
    """Whether a row is an agent with requests of its own, by its type or, without one, by those."""
    kind = row.get("type")
    return kind == "subagent" or (kind not in ("n", "s") and isinstance(row.get("requests"), list))


def has_no_end(row: Row) -> bool:
    """Whether a sub-agent says neither how long it ran nor how it ended."""
    return row.get("status") is None and row.get("duration_ms") is None


class TraceCheck:
    """Collects the problems and the unknown fields of one trace."""

    def __init__(self, file: str, line: int | None) -> None:
        self.problems: list[Problem] = []
        self.unknown: Counter[str] = Counter()
        self.tally: Counter[str] = Counter()
        """What a rule covers; to be counted where the trace is sound."""
        self._file = file
        self._line = line
        self._parsed = Parsed(b"null")

    @property
    def value(self) -> Any:
        """The trace that was checked."""
        return self._parsed.value

    def trace(self, parsed: Parsed) -> None:
        """Check one parsed trace; a request that is sound gains its ids as an array (`IDS`)."""
        self._parsed = parsed
        trace = parsed.value
        if not isinstance(trace, dict):
            self.fault("", f"expected a trace (an object), got {_shown(trace)}")
            return
        self._fields(trace, TRACE, "")
        rows, size = trace.get("requests"), trace.get("block_size")
        self.tally["scope_assumed"] += trace.get("hash_id_scope") is None
        if isinstance(rows, list):
            self._rows(rows, "requests", size if _is_positive(size) else None)

    def fault(self, key: str, message: str) -> None:
        """Note a problem at a JSON path of the current trace."""
        self.problems.append(Problem(message, self._file, self._line, key or None))

    def _rows(self, rows: Sequence[object], path: str, size: Any) -> None:
        latest = 0.0
        for index, row in enumerate(rows):
            place = f"{path}[{index}]"
            if not isinstance(row, dict):
                self.fault(place, f"expected an object, got {_shown(row)}")
            elif is_subagent(row):
                self._subagent(row, place, size)
            else:
                self._request(row, place, size)
                latest = self._in_order(row, place, latest)

    def _in_order(self, row: Row, path: str, latest: float) -> float:
        """The latest start so far; a request must not start before it."""
        start = row.get("t")
        if not _is_seconds(start):
            return latest
        assert isinstance(start, int | float)
        if latest - CLOCK_S < start < latest:
            self.tally["inversions"] += 1
        elif start < latest:
            self.fault(f"{path}.t", f"{start} is before {latest} of a request listed earlier")
        return max(start, latest)

    def _subagent(self, row: dict[str, Any], path: str, size: Any) -> None:
        self._fields(row, SUBAGENT, path)
        self._same_size(row, path, size)
        self._returned(row, path)
        if path.count("requests[") > MOST_LEVELS:
            self.fault(path, f"agents are nested deeper than {MOST_LEVELS} levels")
        elif isinstance(row.get("requests"), list):
            self._rows(row["requests"], f"{path}.requests", size)

    def _returned(self, row: Row, path: str) -> None:
        """A sub-agent that says that it still runs, and has no duration, never comes back."""
        status = row.get("status")
        running = isinstance(status, str) and status.lower() in UNFINISHED
        if row.get("duration_ms") is None and running:
            shown = _shown(status)
            self.fault(path, f"never returns: it has no duration_ms, and its status is {shown}")
        elif not has_no_end(row) and status not in ("completed", *BACKGROUND):
            self.tally["odd_status"] += 1

    def _request(self, row: dict[str, Any], path: str, size: Any) -> None:
        self._fields(row, REQUEST, path)
        self._same_size(row, path, size)
        if row.get("hash_ids") is None:
            row[IDS] = None
            return
        ids = self._parsed.ids(row["hash_ids"])
        if ids is None:
            got = row["hash_ids"]
            what = "expected a list of integers in [0, 2^63)"
            shown = "" if isinstance(got, list) else f", got {_shown(got)}"
            self.fault(f"{path}.hash_ids", what + shown)
        elif size is not None and _is_tokens(row.get("in")):
            unsaid = not len(ids) and row["in"] >= size
            wrong = None if unsaid else misfit(len(ids), row["in"], size)
            if wrong is not None:
                self.fault(f"{path}.hash_ids", wrong)
            row[IDS] = None if unsaid else ids
            row["hash_ids"] = ()  # a list takes eight times as much

    def _same_size(self, row: Row, path: str, size: Any) -> None:
        if size is not None and row.get("block_size", size) != size:
            text = f"expected {size}, as the trace has, got {_shown(row['block_size'])}"
            self.fault(f"{path}.block_size", text)

    def _fields(self, row: dict[str, Any], fields: Sequence[Field], path: str) -> None:
        prefix = f"{path}." if path else ""
        kind = "requests[]." if path else ""
        extra: dict[str, Any] = {}
        for field in fields:
            if field.name not in row:
                if field.required:
                    self.fault(prefix + field.name, f"missing; expected {field.expected}")
            elif field.accepts(row[field.name]):
                continue
            elif field.accepts(whole := _whole(row[field.name])):
                row[field.name] = whole
            elif not field.used:
                self.unknown[f"{kind}{field.name} (not {field.expected})"] += 1
                extra[field.name] = row[field.name]
                row[field.name] = None
            else:
                got = _shown(row[field.name])
                self.fault(prefix + field.name, f"expected {field.expected}, got {got}")
        known = _NAMES[id(fields)]
        if not row.keys() <= known:
            others = [name for name in row if name not in known]
            self.unknown.update(kind + name for name in others)
            extra |= {name: row[name] for name in others}
        if extra:
            row[EXTRA] = extra


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
