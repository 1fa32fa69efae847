"""Which recorded parser speaks for an image."""

from __future__ import annotations

import pytest

from inferometer.catalog import FlagOption, FlagSchema, version_order
from inferometer.plan.flagversion import image_version, matched


def recorded(version: str, released: str | None = None, engine: str = "vllm") -> FlagSchema:
    return FlagSchema(
        source="a test",
        date="2026-11-30",
        engine=engine,
        version=version,
        released=released,
        commands=(("vllm", "serve"),),
        options=(FlagOption(names=("--a",)),),
    )


@pytest.mark.parametrize(
    ("image", "engine", "version", "between"),
    [
        ("vllm/vllm-openai:v0.26.0", "vllm", "0.26.0", False),
        ("vllm/vllm-openai:v0.20.1-ubuntu2404", "vllm", "0.20.1", False),
        ("vllm/vllm-openai-rocm:v0.27.1", "vllm", "0.27.1", False),
        ("vllm/vllm-openai:vllm-x86_64-cu13-0.25.1-7a33ba9", "vllm", "0.25.1", True),
        ("vllm/vllm-openai:nightly-dev-arm64-cu13.0.1-75c2eef", "vllm", None, True),
        ("vllm/vllm-openai:nightly-5e35a6f4f9bbc217c599692157ca985c894373f7", "vllm", None, True),
        ("vllm/vllm-openai:kimi-k3", "vllm", None, False),
        ("quay.io/x/llm-d-nokube-vllm:vllm0.26@sha256:a9095d4c", "vllm", "0.26", False),
        ("lmsysorg/sglang:v0.5.17-cu130", "sglang", "0.5.17", False),
        ("lmsysorg/sglang:v0.5.14-cu130@sha256:5027e95bf6ec", "sglang", "0.5.14", False),
        ("lmsysorg/sglang:v0.5.8.post1-cu130-amd64", "sglang", "0.5.8.post1", False),
        ("lmsysorg/sglang:v0.5.16-rocm720-mi35x", "sglang", "0.5.16", False),
        ("lmsysorg/sglang-rocm:v0.5.16-rocm720-mi35x-20260730", "sglang", "0.5.16", True),
        ("lmsysorg/sglang:nightly-dev-cu13-20260805-211ee642", "sglang", None, True),
        ("lmsysorg/sglang:deepseek-v4-hopper@sha256:1bf5d508ab", "sglang", None, False),
        ("rocm/sgl-dev:sglang-0.5.9-rocm720-mi35x-mori-0227-2", "sglang", "0.5.9", False),
        ("nvcr.io#nvidia/tensorrt-llm/release:1.3.0rc14", "trt", "1.3.0rc14", False),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc23.post1", "trt", "1.3.0rc23.post1", False),
        ("rocm/atom:rocm7.2.4_ubuntu24.04_py3.12_release_2.10.0_atom0.1.3", "atom", "0.1.3", False),
        ("rocm/atom:rocm7.2.3_py3.12_release_2.10.0_atom20260511", "atom", None, True),
        ("registry:5000/vllm", "vllm", None, False),
        ("mine/engine:1.2.3", "vllm", None, False),
        ("vllm", "vllm", None, False),
    ],
)
def test_what_a_tag_tells(image: str, engine: str, version: str | None, between: bool) -> None:
    found = image_version(image, engine)
    assert (found.version, found.between) == (version, between)


@pytest.mark.parametrize(
    ("image", "version", "exact"),
    [
        ("vllm/vllm-openai:v0.26.0", "0.26.0", True),
        ("vllm/vllm-openai:v0.26", "0.26.0", True),
        ("vllm/vllm-openai:v0.26.0-20260730", "0.26.0", False),
        ("vllm/vllm-openai:v0.26.1", "0.26.0", False),
        ("vllm/vllm-openai:v0.100.0", "0.32.0", False),
        ("vllm/vllm-openai:v0.9.2", "0.20.1", False),
        ("vllm/vllm-openai:v0.32.0rc1", "0.26.0", False),
        ("vllm/vllm-openai:nightly-20260801", "0.26.0", False),
        ("vllm/vllm-openai:nightly-20261001", "0.32.0", False),
        ("vllm/vllm-openai:nightly-abcdef0", "0.32.0", False),
        ("vllm/vllm-openai:nightly-20269999", "0.32.0", False),
    ],
)
def test_the_nearest_parser_is_taken(image: str, version: str, exact: bool) -> None:
    dates = {"0.20.1": "2026-05", "0.26.0": "2026-07-25", "0.32.0": "2026-10-20"}
    found = matched(image, "vllm", [recorded(*pair) for pair in dates.items()])
    assert found is not None
    assert (found.schema.version, found.exact) == (version, exact)


def test_without_dates_the_newest_and_without_parsers_none() -> None:
    found = matched("a/vllm:nightly-20260101", "vllm", [recorded("0.1"), recorded("0.2")])
    assert found is not None
    assert (found.schema.version, found.exact) == ("0.2", False)
    assert matched("a/vllm:v1.0", "vllm", []) is None


def test_versions_sort_by_age() -> None:
    ages = ["0.9", "0.10.1", "1.3.0rc2", "1.3.0rc14", "1.3.0rc14.post1", "1.3.0", "1.3.0.post1"]
    mixed = [*ages[3:], *ages[:3]]
    assert sorted(mixed, key=version_order) == ages
    assert version_order("v1.2") == version_order("1.2.0")
    assert version_order("b9999") < version_order("b11434")
