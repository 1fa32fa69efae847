"""What an engine answers when it is asked over HTTP: its health, its models, one token.

Past any proxy, under a deadline however slowly an answer trickles, and never at another place.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import io
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from inferometer.errors import EngineError, InputError, Problem, without

MAX_PAGE_BYTES = 16 * 1024 * 1024
VERSIONS = (
    ("/version", "version"),  # vLLM, TensorRT-LLM
    ("/server_info", "version"),  # SGLang
    ("/get_server_info", "version"),  # SGLang, before
    ("/props", "build_info"),  # llama.cpp
)
MAX_VERSION = 100
FIRST_TOKEN_S = 600.0
"""A first request may compile kernels."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One entry of `/v1/models`; vLLM and its kin add the context limit, llama.cpp a slot's."""

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


def get(url: str, timeout_s: float, posted: bytes | None = None) -> http.client.HTTPResponse:
    """An answer of whatever status, all of it within `timeout_s`. `posted` is JSON, and makes it a
    POST.

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
        method, headers = "GET" if posted is None else "POST", _headers()
        if posted is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, parts.path or "/", posted, headers)
        reader: Any = _TimedReader(connection.sock, end_s)
        answer = http.client.HTTPResponse(reader, method=method)
        cleanup.callback(answer.close)
        answer.begin()
        cleanup.pop_all()
        return answer


def page(url: str, timeout_s: float, posted: bytes | None = None) -> tuple[int, bytes]:
    """Status and body of an answer; see `get`. Raises OSError, HTTPException."""
    with get(url, timeout_s, posted) as answer:
        data = answer.read(MAX_PAGE_BYTES + 1)
        if len(data) > MAX_PAGE_BYTES:
            raise OSError(errno.EMSGSIZE, f"the answer is longer than {MAX_PAGE_BYTES} bytes")
        if answer.length:  # of what was announced, this much did not come
            raise http.client.IncompleteRead(data, answer.length)
        return answer.status, data


def _key() -> str:
    return os.environ.get("OPENAI_API_KEY", "").strip()


def _headers() -> dict[str, str]:
    headers = {"Connection": "close"}
    if key := _key():
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
        return [ServedModel(str(m["id"]), _context(m)) for m in listed["data"]]
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(f"{url}: no answer ({_reason(error)})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EngineError(f"{url}: the answer is no model list") from None


def _reason(error: Exception) -> str:
    """The system's own words."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _context(model: Mapping[str, Any]) -> int | None:
    """The limit by whichever name there is."""
    meta = model.get("meta")
    slot = meta.get("n_ctx") if isinstance(meta, dict) else None
    return _limit(model.get("max_model_len")) or _limit(slot)


def _limit(value: object) -> int | None:
    """A context limit, where it can be one."""
    return value if type(value) is int and value > 0 else None


def generates(base_url: str, model: str, timeout_s: float = FIRST_TOKEN_S) -> None:
    """Have one token generated, by whichever endpoint there is. Raises EngineError with what the
    engine said: one that answers /health may still be unable to.
    """
    asked: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("completions", {"prompt": "1"}),
        ("chat/completions", {"messages": [{"role": "user", "content": "1"}]}),
    )
    refused = []
    for endpoint, prompt in asked:
        url = f"{base_url}/v1/{endpoint}"
        try:
            posted = orjson.dumps({"model": model, "max_tokens": 1, **prompt})
            status, answer = page(url, timeout_s, posted)
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(f"{url}: no token generated ({_reason(error)})") from None
        if status == 200 and _has_choices(answer):
            return
        text = without(answer[:300].decode("utf-8", "replace"), {_key(): "[API key]"})
        refused.append(f"{url}: no token generated: HTTP {status}: {text}")
        if status not in (404, 405):
            break
    raise EngineError(refused[-1])


def _has_choices(answer: bytes) -> bool:
    """Whether a completion came, and not a page of something else or an error in its place."""
    try:
        choices = orjson.loads(answer)["choices"]
    except (ValueError, KeyError, TypeError):
        return False
    return isinstance(choices, list) and bool(choices)


def engine_version(base_url: str) -> str | None:
    """The version that an engine tells of itself; None where it does not."""
    for path, name in VERSIONS:
        try:
            status, body = page(f"{base_url}{path}", 5.0)
            said = orjson.loads(body)[name] if status == 200 else None
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            continue
        if isinstance(said, str) and 0 < len(said) <= MAX_VERSION and said.isprintable():
            return said
    return None


def healthy(base_url: str) -> bool:
    """Whether `/health` answers 200."""
    try:
        with get(f"{base_url}/health", 2.0) as answer:
            return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False
