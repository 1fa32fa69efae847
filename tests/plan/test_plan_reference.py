"""Recipes against the launches of the reference: every point of a covered key, value by value.

The reference's plans were taken by running its scripts with the servers replaced by a recorder.
Flags are compared by name, whatever their order; JSON by content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from inferometer.core import FixedSeqLen, LaunchPlan, Point
from inferometer.plan import Recipes, expand, load_configs, load_recipes, read_file, resolve

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "inferencex"

NOT_COVERED: frozenset[str] = frozenset()
"""Keys whose recipe is still to be written. Must shrink to none."""

Row = Mapping[str, Any]


@lru_cache(maxsize=1)
def rows() -> Mapping[str, list[Row]]:
    """The reference's plans by config key."""
    found: dict[str, list[Row]] = {}
    path = DATA / "launches.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        found.setdefault(row["config_key"], []).append(row)
    return found


@lru_cache(maxsize=1)
def points() -> Mapping[tuple[Any, ...], Point]:
    masters = [str(DATA / f"{vendor}-master.yaml") for vendor in ("amd", "nvidia")]
    configs = load_configs(masters, str(DATA / "runners.yaml"), read_file)
    return {identity_of_point(p): p for p in expand(configs) if p.multi_node is None}


@lru_cache(maxsize=1)
def packaged() -> Recipes:
    return load_recipes(read_file, (), compat=True)


def identity_of_point(point: Point) -> tuple[Any, ...]:
    fixed = point.scenario if isinstance(point.scenario, FixedSeqLen) else None
    spread = point.parallelism
    lengths = (fixed.isl, fixed.osl) if fixed else (None, None)
    offload = (point.kv_offload.mode, point.kv_offload.backend)
    parallel = (spread.tp, spread.pp, spread.dcp, spread.pcp, spread.ep, spread.dp_attn)
    return (point.config, *lengths, *parallel, point.spec_decoding, *offload, point.conc)


def identity_of_row(row: Row) -> tuple[Any, ...]:
    at = row["point"]
    lengths = (at.get("isl"), at.get("osl"))
    offload = (at.get("kv-offloading", "none"), at.get("kv-offload-backend"))
    sizes = (at["tp"], at.get("pp", 1), at.get("dcp-size", 1), at.get("pcp-size", 1))
    parallel = (*sizes, at["ep"], at["dp-attn"])
    return (row["config_key"], *lengths, *parallel, at["spec-decoding"], *offload, at["conc"])


def flags(argv: list[str]) -> dict[str, Any]:
    """Flag to value; the words before the first flag under an empty one."""
    found: dict[str, list[str]] = {"": []}
    flag = ""
    for word in argv:
        if word.startswith("-") and not word[1:2].isdigit():
            flag, equals, value = word.partition("=")
            found[flag] = [value] if equals else []
        else:
            found[flag].append(word)
    return {flag: [content(word) for word in words] for flag, words in found.items()}


def content(text: Any) -> Any:
    """JSON by its content, other text as it is."""
    if isinstance(text, str) and text[:1] in "{[":
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def reference(row: Row) -> dict[str, Any]:
    def filled(value: Any) -> Any:
        return json.loads(json.dumps(value).replace("{model}", row["model"]))

    router = row["router"]
    return {
        "image": row["image"],
        "argv": flags(filled(row["server"]["argv"])),
        "env": filled(row["server"]["env"]),
        "files": {name: content(text) for name, text in filled(row["files"]).items()},
        "router": router and flags(filled(router["argv"])),
    }


def ours(plan: LaunchPlan) -> dict[str, Any]:
    started = plan.router if plan.router and plan.router.argv else None
    return {
        "image": plan.image,
        "argv": flags(list(plan.argv)),
        "env": dict(plan.env),
        "files": {name: content(text) for name, text in plan.files.items()},
        "router": started and flags(list(started.argv)),
    }


def differences(expected: dict[str, Any], got: dict[str, Any]) -> Iterator[str]:
    for section, values in expected.items():
        if not isinstance(values, dict) or not isinstance(got[section], dict):
            if values != got[section]:
                yield f"{section}: expected {values!r}, got {got[section]!r}"
            continue
        for name in values | got[section]:
            want, have = values.get(name, "(absent)"), got[section].get(name, "(absent)")
            if want != have:
                yield f"{section} {name}: expected {want!r}, got {have!r}"


def faults(key: str) -> list[str]:
    """What differs, a line a value, with the point."""
    found = []
    for row in rows()[key]:
        point = points()[identity_of_row(row)]
        plan = resolve(point, packaged())
        found += [f"{point.id}: {line}" for line in differences(reference(row), ours(plan))]
    return found


