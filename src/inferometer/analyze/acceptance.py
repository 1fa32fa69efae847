"""Which acceptance length a launch plan asks an engine to simulate, and how.

Looks at arguments and environment alone, in each engine's own way of saying it. An acceptance
length counts the token that the model itself adds to every verification.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from inferometer.core import LaunchPlan


class Target(NamedTuple):
    """`synthetic` accepts drafts at `length` whatever they are; `model` lets the model judge."""

    mode: Literal["synthetic", "model"]
    length: float | None
    said_by: str
    """The flag or variable."""


SGLANG = "SGLANG_SIMULATE_ACC_LEN"
TRT = "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"
"""Drafts only: the model's own token is not in it."""
ATOM_LENGTH, ATOM_RATE = "--spec-decode-acceptance-length", "--spec-decode-acceptance-rate"
SIMULATED = "--acceptance-length"
VLLM = "--speculative-config"
DRAFTS = ("--num-speculative-tokens", "--speculative-tokens")
IN_A_FILE = re.compile(r"""\bspeculative_config["']?\s*:""")
"""Of TensorRT-LLM's options, as YAML or JSON."""
SPECULATES = (*DRAFTS, "--speculative-algorithm", "--spec-type", "--model-draft")


def acceptance_target(plan: LaunchPlan) -> Target | None:
    """What the plan asks for; None where it does not speculate, as far as it says."""
    flags = _flags(plan.argv)
    rules = (_vllm(flags), _environment(plan.env), _atom(flags), _simulated(flags))
    found = next((target for target in rules if target is not None), None)
    if found is not None:
        return found
    said = next((name for name in SPECULATES if name in flags), None)
    if said is None:
        said = next((name for name, text in plan.files.items() if IN_A_FILE.search(text)), None)
    return None if said is None else Target("model", None, said)


def _vllm(flags: Mapping[str, str]) -> Target | None:
    config = _object(flags.get(VLLM))
    dotted = f"{VLLM}."
    config |= {name[len(dotted) :]: v for name, v in flags.items() if name.startswith(dotted)}
    if not config:
        return None
    length = _number(config.get("synthetic_acceptance_length"))
    rate, drafts = (
        _number(config.get(name))
        for name in ("synthetic_acceptance_rate", "num_speculative_tokens")
    )
    if length is None and rate is not None and drafts is not None:
        length = 1 + drafts * rate
    synthetic = config.get("rejection_sample_method") == "synthetic"
    return Target("synthetic" if synthetic else "model", length if synthetic else None, VLLM)


def _environment(env: Mapping[str, str]) -> Target | None:
    if (length := _number(env.get(SGLANG))) is not None and length > 0:
        return Target("synthetic", length, SGLANG)
    if (drafts := _number(env.get(TRT))) is not None:
        return Target("synthetic", 1 + drafts, TRT)
    return None


def _atom(flags: Mapping[str, str]) -> Target | None:
    if (length := _number(flags.get(ATOM_LENGTH))) is not None:
        return Target("synthetic", length, ATOM_LENGTH)
    rate, drafts = _number(flags.get(ATOM_RATE)), _number(flags.get(DRAFTS[0]))
    if rate is None or drafts is None:
        return None
    return Target("synthetic", 1 + drafts * rate, ATOM_RATE)


def _simulated(flags: Mapping[str, str]) -> Target | None:
    length = _number(flags.get(SIMULATED))
    return None if length is None else Target("synthetic", length, SIMULATED)


def _flags(argv: Sequence[str]) -> dict[str, str]:
    """`--flag value` and `--flag=value`; underscores of a flag's name are hyphens. The last one
    wins, as in every engine's parser.
    """
    found: dict[str, str] = {}
    for index, word in enumerate(argv):
        if not word.startswith("--"):
            continue
        name, equals, value = word.partition("=")
        head, dot, rest = name.partition(".")
        following = argv[index + 1] if index + 1 < len(argv) else ""
        found[head.replace("_", "-") + dot + rest] = value if equals else following
    return found


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return dict(found) if isinstance(found, dict) else {}


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None
    return number if number is not None and number == number else None
