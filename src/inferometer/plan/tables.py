"""The catalog's tables as a revision has them: read through its own files, checked row by row.

Whoever proposes a change has written them, so they are bounded as any other file before a value is
built, and a fault has file and line. None takes the table that is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from inferometer.catalog import AcceptanceTable, Curve, Facts, Gpu, installed_facts
from inferometer.errors import InputError, Problem
from inferometer.plan.source import DataPath, Document, Read, read_document

Row = TypeVar("Row")


def read_facts(read: Read, acceptance: str | None, gpus: str | None) -> Facts:
    """The tables at these paths. InputError holds every fault of the first that has any."""
    held = installed_facts()
    lengths, names = held.acceptance, held.gpus
    if acceptance is not None:
        curves = _rows(acceptance, read, Curve)
        try:
            lengths = AcceptanceTable(curves)
        except ValueError as error:
            raise InputError(Problem(str(error), acceptance)) from error
    if gpus is not None:
        names = tuple(row.name for row in _rows(gpus, read, Gpu))
    return Facts(lengths, names)


def _rows(path: str, read: Read, kind: type[Row]) -> Sequence[Row]:
    # Draft lengths are numbers as keys, which documents of people do not have: the document gives
    # bounds and lines, the values are built as the package builds its own.
    document = read_document(path, read, "list")
    try:
        data: Any = yaml.load(read(path), Loader=yaml.CSafeLoader)
        return TypeAdapter(list[kind]).validate_python(data)  # type: ignore[valid-type]
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise InputError(
            *(_problem(document, each["loc"], each["msg"]) for each in found)
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(Problem(f"cannot be read: {str(error)[:200]}", path)) from error


def _problem(document: Document, where: Sequence[int | str], message: str) -> Problem:
    path: DataPath = (where[0], *(str(part) for part in where[1:]))
    return document.problem(path, message.removeprefix("Value error, "))
