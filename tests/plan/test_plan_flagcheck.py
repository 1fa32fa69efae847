"""A launch's flags against recorded parsers: levels, versions, places, the engines' records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from inferometer import catalog
from inferometer.catalog import FlagOption, FlagSchema, written_flags
from inferometer.core import LaunchPlan, Origin, Point
from inferometer.plan import (
    check_flags,
    check_points,
    check_words,
    expand,
    load_configs,
    load_recipes,
    newer_paths,
    quickstart_paths,
    read_file,
    recipe_roots,
    resolve,
)
from inferometer.plan.flagwords import Fault

RECORDED = [
    schema
    for engine in dict.fromkeys(engine for engine, _ in catalog.recorded_flags())
    for schema in catalog.flag_schemas(engine)
]


def parser(version: str, *options: FlagOption) -> FlagSchema:
    return FlagSchema(
        source="a test",
        date="2026-11-30",
        engine="e",
        version=version,
        commands=(("e",),),
        options=options,
    )


def of(engine: str, version: str) -> FlagSchema:
    return next(s for s in catalog.flag_schemas(engine) if s.version == version)


def told(words: str, schema: FlagSchema) -> list[tuple[Fault, str, str]]:
    found = check_words(words.split(), schema, catalog.flag_schemas(schema.engine))
    return [(fault.kind, fault.flag, fault.message) for fault in found]


@pytest.fixture
def plan() -> LaunchPlan:
    masters, runners = quickstart_paths()
    point = expand(load_configs(masters, runners))[0]
    return resolve(point, load_recipes(read_file, recipe_roots(masters)))


def launched(plan: LaunchPlan, image: str, *argv: str) -> LaunchPlan:
    origins = {"argv.--max_num_seqs": Origin("recipes/mine.yaml", 7, None, None)}
    return replace(plan, image=image, argv=argv, origins=origins)


def test_sglang_s_graph_flag_is_ambiguous_once_only_two_others_begin_so() -> None:
    assert told("--cuda-graph-max-bs 8", of("sglang", "0.5.17")) == [
        (
            "replaced",
            "--cuda-graph-max-bs",
            "is replaced by --cuda-graph-max-bs-decode (sglang 0.5.17)",
        )
    ]
    ((kind, flag, message),) = told("--cuda-graph-max-bs 8", of("sglang", "0.5.23"))
    assert (kind, flag) == ("ambiguous", "--cuda-graph-max-bs")
    assert "--cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill (sglang 0.5.23; " in message
    assert message.endswith("has it, where it is replaced by --cuda-graph-max-bs-decode)")
    assert told("--cuda-graph-max-bs-decode 8", of("sglang", "0.5.23")) == []
    assert told("--cuda-graph-max-bs 8", of("sglang", "0.5.8.post1")) == []


def test_other_versions_tell_where_a_flag_went() -> None:
    old = parser("1.0", FlagOption(names=("--gone",)), FlagOption(names=("--was",), instead="--is"))
    here = parser("2.0", FlagOption(names=("--is",)))
    new = parser("3.0", FlagOption(names=("--soon",)))
    words = ["--gone", "1", "--was", "1", "--soon", "1", "--nowhere"]
    found = check_words(words, here, [old, here, new])
    assert [fault.message.partition("(")[2] for fault in found] == [
        "e 2.0; 1.0 has it)",
        "e 2.0; 1.0 has it, where it is replaced by --is)",
        "e 2.0; 3.0 has it)",
        "e 2.0)",
    ]


def test_other_versions_tell_where_a_value_went() -> None:
    old = parser("1.0", FlagOption(names=("--b",), choices=("x", "y")))
    here = parser("2.0", FlagOption(names=("--b",), choices=("x",)))
    (fault,) = check_words(["--b", "y"], here, [old, here])
    assert fault.message == "does not take 'y'; it takes: x (e 2.0; 1.0 has it)"


def test_a_fault_is_an_error_only_against_the_image_s_own_version(plan: LaunchPlan) -> None:
    argv = ("vllm", "serve", "m", "--max-num-seqs", "many", "--max-model", "8")
    exact = check_flags(launched(plan, "vllm/vllm-openai:v0.32.0", *argv), "vllm")
    assert [(each.level, each.flag) for each in exact] == [
        ("error", "--max-num-seqs"),
        ("warning", "--max-model"),
    ]
    assert (exact[0].file, exact[0].line) == ("recipes/mine.yaml", 7)
    assert exact[0].message == "needs a whole number, got 'many' (vllm 0.32.0)"
    other = launched(plan, "vllm/vllm-openai:v0.99.0", *argv)
    found = check_flags(other, "vllm")
    assert [each.level for each in found] == ["note", "warning", "warning"]
    assert (
        "checked against vllm 0.32.0; image vllm/vllm-openai:v0.99.0 says 0.99" in found[0].message
    )
    assert {each.level for each in check_flags(other, "vllm", "strict")} == {"note", "error"}
    assert {each.level for each in check_flags(other, "vllm", "lenient")} == {"note", "warning"}


def test_what_is_not_checked_is_said(plan: LaunchPlan) -> None:
    (found,) = check_flags(launched(plan, "e:1", "e", "--a"), "no-such-engine")
    assert (found.level, found.message) == (
        "note",
        "no flags are recorded for no-such-engine: not checked",
    )
    (found,) = check_flags(launched(plan, "vllm:v0.32.0", "bash", "start.sh"), "vllm")
    assert found.level == "note"
    assert found.message.startswith("the command is not vllm serve or -m vllm.")
    assert check_flags(launched(plan, "e:1"), "vllm") == ()


def test_points_are_counted_by_finding(tmp_path: Path) -> None:
    masters, runners = newer_paths()
    recipes = load_recipes(read_file, recipe_roots(masters))
    points = [p for p in expand(load_configs(masters, runners)) if p.multi_node is None]
    counted = check_points(points, recipes)
    notes = [(each.message, n) for each, n in counted if each.level == "note"]
    assert sum(n for _, n in notes) == len(points)
    assert not [each for each, _ in counted if each.level == "error"]
    refused = [replace(p, framework="no-such") for p in points[:3]]
    ((finding, number),) = check_points(refused, recipes)
    assert (finding.level, number) == ("error", 3)
    assert finding.message.startswith("no recipe for framework 'no-such'")


@pytest.mark.parametrize("schema", RECORDED, ids=lambda s: f"{s.engine}-{s.version}")
def test_a_record_is_sound(schema: FlagSchema) -> None:
    assert (schema.engine, schema.version) in catalog.recorded_flags()
    assert FlagSchema.model_validate_json(written_flags(schema)) == schema
    names = [name for option in schema.options for name in option.names]
    assert len(names) == len(set(names)) > 20
    assert all(name.startswith("-") for name in names)
    # A record holds a parser, not its handbook.
    assert all(len(part) < 80 for option in schema.options for part in option.choices)
    for option in schema.options:
        assert (option.value == "none") <= (not option.choices)
        if option.instead is not None:
            assert option.instead.startswith("--")


@pytest.fixture(scope="module")
def single_node(shared_data: Path) -> Sequence[Point]:
    folder = shared_data / "inferencex"
    masters = [str(folder / f"{vendor}-master.yaml") for vendor in ("amd", "nvidia")]
    points = expand(load_configs(masters, str(folder / "runners.yaml"), read_file))
    return [point for point in points if point.multi_node is None]


def faults(points: Sequence[Point]) -> Iterator[tuple[str, str, str]]:
    recipes = load_recipes(read_file, (), compat=True)
    for point in points:
        plan = resolve(point, recipes)
        for finding in check_flags(plan, point.framework):
            if finding.level != "note":
                yield point.config, finding.level, finding.flag or ""


def test_no_launch_of_the_reference_is_refused(single_node: Sequence[Point]) -> None:
    assert len(single_node) > 1100
    found = set(faults(single_node))
    assert [each for each in found if each[1] == "error"] == []


def test_a_misspelt_flag_would_be_refused(single_node: Sequence[Point]) -> None:
    point = next(p for p in single_node if p.image == "lmsysorg/sglang:v0.5.17-cu130")
    plan = resolve(point, load_recipes(read_file, ()))
    wrong = replace(plan, argv=(*plan.argv, "--mem-fraction-statik", "0.9"))
    (found,) = (f for f in check_flags(wrong, "sglang") if f.level == "error")
    assert found.message.startswith("is unknown; did you mean '--mem-fraction-static'?")
