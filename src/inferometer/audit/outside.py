"""What a file with an engine's settings says, where a config names one and it lies beside it.

Read through the tree and its bounds, parsed as plain YAML; nothing of it is run. A file that is not
there, or is no such YAML, is told and stops nothing: its form is its own framework's.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from inferometer.audit.revision import Revision, State
from inferometer.errors import InputError
from inferometer.plan import read_document


@dataclass(frozen=True, slots=True)
class Outside:
    """The file's bytes and values; none where there is none. `why`: it was not looked into."""

    raw: bytes | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    why: str | None = None


_NONE = Outside()


def outside_of(state: State, known: MutableMapping[str, Outside]) -> Outside:
    """What the file of a point says. `known`: by content, or by name where it is absent."""
    external = state.plan.external if state.plan else None
    if external is None or state.recipes is None:
        return _NONE
    key = external.sha256 or external.file
    if key not in known:
        known[key] = _read(state, external.file)
    return known[key]


def place_of(state: State, side: Revision) -> str | None:
    """Where the file with a point's engine settings lies in the tree; None where it does not."""
    external = state.plan.external if state.plan else None
    master = side.place(state.point.config)[0]
    if external is None or master is None:
        return None
    written = (external.file, external.file.partition(":")[0])
    paths = (posixpath.join(posixpath.dirname(master), name) for name in written)
    return next((path for path in paths if path in side.tree.entries), None)


def _read(state: State, file: str) -> Outside:
    assert state.recipes is not None
    path = file
    raw = state.recipes.beside(path)
    if raw is None:
        path = file.partition(":")[0]
        raw = state.recipes.beside(path)
    if raw is None:
        return Outside(why="the file that a config names is not beside it")
    content = raw
    try:
        document = read_document(path, lambda _path: content, "mapping")
    except InputError as error:
        return Outside(raw, why=f"{path} cannot be read: {error.problems[0].message}")
    if document.problems:
        return Outside(raw, why=f"{path} cannot be read: {document.problems[0].message}")
    return Outside(raw, document.data)
