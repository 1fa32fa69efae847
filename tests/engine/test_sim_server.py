"""The built-in engine over real sockets: protocol, usage, metrics, faults, stopping."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferometer.engine.simulated.options import parse_options
from inferometer.engine.simulated.protocol import Ask, Chunks
from inferometer.engine.simulated.server import listening
from inferometer.engine.simulated.tokens import prompt_of_text

pytestmark = pytest.mark.sockets

BASE = ["--model", "Qwen/Qwen3-8B", "--served-model-name", "m", "--gpu", "b200", "--port", "0"]
BASE += ["--block-size", "4"]
WORDS = " ".join(f"w{i}" for i in range(10))

Talk = Callable[[aiohttp.ClientSession], Awaitable[None]]


def serving(talk: Talk, *argv: str) -> None:
    """Run `talk` with a client whose base is a server started on a free port."""

    async def main() -> None:
        async with (
            listening(parse_options([*BASE, *argv])) as (port, _),
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
        ):
            await talk(client)

    asyncio.run(main())


def chat(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": WORDS}], "max_tokens": 5} | more


async def events(response: aiohttp.ClientResponse) -> list[Any]:
    """The data of all events; [DONE] as the string it is."""
    body = (await response.read()).decode()
    found = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    return [item if item == "[DONE]" else json.loads(item) for item in found]


async def metrics(client: aiohttp.ClientSession) -> dict[str, float]:
    """Samples of the page by name, labels other than finished_reason and quantile left out."""
    async with client.get("/metrics") as response:
        page = await response.text()
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            kept = {k: v for k, v in sample.labels.items() if k in ("finished_reason", "quantile")}
            found[sample.name + "".join(kept.values())] = sample.value
    return found


def test_chat_stream_with_usage_on_every_chunk() -> None:
    async def talk(client: aiohttp.ClientSession) -> None:
        usage = {"include_usage": True, "continuous_usage_stats": True}
        body = chat(stream=True, stream_options=usage)
        async with client.post("/v1/chat/completions", json=body) as response:
            assert response.status == 200
            assert response.headers["X-Inferometer-Simulated"] == "1"
            assert response.content_type == "text/event-stream"
            role, *content, final, total, done = await events(response)
        assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert [c["choices"][0]["delta"]["content"] for c in content] == [" tok"] * 5
        assert [c["usage"]["completion_tokens"] for c in content] == [1, 2, 3, 4, 5]
        assert all(c["choices"][0]["finish_reason"] is None for c in content)
        assert final["choices"][0]["finish_reason"] == "length"
        assert total["choices"] == []
        assert total["usage"] == {
            "prompt_tokens": 10,
            "total_tokens": 15,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        assert done == "[DONE]"
        chunks = [role, *content, final, total]
        assert {c["system_fingerprint"] for c in chunks} == {"inferometer-simulated"}
        assert len({c["id"] for c in chunks}) == 1

    serving(talk)


def test_completions_stream_takes_token_ids_and_finishes_in_the_last_chunk() -> None:
    async def talk(client: aiohttp.ClientSession) -> None:
        body = {"model": "m", "prompt": list(range(9)), "max_tokens": 3, "stream": True}
        async with client.post("/v1/completions", json=body) as response:
            *content, done = await events(response)
        assert [c["choices"][0]["text"] for c in content] == [" tok"] * 3
        reasons = [c["choices"][0]["finish_reason"] for c in content]
        assert reasons == [None, None, "length"]
        assert all("usage" not in c for c in content)
        assert done == "[DONE]"

    serving(talk)


def test_whole_answers_hit_the_prefix_cache_and_the_page_counts_them() -> None:
    async def talk(client: aiohttp.ClientSession) -> None:
        for cached in (0, 8):
            async with client.post("/v1/chat/completions", json=chat()) as response:
                answer = await response.json()
            assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": cached}
            assert answer["choices"][0]["message"]["content"].split() == ["tok"] * 5
        page = await metrics(client)
        assert page["vllm:request_success_totallength"] == 2
        assert page["vllm:prompt_tokens_total"] == 20
        assert page["vllm:generation_tokens_total"] == 10
        assert page["vllm:prefix_cache_queries_total"] == 20
        assert page["vllm:prefix_cache_hits_total"] == 8
        assert page["vllm:num_requests_running"] == page["vllm:num_requests_waiting"] == 0
        assert page["vllm:kv_cache_usage_perc"] == 0
        assert page["vllm:time_to_first_token_seconds_count"] == 2
        assert page["vllm:e2e_request_latency_seconds_count"] == 2
        assert page["inferometer_simulated_lateness_seconds_count"] == 10
        assert page["inferometer_simulated_lateness_seconds0.99"] >= 0

    serving(talk)


def test_speculative_decoding_puts_several_words_in_a_chunk() -> None:
    async def talk(client: aiohttp.ClientSession) -> None:
        body = chat(stream=True, max_tokens=9)
        async with client.post("/v1/chat/completions", json=body) as response:
            _, *content, _, _ = await events(response)
        words = [len(c["choices"][0]["delta"]["content"].split()) for c in content]
        assert words == [1, 4, 4]
        page = await metrics(client)
        assert page["vllm:spec_decode_num_drafts_total"] == 2
        assert page["vllm:spec_decode_num_accepted_tokens_total"] == 6

    serving(talk, "--speculative-tokens", "3", "--acceptance-length", "4")


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (chat(n=2), 400, "n other than 1"),
        (chat(model="other"), 404, "does not exist"),
        (chat(max_tokens=0), 400, "max_tokens"),
        (chat(max_tokens=50_000), 400, "maximum model length"),
        (chat(messages=[]), 400, "messages"),
        ([], 400, "not a JSON object"),
    ],
)
def test_refusals_have_a_status_and_a_json_error(body: Any, status: int, message: str) -> None:
    async def talk(client: aiohttp.ClientSession) -> None:
        async with client.post("/v1/chat/completions", json=body) as response:
            assert response.status == status
            assert response.headers["X-Inferometer-Simulated"] == "1"
            error = (await response.json())["error"]
        assert error["code"] == status
        assert message in error["message"]

    serving(talk)


def test_a_client_that_leaves_frees_its_sequence() -> None:
    async def talk(client: aiohttp.ClientSession) -> None:
        body = chat(stream=True, max_tokens=30_000)
        async with client.post("/v1/chat/completions", json=body) as response:
            await response.content.readany()
        page = await metrics(client)
        while page["vllm:num_requests_running"]:
            page = await metrics(client)
        assert page["vllm:request_success_totalabort"] == 1
        assert page["vllm:request_success_totallength"] == 0

    serving(talk)


def test_models_health_and_injected_faults() -> None:
    async def ready(client: aiohttp.ClientSession) -> None:
        async with client.get("/v1/models") as response:
            (card,) = (await response.json())["data"]
        assert (card["id"], card["max_model_len"]) == ("m", 1000)
        async with client.get("/health") as response:
            assert response.status == 200
        async with client.get("/nowhere") as response:
            assert response.status == 404
            assert response.headers["X-Inferometer-Simulated"] == "1"

    async def failing(client: aiohttp.ClientSession) -> None:
        async with client.post("/v1/chat/completions", json=chat(stream=True)) as response:
            assert response.status == 529
        # As an engine that is ready, and then is not: what it is asked at its start is answered.
        async with client.post("/v1/chat/completions", json=chat()) as response:
            assert response.status == 200

    async def never(client: aiohttp.ClientSession) -> None:
        async with client.get("/health") as response:
            assert response.status == 503

    serving(ready, "--max-model-len", "1000")
    serving(failing, "--fail-status", "529")
    serving(never, "--never-ready")


def start(*argv: str) -> tuple[subprocess.Popen[str], str]:
    """A server process and its address, once it says that it is ready."""
    command = [sys.executable, "-m", "inferometer.engine.simulated", *BASE, *argv]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    ready = re.fullmatch(r"simulated engine ready on (http://127\.0\.0\.1:\d+)\n", line)
    assert ready, line
    return process, ready[1]


def test_a_process_stops_at_once_on_sigterm_with_a_stream_open() -> None:
    process, address = start()

    async def talk() -> None:
        async with aiohttp.ClientSession(address) as client:
            body = chat(stream=True, max_tokens=30_000)
            async with client.post("/v1/chat/completions", json=body) as response:
                await response.content.readany()
                process.send_signal(signal.SIGTERM)
                with pytest.raises(aiohttp.ClientError):
                    await response.read()

    with process:
        asyncio.run(talk())
        assert process.wait(timeout=60) == 0


def test_a_process_that_is_told_to_fail_exits_with_seven() -> None:
    process, address = start("--fail-after-requests", "1")

    async def talk() -> None:
        async with aiohttp.ClientSession(address) as client:
            async with client.post("/v1/chat/completions", json=chat()) as response:
                assert response.status == 200
            with pytest.raises(aiohttp.ClientError):
                await client.post("/v1/chat/completions", json=chat())

    with process:
        asyncio.run(talk())
        assert process.wait(timeout=60) == 7


def test_a_fault_of_the_user_is_one_line_and_code_two() -> None:
    command = [sys.executable, "-m", "inferometer.engine.simulated", *BASE, "--prot", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "did you mean '--port'" in done.stderr
    assert "Traceback" not in done.stderr


def test_chunks_are_framed_for_http() -> None:
    ask = Ask("completions", "m", prompt_of_text(["a"], 4), 1, True, False, False)
    frame = Chunks(ask, "x", 0).tokens(1, 1, first=True, last=True)
    size, _, rest = frame.partition(b"\r\n")
    assert int(size, 16) == len(rest) - 2
    assert rest.endswith(b"data: [DONE]\n\n\r\n")
