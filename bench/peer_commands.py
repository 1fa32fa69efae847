"""How each tool is told of the same closed loop, and where it leaves the TTFT of each request."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from inferometer.store import RunDir

INPUT_TOKENS = 64
OUTPUT_TOKENS = 450
"""Asked for: more than any stream of the usual plan has, so that the plan says when it ends."""
MS = 1e3
NS = 1e9


@dataclass(frozen=True, slots=True)
class Asked:
    """One load: `requests` in all, `streams` at a time. `place` is where files go."""

    url: str
    model: str
    streams: int
    requests: int
    place: Path
    tokenizer: Path | None


@dataclass(frozen=True, slots=True)
class Tool:
    """One load generator. `reported` gives TTFT in s by the id that the tool sent, or got, where it
    tells one, else by any name.
    """

    name: str
    absent: Callable[[argparse.Namespace], str | None]
    command: Callable[[argparse.Namespace, Asked], list[str]]
    reported: Callable[[Asked], dict[str, float]]


def own_command(_: argparse.Namespace, asked: Asked) -> list[str]:
    """This client, as a person would call it, without a warm-up."""
    return [
        *(sys.executable, "-m", "inferometer", "bench", asked.url),
        *("--model", asked.model, "--concurrency", str(asked.streams)),
        *("--requests", str(asked.requests), "--warmup", "0"),
        *("--isl", str(INPUT_TOKENS), "--osl", str(OUTPUT_TOKENS)),
        *("--format", "json", "--out", str(asked.place / "run")),
    ]


def own_report(asked: Asked) -> dict[str, float]:
    """From the records."""
    run = RunDir(asked.place / "run")
    (planned,) = run.manifest().points
    found = {}
    for record in run.point(planned.id).records():
        first_ns, sent_ns = record.first_token_ns, record.exchange.sent_ns
        if first_ns is not None and sent_ns is not None:
            found[record.request_id] = (first_ns - sent_ns) / NS
    return found


def aiperf_command(options: argparse.Namespace, asked: Asked) -> list[str]:
    """Server counts, so that it need not tokenize what comes."""
    return [
        *(str(options.aiperf), "profile", "--model", asked.model, "--url", asked.url),
        *("--endpoint-type", "chat", "--streaming", "--tokenizer", str(asked.tokenizer)),
        *("--concurrency", str(asked.streams), "--request-count", str(asked.requests)),
        *("--synthetic-input-tokens-mean", str(INPUT_TOKENS)),
        *("--output-tokens-mean", str(OUTPUT_TOKENS), "--extra-inputs", "ignore_eos:true"),
        *("--use-server-token-count", "--random-seed", "42", "--ui", "none"),
        *("--export-level", "records", "--output-artifact-dir", str(asked.place / "out")),
    ]


def aiperf_report(asked: Asked) -> dict[str, float]:
    """A line a request, in ms."""
    found = {}
    for line in (asked.place / "out" / "profile_export.jsonl").read_bytes().splitlines():
        row = orjson.loads(line)
        if (ttft := row["metrics"].get("time_to_first_token")) is not None:
            found[row["metadata"]["x_request_id"]] = ttft["value"] / MS
    return found


def guidellm_command(options: argparse.Namespace, asked: Asked) -> list[str]:
    """By a file: its options take no value with an equals sign in it."""
    data = {"kind": "synthetic_text", "prompt_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    spec = {
        "backend": {
            "kind": "openai_http",
            "target": asked.url,
            "model": asked.model,
            "request_format": "/v1/chat/completions",
            "validate_backend": False,
        },
        "profile": {"kind": "concurrent"},
        "constraints": [{"kind": "max_requests", "count": asked.requests}],
        "tokenizer": {"kind": "hf_auto", "model": str(asked.tokenizer)},
        "data": [data],
        # Else it makes some thousand prompts before the first request.
        "data_loader": {"kind": "pytorch", "samples": asked.requests},
    }
    scenario = {
        "metadata": {"name": "peers", "description": "closed loop"},
        "spec": spec,
        "benchmarks": [{"profile.streams": asked.streams}],
    }
    file = asked.place / "scenario.json"
    file.write_text(json.dumps(scenario), "utf-8")
    return [
        *(str(options.guidellm), "run", "-c", str(file), "--disable-console-interactive"),
        *("--output", f"kind=json,path={asked.place / 'out.json'}"),
    ]


def guidellm_report(asked: Asked) -> dict[str, float]:
    """Its requests, in ms, by the id that the answer had."""
    report = orjson.loads((asked.place / "out.json").read_bytes())
    (benchmark,) = report["benchmarks"]
    rows = benchmark["requests"]["successful"]
    values = {row["response_id"]: row["time_to_first_token_ms"] for row in rows}
    return {name: value / MS for name, value in values.items() if value is not None}


def vllm_command(options: argparse.Namespace, asked: Asked) -> list[str]:
    """Neither warm-up nor probe."""
    return [
        *(str(options.vllm), "bench", "serve", "--backend", "openai-chat"),
        *("--base-url", asked.url, "--endpoint", "/v1/chat/completions"),
        *("--model", asked.model, "--tokenizer", str(asked.tokenizer)),
        *("--dataset-name", "random", "--random-input-len", str(INPUT_TOKENS)),
        *("--random-output-len", str(OUTPUT_TOKENS), "--num-prompts", str(asked.requests)),
        *("--max-concurrency", str(asked.streams), "--ignore-eos", "--num-warmups", "0"),
        *("--ready-check-timeout-sec", "0", "--disable-tqdm", "--seed", "1"),
        *("--save-result", "--save-detailed"),
        *("--result-dir", str(asked.place), "--result-filename", "out.json"),
    ]


def vllm_report(asked: Asked) -> dict[str, float]:
    """A list in s, of failed requests too: those are 0."""
    report = orjson.loads((asked.place / "out.json").read_bytes())
    return {f"row {i}": value for i, value in enumerate(report["ttfts"]) if value}


def needs(name: str) -> Callable[[argparse.Namespace], str | None]:
    """Why a peer cannot run here."""

    def absent(options: argparse.Namespace) -> str | None:
        executable: Path | None = getattr(options, name)
        if executable is None:
            return f"name its executable with --{name}"
        if not executable.is_file():
            return f"{executable} is no file"
        if options.tokenizer is None or not options.tokenizer.exists():
            return "it needs a tokenizer: --tokenizer"
        return None

    return absent


def never(_: argparse.Namespace) -> str | None:
    """It is here."""
    return None


TOOLS = (
    Tool("inferometer", never, own_command, own_report),
    Tool("aiperf", needs("aiperf"), aiperf_command, aiperf_report),
    Tool("guidellm", needs("guidellm"), guidellm_command, guidellm_report),
    Tool("vllm", needs("vllm"), vllm_command, vllm_report),
)
