"""The process that turns full segments of a journal into parquet: paths come in, each ended by a
zero byte, until the pipe is closed. It has the lowest priority, and says nothing: what it leaves
is told by whoever seals the journal.

    python -m inferometer.store.convert COLUMNS_AS_JSON PARENT
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from inferometer.errors import StoreError
from inferometer.store.journal import convert

LOWEST_PRIORITY = 19


def main() -> None:
    """Convert until there is no more."""
    os.nice(LOWEST_PRIORITY)
    columns: dict[str, str] = json.loads(sys.argv[1])
    parent = int(sys.argv[2])
    for path in paths(sys.stdin.buffer):
        if os.getppid() != parent:
            return  # killed: what it left is read, or moved, by others from now on
        with contextlib.suppress(StoreError):
            convert(path, columns)


def paths(stream: BinaryIO) -> Iterator[Path]:
    """Each path as it comes; one that was cut off is none."""
    held = b""
    while piece := os.read(stream.fileno(), 1 << 16):
        *whole, held = (held + piece).split(b"\0")
        for path in whole:
            yield Path(os.fsdecode(path))


if __name__ == "__main__":
    main()
