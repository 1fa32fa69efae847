"""Every rule of the schema by one faulty config, with file, line and key."""

from __future__ import annotations

import pytest
from schema_samples import AGENTIC, ARM, FIXED, MULTI, SPACE, changed, load, problems

from inferometer.errors import Problem
from inferometer.plan import expand_arms


@pytest.mark.parametrize("text", [FIXED, AGENTIC, MULTI], ids=["fixed", "agentic", "multi"])
def test_the_samples_are_sound(text: str) -> None:
    configs = load(m=text)
    assert [config.key for config in configs.configs] == ["qwen"]
    known = [problem for problem in configs.warnings if "'EX' is no setting" not in problem.message]
    assert known == []


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "message"),
    [
        # unknown keys, with the nearest
        (
            "isl: 8192",
            "isll: 8192",
            11,
            "qwen.scenarios.fixed-seq-len[0].isl",
            "is required and missing",
        ),
        (
            "dp-attn:",
            "dp-atn:",
            15,
            f"{SPACE}[1].dp-atn",
            "unknown field 'dp-atn'; did you mean 'dp-attn'?",
        ),
        (
            "  precision: fp8",
            "  precision: fp8\n  require-powr: native",
            7,
            "qwen.require-powr",
            "unknown field 'require-powr'; did you mean 'require-power'?",
        ),
        (
            "  precision: fp8",
            "  precision: fp8\n  require-power: true",
            7,
            "qwen.require-power",
            "expected one of native, got true",
        ),
        (
            "  precision: fp8",
            "  precision: fp8\n  dp_attn: true",
            7,
            "qwen.dp_attn",
            "unknown field 'dp_attn'; known: image, model, model-prefix, precision, framework, "
            "runner, multinode, disagg, router, require-power, scenarios",
        ),
        # wrong types: nothing converts
        ("tp: 4", 'tp: "4"', 14, f"{SPACE}[0].tp", "expected a positive integer, got the text '4'"),
        ("tp: 4", "tp: 4.0", 14, f"{SPACE}[0].tp", "expected a positive integer, got 4.0"),
        ("tp: 4", "tp: true", 14, f"{SPACE}[0].tp", "expected a positive integer, got true"),
        ("tp: 4", "tp: [4]", 14, f"{SPACE}[0].tp", "expected a positive integer, got a list"),
        ("dp-attn: true", "dp-attn: 1", 15, f"{SPACE}[1].dp-attn", "expected true or false, got 1"),
        ("fp8", "8", 6, "qwen.precision", "expected text, got 8"),
        ("fp8", "", 6, "qwen.precision", "expected text, got nothing"),
        ("false", "no idea", 8, "qwen.multinode", "expected true or false, got the text 'no idea'"),
        ("[1, 2]", "8", 15, f"{SPACE}[1].conc-list", "expected a list, got 8"),
        (
            "  - { tp: 4, conc-start: 4, conc-end: 64 }",
            "  - 4",
            14,
            f"{SPACE}[0]",
            "expected a mapping, got 4",
        ),
        (
            "ep: 8,",
            "ep: 8, spec-decoding: mpt,",
            15,
            f"{SPACE}[1].spec-decoding",
            "expected one of none, mtp, draft_model, got the text 'mpt'; did you mean 'mtp'?",
        ),
        # concurrencies
        (
            "[1, 2]",
            "[]",
            15,
            f"{SPACE}[1].conc-list",
            "expected at least one item, got an empty list",
        ),
        (
            "[1, 2]",
            "[1, -4]",
            15,
            f"{SPACE}[1].conc-list[1]",
            "expected a positive integer, got -4",
        ),
        (
            "[1, 2]",
            "[1, 65537]",
            15,
            f"{SPACE}[1].conc-list[1]",
            "expected an integer of at most 65536, got 65537",
        ),
        (
            "conc-end: 64",
            "conc-end: 65_537",
            14,
            f"{SPACE}[0].conc-end",
            "expected an integer of at most 65536, got 65537",
        ),
        (
            "[1, 2]",
            f"[{', '.join(map(str, range(1, 10_002)))}]",
            15,
            f"{SPACE}[1].conc-list",
            "expected at most 10000 items, got a list of 10001",
        ),
        (
            "isl: 8192",
            "isl: 2_147_483_648",
            11,
            "qwen.scenarios.fixed-seq-len[0].isl",
            "expected an integer of at most 2147483647, got 2147483648",
        ),
        (
            "isl: 8192",
            f"isl: {hex(1 << 20_000)}",
            11,
            "qwen.scenarios.fixed-seq-len[0].isl",
            "expected an integer of at most 2147483647, got an integer of more than 64 bits",
        ),
        (
            "vllm/vllm-openai:v0.26.0",
            '"a\\0b"',
            2,
            "qwen.image",
            "expected text without a NUL character, got the text 'a\\x00b'",
        ),
        (
            "conc-start: 4",
            "conc-start: 0",
            14,
            f"{SPACE}[0].conc-start",
            "expected a positive integer, got 0",
        ),
        (
            "conc-start: 4",
            "conc-start: 65",
            14,
            f"{SPACE}[0].conc-end",
            "64 is below conc-start, which is 65",
        ),
        (", conc-end: 64", "", 14, f"{SPACE}[0]", "give conc-start and conc-end, or conc-list"),
        (
            "conc-end: 64",
            "conc-end: 64, conc-list: [1]",
            14,
            f"{SPACE}[0]",
            "give conc-start and conc-end, or conc-list, not both",
        ),
        # rules between fields
        ("ep: 8,", "dcp-size: 3,", 15, f"{SPACE}[1].dcp-size", "3 does not divide tp, which is 8"),
        (
            "false",
            "false\n  disagg: true",
            9,
            "qwen.disagg",
            "a single-node config cannot be disaggregated",
        ),
        ("qwen:", "qw*n:", 1, "qw*n", "a config key cannot contain *"),
    ],
)
def test_faults_of_a_fixed_config(old: str, new: str, line: int, key: str, message: str) -> None:
    expected = Problem(message, "m.yaml", line, key)
    assert expected in problems(m=changed(FIXED, old, new))


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "message"),
    [
        (
            "kv-offloading: none, ",
            "",
            13,
            f"{ARM[:-3]}[0].kv-offloading",
            "is required and missing",
        ),
        (
            ", kv-offload-backend: { name: hicache }",
            "",
            14,
            f"{ARM}.kv-offload-backend",
            "is required with kv-offloading dram",
        ),
        (
            "kv-offloading: none",
            "kv-offloading: none, kv-offload-backend: { name: x }",
            13,
            f"{ARM[:-3]}[0].kv-offload-backend",
            "not allowed: kv-offloading is none",
        ),
        (
            "dram-utilization: 0.8\n      ",
            "",
            11,
            "qwen.scenarios.agentic-coding[0]",
            "kv-offloading dram needs dram-utilization",
        ),
        (
            "0.8",
            "1.5",
            11,
            "qwen.scenarios.agentic-coding[0].dram-utilization",
            "expected a number above 0, at most 1, got 1.5",
        ),
        (
            "cluster:h200-cw",
            "h200",
            5,
            "qwen.runner",
            "agentic-coding needs a label cluster:..., got 'h200'",
        ),
        ("tp: 8", "tp: 16", 14, ARM, "16 GPUs (tp * pp * pcp-size) are more than a node of 8 has"),
        (
            "cluster:h200-cw",
            "cluster:h100-cw",
            14,
            ARM,
            "no hardware entry for runner 'cluster:h100-cw', which says the host memory to share; "
            "did you mean 'cluster:h200-cw'?",
        ),
    ],
)
def test_faults_of_an_agentic_config(old: str, new: str, line: int, key: str, message: str) -> None:
    expected = Problem(message, "m.yaml", line, key)
    assert expected in problems(m=changed(AGENTIC, old, new))


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "message"),
    [
        (
            "  kv-p2p-transfer: nixl\n",
            "",
            16,
            f"{SPACE}[0]",
            "disagg needs kv-p2p-transfer, here or for the whole config",
        ),
        (
            "- conc-list: [8]",
            "- conc-list: [8]\n        kv-p2p-transfer: mori",
            18,
            f"{SPACE}[0].kv-p2p-transfer",
            "given for the whole config too; give it in one place",
        ),
        (
            "- conc-list: [8]",
            "- conc-list: [8]\n        router: { name: a, version: b }",
            18,
            f"{SPACE}[0].router",
            "given for the whole config too; give it in one place",
        ),
        (
            "dp-attn: false",
            "dp-attn: false, hardware: h100",
            18,
            f"{SPACE}[0].prefill",
            "give hardware for both roles or for neither",
        ),
        (
            "num-worker: 1, tp: 8",
            "tp: 8",
            19,
            f"{SPACE}[0].decode.num-worker",
            "is required and missing",
        ),
        (
            '["EX=1"]',
            '["EX"]',
            18,
            f"{SPACE}[0].prefill.additional-settings[0]",
            "expected KEY=VALUE, got 'EX'",
        ),
        (
            '["EX=1"]',
            "[1]",
            18,
            f"{SPACE}[0].prefill.additional-settings[0]",
            "expected text, got 1",
        ),
        (
            '"1.3.1"',
            '"image:1"',
            8,
            "qwen.router.version",
            "expected a version, got an image",
        ),
        (
            "- conc-list: [8]",
            "- conc-list: [8]\n        tp: 8",
            18,
            f"{SPACE}[0].tp",
            "unknown field 'tp'",
        ),
    ],
)
def test_faults_of_a_multi_node_config(
    old: str, new: str, line: int, key: str, message: str
) -> None:
    found = problems(m=changed(MULTI, old, new))
    assert any(
        (p.file, p.line, p.key) == ("m.yaml", line, key) and p.message.startswith(message)
        for p in found
    ), found


def test_a_decode_block_without_workers_is_an_aggregated_deployment() -> None:
    text = changed(MULTI, "decode: { num-worker: 1", "decode: { num-worker: 0")
    (arm,) = expand_arms(load(m=changed(text, "disagg: true", "disagg: false")))
    assert arm[0].deployment == "1xDEP4"
    assert arm[0].gpus == 4


def test_a_config_without_a_scenario() -> None:
    text = FIXED[: FIXED.index("    fixed-seq-len")].replace("scenarios:", "scenarios: {}")
    message = "expected fixed-seq-len or agentic-coding, got neither"
    assert problems(m=text) == (Problem(message, "m.yaml", 9, "qwen.scenarios"),)
