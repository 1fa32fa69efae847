"""Master and runner files as wholes: what is no config, keys, all faults of all at once."""

from __future__ import annotations

import pytest
from schema_samples import AGENTIC, FIXED, MULTI, RUNNERS, SPACE, changed, load, problems

from inferometer.errors import InputError, Problem
from inferometer.plan import load_configs


def test_a_config_that_is_no_mapping() -> None:
    expected = Problem("expected a mapping, got a list", "m.yaml", 1, "qwen")
    assert problems(m="qwen: [1]") == (expected,)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("qwen: {a: 1", 2, "not YAML: "),
        ("", 1, "the file is empty; expected a mapping"),
        ("- qwen\n", 1, "expected a mapping at the top, got a list"),
    ],
)
def test_a_file_that_is_no_mapping_of_configs(text: str, line: int, message: str) -> None:
    (problem,) = problems(m=text)
    assert (problem.file, problem.line) == ("m.yaml", line)
    assert problem.message.startswith(message)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ('"qw\\0en"', "a config key is of printable characters, got 'qw\\x00en'"),
        ('"qw\\x1b[31men"', "a config key is of printable characters, got 'qw\\x1b[31men'"),
        ('"qw\\nen"', "a config key is of printable characters, got 'qw\\nen'"),
        ("q" * 201, f"a config key has at most 200 bytes, got 201: {'q' * 60!r}..."),
        ("é" * 101, f"a config key has at most 200 bytes, got 202: {'é' * 60!r}..."),
    ],
)
def test_a_config_key_that_cannot_name_a_directory(key: str, message: str) -> None:
    text = changed(FIXED, "qwen:", f"? {key}\n:")
    assert problems(m=text) == (Problem(message, "m.yaml", 1),)


def test_a_config_key_may_be_of_200_bytes() -> None:
    assert [c.key for c in load(m=changed(FIXED, "qwen:", f"? {'q' * 200}\n:")).configs]


def test_a_long_ladder_loads() -> None:
    text = changed(FIXED, "[1, 2]", f"[{', '.join(map(str, range(1, 10_001)))}]")
    (config,) = load(m=text).configs
    _, (_, entry) = config.entry.scenarios.arms()
    assert entry.conc_list == tuple(range(1, 10_001))


def test_of_a_key_given_twice_in_one_file_the_last_counts() -> None:
    configs = load(m=changed(FIXED, "qwen:", "other:") + FIXED + changed(FIXED, "fp8", "fp4"))
    assert [(config.key, config.line, config.entry.precision) for config in configs.configs] == [
        ("other", 1, "fp8"),
        ("qwen", 31, "fp4"),
    ]
    message = "given twice, first in line 16; the last counts"
    assert configs.warnings == (Problem(message, "m.yaml", 31, "qwen"),)
    text = changed(FIXED, "fp8", "fp8\n  precision: fp4")
    message = "given twice, first in line 6; the last counts"
    assert load(m=text).warnings == (Problem(message, "m.yaml", 7, "qwen.precision"),)


def test_a_key_given_in_two_files() -> None:
    expected = Problem("config key is also in a.yaml:1", "b.yaml", 1, "qwen")
    assert problems(a=FIXED, b=FIXED) == (expected,)


def test_all_faults_of_all_files_come_at_once() -> None:
    bad = changed(changed(FIXED, "tp: 4", "tp: -4"), "[1, 2]", "[0]")
    found = problems(
        a=bad, b="- x", runners=changed(RUNNERS, "gpus-per-node: 8", "gpus-per-nod: 8")
    )
    assert [(p.file, p.line, p.key) for p in found] == [
        ("runners.yaml", 5, "hardware.cluster:h200-cw.gpus-per-node"),
        ("runners.yaml", 5, "hardware.cluster:h200-cw.gpus-per-nod"),
        ("a.yaml", 14, f"{SPACE}[0].tp"),
        ("a.yaml", 15, f"{SPACE}[1].conc-list[0]"),
        ("b.yaml", 1, None),
    ]
    assert found[1].message == "unknown field 'gpus-per-nod'; did you mean 'gpus-per-node'?"
    assert str(found[2]) == f"a.yaml:14: {SPACE}[0].tp: expected a positive integer, got -4"


def test_a_label_without_machines() -> None:
    text = changed(RUNNERS, "h200: [h200-cw_0]\n  cluster", "h200: []\n  cluster")
    expected = Problem(
        "expected at least one item, got an empty list", "runners.yaml", 2, "labels.h200"
    )
    assert problems(m=FIXED, runners=text) == (expected,)


def test_an_undefined_runner_label_is_a_warning() -> None:
    configs = load(m=changed(FIXED, "runner: h200", "runner: h20"))
    message = "runner label 'h20' is not defined in runners.yaml; did you mean 'h200'?"
    assert configs.warnings == (Problem(message, "m.yaml", 5, "qwen.runner"),)


def test_rules_between_fields_are_told_beside_faults_of_fields() -> None:
    """Of the same arm, of another, and of the whole config."""
    bad = changed(FIXED, "ep: 8,", "ep: 8, dcp-size: 3, spec-decoding: mpt, conc-start: 1,")
    bad = changed(changed(bad, "false", "false\n  disagg: true"), "conc-start: 4", "conc-start: 65")
    assert {(p.key, p.message.split(",")[0]) for p in problems(m=bad)} == {
        (f"{SPACE}[1].spec-decoding", "expected one of none"),
        (f"{SPACE}[0].conc-end", "64 is below conc-start"),
        (f"{SPACE}[1]", "give conc-start and conc-end"),
        (f"{SPACE}[1].dcp-size", "3 does not divide tp"),
        ("qwen.disagg", "a single-node config cannot be disaggregated"),
    }


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (FIXED, "conc-start: 4", "conc-start: four"),
        (FIXED, "conc-list: [1, 2]", "conc-list: [1, x]"),
        (FIXED, "conc-list:", "conc-lst:"),
        (FIXED, "fixed-seq-len:", "fixed-seqlen:"),
        (AGENTIC, "dram-utilization: 0.8", "dram-utilization: much"),
        (AGENTIC, "kv-offload-backend: { name: hicache }", "kv-offload-backend: hicache"),
        (AGENTIC, "runner: cluster:h200-cw", "runner: [h200]"),
        (MULTI, "kv-p2p-transfer: nixl", "kv-p2p-transfer: [nixl]"),
    ],
)
def test_a_rule_says_nothing_of_a_field_that_is_wrong_by_itself(
    text: str, old: str, new: str
) -> None:
    (problem,) = problems(m=changed(text, old, new))
    assert "give conc" not in problem.message


def test_with_strict_warnings_are_told_beside_faults() -> None:
    odd = changed(changed(FIXED, "runner: h200", "runner: h20"), "qwen:", "other:")
    bad = changed(FIXED, "tp: 4", "tp: -4") + odd
    content = {"m.yaml": bad.encode(), "r.yaml": RUNNERS.encode()}
    told = []
    for strict in (False, True):
        with pytest.raises(InputError) as caught:
            load_configs(["m.yaml"], "r.yaml", content.__getitem__, strict)
        told.append([problem.key for problem in caught.value.problems])
    assert told == [[f"{SPACE}[0].tp"], [f"{SPACE}[0].tp", "other.runner"]]


def test_what_the_reference_lets_out_may_be_left_out() -> None:
    text = changed(MULTI, '["EX=1"]', "null")
    configs = load(m=text, runners=RUNNERS[: RUNNERS.index("hardware")])
    assert configs.runners.hardware == {}
    assert configs.warnings == ()
