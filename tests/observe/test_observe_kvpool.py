"""The size of a KV pool by an engine's metrics page."""

from __future__ import annotations

import pytest

from inferometer.observe.kvpool import pool_tokens

VLLM = 'vllm:cache_config_info{block_size="16",engine="%d",num_gpu_blocks="%s"} 1.0\n'
SGLANG = 'sglang:max_total_num_tokens{dp_rank="%d",tp_rank="%d"} %s\n'


@pytest.mark.parametrize(
    ("page", "tokens"),
    [
        ("", None),
        ("vllm:num_requests_running 1.0\n", None),
        ("# TYPE vllm:cache_config_info gauge\n" + VLLM % (0, 100), 1600),
        (VLLM % (0, 100) + VLLM % (1, 50), 2400),
        (VLLM % (0, "None"), None),
        (SGLANG % (0, 0, "5000.0") + SGLANG % (0, 1, "5000.0"), 5000),
        (SGLANG % (0, 0, "5000.0") + SGLANG % (1, 0, "4000.0"), 9000),
        (SGLANG % (0, 0, "NaN"), None),
        ("vllm:cache_config_info{block_size=\n", None),
    ],
)
def test_pool_tokens(page: str, tokens: int | None) -> None:
    assert pool_tokens(page) == tokens
