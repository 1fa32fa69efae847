"""The package's layer of llama.cpp: its flags by scenario, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples import POINT
from inferometer.core import AgenticCoding, KvOffload, LaunchPlan, Parallelism, Point
from inferometer.errors import InputError
from inferometer.plan import load_recipes, read_file, resolve

ALONE = replace(POINT, framework="llamacpp", parallelism=Parallelism(1, 1, 1, 1, 1, False))


def launch(point: Point) -> LaunchPlan:
    return resolve(point, load_recipes(read_file, ()))


def flags(point: Point) -> dict[str, str]:
    """Flag → value; empty for one that stands alone."""
    found: dict[str, str] = {}
    flag = ""
    for word in launch(point).argv[1:]:
        if word.startswith("--"):
            flag = word
            found[flag] = ""
        else:
            found[flag] += word
    return found


def test_fixed_lengths_have_a_context_for_each_sequence_and_no_prefix_cache() -> None:
    assert launch(ALONE).argv[0] == "llama-server"
    assert flags(ALONE) == {
        "--model": "{model_path}",
        "--alias": "org/m",
        "--host": "0.0.0.0",
        "--port": "{port}",
        "--metrics": "",
        "--n-gpu-layers": "all",
        "--parallel": "6",
        "--ctx-size": str(6 * 1344),
        "--no-cache-prompt": "",
        "--cache-ram": "0",
    }


def test_sessions_share_one_pool_and_their_prefixes() -> None:
    found = flags(replace(ALONE, scenario=AgenticCoding(), max_model_len=None))
    assert found["--parallel"] == "12"
    assert {"--cache-prompt", "--kv-unified", "--metrics"} <= set(found)
    assert not {"--ctx-size", "--no-cache-prompt", "--cache-ram"} & set(found)


def test_gpus_work_at_once() -> None:
    assert "--split-mode" not in flags(ALONE)
    assert flags(replace(ALONE, parallelism=POINT.parallelism))["--split-mode"] == "row"


def test_counts_of_each_chunk_are_not_asked_for() -> None:
    assert launch(ALONE).client.usage_every_chunk is False


@pytest.mark.parametrize(
    ("point", "why"),
    [
        (replace(ALONE, spec_decoding="mtp"), "drafts"),
        (replace(ALONE, kv_offload=KvOffload("dram", "native", None, 100)), "KV offload"),
        (replace(ALONE, parallelism=Parallelism(2, 1, 1, 1, 2, False)), "expert parallelism"),
        (replace(ALONE, parallelism=Parallelism(2, 1, 1, 1, 1, True)), "data-parallel"),
    ],
)
def test_what_it_has_not_is_refused(point: Point, why: str) -> None:
    with pytest.raises(InputError, match=why):
        launch(point)
