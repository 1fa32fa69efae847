"""A set of files to audit: a directory, or a revision that `git` reads. Nothing of it is run.

Whoever proposes a change has written the files, so all is bounded before it is read: how many there
are, how large each is and all together. A symlink is never followed; a name that leads out of the
tree refuses the tree. Sizes are bytes.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from inferometer.errors import InputError, Problem

MAX_FILES = 100_000
MAX_FILE_BYTES = 4_000_000
"""Of one file that is read. The largest real one has 400,000."""
MAX_READ_BYTES = 64_000_000
"""Of all files that are read of one tree."""
MAX_PATH = 1_000
_LINK = "is a symlink or a submodule, which is not followed"
SKIPPED = ("node_modules", "__pycache__")
"""Directories on disk that no revision holds, beside those whose name begins with a dot."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a tree. `blob` is git's id of its content; empty where it is not known yet."""

    path: str
    size: int
    blob: str
    link: bool = False
    """A symlink, or another thing that is no file."""


Load = Callable[[Sequence[Entry]], Sequence[bytes]]
"""The contents of entries, in their order; their sizes are known to be within bounds."""


Identify = Callable[[Entry], str]
"""Git's id of an entry's content, however large."""


@dataclass(slots=True)
class Tree:
    """The files below one root, by path with `/`. `name` is what a person typed."""

    name: str
    entries: Mapping[str, Entry]
    load: Load
    identify: Identify
    _held: dict[str, bytes] = field(default_factory=dict)
    _blobs: dict[str, str] = field(default_factory=dict)
    _bytes: int = 0

    def fetch(self, paths: Iterable[str]) -> None:
        """Read files, all at once. InputError names every one that cannot be."""
        wanted = [path for path in dict.fromkeys(paths) if path not in self._held]
        if problems := [p for path in wanted if (p := self._refusal(path)) is not None]:
            raise InputError(*problems)
        found = [self.entries[path] for path in wanted]
        self._bytes += sum(entry.size for entry in found)
        if self._bytes > MAX_READ_BYTES:
            message = f"the files to read have more than {MAX_READ_BYTES} bytes together"
            raise InputError(Problem(message, self.name))
        self._held.update(zip(wanted, self.load(found), strict=True))

    def read(self, path: str) -> bytes:
        """The bytes of a file. InputError where there is none, or it must not be read."""
        if path not in self._held:
            self.fetch([path])
        return self._held[path]

    def blob(self, path: str) -> str:
        """Git's id of a file's content: equal ids are equal files."""
        if path not in self._blobs:
            self._blobs[path] = self.identify(self.entries[path])
        return self._blobs[path]

    def below(self, directory: str) -> tuple[str, ...]:
        """The files below a directory, relative to it, sorted. A symlink among them, or in the
        directory's place, is an InputError.
        """
        links = [e.path for e in self.entries.values() if e.link and _within(e.path, directory)]
        if links:
            raise InputError(*(Problem(_LINK, p) for p in links))
        start = f"{directory}/" if directory else ""
        return tuple(sorted(p.removeprefix(start) for p in self.entries if p.startswith(start)))

    def _refusal(self, path: str) -> Problem | None:
        entry = self.entries.get(path)
        if entry is None:
            return Problem(f"there is no such file in {self.name}", path)
        if entry.link:
            return Problem(_LINK, path)
        if entry.size > MAX_FILE_BYTES:
            return Problem(f"has {entry.size} bytes; at most {MAX_FILE_BYTES} are read", path)
        return None


def blob_id(file: BinaryIO, size: int) -> str:
    """Git's id of a blob: SHA-1 over its header and its content, `size` bytes of a file."""
    found = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    left = size
    while left and (part := file.read(min(left, 1 << 20))):
        found.update(part)
        left -= len(part)
    return found.hexdigest()


def checked(entries: Iterable[Entry], name: str) -> dict[str, Entry]:
    """Entries by path. InputError for more than MAX_FILES, or a path that leaves the tree."""
    found: dict[str, Entry] = {}
    for entry in entries:
        if (why := _unsafe(entry.path)) is not None:
            raise InputError(f"{name}: the file name {entry.path[:200]!r} {why}; nothing was read")
        if entry.path in found:
            raise InputError(f"{name}: two files are named {entry.path[:200]!r}; nothing was read")
        found[entry.path] = entry
        if len(found) > MAX_FILES:
            raise InputError(f"{name}: holds more than {MAX_FILES} files")
    return found


def folder_tree(folder: Path) -> Tree:
    """The files below a directory on disk. Directories whose name begins with a dot are left out.

    InputError where it is no directory, or holds too much.
    """
    if not folder.is_dir():
        raise InputError(Problem("is no directory", str(folder)))
    root = str(folder)

    def load(entries: Sequence[Entry]) -> list[bytes]:
        return [_read(folder / entry.path, entry) for entry in entries]

    def identify(entry: Entry) -> str:
        if entry.link:
            raise InputError(Problem(_LINK, entry.path))
        with _open(folder / entry.path, entry) as file:
            return blob_id(file, entry.size)

    return Tree(root, checked(_walk(root), root), load, identify)


def _walk(root: str) -> Iterator[Entry]:
    """Every file below a directory, no symlink followed."""
    left = [""]
    while left:
        here = left.pop()
        with os.scandir(os.path.join(root, here)) as found:  # noqa: PTH118 - faster over many
            for item in sorted(found, key=lambda item: item.name):
                if item.name == ".git":
                    continue
                path = f"{here}/{item.name}" if here else item.name
                if item.is_symlink():
                    yield Entry(path, 0, "", link=True)
                elif item.is_dir(follow_symlinks=False):
                    if not item.name.startswith(".") and item.name not in SKIPPED:
                        left.append(path)
                else:
                    about = item.stat(follow_symlinks=False)
                    yield Entry(path, about.st_size, "", link=not stat.S_ISREG(about.st_mode))


def _open(path: Path, entry: Entry) -> BinaryIO:
    """A file to read; neither a symlink nor a pipe, whatever it was before."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", entry.path)) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(Problem("is no file", entry.path))
    return os.fdopen(handle, "rb")


def _read(path: Path, entry: Entry) -> bytes:
    """The content of a file; its size is looked at again, since it may have grown."""
    with _open(path, entry) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise InputError(Problem(f"has more than {MAX_FILE_BYTES} bytes", entry.path))
    return content


def _within(path: str, directory: str) -> bool:
    """Whether a path is a directory, lies below it, or is one of those above it."""
    return path == directory or path.startswith(f"{directory}/") or directory.startswith(f"{path}/")


def _unsafe(path: str) -> str | None:
    """Why a path must not be in a tree; None where it may."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "leads out of its tree"
    if any(part.lower() == ".git" for part in parts):
        return "lies in git's own directory"
    if len(path) > MAX_PATH:
        return f"has more than {MAX_PATH} characters"
    return None
