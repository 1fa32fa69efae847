"""What one event of an OpenAI stream says: token-bearing or not, finished, usage, error.

JSON is decoded only where it must be. Chunks of a stream mostly differ in nothing but their text,
so a chunk that equals one already decoded, byte for byte around a non-empty JSON string, says the
same as that one. All else (role, usage, finish, errors, a changed key) is decoded.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

DONE = b"[DONE]"
MAX_COUNT = 2**31 - 1
"""No request has more tokens: a larger count is no count."""

_VISIBLE = ("content", "text", "refusal")
_HIDDEN = ("reasoning_content", "reasoning")
_TEXT = re.compile(
    rb'"(?:content|text|refusal|reasoning_content|reasoning|arguments)"\s*:\s*'
    rb'"((?:[^"\\]++|\\.)++)"'
)
_STRING_BODY = re.compile(rb'(?:[^"\\\x00-\x1f\x80-\xff]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))++')
"""The inside of a JSON string, ASCII only: whether other bytes are UTF-8 the decoder must say."""

is_text = _STRING_BODY.fullmatch
"""Whether bytes from a start to an end, which may be before it, are such an inside, not empty."""


class ChunkError(Exception):
    """The event is not a chunk that a client could understand."""


class Usage(NamedTuple):
    """The server's own counts; None where it gives none."""

    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None


class Chunk(NamedTuple):
    """One event. `visible` only where `token`: some of it is not reasoning."""

    token: bool
    visible: bool
    finished: bool
    usage: Usage | None
    error: str | None


class Shape(NamedTuple):
    """What stands around the only text of a chunk: chunks that differ in nothing else say the same.

    Only of chunks with a token and no usage, whose counts would change with every chunk.
    """

    before: bytes
    after: bytes
    chunk: Chunk


class ChunkReader:
    """Reads the chunks of one stream, and remembers the shape of the last plain one."""

    def __init__(self) -> None:
        self.shape: Shape | None = None

    def read(self, data: bytes) -> Chunk:
        """Say what the event's data means. Raises ChunkError where it is broken."""
        shape = self.shape
        if (
            shape is not None
            and data.startswith(shape.before)
            and data.endswith(shape.after)
            and is_text(data, len(shape.before), len(data) - len(shape.after))
        ):
            return shape.chunk
        chunk = decode(data)
        if chunk.token and chunk.usage is None:
            self.shape = _shape(data, chunk) or shape
        return chunk


READERS = {"openai": ChunkReader}
"""By the name that an endpoint gives: what reads the events of its stream."""


def _shape(data: bytes, chunk: Chunk) -> Shape | None:
    """With two texts the remembered one may be the idle one; such chunks are always decoded."""
    first = _TEXT.search(data)
    if first is None or _TEXT.search(data, first.end()) is not None:
        return None
    return Shape(data[: first.start(1)], data[first.end(1) :], chunk)


def decode(data: bytes) -> Chunk:
    """Decode the JSON of one chunk. Raises ChunkError."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ChunkError(f"broken JSON ({error}): {_start(data)}") from None
    if not isinstance(value, dict):
        raise ChunkError(f"not a JSON object: {_start(data)}")
    if value.get("error") is not None or value.get("object") == "error":
        return Chunk(False, False, False, None, _error_text(value, data))
    choices = value.get("choices")
    if not isinstance(choices, list | None):
        raise ChunkError(f"'choices' is not a list: {_start(data)}")
    token = visible = finished = False
    for choice in choices or ():
        if not isinstance(choice, dict):
            raise ChunkError(f"a choice is not an object: {_start(data)}")
        shown, hidden = _texts(choice)
        visible |= shown
        token |= shown or hidden
        finished |= choice.get("finish_reason") is not None
    return Chunk(token, visible, finished, _usage(value.get("usage"), data), None)


def _texts(choice: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a choice carries visible text, and whether it carries reasoning."""
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return bool(choice.get("text")), False
    shown = hidden = False
    for key, value in delta.items():
        if not value:
            continue
        if key in _VISIBLE:
            shown = True
        elif key in _HIDDEN:
            hidden = True
        elif key == "tool_calls":
            shown = shown or any(_has_arguments(call.get("function")) for call in _objects(value))
        elif key == "function_call":
            shown = shown or _has_arguments(value)
    return shown, hidden


def _has_arguments(function: object) -> bool:
    return isinstance(function, dict) and bool(function.get("arguments"))


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _usage(value: object, data: bytes) -> Usage | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ChunkError(f"'usage' is not an object: {_start(data)}")
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    counts = (value.get("prompt_tokens"), cached, value.get("completion_tokens"))
    for count in counts:
        if count is not None and (type(count) is not int or not 0 <= count <= MAX_COUNT):
            raise ChunkError(f"'usage' holds {count!r} for a count: {_start(data)}")
    return Usage(*counts)


def _error_text(value: dict[str, Any], data: bytes) -> str:
    """The message; where there is none, the start of the whole event."""
    error = value.get("error")
    if error is None:
        error = value
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else _start(data)


def _start(data: bytes) -> str:
    return data[:120].decode("utf-8", "replace")
