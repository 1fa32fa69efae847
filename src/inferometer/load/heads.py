"""The heads of requests to one server, and the secrets in them that no record may hold.

An API key is taken from OPENAI_API_KEY, sent, and kept out of everything else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import quote

from inferometer.core import ClientSettings, Request
from inferometer.errors import InputError, Problem, without
from inferometer.load.http import Server, request_head

MAX_ERROR_CHARS = 500

_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110 §5.6.2."""
_NO_HEADER = "a header is a name of letters, digits and '-', and one line of ASCII"
OURS = ("content-length", "transfer-encoding", "x-request-id", "x-correlation-id")
"""Headers that frame a request or tell it apart: another's would be lost, or break it."""


class Heads:
    """Writes them. `extra` go with every request, names in lower case. Raises InputError."""

    def __init__(
        self, server: Server, path: str, settings: ClientSettings, extra: Mapping[str, str]
    ) -> None:
        if problems := header_problems(extra):
            raise InputError(*problems)
        api_key = _api_key()
        self._path = path
        self._headers = _fixed_headers(server, extra, api_key)
        self._secrets = _secrets(extra, api_key)
        self._affinity_header = _affinity_header(settings)

    def of(self, request: Request, length: int) -> bytes:
        """The head of a request with a body of `length` bytes."""
        affinity = _quoted(request.affinity)
        headers = {
            **self._headers,
            "x-request-id": _quoted(request.id),
            "x-correlation-id": affinity,
        }
        if self._affinity_header is not None:
            headers[self._affinity_header] = affinity
        headers["content-length"] = str(length)
        return request_head("POST", self._path, headers)

    def without_secrets(self, error: str | None) -> str | None:
        """An error as a record may hold it."""
        if error is None:
            return None
        return without(error, self._secrets)[:MAX_ERROR_CHARS]


def header_problems(extra: Mapping[str, str]) -> list[Problem]:
    """Headers, and an API key, that no request can bear; by name, for texts may be secrets."""
    problems = []
    for name, text in extra.items():
        if not (_FIELD_NAME.fullmatch(name) and _is_line(text)):
            problems.append(Problem(_NO_HEADER, key=name))
        elif name.lower() in OURS:
            problems.append(Problem("is the client's own to set", key=name))
    if not _is_line(_api_key()):
        problems.append(Problem("not one line of ASCII", "environment", None, "OPENAI_API_KEY"))
    return problems


def _api_key() -> str:
    return os.environ.get("OPENAI_API_KEY", "").strip()


def _fixed_headers(server: Server, extra: Mapping[str, str], api_key: str) -> dict[str, str]:
    """Headers of every request, names in lower case; the caller's win."""
    headers = {
        "host": server.authority,
        "user-agent": "inferometer",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    return headers | {name.lower(): text for name, text in extra.items()}


def _secrets(headers: Mapping[str, str], api_key: str) -> dict[str, str]:
    """What no record may hold, and what stands for it: the key; texts of headers, and words of them
    as in `Bearer KEY`.
    """
    found: dict[str, str] = {}
    for text in headers.values():
        words = (word for word in text.split() if len(word) > len("Bearer"))
        found |= dict.fromkeys((text, *words), "[header]")
    return found | {api_key: "[API key]"}


def _affinity_header(settings: ClientSettings) -> str | None:
    """The header's name in lower case. Raises InputError for what is no name of a header."""
    name = settings.affinity_header
    if name is None:
        return None
    if not _FIELD_NAME.fullmatch(name):
        text = f"{name!r} is not the name of a header: letters, digits and '-'"
        raise InputError(Problem(text, key="affinity_header"))
    return name.lower()


def _quoted(text: str) -> str:
    """One line of ASCII: what is not is percent-encoded."""
    return quote(text, safe=_PRINTABLE, errors="replace")


def _is_line(text: str) -> bool:
    return text.isascii() and text.isprintable()
