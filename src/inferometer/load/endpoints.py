"""The endpoints of an inference server: where they lie, what they take, what reads their answers.

The seam for further ones. No I/O. A body asks for a stream with usage; what is an engine's own is
left out where it is not wanted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

from inferometer.core import ClientSettings, Content, Dialogue, Request
from inferometer.errors import InputError, Problem
from inferometer.load.http import Server


class Endpoint(Protocol):
    """One way to ask: `path` under the base URL, the body, and what reads the answer's events."""

    path: str
    reader: str
    """Of `chunks.READERS`."""

    def body(
        self, model: str, content: Content, request: Request, settings: ClientSettings
    ) -> bytes:
        """The JSON that asks for `request.max_tokens` tokens, streamed. Raises InputError."""
        ...


class Chat:
    """Chat completions: one user message, or the messages of a dialogue."""

    path = "/chat/completions"
    reader = "openai"

    def body(
        self, model: str, content: Content, request: Request, settings: ClientSettings
    ) -> bytes:
        """Text only: a message holds no token ids."""
        if isinstance(content, list):
            raise InputError("chat takes text, not token ids; token ids go to completions")
        texts = content.texts if isinstance(content, Dialogue) else (content,)
        messages = [
            {"role": "assistant" if place % 2 else "user", "content": text}
            for place, text in enumerate(texts)
        ]
        return orjson.dumps({"model": model, "messages": messages} | _common(request, settings))


class Completions:
    """Plain completions: text, a dialogue as one text, or token ids as they are."""

    path = "/completions"
    reader = "openai"

    def body(
        self, model: str, content: Content, request: Request, settings: ClientSettings
    ) -> bytes:
        """`prompt` is a string, or a list of ids."""
        prompt = content.joined if isinstance(content, Dialogue) else content
        return orjson.dumps({"model": model, "prompt": prompt} | _common(request, settings))


ENDPOINTS: Mapping[str, Endpoint] = {"chat": Chat(), "completions": Completions()}
"""By the name that a plan gives. One more: a class here, and its reader in `chunks.READERS`."""


_MARK_TEXT = "\x7fcontent\x7f"
_MARK_ID = 0x7FFF_C0DE_C0DE_C0DE


def enclosure(
    endpoint: Endpoint, model: str, ids: bool, request: Request, settings: ClientSettings
) -> tuple[bytes, bytes] | None:
    """What stands in a body before its content and behind it, so that a large content can be
    written by itself: the inside of a JSON string, or of a list of `ids`.

    None where that cannot be told. Raises InputError.
    """
    content: Content = [_MARK_ID] if ids else _MARK_TEXT
    mark = str(_MARK_ID) if ids else _MARK_TEXT
    before, *after = endpoint.body(model, content, request, settings).split(mark.encode())
    return (before, after[0]) if len(after) == 1 else None


def parse_base_url(base_url: str, endpoint: str) -> tuple[Server, str]:
    """The server, and the path to post to: `http://host:8000` and `http://host:8000/v1` are one.

    Raises InputError with every fault of the URL.
    """
    try:
        parts = urlsplit(base_url.strip())
    except ValueError:
        raise InputError(Problem("base URL is not a URL", key="base_url")) from None
    problems = []
    if parts.scheme not in ("http", "https"):
        problems.append("must start with http:// or https://")
    # Of `host:8000` the part before the colon is taken for a scheme, and nothing for the host.
    if not parts.hostname and "//" in base_url:
        problems.append("names no host")
    elif parts.hostname and not _can_be_looked_up(parts.hostname):
        problems.append("names a host with an empty label or one longer than 63 characters")
    if any(parts.path.rstrip("/").endswith(known.path) for known in ENDPOINTS.values()):
        problems.append("must end before /chat/completions or /completions: that is added to it")
    if parts.query or parts.fragment:
        problems.append("must not hold '?' or '#'")
    if parts.username is not None or parts.password is not None:
        problems.append("must not hold a user name or password; set OPENAI_API_KEY instead")
    if not re.fullmatch(r"[!-~]*", parts.netloc + parts.path):
        problems.append("holds a space or a character that is not ASCII")
    tls = parts.scheme == "https"
    port = 443 if tls else 80
    try:
        port = port if parts.port is None else parts.port
    except ValueError:
        problems.append("has a port that is not a number from 0 to 65535")
    if problems:
        raise InputError(*(Problem(f"base URL {problem}", key="base_url") for problem in problems))
    prefix = parts.path.rstrip("/")
    prefix = prefix if prefix.endswith("/v1") else f"{prefix}/v1"
    return Server(parts.hostname or "", port, tls), prefix + ENDPOINTS[endpoint].path


def _can_be_looked_up(host: str) -> bool:
    """Look-ups and TLS encode the name so, and do not fail with an OSError where they cannot."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _common(request: Request, settings: ClientSettings) -> dict[str, Any]:
    """What both take. `ignore_eos` and `continuous_usage_stats` are left out where not wanted:
    they are the engines' own, and servers that follow OpenAI strictly refuse them.
    """
    usage = {"include_usage": True}
    if settings.usage_every_chunk:
        usage["continuous_usage_stats"] = True
    body: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "temperature": settings.temperature,
        "stream": True,
        "stream_options": usage,
    }
    if settings.ignore_eos:
        body["ignore_eos"] = True
    return body
