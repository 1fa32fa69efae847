"""Which config files a command line names: paths, or one word for files that come with the package.

Reads none of them. A runner file that is not named is `runners.yaml` beside the master files, as
the audit takes it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from inferometer.errors import InputError, Problem, nearest
from inferometer.plan import newer_paths, quickstart_paths

RUNNERS = "runners.yaml"
Paths = tuple[tuple[str, ...], str]
"""(master files, runner file)."""

BUNDLED: Mapping[str, Callable[[], Paths]] = {"quickstart": quickstart_paths, "newer": newer_paths}


def master_files(files: Sequence[str], runners: str | None) -> Paths:
    """The files of what was typed: a word of BUNDLED, or files."""
    word = next((file for file in files if file in BUNDLED), None)
    if word is None:
        return tuple(files), runners or _runners_beside(files)
    if len(files) > 1:
        raise InputError(f"{word} stands alone; name it without other files")
    if runners is not None:
        raise InputError(f"--runners goes only with master files; {word} has its own")
    return BUNDLED[word]()


def _runners_beside(files: Sequence[str]) -> str:
    """`runners.yaml` in the directory of every one of the master files.

    Raises InputError where one of them is not there, or where there is none beside it, or another.
    """
    # A word that is mistyped is a file that is not there; that is to be told before all else.
    missing = [file for file in files if not Path(file).exists()]
    if missing:
        raise InputError(
            *(
                Problem(f"no such file or directory{nearest(file, BUNDLED)}", file)
                for file in missing
            )
        )
    found = {str(Path(file).parent / RUNNERS) for file in files}
    if len(found) == 1 and Path(next(iter(found))).is_file():
        return next(iter(found))
    lacking = "lie in several directories" if len(found) > 1 else f"have no {RUNNERS} beside them"
    raise InputError(f"--runners FILE is needed: the master files {lacking}")
