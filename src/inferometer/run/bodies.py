"""Makes the bodies of requests: small ones at once, large ones by threads in memory of their own.

A prompt of a million tokens takes some 25 ms to write, encode and hand over, in which no other
request would leave. In a thread that lets go of the interpreter it holds nobody up.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Awaitable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from inferometer.core import ClientSettings, Content, Prompt, Request
from inferometer.load.endpoints import ENDPOINTS, enclosure
from inferometer.load.sheet import Sheet
from inferometer.load.transport import LARGE_TOKENS
from inferometer.workload import PromptText

AHEAD_BYTES = 128 * 1024 * 1024
"""Of large bodies made before they are due. What does not fit is made when it is sent."""
MOST_THREADS = 4

_Name = tuple[int, int]


class Bodies:
    """Bodies for one server. To be closed."""

    def __init__(self, model: str, prompts: PromptText, settings: ClientSettings) -> None:
        self._model = model
        self._prompts = prompts
        self._settings = settings
        self._endpoint = ENDPOINTS[settings.endpoint]
        self._threads = ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "bodies")
        self._ahead: OrderedDict[_Name, Future[Sheet]] = OrderedDict()
        self._room = AHEAD_BYTES

    def prepare(self, prompt: Prompt) -> None:
        """Have the prompt of a request that will come soon made by then."""
        if prompt.tokens < LARGE_TOKENS:
            self._prompts.prepare(prompt)
            return
        if prompt.parts:
            return
        name, size = _name(prompt), self._prompts.written_bytes(prompt)
        if name in self._ahead or size > self._room:
            return
        self._room -= size
        self._ahead[name] = self._begin(prompt)

    def encode(self, request: Request) -> bytes | Awaitable[Sheet]:
        """The body, or the promise of a large one. Raises InputError."""
        prompt = request.prompt
        if prompt.tokens < LARGE_TOKENS:
            return self._body(request, self._prompts.take(prompt))
        # A dialogue is several texts with their roles: no one text to be put into place.
        if prompt.parts or (around := self._around(request)) is None:
            return asyncio.wrap_future(self._threads.submit(self._whole, request))
        making = self._ahead.pop(_name(prompt), None)
        if making is None:
            making = self._begin(prompt)
        else:
            self._room += self._prompts.written_bytes(prompt)
        return _enclosed(making, around)

    def close(self) -> None:
        """Let go of what nobody asked for, and of the threads."""
        self._threads.shutdown(cancel_futures=True)
        for made in self._ahead.values():
            if not made.cancelled() and made.exception() is None:
                made.result().close()
        self._ahead.clear()

    def _around(self, request: Request) -> tuple[bytes, bytes] | None:
        ids = self._prompts.form == "token_ids"
        return enclosure(self._endpoint, self._model, ids, request, self._settings)

    def _body(self, request: Request, content: Content) -> bytes:
        return self._endpoint.body(self._model, content, request, self._settings)

    def _whole(self, request: Request) -> Sheet:
        """A body that cannot be put together of parts: encoded as a small one is."""
        body = self._body(request, self._prompts.render(request.prompt))
        sheet = Sheet(len(body))
        sheet.write(partial(_copy, body))
        return sheet

    def _begin(self, prompt: Prompt) -> Future[Sheet]:
        return self._threads.submit(self._made, prompt)

    def _made(self, prompt: Prompt) -> Sheet:
        sheet = Sheet(self._prompts.written_bytes(prompt))
        sheet.write(partial(self._prompts.write, prompt))
        sheet.trim(self._prompts.table.first, self._prompts.table.last)
        return sheet


async def _enclosed(making: Future[Sheet], around: tuple[bytes, bytes]) -> Sheet:
    sheet = await asyncio.wrap_future(making)
    sheet.enclose(*around)
    return sheet


def _copy(data: bytes, memory: memoryview) -> None:
    memory[:] = data


def _name(prompt: Prompt) -> _Name:
    """A tail is that of one turn of one play."""
    return prompt.tail_id, prompt.tokens
