"""Recipe layers: where they lie, and which of them hold for a point.

A layer of an engine, a model, a hardware kind, a pair of engine and model, or a router is found by
its name, beside the config files first, then in the package. A compat layer holds only where asked
for. Layers directly in a `recipes` directory are free: they hold for every engine and come last, so
they override. What the rules resolve to is `resolve`'s part.
"""

from __future__ import annotations

import posixpath
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from inferometer.catalog import Facts, installed_facts
from inferometer.core import Point
from inferometer.errors import InputError, Problem, nearest
from inferometer.plan.draft import holds
from inferometer.plan.expressions import FACTS, Names
from inferometer.plan.layers import Layer, read_layer
from inferometer.plan.names import point_names
from inferometer.plan.source import Read, read_file

ListFiles = Callable[[str], Sequence[str]]
"""Directory to the files below it, as relative paths with `/`. Empty where there is none."""

KINDS = ("engines", "models", "hardware", "pairs", "routers", "compat")
MAX_BASES = 4
_PACKAGES = Path(__file__).parents[2]
_PACKAGED = "inferometer/plan/recipes"


def _nothing(_path: str) -> None:
    """No files beside."""


@dataclass(frozen=True, slots=True)
class Recipes:
    """Every layer at hand. `named` has keys such as `engines/vllm`; `free` is in order."""

    defaults: Layer
    named: Mapping[str, Layer]
    free: tuple[Layer, ...]
    compat: bool = False
    """Whether the reference's own faults are reproduced."""
    beside: Callable[[str], bytes | None] = _nothing
    """A file by its path beside the config files; None where there is none."""
    facts: Facts = field(default_factory=installed_facts)
    """The tables that expressions look into."""

    def names(self, point: Point) -> Names:
        """What expressions may name at a point."""
        return {**point_names(point), FACTS: self.facts}

    def layers(self, point: Point, names: Names) -> tuple[Layer, ...]:
        """The layers that hold for an engine of a point, weakest first. InputError for an unknown
        framework.

        An engine that runs another has it as a base: what is known of the base engine, of the model
        and of both together comes before what the outer engine adds.
        """
        engines = (*self._bases(point.framework, names), point.framework)
        kept = [f"engines/{engines[0]}", f"models/{point.model_prefix}"]
        kept.append(f"hardware/{point.hardware}")
        kept.append(f"pairs/{engines[0]}-{point.model_prefix}")
        for engine in engines[1:]:
            kept += [f"engines/{engine}", f"pairs/{engine}-{point.model_prefix}"]
        if self.compat:
            kept += [f"compat/{engine}" for engine in engines]
        found = (self.named[name] for name in kept if name in self.named)
        return (self.defaults, *found, *self.free)

    def router_layers(self, router: str) -> tuple[Layer, ...]:
        """The layers of a router, weakest first. InputError for one that nobody describes."""
        if f"routers/{router}" not in self.named:
            raise InputError(f"no recipe for router {router!r}{self._hint('routers', router)}")
        return (self.defaults, self.named[f"routers/{router}"])

    def _bases(self, engine: str, names: Names) -> list[str]:
        """The engines that an engine runs, innermost first. InputError for an unknown one."""
        if f"engines/{engine}" not in self.named:
            hint = self._hint("engines", engine)
            raise InputError(f"no recipe for framework {engine!r}{hint}")
        layer = self.named[f"engines/{engine}"]
        found: list[str] = []
        for rule, said in layer.based:
            if not holds(rule, names):
                continue
            for base in said.value:
                if f"engines/{base}" not in self.named or len(found) == MAX_BASES:
                    hint = self._hint("engines", base)
                    what = f"no recipe for base engine {base!r}{hint}"
                    raise InputError(Problem(what, layer.file, said.line, "bases"))
                found.append(base)
        return found

    def _hint(self, kind: str, name: str) -> str:
        known = [each.removeprefix(f"{kind}/") for each in self.named if _kind(each) == kind]
        return f"{nearest(name, known)}; known: {', '.join(sorted(known))}"


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
    facts: Facts | None = None,
) -> Recipes:
    """Every layer below `roots` and in the package. InputError holds all problems of all layers.

    A named layer of an earlier root hides one of the same name in a later root or in the package.
    `package`: where the package's own layers lie for `read`; None takes those installed. `facts`
    likewise.
    """
    problems: list[Problem] = []
    named: dict[str, Layer] = {}
    free: list[Layer] = []
    for root in roots:
        for name, path in _layer_files(root, files):
            if _kind(name) is None:
                free += _read(path, read, problems)
            elif _kind(name) not in KINDS:
                if not _may_be_layer(read(path)):
                    continue  # no layer: what a CONFIG_FILE names may lie there
                places = ", ".join(KINDS)
                problems.append(Problem(f"a layer lies in recipes/ or in one of {places}", path))
            elif name not in named:
                named.update((name, layer) for layer in _read(path, read, problems))
    if problems:
        raise InputError(*problems)
    packaged = _packaged() if package is None else _layers(package, read, files)
    beside = partial(_beside, read, [posixpath.dirname(root) for root in roots])
    # It is only read.
    found = ChainMap(named, packaged)  # type: ignore[arg-type]
    known = facts or installed_facts()
    return Recipes(packaged["defaults"], found, tuple(free), compat, beside, known)


def _beside(read: Read, directories: Sequence[str], path: str) -> bytes | None:
    """The bytes of a relative path below one of the directories; None where it cannot be read, or
    leads out of them.
    """
    if path.startswith("/") or "\0" in path or ".." in path.split("/"):
        return None
    for directory in directories:
        try:
            return read(posixpath.join(directory, path))
        except InputError:
            continue
    return None


def _may_be_layer(raw: bytes) -> bool:
    """Whether a file's first line that says something begins a YAML list; or nothing says any."""
    lines = (line.strip() for line in raw.splitlines())
    said = next((each for each in lines if each and not each.startswith((b"#", b"---", b"%"))), b"")
    return said.startswith((b"- ", b"[")) or said in (b"", b"-")


class _Unread(Mapping[str, Layer]):
    """Layers by name, each read when it is asked for: a point needs a few of them."""

    def __init__(self, paths: Mapping[str, str], read: Read) -> None:
        self._paths = paths
        self._layer = lru_cache(maxsize=None)(lambda path: read_layer(path, read))

    def __getitem__(self, name: str) -> Layer:
        return self._layer(self._paths[name])

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


@lru_cache(maxsize=1)
def _packaged() -> Mapping[str, Layer]:
    """The package's own layers, under a name that is the same on every machine. Tests read them
    all; a run reads those that it needs.
    """

    def read(path: str) -> bytes:
        return read_file(str(_PACKAGES / path))

    def files(root: str) -> Sequence[str]:
        return list_files(str(_PACKAGES / root))

    return _Unread(dict(_layer_files(_PACKAGED, files)), read)


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
