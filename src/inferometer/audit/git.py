"""A git revision as a tree of files, without a checkout: `rev-parse`, `ls-tree` and `cat-file`.

These three run no hook, filter, pager or helper, and fetch nothing. Settings of the machine and the
user are left out, so that a result depends on the repository alone. Output is bounded and each
command ends within a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from inferometer.audit.tree import MAX_FILES, Entry, Tree, checked
from inferometer.errors import InputError, Problem

TIMEOUT_S = 60
_MAX_LISTING = 64_000_000
_MAX_REF = 1_000
_REGULAR = (b"100644", b"100755", b"100664")
_SAFE = (
    *("-c", "safe.directory=*"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "protocol.allow=never"),
)
"""`safe.directory`: that a repository is another user's matters for what reads its settings to run
them, and none of the three does.
"""


def top_of(folder: Path) -> Path | None:
    """The top of the work tree that a directory is in, or a bare repository; None outside."""
    done = _run(folder, "rev-parse", "--show-toplevel")
    if done.returncode == 0 and done.stdout.strip():
        return Path(os.fsdecode(done.stdout).rstrip("\n"))
    bare = _run(folder, "rev-parse", "--absolute-git-dir")
    return Path(os.fsdecode(bare.stdout).rstrip("\n")) if bare.returncode == 0 else None


def commit_of(repository: Path, ref: str) -> str | None:
    """The commit that a ref names; None where it names none."""
    if ref.startswith("-") or not ref.strip() or "\0" in ref or len(ref) > _MAX_REF:
        return None
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    done = _run(repository, *words)
    return done.stdout.decode().strip() if done.returncode == 0 else None


def git_tree(repository: Path, ref: str, commit: str) -> Tree:
    """Every file of a commit. InputError where the repository is damaged or holds too much."""

    def load(entries: Sequence[Entry]) -> list[bytes]:
        return _contents(repository, entries)

    return Tree(ref, checked(_listed(repository, commit), ref), load, lambda entry: entry.blob)


def _listed(repository: Path, commit: str) -> Iterator[Entry]:
    """`ls-tree`, read as it comes: a tree may be made to list without end."""
    command = _command(repository, "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environ()
    ) as process:
        assert process.stdout is not None
        rest, size, count = b"", 0, 0
        try:
            while chunk := process.stdout.read(1 << 16):
                size += len(chunk)
                *lines, rest = (rest + chunk).split(b"\0")
                count += len(lines)
                if size > _MAX_LISTING or count > MAX_FILES:
                    raise InputError(f"{commit[:12]}: holds more than {MAX_FILES} files")
                yield from map(_entry, lines)
        finally:
            process.kill()
    if rest or process.returncode not in (0, -9):
        raise InputError(f"{commit[:12]}: git cannot list its files")


def _entry(line: bytes) -> Entry:
    about, _, path = line.partition(b"\t")
    mode, _, blob, size = about.split()
    regular = mode in _REGULAR
    name = path.decode("utf-8", "backslashreplace")
    if regular and not size.isdigit():
        raise InputError(Problem("git has not its content; fetch the whole revision", name))
    return Entry(
        name,
        int(size) if regular else 0,
        blob.decode(),
        link=not regular,
    )


def _contents(repository: Path, entries: Sequence[Entry]) -> list[bytes]:
    """`cat-file`: all objects in one process; their sizes are known and bounded."""
    if not entries:
        return []
    asked = "".join(f"{entry.blob}\n" for entry in entries).encode()
    done = _run(repository, "cat-file", "--batch", given=asked)
    found, at = [], 0
    for entry in entries:
        end = done.stdout.find(b"\n", at)
        head = done.stdout[at:end].split()
        if end < 0 or head[1:] != [b"blob", str(entry.size).encode()]:
            raise InputError(f"{entry.path}: git cannot read it")
        found.append(done.stdout[end + 1 : end + 1 + entry.size])
        at = end + 2 + entry.size
    return found


def _run(repository: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            _command(repository, *words),
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environ(),
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"git {words[0]} took more than {TIMEOUT_S} s") from error


def _command(repository: Path, *words: str) -> list[str]:
    git = shutil.which("git")
    if git is None:
        raise InputError("git is not installed; name two directories instead")
    return [git, "--no-pager", "--no-optional-locks", *_SAFE, "-C", str(repository), *words]


def _environ() -> dict[str, str]:
    """What git is told: nothing of the user's, no prompt, no fetch of missing objects."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return kept | {
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        # Older ones know it not: what a repository's own settings allow is forbidden here.
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }
