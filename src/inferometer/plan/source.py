"""YAML read through a path -> bytes function, as plain data that still knows its lines.

Data comes out as dict, list, str, int, float, bool and None, as YAML's safe loader gives it. What
that loader lets pass and a person never means (a key given twice, a date, a private tag) is a
problem with file and line; where others read the file too, a key given twice is but a warning.
Knows nothing of what the data stands for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from inferometer.errors import InputError, Problem

Read = Callable[[str], bytes]
"""Path to bytes. Raises InputError where there is no such file."""

Repeated = Literal["refused", "last"]
"""What a key given twice is: a problem, or a warning and the last counts, as in YAML loaders."""

DataPath = tuple[str | int, ...]
"""Keys and indices from the top of a document down to one value."""

MAX_BYTES = 16_000_000
_TOO_LARGE = f"larger than {MAX_BYTES} bytes"
MAX_NODES = 200_000
"""Values in one document, an alias counted wherever it stands. The largest real file has 12,000."""
MAX_DEPTH = 40

_BEFORE_A_VALUE = (
    *(b"\n", b"\r", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9"),
    *(b",", b":", b"[", b"{", b"-", b"?"),
)
_TAG = "tag:yaml.org,2002:"
_STR, _MERGE = f"{_TAG}str", f"{_TAG}merge"
_SAFE = yaml.constructor.SafeConstructor()
_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    f"{_TAG}int": _SAFE.construct_yaml_int,
    f"{_TAG}float": _SAFE.construct_yaml_float,
    f"{_TAG}bool": _SAFE.construct_yaml_bool,
    f"{_TAG}null": lambda _node: None,
}
_KINDS: Mapping[type, str] = {dict: "mapping", list: "list"}


@dataclass(frozen=True, slots=True)
class Document:
    """One file's data. `positions` maps a data path to (line, column), both from 1: of the key for
    a member of a mapping, of the value for an item of a list. `problems` are faults of form,
    `warnings` what is odd and can be read.
    """

    file: str
    data: Any
    positions: Mapping[DataPath, tuple[int, int]]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()

    def line(self, path: DataPath) -> int:
        """Line of a value; of what encloses it where the value itself is missing."""
        while path not in self.positions:
            path = path[:-1]
        return self.positions[path][0]

    def problem(self, path: DataPath, message: str) -> Problem:
        """A fault of the value at `path`."""
        return Problem(message, self.file, self.line(path), dotted(path) or None)


def dotted(path: DataPath) -> str:
    """`qwen.search-space[1].tp` for ("qwen", "search-space", 1, "tp")."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def read_file(path: str) -> bytes:
    """The bytes of a file on disk. InputError where it cannot be read, has more than MAX_BYTES, of
    which no more are read, or is none: a pipe may wait for ever, and is read once only.
    """
    try:
        # Where a pipe has no writer, opening it would wait for one.
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(Problem("cannot be read: a pipe or a device, not a file", path))
            found = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", path)) from error
    if len(found) > MAX_BYTES:
        raise InputError(Problem(_TOO_LARGE, path))
    return found


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read_document(
    path: str, read: Read, top: Literal["mapping", "list"], repeated: Repeated = "refused"
) -> Document:
    """Parse one file. InputError where nothing can be made of it (not YAML, empty, other `top`);
    lesser faults are in the document's `problems`, so that the rest can be checked too.
    """
    root = _compose(path, read(path))
    if root is None:
        raise InputError(Problem(f"the file is empty; expected a {top}", path, 1))
    builder = _Builder(path, repeated)
    data = builder.build(root, (), 0)
    if _KINDS.get(type(data)) != top:
        found = _KINDS.get(type(data), "single value")
        raise InputError(Problem(f"expected a {top} at the top, got a {found}", path, 1))
    problems, warnings = tuple(builder.problems), tuple(builder.warnings)
    return Document(path, data, builder.positions, problems, warnings)


def _compose(path: str, raw: bytes) -> yaml.Node | None:
    if len(raw) > MAX_BYTES:
        raise InputError(Problem(_TOO_LARGE, path))
    try:
        text = raw.decode()
        _bound(path, raw, text)
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(Problem("not YAML: the bytes are not UTF-8", path, line)) from error
    except yaml.reader.ReaderError as error:
        message = f"not YAML: character #x{error.character:02x} is not allowed"
        line = raw[: error.position].count(b"\n") + 1
        raise InputError(Problem(message, path, line)) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        context = f" ({error.context})" if error.context else ""
        message = f"not YAML: {error.problem}{context}"
        raise InputError(Problem(message, path, mark.line + 1 if mark else None)) from error
    return node


