"""The check of one line of the format `inferometer-sessions`: fields, block ids, and the graph.

Finds every problem, each with its JSON path; fields that the format does not have are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from inferometer.errors import Problem
from inferometer.workload.hashes import Ids
from inferometer.workload.reading import MAX_TOKENS

MAX_NS = 2**62
MAX_ID = 2**63 - 1


class Field(NamedTuple):
    """One field: what is expected in words, the test of a value, and whether it must be there."""

    expected: str
    accepts: Callable[[Any], bool]
    required: bool = True


def _whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and least <= v <= most


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_pair(value: Any) -> bool:
    good = _whole(0, MAX_ID)
    return isinstance(value, list) and len(value) == 2 and good(value[0]) and good(value[1])


def _list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(accepts(item) for item in value)


SESSION: Mapping[str, Field] = {
    "id": Field("a non-empty string", _is_name),
    "start_ns": Field("nanoseconds in [0, 2^62]", _whole(0, MAX_NS), False),
    "common_ids": Field("an integer >= 0", _whole(0, MAX_ID), False),
    "extra": Field("an object", lambda v: isinstance(v, dict), False),
    "turns": Field("a list of at least one turn", lambda v: isinstance(v, list) and bool(v)),
}
TURN: Mapping[str, Field] = {
    "agent": Field("a non-empty string", _is_name),
    "parent": Field("a non-empty string", _is_name, False),
    "after": Field("a list of indices of turns", _list_of(_whole(0, MAX_ID))),
    "gap_ns": Field("nanoseconds in [0, 2^62]", _whole(0, MAX_NS)),
    "duration_ns": Field("nanoseconds in [0, 2^62]", _whole(0, MAX_NS), False),
    "in": Field(f"an integer from 1 to {MAX_TOKENS} (tokens)", _whole(1, MAX_TOKENS)),
    "out": Field(f"an integer from 1 to {MAX_TOKENS} (tokens)", _whole(1, MAX_TOKENS)),
    "same": Field("[index of an earlier turn, blocks]", _is_pair, False),
    "extra": Field("an object", lambda v: isinstance(v, dict), False),
    "runs": Field("a list of [first id, count]", _list_of(_is_pair)),
}


class SessionCheck:
    """One line: its row, the block ids of its turns, and what is wrong with it."""

    def __init__(self, file: str, line: int, block_size: int) -> None:
        self.problems: list[Problem] = []
        self.unknown: Counter[str] = Counter()
        self.row: dict[str, Any] = {}
        self.ids: list[Ids] = []
        self._file = file
        self._line = line
        self._size = block_size

    def parse(self, text: bytes) -> None:
        """Check a line; without problems afterwards, `row` and `ids` are sound."""
        try:
            row = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            self._fault(None, f"not valid JSON at column {error.colno}: {error.msg}")
            return
        if not isinstance(row, dict):
            self._fault(None, "expected a session (an object)")
            return
        self.row = row
        self._fields(row, SESSION, "")
        if isinstance(row.get("turns"), list):
            self._turns(row["turns"])

    def _turns(self, turns: Sequence[Any]) -> None:
        for index, turn in enumerate(turns):
            path = f"turns[{index}]"
            if isinstance(turn, dict):
                self._fields(turn, TURN, f"{path}.")
            else:
                self._fault(path, "expected an object")
        if self.problems:
            return
        self._order([turn["after"] for turn in turns])
        agents = {turn["agent"] for turn in turns}
        for index, turn in enumerate(turns):
            parent = turn.get("parent")
            if parent is not None and (parent not in agents or parent == turn["agent"]):
                self._fault(f"turns[{index}].parent", f"no other agent {parent!r} in the session")
            self.ids.append(self._block_ids(turn, index))
        if "root" not in agents:
            self._fault("turns", "expected at least one turn of the agent 'root'")

    def _order(self, after: Sequence[Sequence[int]]) -> None:
        """Every turn must wait for earlier ones only; says where they wait in a circle."""
        late = [(i, b) for i, before in enumerate(after) for b in before if b >= i]
        circle = _circle(after) if late else ()
        if circle:
            path = " -> ".join(map(str, circle))
            self._fault(f"turns[{circle[0]}].after", f"a cycle: turns wait in a circle, {path}")
            return
        for index, before in late:
            what = "comes later: list predecessors first"
            if before >= len(after):
                what = f"is none of the {len(after)} turns"
            self._fault(f"turns[{index}].after", f"turn {before} {what}")

    def _block_ids(self, turn: Mapping[str, Any], index: int) -> Ids:
        path, whole = f"turns[{index}]", turn["in"] // self._size
        like, shared = turn.get("same") or (0, 0)
        known = len(self.ids[like]) if like < index else 0
        if shared and (like >= index or shared > known):
            self._fault(f"{path}.same", f"expected at most {known} blocks of an earlier turn")
            return np.empty(0, np.int64)
        count = shared + sum(length for _, length in turn["runs"])
        if count not in (0, whole):
            text = f"expected ids of {whole} whole blocks of {self._size}, got {count}"
            self._fault(f"{path}.runs", text)
            return np.empty(0, np.int64)
        if any(first + length - 1 > MAX_ID for first, length in turn["runs"]):
            self._fault(f"{path}.runs", "expected ids in [0, 2^63)")
            return np.empty(0, np.int64)
        parts = [np.arange(length, dtype=np.int64) + first for first, length in turn["runs"]]
        begin = self.ids[like][:shared] if shared else np.empty(0, np.int64)
        return np.concatenate([begin, *parts])

    def _fields(self, row: dict[str, Any], fields: Mapping[str, Field], path: str) -> None:
        for name, field in fields.items():
            if name not in row:
                if field.required:
                    self._fault(path + name, f"missing; expected {field.expected}")
            elif not field.accepts(row[name]):
                got = repr(row[name])
                shown = got if len(got) <= 60 else got[:57] + "..."
                self._fault(path + name, f"expected {field.expected}, got {shown}")
        kind = "turns[]." if path else ""
        others = [name for name in row if name not in fields]
        self.unknown.update(kind + name for name in others)
        if others and isinstance(row.get("extra", {}), dict):
            row["extra"] = {**row.get("extra", {}), **{name: row[name] for name in others}}

    def _fault(self, key: str | None, message: str) -> None:
        self.problems.append(Problem(message, self._file, self._line, key))


def _circle(after: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Turns that wait for each other in a circle, the first one again at the end; () if none do."""
    state = [0] * len(after)
    for start in range(len(after)):
        path, choices = [start], [iter(after[start])]
        if state[start]:
            continue
        state[start] = 1
        while path:
            step = next((b for b in choices[-1] if b < len(after) and state[b] < 2), None)
            if step is None:
                state[path.pop()] = 2
                choices.pop()
            elif state[step] == 1:
                return (*path[path.index(step) :], step)
            else:
                state[step] = 1
                path.append(step)
                choices.append(iter(after[step]))
    return ()
