"""Each router is sent the session's id under the header that it reads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deployment_points import packaged, point

from examples import POINT
from inferometer.core import AgenticCoding, Router
from inferometer.plan import resolve

WANTED = {
    "vllm-router": "X-Session-ID",
    "sglang-router": "X-SMG-Routing-Key",
    "dynamo-router": "X-Dynamo-Session-ID",
    "llm-d-router": "X-Session-ID",
}


@pytest.mark.parametrize(
    ("framework", "router"),
    [
        ("vllm", "vllm-router"),
        ("sglang-disagg", "sglang-router"),
        ("dynamo-vllm", "dynamo-router"),
        ("dynamo-sglang", "dynamo-router"),
        ("llmd-vllm", "llm-d-router"),
    ],
)
def test_the_header_of_a_router_of_several_workers(framework: str, router: str) -> None:
    given = point(router=Router(router, "1"), framework=framework, scenario=AgenticCoding())
    assert resolve(given, packaged()).client.affinity_header == WANTED[router]


@pytest.mark.parametrize(
    ("framework", "router"), [("vllm", "vllm-router"), ("sglang", "sglang-router")]
)
def test_the_header_of_a_router_before_one_engine(framework: str, router: str) -> None:
    spread = replace(POINT.parallelism, dp_attn=True)
    given = replace(
        POINT,
        framework=framework,
        router=Router(router, "1"),
        scenario=AgenticCoding(),
        parallelism=spread,
    )
    assert resolve(given, packaged()).client.affinity_header == WANTED[router]


def test_without_a_router_the_usual_header_is_sent() -> None:
    assert resolve(replace(POINT, router=None), packaged()).client.affinity_header == "X-Session-ID"
