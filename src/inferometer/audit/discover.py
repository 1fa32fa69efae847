"""Which files of a tree declare points, and which hold the record: by their names, else content.

A master file is one whose name says so (`master.yaml`, `amd-master.yaml`); where no name does, any
YAML file that holds a search space. The runner file lies beside its master files or in a directory
above. Recipes lie in `recipes/` beside the master files. Nothing is parsed here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from inferometer.audit.tree import MAX_FILE_BYTES, Tree
from inferometer.errors import InputError, Problem

RECORD_DIR = "changelog.d"
RECORD_FILE = "perf-changelog.yaml"
POLICY_FILE = "audit-policy.yaml"
PACKAGE_RECIPES = "inferometer/plan/recipes"
"""Where the package's own layers lie below its source root: the audited tree may hold them."""
PACKAGE_CODE = "inferometer/plan/"
_TABLES = "inferometer/catalog/data"
_ACCEPTANCE, _GPUS = f"{_TABLES}/acceptance.yaml", f"{_TABLES}/gpus.yaml"
"""Tables of the catalog that a resolved value may rest on."""
_OTHER_TABLES = (f"{_TABLES}/models.yaml", f"{_TABLES}/prices.yaml")
"""Those on which none rests: bounds of memory, predictions and prices do."""
_MASTER = re.compile(r"(?:.*[-_.])?master(?:[-_.].*)?\.ya?ml")
_RUNNERS = re.compile(r"(?:.*[-_.])?runners?(?:[-_.].*)?\.ya?ml")
_SIGNS = (b"search-space", b"model-prefix")
_MAX_SNIFFED = 2_000
_NOT_CONFIGS = ("recipes", RECORD_DIR)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person says of where files lie. Empty: found by the rules above."""

    configs: tuple[str, ...] = ()
    """Globs of master files."""
    runners: str | None = None
    recipes: tuple[str, ...] = ()
    """Directories of layers, beside those beside the master files."""


@dataclass(frozen=True, slots=True)
class ConfigSet:
    """The master files of one directory, with what they are read with."""

    masters: tuple[str, ...]
    runners: str
    recipe_roots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The files of one tree that an audit reads."""

    sets: tuple[ConfigSet, ...]
    package: str | None
    """Directory of the package's own layers in this tree; None: those installed are taken."""
    acceptance: str | None
    """The catalog's own table in this tree; None: the one installed is taken."""
    gpus: str | None
    """Likewise."""
    tables: tuple[str, ...]
    """Tables of the catalog in this tree on which no plan rests."""
    code: tuple[str, ...]
    """The package's own code for plans, which is not run from here."""
    entries: tuple[str, ...]
    """Files of changelog.d."""
    changelog: str | None
    policy: str | None
    notes: tuple[str, ...]


def discover(tree: Tree, wanted: Wanted) -> Found:
    """What to read of a tree. InputError where a runner file is missing or ambiguous."""
    masters = _masters(tree, wanted.configs)
    package = _package(tree)
    notes: list[str] = []
    beside = _by_directory(masters)
    roots = _shared_roots(tree, list(beside), wanted, package, notes)
    sets = [
        ConfigSet(
            tuple(found),
            wanted.runners or _runners(tree, directory, found[0]),
            (*_at(directory, "recipes"), *roots),
        )
        for directory, found in beside.items()
    ]
    return Found(
        tuple(sets),
        package,
        _highest(tree, _ACCEPTANCE),
        _highest(tree, _GPUS),
        tuple(path for name in _OTHER_TABLES if (path := _highest(tree, name))),
        tuple(sorted(p for p in tree.entries if PACKAGE_CODE in f"/{p}" and p.endswith(".py"))),
        tuple(sorted(_entries(tree))),
        _one(tree, RECORD_FILE),
        _one(tree, POLICY_FILE),
        tuple(notes),
    )