def test_what_is_beside_an_engine_is_what_the_reference_starts_before_it() -> None:
    started = 0
    for row in (row for found in rows().values() for row in found):
        plan = resolve(points()[identity_of_row(row)], packaged())
        # The reference starts the servers of one engine at once, in no order of its own.
        wanted = sorted(tuple(server["argv"]) for server in row.get("aux") or ())
        assert sorted(side.argv for side in plan.side) == wanted
        started += len(wanted)
    assert started or not rows()


absent = pytest.mark.skipif(not rows(), reason="the reference's launches are absent")


@absent
@pytest.mark.parametrize("key", sorted(rows().keys() - NOT_COVERED))
def test_every_plan_of_the_key_equals_the_reference(key: str) -> None:
    assert faults(key) == []


@absent
def test_a_key_that_became_right_leaves_the_list() -> None:
    assert [key for key in NOT_COVERED if not faults(key)] == []


@absent
@pytest.mark.parametrize("compat", [False, True])
def test_every_single_node_point_of_the_reference_s_files_resolves(compat: bool) -> None:
    recipes = load_recipes(read_file, (), compat=compat)
    plans = [resolve(point, recipes) for point in points().values()]
    assert len(plans) > 1100
    assert all(plan.argv for plan in plans)


@absent
def test_all_launches_together_are_as_many_as_the_reference_has() -> None:
    """Published of all 1,157 launches, 533 of which are not at hand: how many differ, how many
    several keys share, how many keys have but one. A wrong threshold would change the first.
    """
    keys_of: dict[str, set[str]] = {}
    launches_of: dict[str, set[str]] = {}
    for point in points().values():
        if point.config == "qwen3.5-fp8-h100-sglang-agentic":
            continue  # without a script
        launch = ours(resolve(point, packaged()))
        del launch["image"]
        text = json.dumps(launch, sort_keys=True).replace(point.model, "{model}")
        keys_of.setdefault(text, set()).add(point.config)
        launches_of.setdefault(point.config, set()).add(text)
    assert len(launches_of) == 113
    assert len(keys_of) == 788
    assert sum(len(keys) > 1 for keys in keys_of.values()) == 35
    assert sum(len(launches) == 1 for launches in launches_of.values()) == 15


@absent
@pytest.mark.parametrize(
    ("key", "since"), [("dsv4-fp4-mi355x-atom", 64), ("dsv4-fp4-mi355x-atom-mtp", 256)]
)
def test_two_batches_overlap_from_where_the_change_log_says(key: str, since: int) -> None:
    """With drafts the overlap was measured to cost more than it gives at 64 and 128 lanes."""
    found = [point for point in points().values() if point.config == key]
    for point in found:
        plan = resolve(point, packaged())
        overlaps = point.parallelism.dp_attn and point.conc >= since
        assert ("--enable-tbo" in plan.argv) == overlaps
        assert ("GPU_MAX_HW_QUEUES" in plan.env) == overlaps
    assert {point.conc for point in found if point.parallelism.dp_attn} >= {32, 64, 128}


@absent
def test_how_long_the_reference_waits_before_and_after_the_window() -> None:
    graces = {
        (point.conc, resolve(point, packaged()).workload.warmup_grace_s)
        for point in points().values()
        if point.config == "dsv4-fp4-mi355x-atom-agentic-mtp"
    }
    assert graces == {(c, 1800) for c in (1, 2, 4, 8, 16)} | {(32, 3600), (48, 3600)}
    for row in (row for found in rows().values() for row in found):
        words = row["client"].get("replay_extra", "").split()
        if "--benchmark-grace-period" in words:
            wanted = float(words[words.index("--benchmark-grace-period") + 1])
            assert resolve(points()[identity_of_row(row)], packaged()).client.grace_s == wanted


@absent
def test_the_client_of_fixed_lengths_is_the_reference_s() -> None:
    seen = set()
    for row in (row for found in rows().values() for row in found):
        told = flags(row["client"].get("run_benchmark_serving", []))
        if "--num-prompts" not in told:
            continue
        plan = resolve(points()[identity_of_row(row)], packaged())
        chat = told["--backend"] == ["openai-chat"]
        assert plan.client.endpoint == ("chat" if chat else "completions")
        assert told["--num-prompts"] == [str(plan.workload.requests)]
        assert float(told["--random-range-ratio"][0]) == plan.workload.length_ratio
        assert told["--input-len"] + told["--output-len"] == [
            str(plan.workload.isl),
            str(plan.workload.osl),
        ]
        seen.add(chat)
    assert seen == {True, False}
