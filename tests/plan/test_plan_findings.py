"""What InferenceX accepts and nobody means: each finding once, and those of the real files."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from inferometer.errors import InputError, Problem
from inferometer.plan import expand, load_configs
from inferometer.plan.clashes import clashes

RUNNERS = """\
labels: { "cluster:h200-cw": [a], h200: [a] }
hardware: { "cluster:h200-cw": { available-cpu-dram-mib: 1_000_000, gpus-per-node: 8 } }
"""
AGENTIC = """\
key:
  image: vllm/vllm-openai:v0.26.0
  model: org/m
  model-prefix: m
  runner: cluster:h200-cw
  precision: fp8
  framework: vllm
  multinode: false
  scenarios:
    agentic-coding:
    - search-space:
      - { tp: 4, kv-offloading: none, conc-list: [1, 2] }
"""
MULTI = """\
key:
  image: vllm/vllm-openai:v0.26.0
  model: org/m
  model-prefix: m
  runner: cluster:h200-cw
  precision: fp8
  framework: vllm
  multinode: true
  scenarios:
    agentic-coding:
    - dram-utilization: 0.5
      search-space:
      - conc-list: [4]
        kv-offloading: dram
        kv-offload-backend: { name: hicache }
        prefill: { num-worker: 2, tp: 8, ep: 8, dp-attn: false }
        decode: { num-worker: 1, tp: 4, ep: 1, dp-attn: false }
