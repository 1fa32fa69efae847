"""Digests of the reference's points under the package's own recipes: what moves them and what not.

A point of every engine and scenario stands for the rest; the checks go through config text, layers
and plans as they are read, so that nothing on the way can slip in.
"""

from __future__ import annotations

import dataclasses
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import inferometer.plan
from inferometer.core import LaunchPlan, Point, RouterPlan
from inferometer.plan import (
    Recipes,
    digest,
    expand,
    load_configs,
    load_recipes,
    read_file,
    resolve,
)

FILES = Path(__file__).resolve().parents[3] / "shared" / "data" / "inferencex"
PACKAGED = Path(inferometer.plan.__file__).parent / "recipes"
KEYS = (
    "dsv4-fp4-b300-vllm-agentic-mtp",
    "dsv4-fp4-b300-sglang-agentic-hicache-mtp",
    "minimaxm3-fp8-h200-vllm-agentic-mtp",
    "minimaxm3-fp4-b200-trtllm-agentic-mtp",
    "dsr1-fp8-b200-trt-mtp",
    "qwen3.5-fp8-h100-sglang",
    "dsv4-fp4-mi355x-atom",
    "kimik3-fp4-mi355x-atom-agentic-mtp",
)
absent = pytest.mark.skipif(not FILES.is_dir(), reason="the reference's config files are absent")
pytestmark = absent


@lru_cache(maxsize=1)
def declared() -> dict[str, Any]:
    """The entries of `KEYS` as plain data."""
    entries: dict[str, Any] = {}
    for vendor in ("amd", "nvidia"):
        text = (FILES / f"{vendor}-master.yaml").read_text()
        entries |= yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return {key: entries[key] for key in KEYS}


@lru_cache(maxsize=1)
def runners() -> bytes:
    return (FILES / "runners.yaml").read_bytes()


def points_of(entries: Mapping[str, Any], folder: str = "conf") -> tuple[Point, ...]:
    """The points of config data, read as a file in a folder."""
    texts = {
        f"{folder}/master.yaml": yaml.safe_dump(entries, sort_keys=False).encode(),
        f"{folder}/runners.yaml": runners(),
    }
    return expand(
        load_configs([f"{folder}/master.yaml"], f"{folder}/runners.yaml", texts.__getitem__)
    )


def digests_of(points: Sequence[Point], recipes: Recipes) -> dict[str, str]:
    return {point.id: digest(point, resolve(point, recipes)) for point in points}


def with_layers(texts: Mapping[str, str], folder: str = "conf") -> Recipes:
    """The package's recipes and layers beside the config, in a folder."""
    root = f"{folder}/recipes"

    def read(path: str) -> bytes:
        return texts[path.removeprefix(f"{root}/")].encode()

    return load_recipes(read, [root], lambda _root: list(texts))


@lru_cache(maxsize=1)
def packaged() -> Recipes:
    return load_recipes(read_file, ())


@lru_cache(maxsize=1)
def expected() -> dict[str, str]:
    return digests_of(points_of(declared()), packaged())


@lru_cache(maxsize=1)
def plans() -> tuple[tuple[Point, LaunchPlan], ...]:
    points = points_of(declared())
    return tuple((point, resolve(point, packaged())) for point in points)


def shuffled(value: Any, draw: random.Random) -> Any:
    """The same data with the keys of every mapping in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(part, draw)) for key, part in value.items()]
        draw.shuffle(items)
        return dict(items)
    return [shuffled(part, draw) for part in value] if isinstance(value, list) else value


def test_every_point_has_a_digest_of_its_own() -> None:
    assert len(expected()) == len(points_of(declared())) > 60
    assert len(set(expected().values())) == len(expected())


@settings(max_examples=8)
@given(st.integers(0, 2**32))
def test_the_order_of_keys_in_a_config_does_not_count(seed: int) -> None:
    other = shuffled(declared(), random.Random(seed))
    assert digests_of(points_of(other), packaged()) == expected()


def test_where_the_files_lie_does_not_count() -> None:
    points = points_of(declared(), "/home/somebody/else")
    assert digests_of(points, with_layers({"site.yaml": "[]"}, "/home/somebody/else")) == expected()


SCRIPT = """
import sys, yaml
from inferometer.plan import digest, expand, load_configs, load_recipes, read_file, resolve
recipes = load_recipes(read_file, ())
for point in expand(load_configs([sys.argv[1]], sys.argv[2])):
    print(point.id, digest(point, resolve(point, recipes)))
"""


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_the_hash_seed_of_the_process_does_not_count(tmp_path: Path, seed: str) -> None:
    master = tmp_path / "master.yaml"
    master.write_text(yaml.safe_dump(declared(), sort_keys=False))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(master), str(FILES / "runners.yaml")],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert found == expected()


def commented(text: str, draw: random.Random) -> str:
    """A layer with comments and empty lines between its rules: every line stands elsewhere."""
    rules = re.split(r"(?m)^(?=- )", text)
    return "".join(f"{rule}\n# {draw.random()}\n\n" for rule in rules)


def layer_texts() -> dict[str, str]:
    """The package's layers of engines, models and pairs by name."""
    files = [file for file in sorted(PACKAGED.rglob("*.yaml")) if file.parent != PACKAGED]
    return {file.relative_to(PACKAGED).as_posix(): file.read_text() for file in files}


