"""Modules and names that are imported when they are first used, not when they are mentioned.

A process that only carries load must not pay for a database or for a model of every config file. A
deferred module stands at the top of its importer like any other, and costs nothing until then.
Imports nothing of ours; a misspelt name is an AttributeError, as of any module.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


class Deferred:
    """Stands for a module; the first attribute asked for imports it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(imported(self._name), name)


def imported(name: str) -> ModuleType:
    """The module. What is imported stays: to look for garbage in it meanwhile is a sixth of the
    time that it takes.
    """
    pause = name not in sys.modules and gc.isenabled()
    if pause:
        gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        if pause:
            gc.enable()


def by_name(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """`__getattr__` of a package whose names live in its modules: {module: "name name"}.

    No name may be that of a module of the package: Python would give the module.
    """
    homes = {name: module for module, names in places.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(imported(f"{package}.{homes[name]}"), name)

    return find
