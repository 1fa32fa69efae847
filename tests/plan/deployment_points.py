"""Points of several roles for the tests of what they resolve to, and the reference's own."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from inferometer.core import (
    FixedSeqLen,
    KvOffload,
    LaunchPlan,
    MultiNode,
    Parallelism,
    Point,
    Pool,
    RoleLaunch,
    Router,
)
from inferometer.errors import InputError
from inferometer.plan import (
    Arm,
    Recipes,
    expand_arms,
    load_configs,
    load_recipes,
    read_file,
    resolve,
)

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "inferencex"
absent = pytest.mark.skipif(not DATA.exists(), reason="the reference's files are absent")
TP8 = Parallelism(8, 1, 1, 1, 1, False)
ADDRESS = re.compile(
    r"\{((?:prefill|decode|aggregated|router)_[0-9]+(?:_node[0-9]+)?)_(?:host|port)"
)


@lru_cache(maxsize=1)
def packaged() -> Recipes:
    return load_recipes(read_file, ())


@lru_cache(maxsize=1)
def arms() -> tuple[Arm, ...]:
    """Every entry of several nodes of the reference's files, at each of its concurrencies."""
    masters = [str(DATA / f"{vendor}-master.yaml") for vendor in ("amd", "nvidia")]
    configs = load_configs(masters, str(DATA / "runners.yaml"))
    return tuple(arm for arm in expand_arms(configs) if arm[0].multi_node)


def real() -> tuple[Point, ...]:
    """Every point of them."""
    return tuple(point for arm in arms() for point in arm)


@lru_cache(maxsize=1)
def real_plans() -> tuple[tuple[Point, LaunchPlan], ...]:
    return tuple((point, resolve(point, packaged())) for point in real())


def pool(
    workers: int = 1, spread: Parallelism = TP8, hardware: str | None = None, **settings: str
) -> Pool:
    return Pool(workers, spread, hardware, tuple(settings.items()))


def point(prefill: Pool | None = None, decode: Pool | None = None, **fields: Any) -> Point:
    """A disaggregated point of vLLM on H200, with what a test changes."""
    nodes = MultiNode(prefill or pool(), decode or pool(), True, fields.pop("p2p", "nixl"), 8)
    if "disagg" in fields:
        nodes = replace(nodes, disagg=fields.pop("disagg"))
    plain = Point(
        config="key",
        image="i:1",
        model="org/m",
        model_prefix="m",
        precision="fp8",
        framework="vllm",
        runner="h200",
        hardware="h200",
        scenario=FixedSeqLen(1024, 64),
        parallelism=nodes.prefill.parallelism,
        spec_decoding="none",
        kv_offload=KvOffload("none", None, None, 0),
        router=Router("vllm-router", "0.1.14"),
        conc=6,
        max_model_len=1344,
        repeat=0,
        multi_node=nodes,
    )
    return replace(plain, **fields)


def launches(of: Point) -> dict[str, RoleLaunch]:
    return {each.name: each for each in resolve(of, packaged()).launches}


def value(launch: RoleLaunch, flag: str) -> str:
    return launch.argv[launch.argv.index(flag) + 1]


def refusal(of: Point) -> str:
    with pytest.raises(InputError) as caught:
        resolve(of, packaged())
    return str(caught.value)
