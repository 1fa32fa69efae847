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

Row = Mapping[str, Any]
"""A JSON object; once checked, its known fields have the types that this module demands."""

IDS = "_ids"
"""Key under which a checked request holds its `hash_ids` as int64[n]."""


MAX_SECONDS = 2e9
"""Sums of a few such times stay within int64 nanoseconds."""


class Field(NamedTuple):
    """One field: its name, what is expected in words, and the test of a value."""

    name: str
    expected: str
    accepts: Callable[[object], bool]
    required: bool


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


def _is_positive(value: object) -> bool:
    return _is_int(value, 1)


def _or_null(accepts: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or accepts(value)


_SECONDS = "a number of seconds in [0, 2e9]"
_COUNT = "an integer >= 0"
TRACE = (
    Field("id", "a non-empty string", _is_id, True),
    Field("block_size", "an integer >= 1 (tokens a block)", _is_positive, True),
    Field("hash_id_scope", '"local" (ids are of this trace alone)', lambda v: v == "local", True),
    Field("requests", "a list", _is_list, True),
    Field("models", "a list", _is_list, False),
    Field("tool_tokens", _COUNT, _or_null(_is_count), False),
    Field("system_tokens", _COUNT, _or_null(_is_count), False),
    Field("totals", "an object", lambda v: v is None or isinstance(v, dict), False),
)
REQUEST = (
    Field("t", _SECONDS, _is_seconds, True),
    Field("type", '"n", "s" or, at the top, "subagent"', lambda v: v in ("n", "s"), True),
    Field("in", "an integer >= 1 (tokens)", _is_positive, True),
    Field("out", "an integer >= 0 (tokens)", _is_count, True),
    Field("hash_ids", "a list of integers", lambda _: True, True),
    Field("model", "a string", _or_null(_is_text), False),
    Field("input_types", "a list", _or_null(_is_list), False),
    Field("output_types", "a list", _or_null(_is_list), False),
    Field("stop", "a string", _or_null(_is_text), False),
    Field("api_time", _SECONDS + " or null", _or_null(_is_seconds), False),
    Field("think_time", _SECONDS + " or null", _or_null(_is_seconds), False),
    Field("ttft", _SECONDS + " or null", _or_null(_is_seconds), False),
)
SUBAGENT = (
    Field("t", _SECONDS, _is_seconds, True),
    Field("type", '"subagent"', lambda v: v == "subagent", True),
    Field("requests", "a list", _is_list, True),
    Field("agent_id", "a string", _or_null(_is_text), False),
    Field("subagent_type", "a string", _or_null(_is_text), False),
    Field("status", "a string or null", _or_null(_is_text), False),
    Field("duration_ms", "milliseconds in [0, 2e9] or null", _or_null(_is_seconds), False),
    Field("total_tokens", _COUNT + " or null", _or_null(_is_count), False),
    Field("tool_use_count", _COUNT + " or null", _or_null(_is_count), False),
    Field("models", "a list", _or_null(_is_list), False),
    Field("tool_tokens", _COUNT, _or_null(_is_count), False),
    Field("system_tokens", _COUNT, _or_null(_is_count), False),
)


UNFINISHED = frozenset(
    ("active", "in_progress", "open", "pending", "queued", "running", "started", "working")
)
"""What a sub-agent's status says while it has not come back; any other word is of an ending, in
failure or by being stopped too, or of one that nobody waits for."""
BACKGROUND = ("async_launched", "remote_launched", "teammate_spawned")
"""Status of a sub-agent whose parent goes on at once."""
CLOCK_S = 1.0
"""Recorders write starts in whole seconds: an order that is off by less is no fault."""


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
        if not isinstance(rows, list):
            return
        if not any(isinstance(row, dict) and row.get("type") != "subagent" for row in rows):
            self.fault("requests", "expected at least one request of the root agent")
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
            elif row.get("type") == "subagent" and path == "requests":
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
        if isinstance(row.get("requests"), list):
            self._rows(row["requests"], f"{path}.requests", size)

    def _returned(self, row: Row, path: str) -> None:
        """A sub-agent that ended has a duration, or a status that says so."""
        status = row.get("status")
        known = isinstance(status, str) and status.lower() not in UNFINISHED
        if row.get("duration_ms") is None and not known:
            shown = _shown(status)
            self.fault(path, f"never returns: it has no duration_ms, and its status is {shown}")
        elif status not in ("completed", *BACKGROUND):
            self.tally["odd_status"] += 1

    def _request(self, row: dict[str, Any], path: str, size: Any) -> None:
        self._fields(row, REQUEST, path)
        self._same_size(row, path, size)
        if "hash_ids" not in row:
            return
        ids = self._parsed.ids(row["hash_ids"])
        if ids is None:
            got = row["hash_ids"]
            what = "expected a list of integers in [0, 2^63)"
            shown = "" if isinstance(got, list) else f", got {_shown(got)}"
            self.fault(f"{path}.hash_ids", what + shown)
        elif size is not None and _is_positive(row.get("in")):
            if (wrong := misfit(len(ids), row["in"], size)) is not None:
                self.fault(f"{path}.hash_ids", wrong)
            row[IDS] = ids
            row["hash_ids"] = ()  # a list takes eight times as much

    def _same_size(self, row: Row, path: str, size: Any) -> None:
        if size is not None and row.get("block_size", size) != size:
            text = f"expected {size}, as the trace has, got {_shown(row['block_size'])}"
            self.fault(f"{path}.block_size", text)

    def _fields(self, row: dict[str, Any], fields: Sequence[Field], path: str) -> None:
        prefix = f"{path}." if path else ""
        for field in fields:
            if field.name not in row:
                if field.required:
                    self.fault(prefix + field.name, f"missing; expected {field.expected}")
            elif not field.accepts(row[field.name]):
                got = _shown(row[field.name])
                self.fault(prefix + field.name, f"expected {field.expected}, got {got}")
        known = {field.name for field in fields} | {"block_size"}
        kind = "requests[]." if path else ""
        self.unknown.update(kind + name for name in row if name not in known)


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
