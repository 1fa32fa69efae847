"""Whether an engine is the version that its plan names, and found its GPUs free."""

from __future__ import annotations

import pytest

from inferometer.analyze.started import gpu_held_share, version_problem
from inferometer.core import Gpu, GpuRelease, GpuReport


@pytest.mark.parametrize(
    ("image", "framework", "said"),
    [
        ("vllm/vllm-openai:v0.25.1", "vllm", "0.26.0"),
        ("vllm/vllm-openai:v0.25.1", "vllm", "0.25.2+cu129"),
        ("vllm/vllm-openai:v0.25.1", "vllm", "0.25.1rc2.dev7+gabcdef"),
        ("lmsysorg/sglang:v0.5.8.post1-cu130", "sglang", "0.5.8"),
        ("lmsysorg/sglang:v0.5.16", "sglang", "0.5.17"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc5", "trt", "1.3.0rc6"),
    ],
)
def test_another_version_than_the_image_names(image: str, framework: str, said: str) -> None:
    problem = version_problem(image, framework, said)
    assert problem is not None
    assert problem.endswith(f"the engine says it is {said}: what was measured is another engine")


@pytest.mark.parametrize(
    ("image", "framework", "said"),
    [
        ("vllm/vllm-openai:v0.25.1", "vllm", "0.25.1"),
        ("vllm/vllm-openai:v0.25.1", "vllm", "0.25.1+cu129"),
        ("vllm/vllm-openai:v0.25.1-cu130", "vllm", "v0.25.1"),
        ("lmsysorg/sglang:v0.5.8.post1-cu130", "sglang", "0.5.8.post1"),
        # Nothing to hold it against.
        ("vllm/vllm-openai:v0.25.1", "vllm", None),
        ("vllm/vllm-openai:nightly-0123456789abcdef0123456789abcdef01234567", "vllm", "0.26.0"),
        ("none", "vllm", "0.26.0"),
        ("", "vllm", "0.26.0"),
        ("ghcr.io/ggml-org/llama.cpp:server-b11434", "llamacpp", "b11500-abc"),
        # The version of what is around the engine.
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.9.0", "dynamo-vllm", "0.26.0"),
    ],
)
def test_the_same_version_or_none_that_can_be_compared(
    image: str, framework: str, said: str | None
) -> None:
    assert version_problem(image, framework, said) is None


def report(*deployment: str) -> GpuReport:
    cards = tuple(Gpu(f"G{n}", n, "x", 100_000, None) for n in range(3))
    return GpuReport("nvml", None, None, 0.5, cards, deployment, "processes", None)


def test_the_fullest_of_the_deployments_gpus_counts_and_no_other() -> None:
    release = GpuRelease({"G0": 1_000.0, "G1": 12_000.0, "G2": 90_000.0}, {}, 0.0, {})
    assert gpu_held_share(release, report("G0", "G1")) == 0.12
    assert gpu_held_share(release, report("G0")) == 0.01
    assert gpu_held_share(release, report()) is None
    assert gpu_held_share(None, report("G0")) is None
    assert gpu_held_share(release, None) is None
