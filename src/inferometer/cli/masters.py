"""Which config files a command line names: paths, or one word for files that come with the package.

Reads none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from inferometer.errors import InputError
from inferometer.plan import newer_paths, quickstart_paths

Paths = tuple[tuple[str, ...], str]
"""(master files, runner file)."""

BUNDLED: Mapping[str, Callable[[], Paths]] = {"quickstart": quickstart_paths, "newer": newer_paths}


def master_files(files: Sequence[str], runners: str | None) -> Paths:
    """The files of what was typed: a word of BUNDLED, or files."""
    word = next((file for file in files if file in BUNDLED), None)
    if word is None:
        if runners is None:
            raise InputError("--runners FILE is needed with master files")
        return tuple(files), runners
    if len(files) > 1:
        raise InputError(f"{word} stands alone; name it without other files")
    if runners is not None:
        raise InputError(f"--runners goes only with master files; {word} has its own")
    return BUNDLED[word]()
