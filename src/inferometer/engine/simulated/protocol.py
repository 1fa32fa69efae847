"""The OpenAI wire format of the built-in engine: requests in, chunks and JSON out.

Bodies are parsed strictly where a silent default would be a false result, and leniently where a
sampling parameter cannot matter (there is nothing to sample). A chunk is joined around pre-encoded
bytes: nothing is serialised per token.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from inferometer.core import Prompt
from inferometer.engine.simulated.tokens import prompt_of_ids, prompt_of_text

FINGERPRINT = "inferometer-simulated"
DEFAULT_MAX_TOKENS = 16
"""Output tokens when a request names no limit: vLLM's default on /v1/completions, here on both."""
WORD = " tok"

Endpoint = Literal["chat", "completions"]


class BadRequest(Exception):
    """A request that is answered with `status` and a JSON error body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """What a completion request asks for. `ignore_eos` is implied: nothing here ends early."""

    endpoint: Endpoint
    model: str
    prompt: Prompt
    max_tokens: int
    stream: bool
    usage_at_end: bool
    usage_every_chunk: bool


def parse_ask(endpoint: Endpoint, body: bytes, model: str, block_size: int) -> Ask:
    """The request in `body`; BadRequest says what is wrong with it."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(400, f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise BadRequest(400, "the body is not a JSON object")
    if data.get("model", model) != model:
        raise BadRequest(404, f"the model {data['model']!r} does not exist; served is {model!r}")
    if data.get("n") not in (None, 1):
        raise BadRequest(400, "n other than 1 is not supported")
    options = data.get("stream_options") or {}
    return Ask(
        endpoint=endpoint,
        model=model,
        prompt=_prompt(endpoint, data, block_size),
        max_tokens=_max_tokens(data),
        stream=bool(data.get("stream")),
        usage_at_end=bool(options.get("include_usage")),
        usage_every_chunk=bool(options.get("continuous_usage_stats")),
    )


def _max_tokens(data: dict[str, Any]) -> int:
    limit = data.get("max_completion_tokens")
    if limit is None:
        limit = data.get("max_tokens")
    if limit is None:
        return DEFAULT_MAX_TOKENS
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise BadRequest(400, f"max_tokens must be a positive integer, not {limit!r}")
    return limit


def _prompt(endpoint: Endpoint, data: dict[str, Any], block_size: int) -> Prompt:
    if endpoint == "chat":
        prompt = prompt_of_text(_message_texts(data.get("messages")), block_size)
    else:
        prompt = _completion_prompt(data.get("prompt"), block_size)
    if prompt.tokens == 0:
        raise BadRequest(400, "the prompt has no tokens")
    return prompt


def _completion_prompt(given: object, block_size: int) -> Prompt:
    """A string, a list of token ids, or a list that holds one of these."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], str | list):
        given = given[0]
    if isinstance(given, str):
        return prompt_of_text([given], block_size)
    if isinstance(given, list) and all(type(token) is int for token in given):
        return prompt_of_ids(given, block_size)
    raise BadRequest(400, "prompt must be one string or one list of token ids")


def _message_texts(messages: object) -> list[str]:
    if not isinstance(messages, list) or not messages:
        raise BadRequest(400, "messages must be a list with at least one message")
    texts: list[str] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            texts.append(content)
        elif isinstance(content, list):
            texts += [part["text"] for part in content if _is_text(part)]
        elif content is not None or not isinstance(message, dict):
            raise BadRequest(400, "a message needs content: a string or a list of parts")
    return texts


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


class Chunks:
    """The server-sent events of one stream, in HTTP/1.1 chunked framing.

    As vLLM's: on /v1/chat/completions a chunk with the role alone, then content, then an empty one
    with the finish reason; on /v1/completions the finish reason is in the last content chunk. Then
    usage where asked for, and [DONE].
    """

    def __init__(self, ask: Ask, id: str, cached_tokens: int) -> None:
        self._ask = ask
        self._cached = cached_tokens
        kind = "chat.completion.chunk" if ask.endpoint == "chat" else "text_completion"
        self._head = orjson.dumps(_identity(ask, id, kind))[:-1]
        inside = b'"delta":{"content":"' if ask.endpoint == "chat" else b'"text":"'
        self._before = b"data: " + self._head + b',"choices":[{"index":0,' + inside
        close = b'"}' if ask.endpoint == "chat" else b'"'
        self._after = close + b',"logprobs":null,"finish_reason":null}]'
        self._last = close + b',"logprobs":null,"finish_reason":"length"}]'
        self._word = WORD.encode()

    def tokens(self, new: int, generated: int, *, first: bool, last: bool) -> bytes:
        """The bytes to write when `new` tokens make `generated` in all."""
        chat = self._ask.endpoint == "chat"
        after = self._last if last and not chat else self._after
        usage = self._running_usage(generated)
        content = self._before + self._word * new + after + usage + b"}\n\n"
        if first and chat:
            content = self._delta(b'{"role":"assistant","content":""}', b"null", 0) + content
        if last:
            content += self._end(generated)
        return b"%x\r\n%b\r\n" % (len(content), content)

    def _end(self, generated: int) -> bytes:
        end = b""
        if self._ask.endpoint == "chat":
            end = self._delta(b"{}", b'"length"', generated)
        if self._ask.usage_at_end:
            full = orjson.dumps(usage(self._ask, generated, self._cached))
            end += b"data: " + self._head + b',"choices":[],"usage":' + full + b"}\n\n"
        return end + b"data: [DONE]\n\n"

    def _delta(self, delta: bytes, reason: bytes, generated: int) -> bytes:
        choice = b'[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]' % (delta, reason)
        running = self._running_usage(generated)
        return b"data: " + self._head + b',"choices":' + choice + running + b"}\n\n"

    def _running_usage(self, generated: int) -> bytes:
        if not self._ask.usage_every_chunk:
            return b""
        prompt = self._ask.prompt.tokens
        return b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}' % (
            prompt,
            prompt + generated,
            generated,
        )


def usage(ask: Ask, generated: int, cached_tokens: int) -> dict[str, Any]:
    """The usage object of a finished request."""
    return {
        "prompt_tokens": ask.prompt.tokens,
        "total_tokens": ask.prompt.tokens + generated,
        "completion_tokens": generated,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def whole_answer(ask: Ask, id: str, generated: int, cached_tokens: int) -> bytes:
    """The JSON body of a request without `stream`."""
    text = WORD * generated
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": "length"}
    if ask.endpoint == "chat":
        choice["message"] = {"role": "assistant", "content": text}
    else:
        choice["text"] = text
    kind = "chat.completion" if ask.endpoint == "chat" else "text_completion"
    answer = _identity(ask, id, kind) | {"choices": [choice]}
    return orjson.dumps(answer | {"usage": usage(ask, generated, cached_tokens)})


def error_body(status: int, message: str) -> bytes:
    """The JSON body of a refusal."""
    kind = "NotFoundError" if status == 404 else "BadRequestError"
    if status >= 500:
        kind = "InternalServerError"
    return orjson.dumps({"error": {"message": message, "type": kind, "code": status}})


def _identity(ask: Ask, id: str, kind: str) -> dict[str, Any]:
    return {
        "id": id,
        "object": kind,
        "created": int(time.time()),
        "model": ask.model,
        "system_fingerprint": FINGERPRINT,
    }