def test_comments_and_lines_of_layers_do_not_count() -> None:
    draw = random.Random(7)
    moved = {name: commented(text, draw) for name, text in layer_texts().items()}
    recipes = with_layers(moved)
    point, plan = points_of(declared())[0], plans()[0][1]
    elsewhere = resolve(point, recipes)
    assert elsewhere.origins != plan.origins
    assert digests_of(points_of(declared()), recipes) == expected()


def test_the_name_of_a_layer_does_not_count() -> None:
    rule = "- argv: {--our-own-flag: 3}"
    points = points_of(declared())
    first = digests_of(points, with_layers({"a.yaml": rule}))
    second = digests_of(points, with_layers({"z.yaml": rule}))
    assert first == second
    assert not set(first.values()) & set(expected().values())


def test_the_name_of_the_config_does_not_count() -> None:
    renamed = {f"x-{key}": entry for key, entry in declared().items()}
    digests = digests_of(points_of(renamed), packaged())
    # The rules of the package ask for no name; what a point is does not hang on one either.
    assert set(digests.values()) == set(expected().values())


@given(st.randoms(use_true_random=False))
def test_the_order_of_flags_does_not_count_but_where_one_is_repeated(draw: random.Random) -> None:
    flags = [("--tp", "4"), ("-v",), ("--seed", "-1"), ("--names", "b", "a"), ("--config", "{}")]
    same = [("--header", "X: 1"), ("--header", "X: 2")]
    shuffled = draw.sample(flags, len(flags))
    assert started_with(*shuffled, *same) == started_with(*flags, *same)
    assert started_with(*same, *shuffled) == started_with(*flags, *same)
    assert started_with(*shuffled, *reversed(same)) != started_with(*flags, *same)
    assert started_with(*shuffled[1:], *same) != started_with(*flags, *same)


def started_with(*flags: tuple[str, ...]) -> str:
    """The digest of a plan with these flags on its engine, and on a router in front of it."""
    point, plan = plans()[0]
    argv = ("python3", "-m", "server", *chain.from_iterable(flags))
    router = RouterPlan("r", "1", argv)
    return digest(point, dataclasses.replace(plan, argv=argv, router=router))


RULES = (
    "- argv: {--our-own-flag: 3}",
    "- env: {OUR_OWN: 3}",
    "- files: {our-own.txt: x}",
    "- image: another/image:1",
    "- command: [another, command]",
    "- router: {name: r, version: '1', argv: [r]}",
    "- client: {grace_s: 31}",
    "- client: {affinity_header: X-Another}",
    "- client: {usage_every_chunk: '{framework != \"vllm\"}'}",
    "- workload: {seed: 43}",
    "- workload: {warmup_grace_s: 1801}",
    "- workload: {warmup_requests_per_lane: 11}",
)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_changes_a_value_changes_every_digest(rule: str) -> None:
    changed = digests_of(points_of(declared()), with_layers({"site.yaml": rule}))
    assert changed.keys() == expected().keys()
    assert [name for name, value in changed.items() if value == expected()[name]] == []


def test_a_rule_that_sets_what_is_set_changes_none() -> None:
    same = "- client: {grace_s: 30}\n- when: conc > 0\n  workload: {seed: '{40 + 2}'}"
    assert digests_of(points_of(declared()), with_layers({"site.yaml": same})) == expected()


def changes(plan: LaunchPlan) -> Iterator[Callable[[], LaunchPlan]]:
    """Every single value of a plan changed, one at a time."""

    def part(name: str, value: Any) -> Callable[[], LaunchPlan]:
        return lambda: dataclasses.replace(plan, **{name: value})

    yield part("image", plan.image + "x")
    for index, word in enumerate(plan.argv):
        yield part("argv", (*plan.argv[:index], word + "x", *plan.argv[index + 1 :]))
        yield part("argv", (*plan.argv[:index], *plan.argv[index + 1 :]))
    for name in ("env", "files"):
        texts: Mapping[str, str] = getattr(plan, name)
        yield part(name, {**texts, "another": ""})
        for key, text in texts.items():
            yield part(name, {**texts, key: text + " "})
            yield part(name, {other: value for other, value in texts.items() if other != key})
    for name in ("client", "workload"):
        settings_of = getattr(plan, name)
        for field in dataclasses.fields(settings_of):
            value = getattr(settings_of, field.name)
            other = (not value) if isinstance(value, bool) else f"{value}x"
            yield part(name, dataclasses.replace(settings_of, **{field.name: other}))
    if plan.router is not None:
        yield part("router", None)
        yield part("router", dataclasses.replace(plan.router, argv=(*plan.router.argv, "x")))
        yield part("router", dataclasses.replace(plan.router, version="0"))


@settings(max_examples=25)
@given(st.data())
def test_every_value_of_a_real_plan_counts(data: st.DataObject) -> None:
    point, plan = data.draw(st.sampled_from(plans()))
    found = [digest(point, change()) for change in changes(plan)]
    assert len(found) > 50
    # Two removals may leave equal words; none may leave the digest as it was.
    assert digest(point, plan) not in found
