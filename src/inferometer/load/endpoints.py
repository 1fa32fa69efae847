"""The OpenAI endpoints: where they lie under a base URL, and the bodies they take."""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson

from inferometer.core import ClientSettings, Request
from inferometer.errors import InputError, Problem
from inferometer.load.http import Server

Endpoint = Literal["chat", "completions"]

_PATHS: dict[Endpoint, str] = {"chat": "/chat/completions", "completions": "/completions"}


def parse_base_url(base_url: str, endpoint: Endpoint) -> tuple[Server, str]:
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
    if not parts.hostname:
        problems.append("names no host")
    elif not _can_be_looked_up(parts.hostname):
        problems.append("names a host with an empty label or one longer than 63 characters")
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
    return Server(parts.hostname or "", port, tls), prefix + _PATHS[endpoint]


def _can_be_looked_up(host: str) -> bool:
    """Look-ups and TLS encode the name so, and do not fail with an OSError where they cannot."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


Content = str | list[int]
"""A prompt as it is sent: text, or the ids of its tokens, which only completions take."""


def chat_body(model: str, content: Content, request: Request, settings: ClientSettings) -> bytes:
    """Body of a chat completion with one user message."""
    messages = [{"role": "user", "content": content}]
    return orjson.dumps({"model": model, "messages": messages} | _common(request, settings))


def completions_body(
    model: str, content: Content, request: Request, settings: ClientSettings
) -> bytes:
    """Body of a plain completion."""
    return orjson.dumps({"model": model, "prompt": content} | _common(request, settings))


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
