"""Points that the reference's scripts exit on: each is refused, with the rule and the reason."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from inferometer.core import Point
from inferometer.errors import InputError
from inferometer.plan import Recipes, expand, load_configs, load_recipes, read_file, resolve

FILES = Path(__file__).resolve().parents[3] / "shared" / "data" / "inferencex"

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("kimik3-fp4-mi355x-vllm-agentic-mtp", {"tp": 4}, "tp must be 8, not 4"),
    ("kimik3-fp4-mi355x-atom-agentic-mtp", {"conc": 32}, "10 lanes, not at 32"),
    ("kimik3-fp4-mi355x-atom-agentic-mtp", {"conc": 3}, "10 lanes, not at 3"),
    ("kimik3-fp4-mi355x-atom-agentic-mtp", {"tp": 4}, "tp must be 8, not 4"),
    ("dsv4-fp4-mi355x-atom-agentic-mtp", {"tp": 4}, "tp must be 8, not 4"),
    ("dsv4-fp4-mi355x-atom-agentic-mtp", {"ep": 8}, "ep must be 1, not 8"),
    ("dsv4-fp4-mi355x-atom-agentic-mtp", {"dp_attn": True}, "ep must be 8, not 1"),
    ("glm5.2-fp4-mi355x-atom-agentic-mtp", {"conc": 48}, "16 lanes, not at 48"),
    ("glm5.2-fp4-mi355x-atom-agentic-mtp", {"conc": 3}, "16 lanes, not at 3"),
    (
        "dsv4-fp4-b200-vllm-agentic-mtp",
        {"conc": 3, "dp_attn": True},
        "do not divide among 8 ranks at 3 lanes",
    ),
    ("kimik3-fp4-b300-vllm-agentic-dspark", {"tp": 4}, "tp must be 8, not 4"),
    ("kimik3-fp4-b300-vllm-agentic-dspark", {"ep": 8}, "ep must be 1, not 8"),
    (
        "dsv4-fp4-b300-vllm-agentic-mtp",
        {"conc": 3, "tp": 8, "dp_attn": True},
        "do not divide among 8 ranks at 3 lanes",
    ),
    ("dsv4-fp4-b300-sglang", {"conc": 144}, "8192 lanes, not at 144"),
    ("dsv4-fp4-b300-sglang", {"conc": 3}, "8192 lanes, not at 3"),
    ("dsv4-fp4-b300-sglang", {"conc": 8208}, "8192 lanes, not at 8208"),
    ("dsr1-fp8-b200-sglang-mtp", {"tp": 4}, "tp must be 8, not 4"),
    ("dsr1-fp8-b300-sglang-mtp", {"tp": 4}, "tp must be 8, not 4"),
    ("dsr1-fp8-h200-sglang-mtp", {"tp": 4}, "tp must be 8, not 4"),
    ("qwen3.5-fp8-h100-sglang", {"conc": 80}, "256 lanes, not at 80"),
    ("qwen3.5-fp8-h100-sglang", {"conc": 3}, "256 lanes, not at 3"),
    ("qwen3.5-fp8-h100-sglang", {"conc": 512}, "256 lanes, not at 512"),
]
ADMITTED: list[tuple[str, dict[str, Any]]] = [
    ("glm5.2-fp4-mi355x-atom-agentic-mtp", {"conc": 16}),
    ("dsv4-fp4-b300-sglang", {"conc": 8192}),
    ("dsv4-fp4-b200-vllm-agentic-mtp", {"conc": 3, "dp_attn": False}),
    ("dsr1-fp8-b200-sglang", {"tp": 4}),
    ("qwen3.5-fp8-h100-sglang-mtp", {"conc": 80}),
]
SPREAD = ("tp", "ep", "dp_attn")


@lru_cache(maxsize=1)
def points() -> dict[str, Point]:
    """A point of every single-node config."""
    masters = [str(FILES / f"{vendor}-master.yaml") for vendor in ("amd", "nvidia")]
    configs = load_configs(masters, str(FILES / "runners.yaml"))
    return {point.config: point for point in expand(configs) if point.multi_node is None}


@lru_cache(maxsize=2)
def packaged(compat: bool) -> Recipes:
    return load_recipes(read_file, (), compat=compat)


def varied(key: str, changes: dict[str, Any]) -> Point:
    """The config's point with other values."""
    point = points()[key]
    spread = {name: value for name, value in changes.items() if name in SPREAD}
    parallelism = dataclasses.replace(point.parallelism, **spread)
    rest = {name: value for name, value in changes.items() if name not in SPREAD}
    return dataclasses.replace(point, parallelism=parallelism, **rest)


@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize(("key", "changes", "reason"), REFUSED)
def test_what_the_scripts_exit_on_is_refused(
    shared_data: Path, key: str, changes: dict[str, Any], reason: str, compat: bool
) -> None:
    with pytest.raises(InputError) as caught:
        resolve(varied(key, changes), packaged(compat))
    refusals = [problem for problem in caught.value.problems if problem.key == "refuse"]
    assert len(refusals) == 1, caught.value
    assert reason in refusals[0].message
    assert refusals[0].file is not None
    assert refusals[0].line is not None


@pytest.mark.parametrize(("key", "changes"), ADMITTED)
def test_a_refusal_goes_no_further(shared_data: Path, key: str, changes: dict[str, Any]) -> None:
    assert resolve(varied(key, changes), packaged(False)).argv
