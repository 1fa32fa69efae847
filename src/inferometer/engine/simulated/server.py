"""The built-in engine behind HTTP: the part of the OpenAI API and of vLLM's pages that load needs.

Every response says that it is simulated. Chunks are written straight to the transport, one write a
sequence and step, without back-pressure: what a slow client leaves unread is bounded by its own
max_tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
from aiohttp import web

from inferometer.clock import RealClock
from inferometer.engine.simulated.assembly import assemble
from inferometer.engine.simulated.options import EngineOptions
from inferometer.engine.simulated.pacing import Pacer
from inferometer.engine.simulated.protocol import (
    Ask,
    BadRequest,
    Chunks,
    Endpoint,
    error_body,
    parse_ask,
    whole_answer,
)
from inferometer.engine.simulated.sequence import Sequence
from inferometer.engine.simulated.telemetry import Telemetry
from inferometer.errors import EngineError, InputError

MARK = {"X-Inferometer-Simulated": "1"}
LARGEST_BODY = 256 * 2**20
GRACE_S = 0.5
"""How long open connections get when the server is told to stop."""
INJECTED_EXIT_CODE = 7

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def serve(options: EngineOptions) -> None:
    """Serve until SIGTERM or SIGINT. InputError: the model does not fit; EngineError: the port."""
    _raise_open_file_limit()
    asyncio.run(_serve(options))


async def _serve(options: EngineOptions) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with listening(options) as (port, pacer):
        ready = f"simulated engine ready on http://{options.host}:{port}"
        print(ready, file=sys.stderr, flush=True)
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, pacer}, return_when=asyncio.FIRST_COMPLETED)
        if pacer.done():  # it never returns: a fault of ours, which must not leave a silent server
            pacer.result()


@contextlib.asynccontextmanager
async def listening(options: EngineOptions) -> AsyncIterator[tuple[int, asyncio.Task[None]]]:
    """Listen for the length of the block; gives the port and the task that plays the steps."""
    server = Server(options)
    runner = web.AppRunner(
        server.app, access_log=None, handler_cancellation=True, shutdown_timeout=GRACE_S
    )
    await runner.setup()
    pacer = asyncio.create_task(server.pacer.run())
    try:
        site = web.TCPSite(runner, options.host, options.port, backlog=4096)
        try:
            await site.start()
        except OSError as error:
            message = f"cannot listen on {options.host}:{options.port}: {error.strerror}"
            raise EngineError(message) from None
        yield runner.addresses[0][1], pacer
    finally:
        await runner.cleanup()
        pacer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pacer


class Server:
    """The routes. One scheduler, one pacer."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        scheduler = assemble(options)
        self._telemetry = Telemetry(scheduler, options.served_model_name)
        self.pacer = Pacer(scheduler, self._telemetry, RealClock())
        self._accepted = 0
        self.app = web.Application(middlewares=[_mark], client_max_size=LARGEST_BODY)
        self.app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._completions),
            ]
        )

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self._options.never_ready else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        await self.pacer.between_steps()
        page = self._telemetry.page()
        return web.Response(body=page, content_type="text/plain", charset="utf-8")

    async def _models(self, _: web.Request) -> web.Response:
        card = {
            "id": self._options.served_model_name,
            "object": "model",
            "owned_by": "inferometer",
            "root": self._options.model,
            "max_model_len": self._options.max_model_len,
        }
        return _json(orjson.dumps({"object": "list", "data": [card]}))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, "chat")

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, "completions")

    async def _complete(self, request: web.Request, endpoint: Endpoint) -> web.StreamResponse:
        options = self._options
        body = await request.read()
        ask = parse_ask(endpoint, body, options.served_model_name, options.block_size)
        self._inject_faults(ask)
        prefix = "chatcmpl" if endpoint == "chat" else "cmpl"
        id = f"{prefix}-{uuid.uuid4().hex}"
        if ask.stream:
            return await self._stream(request, ask, id)
        return await self._whole(ask, id)

    async def _stream(self, request: web.Request, ask: Ask, id: str) -> web.StreamResponse:
        """Headers when accepted, then the chunks, written by the pacer."""
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", **MARK}
        )
        response.enable_chunked_encoding()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        transport = request.transport
        assert transport is not None
        chunks: Chunks | None = None

        def emit(sequence: Sequence, new: int) -> None:
            nonlocal chunks
            first, last = chunks is None, sequence.generated == ask.max_tokens
            chunks = chunks or Chunks(ask, id, sequence.cached_tokens)
            transport.write(chunks.tokens(new, sequence.generated, first=first, last=last))
            if last and not done.done():
                done.set_result(None)

        self._submit(ask, id, emit)
        try:
            await response.prepare(request)
            await done
        finally:
            self.pacer.cancel(id)
        await response.write_eof()
        return response

    async def _whole(self, ask: Ask, id: str) -> web.Response:
        done: asyncio.Future[Sequence] = asyncio.get_running_loop().create_future()

        def emit(sequence: Sequence, _: int) -> None:
            if sequence.generated == ask.max_tokens and not done.done():
                done.set_result(sequence)

        self._submit(ask, id, emit)
        try:
            sequence = await done
        finally:
            self.pacer.cancel(id)
        return _json(whole_answer(ask, id, sequence.generated, sequence.cached_tokens))

    def _submit(self, ask: Ask, id: str, emit: Callable[[Sequence, int], None]) -> None:
        try:
            self.pacer.submit(id, ask.prompt, ask.max_tokens, emit)
        except InputError as error:
            raise BadRequest(400, str(error)) from None

    def _inject_faults(self, ask: Ask) -> None:
        options = self._options
        if options.never_ready:
            raise BadRequest(503, "not ready (--never-ready)")
        if options.fail_status is not None and ask.stream:
            raise BadRequest(options.fail_status, "injected by --fail-status")
        self._accepted += 1
        if options.fail_after_requests is not None and self._accepted > options.fail_after_requests:
            # Not sys.exit: a crash closes no stream in order, and that is what is injected.
            os._exit(INJECTED_EXIT_CODE)


@web.middleware
async def _mark(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Mark every response, and answer a refusal with its JSON body."""
    try:
        response = await handler(request)
    except BadRequest as error:
        response = _json(error_body(error.status, str(error)), error.status)
    except web.HTTPException as error:
        response = _json(error_body(error.status, error.reason), error.status)
    if not response.prepared:
        response.headers.update(MARK)
    return response


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _raise_open_file_limit() -> None:
    """As many sockets as the machine allows: a stream each."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
