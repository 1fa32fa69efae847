"""Modules and names that are imported when they are first used, not when they are mentioned.

A process that only carries load must not pay for a database or for a model of every config file. A
deferred module stands at the top of its importer like any other, and costs nothing until then.
Imports nothing of ours; a misspelt name is an AttributeError, as of any module.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


class Deferred:
    """Stands for a module; the first attribute asked for imports it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


def by_name(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """`__getattr__` of a package whose names live in its modules: {module: "name name"}.

    No name may be that of a module of the package: Python would give the module.
    """
    homes = {name: module for module, names in places.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return find