def _bound(path: str, raw: bytes, text: str) -> None:
    """Refuse more than MAX_NODES values before any is built: a file of the largest size may hold
    millions, which take minutes and gigabytes.

    No value stands without one of few characters before it, so most files need no count.
    """
    if sum(map(raw.count, _BEFORE_A_VALUE)) < MAX_NODES:
        return
    nodes = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        nodes += isinstance(event, yaml.NodeEvent)
        if nodes > MAX_NODES:
            line = event.start_mark.line + 1 if event.start_mark else None
            raise InputError(Problem(f"more than {MAX_NODES} values", path, line))


@dataclass(slots=True)
class _Builder:
    """Nodes to plain data, once, noting where each value stands."""

    file: str
    repeated: Repeated
    positions: dict[DataPath, tuple[int, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def build(self, node: yaml.Node, path: DataPath, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            limit = f"{MAX_NODES} values" if depth <= MAX_DEPTH else f"{MAX_DEPTH} levels"
            line = node.start_mark.line + 1
            raise InputError(Problem(f"more than {limit}, aliases expanded", self.file, line))
        self.positions.setdefault(path, _place(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self.build(item, (*path, index), depth + 1) for index, item in items]
        return self._scalar(node, path)

    def _scalar(self, node: yaml.Node, path: DataPath) -> Any:
        if node.tag == _STR:
            return node.value
        make = _SCALARS.get(node.tag)
        if make is None:
            kind = node.tag.removeprefix(_TAG)
            self._fault(node, path, f"{node.value!r} is read as a {kind}; write it in quotes")
            return node.value
        try:
            return make(node)
        except (ValueError, KeyError):
            self._fault(node, path, f"{node.value!r} is no {node.tag.removeprefix(_TAG)}")
            return node.value

    def _mapping(self, node: yaml.MappingNode, path: DataPath, depth: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        for key, (key_node, value_node) in self._members(node, path).items():
            here = (*path, key)
            self.positions[here] = _place(key_node)
            own[key] = self.build(value_node, here, depth + 1)
        merged: dict[str, Any] = {}
        for base in _bases(node):
            for key, value in self._base(base, path, depth).items():
                merged.setdefault(key, value)
        return merged | own

    def _members(
        self, node: yaml.MappingNode, path: DataPath
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Key to (key node, value node), in the order in which the keys first stand."""
        members: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self._key(key_node, path)
            if key in members:
                first = members[key][0].start_mark.line + 1
                message = f"given twice, first in line {first}"
                if self.repeated == "refused":
                    self._fault(key_node, (*path, key), message)
                    continue
                self._warn(key_node, (*path, key), f"{message}; the last counts")
            members[key] = key_node, value_node
        return members

    def _base(self, node: yaml.Node, path: DataPath, depth: int) -> dict[str, Any]:
        if isinstance(node, yaml.MappingNode):
            own: dict[str, Any] = self.build(node, path, depth + 1)
            return own
        self._fault(node, path, "a merge key (<<) takes a mapping or a list of mappings")
        return {}

    def _key(self, node: yaml.Node, path: DataPath) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag == _STR:
            return str(node.value)
        shown = repr(node.value) if isinstance(node, yaml.ScalarNode) else "a collection"
        self._fault(node, path, f"{shown} as a key is not text; write it in quotes")
        return str(node.value) if isinstance(node, yaml.ScalarNode) else "?"

    def _fault(self, node: yaml.Node, path: DataPath, message: str) -> None:
        self.problems.append(self._problem(node, path, message))

    def _warn(self, node: yaml.Node, path: DataPath, message: str) -> None:
        self.warnings.append(self._problem(node, path, message))

    def _problem(self, node: yaml.Node, path: DataPath, message: str) -> Problem:
        return Problem(message, self.file, node.start_mark.line + 1, dotted(path) or None)


def _bases(node: yaml.MappingNode) -> Iterator[yaml.Node]:
    """Mappings merged into this one by `<<`, the strongest first."""
    for key_node, value_node in node.value:
        if key_node.tag != _MERGE:
            continue
        if isinstance(value_node, yaml.SequenceNode):
            yield from value_node.value
        else:
            yield value_node


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
