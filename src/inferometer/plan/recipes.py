"""Recipe layers: where they lie, and which of them hold for a point.

A layer of an engine, a model, a hardware kind, or a pair of engine and model is found by its name,
beside the config files first, then in the package. A compat layer holds only where asked for.
Layers directly in a `recipes` directory are free: they hold for every point and come last, so they
override. What the rules resolve to is `resolve`'s part.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from inferometer.core import Point
from inferometer.errors import InputError, Problem, nearest
from inferometer.plan.layers import Layer, read_layer
from inferometer.plan.source import Read, read_file

ListFiles = Callable[[str], Sequence[str]]
"""Directory to the files below it, as relative paths with `/`. Empty where there is none."""

KINDS = ("engines", "models", "hardware", "pairs", "compat")
_PACKAGES = Path(__file__).parents[2]
_PACKAGED = "inferometer/plan/recipes"


@dataclass(frozen=True, slots=True)
class Recipes:
    """Every layer at hand. `named` has keys such as `engines/vllm`; `free` is in order."""

    defaults: Layer
    named: Mapping[str, Layer]
    free: tuple[Layer, ...]
    compat: bool = False
    """Whether the reference's own faults are reproduced."""

    def layers(self, point: Point) -> tuple[Layer, ...]:
        """The layers that hold for a point, weakest first. InputError for an unknown framework."""
        if f"engines/{point.framework}" not in self.named:
            found = (name for name in self.named if _kind(name) == "engines")
            engines = [name.removeprefix("engines/") for name in found]
            hint = f"{nearest(point.framework, engines)}; known: {', '.join(sorted(engines))}"
            raise InputError(f"no recipe for framework {point.framework!r}{hint}")
        names = [
            f"engines/{point.framework}",
            f"models/{point.model_prefix}",
            f"hardware/{point.hardware}",
            f"pairs/{point.framework}-{point.model_prefix}",
        ]
        if self.compat:
            names.append(f"compat/{point.framework}")
        layers = (self.named[name] for name in names if name in self.named)
        return (self.defaults, *layers, *self.free)


def list_files(directory: str) -> tuple[str, ...]:
    """The files below a directory on disk, sorted."""
    root = Path(directory)
    found = (path for path in root.rglob("*") if path.is_file())
    return tuple(sorted(path.relative_to(root).as_posix() for path in found))


def recipe_roots(masters: Sequence[str]) -> tuple[str, ...]:
    """The directories `recipes` beside master files."""
    roots = (posixpath.join(posixpath.dirname(master), "recipes") for master in masters)
    return tuple(dict.fromkeys(roots))


def load_recipes(
    read: Read,
    roots: Sequence[str],
    files: ListFiles = list_files,
    *,
    compat: bool = False,
    package: str | None = None,
) -> Recipes:
    """Every layer below `roots` and in the package. InputError holds all problems of all layers.

    A named layer of an earlier root hides one of the same name in a later root or in the package.
    `package`: where the package's own layers lie for `read`; None takes those installed.
    """
    problems: list[Problem] = []
    named: dict[str, Layer] = {}
    free: list[Layer] = []
    for root in roots:
        for name, path in _layer_files(root, files):
            if _kind(name) is None:
                free += _read(path, read, problems)
            elif _kind(name) not in KINDS:
                places = ", ".join(KINDS)
                problems.append(Problem(f"a layer lies in recipes/ or in one of {places}", path))
            elif name not in named:
                named.update((name, layer) for layer in _read(path, read, problems))
    if problems:
        raise InputError(*problems)
    packaged = _packaged() if package is None else _layers(package, read, files)
    return Recipes(packaged["defaults"], {**packaged, **named}, tuple(free), compat)


@lru_cache(maxsize=1)
def _packaged() -> Mapping[str, Layer]:
    """The package's own layers, under a name that is the same on every machine."""

    def read(path: str) -> bytes:
        return read_file(str(_PACKAGES / path))

    def files(root: str) -> Sequence[str]:
        return list_files(str(_PACKAGES / root))

    return _layers(_PACKAGED, read, files)


def _layers(root: str, read: Read, files: ListFiles) -> dict[str, Layer]:
    """Every layer below one root, by name. InputError where one has faults, or has no defaults."""
    layers = {name: read_layer(path, read) for name, path in _layer_files(root, files)}
    if "defaults" not in layers:
        raise InputError(Problem("has no defaults.yaml", root))
    return layers


def _layer_files(root: str, files: ListFiles) -> Iterator[tuple[str, str]]:
    """(name, path) of the YAML files below a root: (`engines/vllm`, `conf/recipes/...`)."""
    for file in sorted(files(root)):
        name, suffix = posixpath.splitext(file)
        if suffix in (".yaml", ".yml"):
            yield name, posixpath.join(root, file)


def _kind(name: str) -> str | None:
    """`engines` for `engines/vllm`; None for a layer directly in a root."""
    return name.rpartition("/")[0] or None


def _read(path: str, read: Read, problems: list[Problem]) -> list[Layer]:
    """The layer, or none where its faults went to `problems`."""
    try:
        return [read_layer(path, read)]
    except InputError as error:
        problems += error.problems
        return []
