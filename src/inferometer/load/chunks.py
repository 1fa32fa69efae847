"""What one event of an OpenAI stream says: token-bearing or not, finished, usage, error.

JSON is decoded only where it must be. Chunks of a stream mostly differ in nothing but their text
and the counts of their usage, so a chunk that equals one already decoded, byte for byte around a
non-empty JSON string and those numbers, says the same as that one. All else (role, finish, errors,
a changed key) is decoded.
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
_STRING_BODY = re.compile(
    rb'(?:[^"\\\x00-\x1f\x80-\xff]++'
    rb'|\\(?:["\\/bfnrt]|u(?:(?:[0-9A-CEFa-cef][0-9A-Fa-f]|[Dd][0-7])[0-9A-Fa-f]{2}'
    rb"|[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}))"
    rb"|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})++"
)
"""The inside of a JSON string: what the decoder takes. Half a surrogate pair is no character, nor
are bytes that are not UTF-8 (RFC 3629, section 4).
"""

is_text = _STRING_BODY.fullmatch
"""Whether bytes from a start to an end, which may be before it, are such an inside, not empty."""

_NUMBER = re.compile(rb"0|[1-9][0-9]{0,8}")
_GROWING = re.compile(rb'"(\w+)"\s*:\s*(0|[1-9][0-9]{0,8})(?=\s*[,}])')
_STEADY = frozenset({b"prompt_tokens", b"cached_tokens"})
"""Counts in a usage that are taken as they are, and so must not be passed over."""


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


class Shape:
    """A chunk with one text, without that text and without the counts that grow with every chunk.

    Chunks that differ in nothing else say the same. `pieces` stand behind the text, and between
    any two of them a number; the one behind piece `counted` is that of completion tokens.
    """

    __slots__ = ("before", "counted", "pieces")

    def __init__(self, before: bytes, pieces: tuple[bytes, ...], counted: int) -> None:
        self.before = before
        self.pieces = pieces
        self.counted = counted

    def match(self, data: bytes | bytearray, text_at: int, end: int) -> int:
        """Whether `data`, which has `before` up to `text_at`, goes on in this shape to `end`.

        -1 where it does not, else the completion tokens, 0 where none are counted.
        """
        numbers = self.numbers(data, text_at, end)
        if numbers is None:
            return -1
        return numbers[self.counted] if numbers else 0

    def numbers(self, data: bytes | bytearray, text_at: int, end: int) -> tuple[int, ...] | None:
        """The counts that stand there, in order; None where it does not go on in this shape."""
        pieces = self.pieces
        if len(pieces) == 1:
            text_end = end - len(pieces[0])
            fits = data.startswith(pieces[0], text_end) and is_text(data, text_at, text_end)
            return () if fits else None
        at = data.find(pieces[0], text_at, end)
        if at < 0 or not is_text(data, text_at, at):
            return None
        at += len(pieces[0])
        found = []
        for piece in pieces[1:]:
            number_end = data.find(piece, at, end)
            number = data[at:number_end]
            if number_end < 0 or _NUMBER.fullmatch(number) is None:
                return None
            found.append(int(number))
            at = number_end + len(piece)
        return tuple(found) if at == end else None


class ChunkReader:
    """Reads the chunks of one stream, and remembers the shape of the last one with a token."""

    def __init__(self) -> None:
        self.shape: Shape | None = None
        self._chunk: Chunk | None = None
        """What chunks of this shape say, but for the count."""

    def read(self, data: bytes) -> Chunk:
        """Say what the event's data means. Raises ChunkError where it is broken."""
        shape, chunk = self.shape, self._chunk
        if shape is not None and chunk is not None and data.startswith(shape.before):
            count = shape.match(data, len(shape.before), len(data))
            if count >= 0:
                usage = chunk.usage and chunk.usage._replace(completion_tokens=count)
                return chunk if usage is None else chunk._replace(usage=usage)
        chunk = decode(data)
        if chunk.token and (shape := _shape(data, chunk.usage)) is not None:
            self.shape, self._chunk = shape, chunk
        return chunk


class TextReader(ChunkReader):
    """Decodes every chunk, and gathers what the answer says: `text`, as a later prompt repeats it.

    Visible text in the order it came. Reasoning is left out, as chat templates leave it out of
    earlier turns: `hidden` counts the token events that held nothing else. A tool that is called
    is its name and arguments, a line each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.hidden = 0

    def read(self, data: bytes) -> Chunk:
        """As of `ChunkReader`; remembers no shape, so that no chunk is passed over."""
        chunk = decode(data)
        if chunk.token:
            self.hidden += not chunk.visible
            for choice in orjson.loads(data).get("choices") or ():
                self.text += _said(choice)
        return chunk


Reader = type[ChunkReader]
READERS: dict[str, Reader] = {"openai": ChunkReader}
"""By the name that an endpoint gives: what reads the events of its stream."""
TEXT_READERS: dict[str, type[TextReader]] = {"openai": TextReader}
"""Likewise, where the text of answers is needed."""


def _said(choice: dict[str, Any]) -> list[str]:
    """The visible texts of a choice, in the order in which they stand."""
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        text = choice.get("text")
        return [text] if isinstance(text, str) else []
    found = [value for key, value in delta.items() if key in _VISIBLE and isinstance(value, str)]
    calls = [call.get("function") for call in _objects(delta.get("tool_calls"))]
    for function in (*calls, delta.get("function_call")):
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            found += [f"\n{name} "] if isinstance(name, str) and name else []
            found += [arguments] if isinstance(arguments, str) else []
    return found


def _shape(data: bytes, usage: Usage | None) -> Shape | None:
    """With two texts the remembered one may be the idle one; such chunks are always decoded."""
    first = _TEXT.search(data)
    if first is None or _TEXT.search(data, first.end()) is not None:
        return None
    before, after = data[: first.start(1)], data[first.end(1) :]
    if usage is None:
        return Shape(before, (after,), counted=0)
    numbers = [
        match
        for match in _GROWING.finditer(after, max(after.find(b'"usage"'), 0))
        if match[1] not in _STEADY
    ]
    named = [index for index, match in enumerate(numbers) if match[1] == b"completion_tokens"]
    if len(named) != 1 or int(numbers[named[0]][2]) != usage.completion_tokens:
        return None
    cuts = [0, *(edge for match in numbers for edge in match.span(2)), len(after)]
    pieces = tuple(after[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=True))
    return Shape(before, pieces, named[0])


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
