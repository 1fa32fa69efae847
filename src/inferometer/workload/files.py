"""The files behind a path, and their bytes: plain, gzip or zstd, told apart by content.

Nothing is held beyond what is asked for, so that lines of any number stream. Every fault of a file
leaves as an InputError that names it.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from inferometer.errors import InputError, Problem

SUFFIXES = (".json", ".jsonl", ".csv")
PACKED = (".gz", ".zst")
CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"
"""Some editors begin a text of UTF-8 with it; it says nothing."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def trace_files(path: Path) -> tuple[Path, ...]:
    """The files a path stands for, sorted by name. Raises InputError when there are none."""
    if path.is_file():
        return (path,)
    if not path.is_dir():
        kind = "a pipe or a device: neither a file nor a directory"
        what = kind if path.exists() else "no such file or directory"
        raise InputError(Problem(what, str(path)))
    files = tuple(sorted(p for p in path.iterdir() if kind_of(p) in SUFFIXES and p.is_file()))
    if not files:
        wanted = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} files (also .gz, .zst)"
        raise InputError(Problem(f"expected {wanted}, found none", str(path)))
    return files


def kind_of(file: Path) -> str:
    """The suffix without the one of a packing: `.jsonl` for `a.jsonl.gz`."""
    return Path(file.stem).suffix if file.suffix in PACKED else file.suffix


def lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line without its end) of every line that is not blank."""
    with _opened(file) as stream:
        for number, line in enumerate(stream, 1):
            if text := line.removeprefix(_BOM if number == 1 else b"").strip():
                yield number, text


def texts(file: Path) -> Iterator[tuple[int | None, bytes]]:
    """(line, text) of every JSON text of a file: one a line of a `.jsonl`, and of any file whose
    first line ends like an object, broken or not, and is not the last; else the file as one,
    without a line.
    """
    if kind_of(file) == ".jsonl":
        yield from lines(file)
        return
    whole = content(file)
    end = whole.find(b"\n") + 1
    if whole[:end].rstrip().endswith(b"}") and whole[end:].strip():
        yield from lines(file)
    elif whole.strip():
        yield None, whole


def content(file: Path) -> bytes:
    """All bytes of a file, unpacked."""
    with _opened(file) as stream:
        return stream.read().removeprefix(_BOM)


def head(file: Path, size: int) -> bytes:
    """The first bytes of a file, unpacked."""
    with _opened(file) as stream:
        return stream.read(size).removeprefix(_BOM)


def raw_chunks(file: Path) -> Iterator[bytes]:
    """The bytes as they lie on disk, in pieces."""
    with _named(file), file.open("rb") as stream:
        while piece := stream.read(CHUNK):
            yield piece


@contextmanager
def packed(file: Path, suffix: str) -> Iterator[BinaryIO]:
    """A new file to write to, packed as the suffix says: `.gz`, `.zst`, any other is plain."""
    with file.open("wb") as plain:
        if suffix == ".gz":
            # Without a time and a name in it, so that the same sessions are the same bytes.
            with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as target:
                yield cast(BinaryIO, target)
        elif suffix == ".zst":
            with zstd.ZstdFile(plain, "w") as target_zst:
                yield cast(BinaryIO, target_zst)
        else:
            yield plain


@contextmanager
def _named(file: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, zstd.ZstdError) as error:
        text = f"the packed data is damaged or cut short: {error}"
        raise InputError(Problem(text, str(file))) from error
    except OSError as error:
        raise InputError(Problem(error.strerror or "cannot be read", str(file))) from error


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    with _named(file), file.open("rb") as plain:
        magic = plain.read(4)
        plain.seek(0)
        if magic.startswith(_GZIP):
            with gzip.GzipFile(fileobj=plain) as unpacked:
                yield cast(BinaryIO, unpacked)
        elif magic == _ZSTD:
            with zstd.ZstdFile(plain) as unpacked_zst:
                yield cast(BinaryIO, unpacked_zst)
        else:
            yield plain