"""
SPACE = "key.scenarios.agentic-coding[0].search-space"


def findings(text: str) -> list[Problem]:
    files = {"m.yaml": text, "r.yaml": RUNNERS}
    configs = load_configs(["m.yaml"], "r.yaml", lambda path: files[path].encode())
    return [*configs.warnings, *clashes(configs, expand(configs))]


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def test_sound_files_have_none() -> None:
    assert findings(AGENTIC) == []
    assert findings(MULTI) == []


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("vllm/vllm-openai", "'vllm/vllm-openai' has no tag: it is another image tomorrow"),
        ("host:5000/vllm", "'host:5000/vllm' has no tag: it is another image tomorrow"),
        ("vllm/vllm-openai:latest", "the tag 'latest' is another image tomorrow"),
        ("vllm/vllm-openai:nightly-TBD", "the tag 'nightly-TBD' is a placeholder"),
        ("vllm/vllm-openai:TODO", "the tag 'TODO' is a placeholder"),
        ("vllm/vllm-openai:v1-xxx", "the tag 'v1-xxx' is a placeholder"),
        ("vllm/vllm-openai@sha256:ab", None),
        ("nvcr.io#nvidia/tritonserver:25.1", None),
        ("vllm/vllm-openai:nightly-8905cbd4", None),
    ],
)
def test_images(image: str, message: str | None) -> None:
    found = findings(changed(AGENTIC, "vllm/vllm-openai:v0.26.0", image))
    expected = [] if message is None else [Problem(message, "m.yaml", 2, "key.image")]
    assert found == expected


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "message"),
    [
        (
            "runner: cluster:h200-cw",
            "runner: cluster:h200-c",
            5,
            "key.runner",
            "runner label 'cluster:h200-c' is not defined in r.yaml; did you mean "
            "'cluster:h200-cw'?",
        ),
        (
            "tp: 4",
            "tp: 3",
            12,
            f"{SPACE}[0]",
            "3 GPUs (tp * pp * pcp-size) do not divide a node of 8",
        ),
        (
            "tp: 4",
            "tp: 8, pp: 2",
            12,
            f"{SPACE}[0]",
            "16 GPUs (tp * pp * pcp-size) are more than a node of 8 has",
        ),
        ("tp: 4", "tp: 4, ep: 3", 12, f"{SPACE}[0].ep", "3 does not divide the 4 GPUs"),
        (
            "tp: 4",
            "tp: 4, ep: 8",
            12,
            f"{SPACE}[0].ep",
            "8 ranks on 4 GPUs (tp * pp * pcp-size): a rate a GPU would be divided by too few",
        ),
        (
            "    - search-space:",
            "    - dram-utilization: 0.5\n      search-space:",
            11,
            "key.scenarios.agentic-coding[0].dram-utilization",
            "does nothing: no entry below it offloads KV",
        ),
        (
            "  precision: fp8",
            "  precision: fp8\n  precision: fp8",
            7,
            "key.precision",
            "given twice, first in line 6; the last counts",
        ),
    ],
)
def test_findings_of_one_node(old: str, new: str, line: int, key: str, message: str) -> None:
    assert findings(changed(AGENTIC, old, new)) == [Problem(message, "m.yaml", line, key)]


def test_findings_of_several_nodes() -> None:
    text = changed(MULTI, "num-worker: 1, tp: 4, ep: 1", "num-worker: 3, tp: 12, ep: 72")
    what = "12 GPUs (tp * pp * pcp-size) are no multiple of a node of 8"
    ranks = "72 ranks on 36 GPUs (workers * tp * pp * pcp-size)"
    assert findings(text) == [
        Problem(f"{ranks}: counted as 72 GPUs a worker, one a rank", "m.yaml", 17, _key("ep")),
        Problem(what, "m.yaml", 17, f"{SPACE}[0].decode"),
    ]
    # A role without workers has no fault.
    assert findings(changed(text, "num-worker: 3", "num-worker: 0")) == []


def _key(name: str) -> str:
    return f"{SPACE}[0].decode.{name}"


@pytest.mark.parametrize(
    ("tp", "message"),
    [
        (3, "3 GPUs (tp * pp * pcp-size) do not divide a node of 8"),
        (12, "12 GPUs (tp * pp * pcp-size) are no multiple of a node of 8"),
    ],
)
def test_host_memory_that_cannot_be_shared_out_is_an_error(tp: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        findings(changed(MULTI, "num-worker: 2, tp: 8, ep: 8", f"num-worker: 2, tp: {tp}, ep: 1"))
    assert caught.value.problems == (Problem(message, "m.yaml", 16, f"{SPACE}[0].prefill"),)


def test_a_point_declared_twice() -> None:
    text = AGENTIC + "      - { tp: 4, ep: 1, kv-offloading: none, conc-list: [2, 4] }\n"
    message = "point key_agentic_tp4_c2 is declared twice"
    assert findings(text) == [Problem(message, "m.yaml", 1, "key")]


def test_a_concurrency_listed_twice() -> None:
    assert findings(changed(AGENTIC, "[1, 2]", "[1, 2, 1]")) == [
        Problem("1 is listed twice", "m.yaml", 12, f"{SPACE}[0].conc-list[2]"),
        Problem("point key_agentic_tp4_c1 is declared twice", "m.yaml", 1, "key"),
    ]


def test_an_empty_search_space() -> None:
    (arm,) = (line for line in AGENTIC.splitlines() if "tp: 4" in line)
    text = changed(changed(AGENTIC, arm, ""), "search-space:", "search-space: []")
    assert findings(text) == [Problem("is empty: nothing is measured", "m.yaml", 11, SPACE)]


def test_equal_points_of_two_keys() -> None:
    text = changed(AGENTIC, "[1, 2]", "[1]")
    message = "point key_agentic_tp4_c1 is declared by other too, in all equal"
    expected = [Problem(message, "m.yaml", 1, "key")]
    assert findings(text + changed(text, "key:", "other:")) == expected
    other = changed(changed(text, "key:", "other:"), "v0.26.0", "v0.27.0")
    (shared,) = findings(text + other)
    assert shared.message == (
        "InferenceX names 2 points 'm_tp4_conc1_kvnone', which differ in image"
    )


def test_names_that_the_reference_shares() -> None:
    text = (
        AGENTIC + "      - { tp: 4, ep: 4, dp-attn: true, kv-offloading: none, conc-list: [2] }\n"
    )
    message = "InferenceX names 2 points 'm_tp4_conc2_kvnone', which differ in ep, dp_attn"
    assert findings(text) == [Problem(message, "m.yaml", 1, "key")]
    both = text.replace("conc-list: [2]", "conc-list: [1, 2]")
    (shared,) = findings(both)
    first = "InferenceX names 2 points 'm_tp4_conc1_kvnone', which differ in ep, dp_attn"
    assert shared.message == f"{first} (and so under 1 more names)"


def test_findings_of_the_real_files(shared_data: Path) -> None:
    folder = shared_data / "inferencex"
    masters = [str(folder / f"{name}-master.yaml") for name in ("amd", "nvidia")]
    configs = load_configs(masters, str(folder / "runners.yaml"))
    found = [*configs.warnings, *clashes(configs, expand(configs))]
    kinds: Counter[str] = Counter()
    for problem in found:
        more = re.search(r"under (\d+) more", problem.message)
        kinds[_kind(problem.message)] += 1 + (int(more[1]) if more else 0)
    assert sum(problem.message.startswith("InferenceX names") for problem in found) == 10
    assert kinds == {
        "runner label": 8,
        "shared name, one node": 28,
        "shared name, several nodes": 9,
        "equal": 5,
        "twice": 1,
        "ranks": 25,
        "idle": 9,
    }
    labels = {p.message.split("'")[1] for p in found if p.message.startswith("runner label")}
    assert labels == {"cluster:mi325x-tw", "gb300-nv", "h200-dgxc"}


def _kind(message: str) -> str:
    if message.startswith("InferenceX names"):
        return f"shared name, {'several nodes' if 'multi_node' in message else 'one node'}"
    words = {
        "runner label": "runner label",
        "in all equal": "equal",
        "declared twice": "twice",
        "ranks on": "ranks",
        "does nothing": "idle",
    }
    return next((kind for word, kind in words.items() if word in message), message)
