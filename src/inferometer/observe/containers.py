"""Which processes of this machine are a container's: a runtime's command line in the foreground is
not their parent, and says only the container's name.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from inferometer.observe.processes import PROC

RUNTIMES = ("docker", "podman")
ANSWER_S = 10.0
Ask = Callable[[Sequence[str]], str]


def first_processes(pids: Iterable[int], proc: Path = PROC, ask: Ask | None = None) -> set[int]:
    """The first process of each container that one of `pids` runs by `docker run --name NAME`.

    None of a container whose runtime does not tell, or that lies in another machine.
    """
    found = set()
    for pid in pids:
        words = _words(pid, proc)
        name = _name(words)
        if name is None:
            continue
        try:
            told = (ask or _ask)([words[0], "inspect", "--format", "{{.State.Pid}}", name])
        except OSError:
            continue
        first = told.strip()
        if first.isdecimal() and (proc / first).exists() and int(first) > 1:
            found.add(int(first))
    return found


def _name(words: Sequence[str]) -> str | None:
    """The name that a command line gives its container; None of any other command line."""
    if len(words) < 2 or Path(words[0]).name not in RUNTIMES or words[1] != "run":
        return None
    for word, behind in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        if flag == "--name":
            return (value if equals else behind) or None
    return None


def _words(pid: int, proc: Path) -> list[str]:
    try:
        return (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _ask(argv: Sequence[str]) -> str:
    """What a runtime prints. Raises OSError where it fails or does not answer."""
    try:
        done = subprocess.run(
            list(argv), capture_output=True, text=True, timeout=ANSWER_S, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise OSError(str(error)) from None
    return done.stdout
