"""A point and its plan as one tree of values, and two such trees compared key by key.

Works over whatever fields the value types have, so that a new field is compared from the day it is
there. Argument lists become flags, compact JSON becomes its members, the origins of values are left
out. Two equal trees may still differ in the order of their arguments: `compared` sees that too.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from inferometer.core import LaunchPlan, Point

Path = tuple[str, ...]
_NOT_COMPARED = ("config", "conc", "repeat")
"""Fields of a point that say which it is, not how it is launched."""
LAUNCH_NAME = re.compile(r"(?:prefill|decode|aggregated|router)_\d+(?:_node\d+)?")
_NUMBER = re.compile(r"-\.?\d")
_MAX_JSON = 200_000
_MAX_DEPTH = 40


class Change(NamedTuple):
    """One value that differs. None: the key is not there on that side."""

    path: Path
    old: str | None
    new: str | None

    @property
    def key(self) -> str:
        """`argv.--max-num-seqs`."""
        return ".".join(self.path)


def tree_of(
    point: Point, plan: LaunchPlan | None, only: Container[str] | None = None
) -> dict[str, Any]:
    """All values by section: those of the plan, and of the point what no section of it says. `only`
    keeps to some fields of both.
    """
    own = _fields(point, _NOT_COMPARED, only)
    if plan is None:
        return own
    planned = _fields(plan, ("origins", "launches", "side"), only)
    planned |= _processes(plan, only)
    shared = {name for name in own if name in planned and _says(planned[name], own[name])}
    clashing = {name: own[name] for name in own if name in planned and name not in shared}
    alone = {name: value for name, value in own.items() if name not in planned}
    return alone | planned | ({"point": clashing} if clashing else {})


def _processes(plan: LaunchPlan, only: Container[str] | None) -> dict[str, Any]:
    """Launches by their names, and side processes under that of the launch they are beside: as
    origins have them (`prefill_0.argv.--x`, `prefill_0.side.NAME`).
    """
    found: dict[str, Any] = {}
    if only is None or "launches" in only:
        for launch in plan.launches:
            found[launch.name] = _fields(launch, ("role", "index", "node_rank"))
    if only is None or "side" in only:
        for process in plan.side:
            holder = found if process.beside is None else found.setdefault(process.beside, {})
            holder.setdefault("side", {})[process.name] = _fields(process, ("name", "beside"))
    return found


def apart(old: object, new: object) -> set[str]:
    """The fields that are not equal: only they need be taken apart."""
    names = (field.name for field in dataclasses.fields(old))  # type: ignore[arg-type]
    return {name for name in names if getattr(old, name) != getattr(new, name)}


def bare(key: str) -> str:
    """A key without the name of its launch."""
    name, _, rest = key.partition(".")
    return rest if rest and LAUNCH_NAME.fullmatch(name) else key


def compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Every value that differs, in the order of the new tree."""
    return list(_differences(old, new, ()))


def values_of(tree: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every value of a tree, as text."""
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            yield from values_of(value, (*path, name))
    elif (text := text_of(tree)) is not None:
        yield path, text


def text_of(value: Any) -> str | None:
    """A value as a person reads it; None where there is none."""
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case int() | float():
            return str(value)
        case _:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _differences(old: Any, new: Any, path: Path) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*new, *(name for name in old if name not in new)]:
            yield from _differences(old.get(name), new.get(name), (*path, name))
    elif old != new or type(old) is not type(new):
        was, now = text_of(old), text_of(new)
        if was != now:
            yield Change(path, was, now)


def _says(planned: Any, own: Any) -> bool:
    """Whether a section of the plan holds all that the point's field of its name does."""
    if isinstance(planned, dict) and isinstance(own, dict):
        return all(name in planned and planned[name] == value for name, value in own.items())
    return bool(planned == own) or own is None


def _fields(
    value: Any, left_out: Sequence[str] = (), only: Container[str] | None = None
) -> dict[str, Any]:
    return {
        name: _value(getattr(value, name), name)
        for name in _names(value.__class__) or ()
        if name not in left_out and (only is None or name in only)
    }


@lru_cache(maxsize=64)
def _names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass; None of anything else."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(field.name for field in dataclasses.fields(kind))


def _value(value: Any, name: str) -> Any:
    match value:
        case str():
            return _unpacked(value)
        case None | bool() | int() | float():
            return value
        case tuple() | list():
            return _listed(value, name)
        case Mapping():
            return {str(key): _value(part, "") for key, part in value.items()}
        case _:
            known = _names(value.__class__) is not None
            return _fields(value, ("origins",)) if known else value


def _listed(value: Sequence[Any], name: str) -> Any:
    """Arguments by flag, pairs of texts by their first, anything else as a list."""
    if name == "argv":
        return _flags([str(word) for word in value])
    if value and all(_is_pair(part) for part in value):
        return {part[0]: part[1] for part in value}
    return [_value(part, "") for part in value]


def _is_pair(part: Any) -> bool:
    return isinstance(part, tuple) and len(part) == 2 and all(isinstance(x, str) for x in part)


def _flags(words: Sequence[str]) -> dict[str, Any]:
    """Flag to value: true where it stands alone, a list where it is given or takes several. What
    stands before the first flag is the command.
    """
    found: dict[str, Any] = {}
    name = "command"
    held: list[str] = []
    order: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("-") and not _NUMBER.match(word) and len(word) > 1:
            order.append((name, held))
            name, held = word, []
        else:
            held.append(word)
    for flag, given in [*order, (name, held)]:
        value: Any = _unpacked(given[0]) if len(given) == 1 else given or True
        if flag == "command":
            value = " ".join(given)
        if flag in found:
            value = [*_as_list(found[flag]), *_as_list(value)]
        found[flag] = value
    return found


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _unpacked(text: str) -> Any:
    """The members of a JSON object; any other text as it is."""
    if not (text.startswith("{") and text.rstrip().endswith("}")) or len(text) > _MAX_JSON:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) and _depth(value) <= _MAX_DEPTH else text


def _depth(value: Any) -> int:
    """Levels of a value, counted to just above the bound."""
    level, depth = [value], 0
    while level and depth <= _MAX_DEPTH:
        depth += 1
        level = [
            part
            for held in level
            if isinstance(held, dict | list)
            for part in (held.values() if isinstance(held, dict) else held)
        ]
    return depth