def _masters(tree: Tree, globs: Sequence[str]) -> list[str]:
    files = sorted(tree.entries)
    if globs:
        return [path for path in files if any(fnmatchcase(path, glob) for glob in globs)]
    open_files = [path for path in files if _may_declare(path)]
    named = [path for path in open_files if _MASTER.fullmatch(posixpath.basename(path))]
    return named or _by_content(tree, open_files)


def _may_declare(path: str) -> bool:
    folders = path.split("/")[:-1]
    hidden = any(folder.startswith(".") or folder in _NOT_CONFIGS for folder in folders)
    return not hidden and path.endswith((".yaml", ".yml"))


def _by_content(tree: Tree, paths: Sequence[str]) -> list[str]:
    """YAML files that hold a search space, where no name says which they are."""
    known = (RECORD_FILE, POLICY_FILE)
    sizes = tree.entries
    plausible = [
        path
        for path in paths
        if posixpath.basename(path) not in known
        and not sizes[path].link
        and sizes[path].size <= MAX_FILE_BYTES
    ]
    if len(plausible) > _MAX_SNIFFED:
        raise InputError(f"{tree.name}: no file is named *master.yaml; say which with --config")
    tree.fetch(plausible)
    return [path for path in plausible if all(sign in tree.read(path) for sign in _SIGNS)]


def _by_directory(paths: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(posixpath.dirname(path), []).append(path)
    return found


def _runners(tree: Tree, directory: str, master: str) -> str:
    """The runner file in the directory of a master file, or in the nearest one above."""
    named = [path for path in tree.entries if _RUNNERS.fullmatch(posixpath.basename(path))]
    here = directory
    while True:
        near = [path for path in named if posixpath.dirname(path) == here]
        exact = [path for path in near if posixpath.basename(path) == "runners.yaml"]
        if len(found := exact or near) == 1:
            return found[0]
        if found:
            listed = ", ".join(sorted(found))
            raise InputError(Problem(f"several runner files: {listed}; choose: --runners", master))
        if not here:
            raise InputError(Problem("no runner file beside it or above; say --runners", master))
        here = posixpath.dirname(here)


def _shared_roots(
    tree: Tree, directories: Sequence[str], wanted: Wanted, package: str | None, notes: list[str]
) -> tuple[str, ...]:
    """Recipe directories for all sets: those asked for, else one at the top that is beside none."""
    if wanted.recipes:
        return tuple(root.rstrip("/") for root in wanted.recipes)
    beside = [root for directory in directories for root in _at(directory, "recipes")]
    holds = any(tree.below(root) for root in beside)
    if holds or not directories or "" in directories or package == "recipes":
        return ()
    if not tree.below("recipes"):
        return ()
    notes.append("recipes/ at the top is read, though it lies beside no master file")
    return ("recipes",)


def _package(tree: Tree) -> str | None:
    found = _highest(tree, f"{PACKAGE_RECIPES}/defaults.yaml")
    return posixpath.dirname(found) if found else None


def _highest(tree: Tree, ends: str) -> str | None:
    """The file whose path ends so and is the shortest; None where none does."""
    found = [path for path in tree.entries if f"/{path}".endswith(f"/{ends}")]
    return min(found, key=lambda path: (len(path), path)) if found else None


def _entries(tree: Tree) -> Iterator[str]:
    for path, entry in tree.entries.items():
        folders = path.split("/")
        if RECORD_DIR in folders[:-1] and path.endswith((".yaml", ".yml")):
            yield path
        elif entry.link and folders[-1] in (RECORD_DIR, RECORD_FILE, POLICY_FILE, "recipes"):
            message = "is a symlink or a submodule, which is not followed"
            raise InputError(Problem(message, path))


def _one(tree: Tree, name: str) -> str | None:
    """The file of a name that lies highest; None where there is none."""
    found = [path for path in tree.entries if posixpath.basename(path) == name]
    return min(found, key=lambda path: (path.count("/"), path)) if found else None


def _at(directory: str, name: str) -> tuple[str, ...]:
    return (posixpath.join(directory, name) if directory else name,)
