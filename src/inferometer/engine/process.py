"""Start a launch plan as a local process, wait until it serves, stop it for certain.

Does not know what the engine is: health, model list, exit code and log are all it looks at. It
only ever ends the process group that it started, and does so even where it is itself killed.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from inferometer.engine.capture import LogCapture
from inferometer.errors import EngineError, InputError, Problem

POLL_S = 0.05
_BESIDE_PORT = re.compile(r"\{port\+([0-9]{1,5})\}")
STOP_S = 10.0
"""After SIGTERM, how long before SIGKILL."""
TAIL_LINES = 5
DRAIN_S = 1.0
"""For the last words of an engine that has ended to come through its pipe."""
MAX_PAGE_BYTES = 16 * 1024 * 1024

# A process group outlives whoever started it: after a kill -9 of ours an engine would hold its port
# and its GPUs for ever. So a shell waits at a pipe of ours. A line says that the engine is stopped;
# the end of the pipe without one, that we are gone.
GUARD = """
read -r stopped && exit 0
kill -s TERM -- "-$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 1
    kill -s 0 -- "-$1" || exit 0
done
kill -s KILL -- "-$1"
"""


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def fill(argv: Sequence[str], site: Mapping[str, str]) -> list[str]:
    """Put the site's values in place of `{port}`, `{port+1}`, `{host}`, `{model_path}`, ..."""
    return [fill_text(word, site) for word in argv]


def fill_text(text: str, site: Mapping[str, str]) -> str:
    """One text with the site's values; a placeholder that the site has no value for stays."""
    for name, value in site.items():
        text = text.replace(f"{{{name}}}", value)
    if "port" not in site:
        return text
    port = int(site["port"])
    return _BESIDE_PORT.sub(lambda beside: str(port + int(beside[1])), text)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One entry of `/v1/models`; vLLM and its kin add the context limit."""

    id: str
    max_model_len: int | None


class _TimedReader(io.RawIOBase):
    """What comes in at a socket, under one deadline however slowly it trickles. Owns the socket."""

    def __init__(self, sock: socket.socket, end_s: float) -> None:
        self._sock = sock
        self._end_s = end_s

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises TimeoutError behind the deadline, OSError."""
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left_s)
        return self._sock.recv_into(buffer)

    def close(self) -> None:
        """The socket too."""
        self._sock.close()
        super().close()

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 (only ever read)
        """What an HTTPResponse asks of a socket."""
        return io.BufferedReader(self)


def get(url: str, timeout_s: float) -> http.client.HTTPResponse:
    """An answer of whatever status, all of it within `timeout_s`.

    Asked for with OPENAI_API_KEY where that is set; past any proxy of the environment, as the load
    itself goes, and at no other place: a redirect is an answer too. Raises OSError, HTTPException,
    InputError for a key that cannot be sent.
    """
    end_s = time.monotonic() + timeout_s
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(connection.close)
        connection.request("GET", parts.path or "/", headers=_headers())
        reader: Any = _TimedReader(connection.sock, end_s)
        answer = http.client.HTTPResponse(reader, method="GET")
        cleanup.callback(answer.close)
        answer.begin()
        cleanup.pop_all()
        return answer


