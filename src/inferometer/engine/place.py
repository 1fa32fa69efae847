"""Ports of a launch that nobody else has, and the values of a place in its arguments."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from inferometer.errors import EngineError

_BESIDE_PORT = re.compile(r"\{((?:[a-z]+_[0-9]+_(?:node[0-9]+_)?)?port)\+([0-9]{1,5})\}")
FIRST, LAST, STEP = 20_000, 30_000, 16
"""Below the ports that systems give to outgoing connections, and low enough for `{port+12000}`."""


@contextmanager
def held_port(texts: Iterable[str]) -> Iterator[int]:
    """A port that is free together with every `{port+N}` of the texts, and that no other run of
    this tool on the machine takes meanwhile. Raises EngineError where there is none.
    """
    offsets = {0} | {int(n) for text in texts for _, n in _BESIDE_PORT.findall(text)}
    folder = Path(tempfile.gettempdir()) / "inferometer-ports"
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(PermissionError):  # another user made it
        folder.chmod(0o1777)
    for port in range(FIRST, LAST, STEP):
        if not all(_is_free(port + offset) for offset in offsets):
            continue
        with contextlib.ExitStack() as cleanup:
            try:
                lock = _opened(folder / str(port))
                cleanup.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield port
            return
    raise EngineError(f"no free port between {FIRST} and {LAST}")


def _opened(path: Path) -> int:
    """The file that stands for a port. That of another user can be read only, which is enough for a
    lock; a system may refuse to open it as one that might have to be made.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT, 0o644)


def _is_free(port: int) -> bool:
    """Whether it can be bound on every address, as engines do."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def fill(argv: Sequence[str], site: Mapping[str, str]) -> list[str]:
    """Put the site's values in place of `{port}`, `{port+1}`, `{host}`, `{model_path}`, ..."""
    return [fill_text(word, site) for word in argv]


def fill_text(text: str, site: Mapping[str, str]) -> str:
    """One text with the site's values; a placeholder that the site has no value for stays."""
    for name, value in site.items():
        text = text.replace(f"{{{name}}}", value)

    def beside(found: re.Match[str]) -> str:
        port = site.get(found[1])
        return found[0] if port is None else str(int(port) + int(found[2]))

    return _BESIDE_PORT.sub(beside, text)
