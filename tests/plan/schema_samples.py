"""Small sound master and runner files to break, and how they are loaded."""

from __future__ import annotations

import pytest

from inferometer.errors import InputError, Problem
from inferometer.plan import Configs, load_configs

RUNNERS = """\
labels:
  h200: [h200-cw_0]
  cluster:h200-cw: [h200-cw_0]
hardware:
  cluster:h200-cw: {available-cpu-dram-mib: 1_998_848, gpus-per-node: 8}
"""

FIXED = """\
qwen:
  image: vllm/vllm-openai:v0.26.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  runner: h200
  precision: fp8
  framework: vllm
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 8192
      osl: 1024
      search-space:
      - { tp: 4, conc-start: 4, conc-end: 64 }
      - { tp: 8, ep: 8, dp-attn: true, conc-list: [1, 2] }
"""

AGENTIC = """\
qwen:
  image: vllm/vllm-openai:v0.26.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  runner: cluster:h200-cw
  precision: fp8
  framework: vllm
  multinode: false
  scenarios:
    agentic-coding:
    - dram-utilization: 0.8
      search-space:
      - { tp: 4, kv-offloading: none, conc-list: [1, 2] }
      - { tp: 8, kv-offloading: dram, kv-offload-backend: { name: hicache }, conc-list: [4] }
"""

MULTI = """\
qwen:
  image: vllm/vllm-openai:v0.26.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  runner: h200
  precision: fp8
  framework: dynamo-vllm
  router: { name: dynamo-router, version: "1.3.1" }
  kv-p2p-transfer: nixl
  multinode: true
  disagg: true
  scenarios:
    fixed-seq-len:
    - isl: 8192
      osl: 1024
      search-space:
      - conc-list: [8]
        prefill: { num-worker: 1, tp: 4, ep: 4, dp-attn: true, additional-settings: ["EX=1"] }
        decode: { num-worker: 1, tp: 8, ep: 8, dp-attn: false }
"""

SPACE = "qwen.scenarios.fixed-seq-len[0].search-space"
ARM = "qwen.scenarios.agentic-coding[0].search-space[1]"


def load(**files: str) -> Configs:
    """Load master files given as keywords (`m` is m.yaml), beside a sound runner file."""
    content = {f"{name}.yaml": text.encode() for name, text in files.items()}
    content.setdefault("runners.yaml", RUNNERS.encode())
    masters = [path for path in content if path != "runners.yaml"]
    return load_configs(masters, "runners.yaml", content.__getitem__)


def problems(**files: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        load(**files)
    return caught.value.problems


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{old!r} must stand once in the sample"
    return text.replace(old, new)