def page(url: str, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of an answer; see `get`. Raises OSError, HTTPException."""
    with get(url, timeout_s) as answer:
        body = answer.read(MAX_PAGE_BYTES + 1)
        if len(body) > MAX_PAGE_BYTES:
            raise OSError(errno.EMSGSIZE, f"the answer is longer than {MAX_PAGE_BYTES} bytes")
        if answer.length:  # of what was announced, this much did not come
            raise http.client.IncompleteRead(body, answer.length)
        return answer.status, body


def _headers() -> dict[str, str]:
    headers = {"Connection": "close"}
    if key := os.environ.get("OPENAI_API_KEY", "").strip():
        if not (key.isascii() and key.isprintable()):
            raise InputError(Problem("must be one line of ASCII", key="OPENAI_API_KEY"))
        headers["Authorization"] = f"Bearer {key}"
    return headers


def served_models(base_url: str, timeout_s: float = 5.0) -> list[ServedModel]:
    """What `/v1/models` lists. Raises EngineError when nothing there answers as an engine does."""
    url = f"{base_url}/v1/models"
    try:
        status, body = page(url, timeout_s)
        if status != 200:
            raise EngineError(f"{url}: answered HTTP {status}")
        listed = orjson.loads(body)
        return [ServedModel(str(m["id"]), _limit(m.get("max_model_len"))) for m in listed["data"]]
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(f"{url}: no answer ({_reason(error)})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EngineError(f"{url}: the answer is no model list") from None


def _reason(error: Exception) -> str:
    """The system's own words."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _limit(value: object) -> int | None:
    """A context limit, where it can be one."""
    return value if type(value) is int and value > 0 else None


class EngineProcess:
    """One engine, as a process group of its own; leaving the context stops it."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], log: Path, base_url: str
    ) -> None:
        self.base_url = base_url
        self.log = LogCapture(log)
        self._argv = list(argv)
        self._env = dict(env)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; its output goes to the log. `inferometer` is this very installation."""
        argv = self._argv
        if argv[0] == "inferometer":
            argv = [sys.executable, "-m", *argv]
        read_end, write_end = os.pipe()
        try:
            self._process = subprocess.Popen(
                argv,
                env={**os.environ, **self._env},
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=subprocess.STDOUT,
                # A group of its own: a Ctrl-C at the terminal is ours to pass on.
                start_new_session=True,
            )
        except OSError as error:
            os.close(read_end)
            raise EngineError(f"cannot start {argv[0]!r}: {error.strerror}") from None
        finally:
            os.close(write_end)
        self.log.start(read_end)
        try:
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", GUARD, "guard", str(self._process.pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self.stop()
            raise

    @property
    def pid(self) -> int | None:
        """The leader of the process group; None before the start."""
        return None if self._process is None else self._process.pid

    def died(self) -> str | None:
        """How it ended, with its last words; None while it runs."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"the engine {how}; {self.last_words()}"

    def wait_ready(self, deadline_s: float, tick: Callable[[], None]) -> None:
        """Until `/health` answers 200 and a model is served; `tick` is called between polls."""
        end_s = time.monotonic() + deadline_s
        while not _healthy(self.base_url):
            if (death := self.died()) is not None:
                raise EngineError(death)
            if time.monotonic() > end_s:
                raise EngineError(
                    f"the engine was not ready in {deadline_s:g} s; {self.last_words()}"
                )
            tick()
            time.sleep(POLL_S)
        if (death := self.died()) is not None:
            raise EngineError(f"another process answers at {self.base_url}, and {death}")
        if not served_models(self.base_url):
            raise EngineError(f"{self.base_url}/v1/models lists no model; {self.last_words()}")

    def last_words(self) -> str:
        """The end of the log, for a message."""
        if (process := self._process) is not None and process.poll() is not None:
            self.log.finish(DRAIN_S)
        report = self.log.report()
        if report.failures:
            first = report.failures[0]
            return f"{first.name} (line {first.line}: {first.text}); {first.advice}"
        tail = report.last[-TAIL_LINES:]
        return "its log ends: " + " | ".join(tail) if tail else "its log is empty"

    def stop(self) -> None:
        """End the whole group: politely, then for certain."""
        process, guard = self._process, self._guard
        if process is None:
            return
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        # Also where the leader is gone: a worker it left behind would hold the port and the GPU.
        self._signal(signal.SIGKILL)
        process.wait()
        self.log.finish(STOP_S)
        if guard is not None:
            guard.communicate(b"stopped\n")
            self._guard = None

    def _signal(self, number: int) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _healthy(base_url: str) -> bool:
    try:
        with get(f"{base_url}/health", 2.0) as answer:
            return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False
