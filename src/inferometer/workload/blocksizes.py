"""Which block size most sessions of some files have, by a look at their text before it is read.

A guess that only decides which sessions are the odd ones; nothing is refused here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from inferometer.errors import InputError
from inferometer.workload.files import texts

_SIZE = re.compile(rb'"block_size"\s*:\s*([0-9]{1,9})')
_TRACE = re.compile(rb'"requests"\s*:')
_HEADER = re.compile(rb'"format"\s*:\s*"inferometer-sessions"')


def most_common_size(files: Sequence[Path]) -> int | None:
    """Tokens a block of most sessions; None where none says. Of equals the first wins."""
    found: Counter[int] = Counter()
    for file in files:
        try:
            found.update(_sizes(file))
        except InputError:
            continue  # told when it is read
    return found.most_common(1)[0][0] if found else None


def _sizes(file: Path) -> Iterator[int]:
    """One a session. Of our own format the first line says it for all of the file."""
    size = None
    for _, text in texts(file):
        match = _SIZE.search(text)
        if match is not None and _HEADER.search(text):
            size = int(match[1])
        elif match is not None and _TRACE.search(text):
            yield int(match[1])
        elif size is not None:
            yield size
