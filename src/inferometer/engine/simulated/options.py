"""The flags of the built-in engine, named as vLLM names them where it has them.

One parser serves the HTTP server and the in-process engine, so the argv of a launch plan is the
only truth. Abbreviations are refused: a plan must say what it means.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from inferometer.catalog import Precision, gpu, model
from inferometer.errors import InputError, Problem, nearest


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Everything that sets up the built-in engine. Complete: no value is left to be resolved."""

    model: str
    served_model_name: str
    host: str
    port: int
    """0: any free port."""
    gpu: str
    tensor_parallel_size: int
    precision: Precision
    kv_cache_dtype: Precision
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    """Tokens of one step, over all sequences."""
    block_size: int
    gpu_memory_utilization: float
    enable_prefix_caching: bool
    speculative_tokens: int
    """Draft tokens a step and sequence; 0 is no speculative decoding."""
    acceptance_length: float
    """Mean tokens a step and sequence, the bonus token included; 1.0 without drafts."""
    seed: int
    kv_cache_bytes: int | None
    """KV pool of one GPU, in place of what the memory of the card leaves."""
    num_gpu_blocks_override: int | None
    fail_after_requests: int | None
    """Fault injection: the process ends with code 7 when request N + 1 arrives."""
    fail_status: int | None
    """Fault injection: every completion is answered with this HTTP status."""
    never_ready: bool
    """Fault injection: /health answers 503 for ever."""


class _Parser(argparse.ArgumentParser):
    """argparse that raises InputError where it would print and exit."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def parse_options(argv: Sequence[str]) -> EngineOptions:
    """The options that `argv` (without a program name) spells out; InputError lists every fault."""
    parser = _build_parser()
    known, unknown = parser.parse_known_args(list(argv))
    problems = [
        Problem(f"unknown flag{nearest(flag.partition('=')[0], _flags(parser))}", key=flag)
        if flag.startswith("-")
        else Problem("unexpected argument", key=flag)
        for flag in unknown
    ]
    problems += _problems(known)
    if problems:
        raise InputError(*problems)
    return _resolve(known)


def _build_parser() -> _Parser:
    parser = _Parser(prog="inferometer engine simulated", allow_abbrev=False)
    add = parser.add_argument
    add("--model", required=True, help="Hugging Face id or alias of a model in the catalog")
    add("--served-model-name", help="name in requests (default: --model)")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8000, help="0 picks a free port")
    add("--gpu", required=True, help="a GPU in the catalog, such as h200 or mi355x")
    add("--tensor-parallel-size", "-tp", type=int, default=1)
    add("--precision", choices=("bf16", "fp8", "fp4"), default="bf16", help="of the weights")
    add("--kv-cache-dtype", choices=("auto", "bf16", "fp8"), default="auto", help="auto: bf16")
    add("--max-model-len", type=int, help="tokens of prompt and output (default: the model's)")
    add("--max-num-seqs", type=int, default=256)
    add("--max-num-batched-tokens", type=int, default=8192)
    add("--block-size", type=int, default=64, help="tokens of one KV block")
    add("--gpu-memory-utilization", type=float, default=0.9)
    add("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    add("--speculative-tokens", type=int, default=0, help="draft tokens a step")
    add("--acceptance-length", type=float, help="mean tokens a step, 1 to 1 + drafts")
    add("--seed", type=int, default=0)
    add("--kv-cache-bytes", type=int, help="KV pool of one GPU")
    add("--num-gpu-blocks-override", type=int, help="KV pool in blocks")
    add("--fail-after-requests", type=int, metavar="N", help="fault injection: exit with code 7")
    add("--fail-status", type=int, metavar="CODE", help="fault injection: answer streams so")
    add("--never-ready", action="store_true", help="fault injection: /health answers 503")
    return parser


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings]


_INT32, _INT64, _DRAFTS = 2**31 - 1, 2**63 - 1, 1024
_BOUNDS = {
    "port": (0, 65_535),
    "tensor_parallel_size": (1, _INT32),
    "max_model_len": (1, _INT32),
    "max_num_seqs": (1, _INT32),
    "max_num_batched_tokens": (1, _INT32),
    "block_size": (1, _INT32),
    "speculative_tokens": (0, _DRAFTS),
    "seed": (0, _INT64),
    "kv_cache_bytes": (1, _INT64),
    "num_gpu_blocks_override": (1, _INT32),
    "fail_after_requests": (0, _INT32),
}
"""Least and most of each."""


def _problems(known: argparse.Namespace) -> list[Problem]:
    """Every value that cannot be used; the names in the catalog are checked here too."""
    found: list[Problem] = []
    for name, (least, most) in _BOUNDS.items():
        value = getattr(known, name)
        if value is not None and value < least:
            found.append(Problem(f"{value} is below {least}", key=_flag(name)))
        elif value is not None and value > most:
            found.append(Problem(f"{value} is above {most}", key=_flag(name)))
    if not 0 < known.gpu_memory_utilization <= 1:
        share = known.gpu_memory_utilization
        found.append(Problem(f"{share} is not in (0, 1]", key="--gpu-memory-utilization"))
    if known.fail_status is not None and not 400 <= known.fail_status <= 599:
        found.append(Problem(f"{known.fail_status} is not in 400 to 599", key="--fail-status"))
    found += _speculation_problems(known)
    for flag, lookup, name in (("--model", model, known.model), ("--gpu", gpu, known.gpu)):
        try:
            lookup(name)
        except InputError as error:
            found.append(Problem(str(error), key=flag))
    return found or _sharding_problems(known)


def _sharding_problems(known: argparse.Namespace) -> list[Problem]:
    """Engines deal out whole attention heads, and refuse what does not come out even."""
    tp, heads = known.tensor_parallel_size, model(known.model).heads
    if heads % tp == 0:
        return []
    message = f"{tp} does not divide the {heads} attention heads of {known.model}"
    return [Problem(message, key="--tensor-parallel-size")]


def _speculation_problems(known: argparse.Namespace) -> list[Problem]:
    drafts, length = known.speculative_tokens, known.acceptance_length
    key = "--acceptance-length"
    if drafts > 0 and length is None:
        return [Problem("needed with --speculative-tokens", key=key)]
    if length is not None and not 1 <= length <= 1 + drafts:
        return [Problem(f"{length} is not in [1, {1 + drafts}] (1 + drafts)", key=key)]
    if known.max_num_batched_tokens < 1 + drafts:
        message = f"{known.max_num_batched_tokens} is below the {1 + drafts} tokens of one sequence"
        return [Problem(message, key="--max-num-batched-tokens")]
    return []


def _resolve(known: argparse.Namespace) -> EngineOptions:
    kv_dtype: Literal["bf16", "fp8"] = "fp8" if known.kv_cache_dtype == "fp8" else "bf16"
    values = vars(known) | {
        "served_model_name": known.served_model_name or known.model,
        "gpu": gpu(known.gpu).name,
        "kv_cache_dtype": kv_dtype,
        "max_model_len": known.max_model_len or model(known.model).max_context,
        "acceptance_length": known.acceptance_length or 1.0,
    }
    return EngineOptions(**values)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
