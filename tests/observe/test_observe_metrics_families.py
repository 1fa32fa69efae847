"""One page of each engine, and the series that it comes to; labels that must not count twice."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from inferometer.catalog import SERIES, Engine, engines, family_options
from inferometer.engine.simulated.assembly import assemble
from inferometer.engine.simulated.options import parse_options
from inferometer.engine.simulated.telemetry import Telemetry
from inferometer.observe.families import Families, page_families, read_series

PAGES = Path(__file__).parent / "pages"
VLLM = {
    "running": 7,
    "waiting": 1,
    "kv_use": 0.375,
    "prefix_queries device": 1000,
    "prefix_hits device": 250,
    "prefix_queries external": 750,
    "prefix_hits external": 80,
    "prompt_tokens": 1000,
    "prompt_tokens_cached": 330,
    "prompt_tokens_computed": 670,
    "generation_tokens": 1500,
    "requests": 12,
    "preemptions": 1,
    "drafts": 100,
    "draft_tokens": 300,
    "accepted_tokens": 149,
    "queue_time_s 0.3": 8,
    "queue_time_s 0.5": 10,
    "queue_time_s +Inf": 12,
    "queue_time_s_sum": 3.5,
}
SPEC = {"drafts": 100, "draft_tokens": 300, "accepted_tokens": 149}
EXPECTED: dict[str, dict[str, float]] = {
    "vllm": VLLM,
    "vllm-older": VLLM,
    "vllm-0.32": VLLM | {"prefix_hits host": 30, "prefix_hits external": 50},
    "sglang": {
        "running": 12,
        "waiting": 3,
        "kv_use": 0.4,
        "prefix_queries device": 1000,
        "prefix_hits device": 250,
        "prefix_hits host": 100,
        "prefix_hits external": 50,
        "prompt_tokens": 1000,
        "prompt_tokens_cached": 390,
        "prompt_tokens_computed": 600,
        "generation_tokens": 1504,
        "requests": 4,
        "preemptions": 2,
        "drafts": 600,
        "acceptance_recent": 2.5,
        "queue_time_s 0.1": 4,
        "queue_time_s +Inf": 5,
        "queue_time_s_sum": 0.5,
    },
    "trt": {
        "running": 6,
        "waiting": 2,
        "kv_use": 0.4,
        "prefix_queries device": 1000,
        "prefix_hits device": 250,
        "prefix_hits host": 60,
        "prefix_hits external": 10,
        "prompt_tokens": 1000,
        "prompt_tokens_cached": 320,
        "generation_tokens": 1500,
        "requests": 12,
        "drafts": 100,
        "draft_tokens": 200,
        "accepted_tokens": 149,
        "acceptance_recent": 2.5,
        "queue_time_s 0.3": 12,
        "queue_time_s +Inf": 12,
        "queue_time_s_sum": 0.6,
    },
    "atom": {
        "running": 7,
        "waiting": 1,
        "kv_use": 0.375,
        "prefix_queries device": 1000,
        "prefix_hits device": 250,
        "prefix_hits external": 40,
        "prompt_tokens": 1000,
        "prompt_tokens_cached": 250,
        "generation_tokens": 1500,
        "requests": 12,
        "preemptions": 3,
        **SPEC,
    },
    "llamacpp": {
        "running": 4,
        "waiting": 9,
        "prefix_queries device": 1000,
        "prefix_hits device": 360,
        "prompt_tokens": 1000,
        "prompt_tokens_cached": 360,
        "prompt_tokens_computed": 640,
        "generation_tokens": 1500,
        **dict.fromkeys(SPEC, 0),
    },
    "llamacpp-older": {
        "running": 4,
        "waiting": 9,
        "prompt_tokens_computed": 640,
        "generation_tokens": 1500,
        **dict.fromkeys(SPEC, 0),
    },
    "dynamo": {
        "running": 8,
        "waiting": 2,
        "kv_use": 0.4,
        "ttft_s 0.1": 9,
        "ttft_s +Inf": 12,
        "ttft_s_sum": 1.5,
        "prefix_queries device": 1000,
        "prompt_tokens": 1000,
        "prompt_tokens_cached": 250,
        "generation_tokens": 1500,
        "requests": 12,
    },
}


def text(name: str) -> str:
    return (PAGES / f"{name}.txt").read_text()


def series(page: str, families: Families | None = None) -> dict[str, float]:
    """`NAME`, `NAME TIER` or `NAME BOUND` → value."""
    found = read_series(page_families(page), families or Families())
    short = {}
    for (name, labels), value in found.items():
        pairs = dict(part.split("=", 1) for part in labels.split(","))
        assert pairs.pop("engine") in {row.engine for row in engines()}
        short[" ".join([name.removeprefix("engine."), *pairs.values()])] = value
    return short


@pytest.mark.parametrize("name", EXPECTED)
def test_a_page_of_each_engine(name: str) -> None:
    families = Families()
    assert series(text(name), families) == pytest.approx(EXPECTED[name])
    assert families.engines == (name.partition("-")[0],)


@pytest.mark.parametrize("name", EXPECTED)
def test_counters_are_read_without_their_ending_too(name: str) -> None:
    """OpenMetrics names the family without `_total`; some servers name the sample so."""
    bare = text(name).replace("_total{", "{").replace("_total ", " ")
    assert series(bare) == pytest.approx(EXPECTED[name])
    untyped = "".join(line for line in text(name).splitlines(True) if line[0] != "#")
    found = series(untyped)
    assert found == pytest.approx({key: EXPECTED[name][key] for key in found})
    assert len(found) == len(EXPECTED[name])


def test_a_real_page(shared_data: Path) -> None:
    """vLLM after 644 requests; each value is one that can be read in the file."""
    found = series((shared_data / "h200-vllm" / "metrics.txt").read_text())
    assert found["requests"] == found["ttft_s +Inf"] == found["queue_time_s +Inf"] == 644
    assert found["prompt_tokens"] == 657_420
    assert found["generation_tokens"] == 164_448
    assert found["prefix_hits device"] == 262_000
    assert found["queue_time_s_sum"] == pytest.approx(71.711, abs=1e-3)
    # It does not speculate, and so it has no families of it.
    missing = set(VLLM) - {key for key in found if not key.startswith("queue")}
    assert {key for key in missing if not key.startswith("queue")} == set(SPEC)


def test_the_page_of_the_built_in_engine_is_vllms_and_counts_once() -> None:
    options = parse_options(["--model", "Qwen/Qwen3-8B", "--gpu", "h200"])
    telemetry = Telemetry(assemble(options), "m")
    telemetry.late(2_000_000)
    families = Families()
    found = series(telemetry.page().decode(), families)
    assert families.engines == ("simulated",)
    assert found["lateness_p99_s"] == 0.002
    assert {key for key in VLLM if " " not in key} <= set(found) | {
        "prompt_tokens_cached",
        "prompt_tokens_computed",
    }


def test_what_dynamo_passes_on_of_its_workers_counts_once() -> None:
    families = Families()
    both = series(text("dynamo") + text("vllm"), families)
    assert families.engines == ("vllm", "dynamo")
    expected = EXPECTED["dynamo"] | VLLM
    assert both == pytest.approx(expected)
    assert series(text("vllm") + text("dynamo")) == pytest.approx(expected)


def without(page: str, *words: str) -> str:
    """A page without the lines that have one of these words."""
    return "".join(line for line in page.splitlines(True) if not any(w in line for w in words))


def test_older_pages_of_trt_give_blocks_for_both_or_for_none() -> None:
    found = series(without(text("trt"), "cached_tokens", "cache_hit_tokens"))
    assert (found["prefix_queries device"], found["prefix_hits device"]) == (100, 30)


def test_pages_of_trt_without_levels_give_tokens_of_all_of_them_and_no_tier() -> None:
    found = series(without(text("trt"), "cache_hit_tokens"))
    assert found["prefix_queries device"] == 1000
    assert found["prompt_tokens_cached"] == 320
    assert not any(key.startswith("prefix_hits") for key in found)


def test_a_sum_of_which_a_part_is_not_even_declared_is_unknown() -> None:
    """Older pages of llama.cpp count the computed tokens alone: that is not 0 of all of them."""
    found = series(without(text("llamacpp"), "prompt_tokens_cached"))
    assert found["prompt_tokens_computed"] == 640
    assert "prompt_tokens" not in found
    assert "prefix_queries device" not in found


OPEN_METRICS = """\
# TYPE vllm:time_to_first_token_seconds histogram
# UNIT vllm:time_to_first_token_seconds seconds
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} 3 # {trace_id="a b"} 0.05 1.5e9
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 4 # {trace_id="x"} 0.5
vllm:time_to_first_token_seconds_count{engine="0"} 4
vllm:time_to_first_token_seconds_sum{engine="0"} 0.5
vllm:time_to_first_token_seconds_created{engine="0"} 1.79e9
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0"} 10.0 1796001832.5 # {trace_id="1"} 1.0
vllm:prompt_tokens_created{engine="0"} 1.79e9
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0"} 3 1796001832.5
# EOF
"""


def test_the_open_form_with_exemplars_creation_times_and_stamps() -> None:
    assert series(OPEN_METRICS) == {
        "running": 3,
        "prompt_tokens": 10,
        "ttft_s 0.1": 3,
        "ttft_s +Inf": 4,
        "ttft_s_sum": 0.5,
    }


def test_older_pages_of_sglang_give_hits_by_source() -> None:
    older = "".join(line for line in text("sglang").splitlines(True) if "effective" not in line)
    found = series(older)
    hits = [found[f"prefix_hits {tier}"] for tier in ("device", "host", "external")]
    assert (found["prefix_queries device"], hits) == (1000, [240, 100, 50])


def test_a_declared_counter_has_not_counted_yet_and_a_gauge_is_unknown() -> None:
    page = "# TYPE sglang:num_requests_total counter\n# TYPE sglang:num_running_reqs gauge\n"
    assert series(page) == {"requests": 0}


def test_an_option_once_taken_is_kept() -> None:
    """A better family that comes later counts from another moment: it would look like a jump."""
    families = Families()
    declared = "# TYPE trtllm_spec_decode_drafted_tokens_total counter\n"
    old = "trtllm_spec_decode_num_draft_tokens_total 40\n"
    new = 'trtllm_spec_decode_drafted_tokens_total{token_position="0"} 3\n'
    assert series(declared, families)["draft_tokens"] == 0
    assert series(declared + old, families)["draft_tokens"] == 40
    assert series(declared + old + new, families)["draft_tokens"] == 40
    assert series(declared + old + new)["draft_tokens"] == 3


def test_what_is_not_finite_is_left_out_with_what_it_is_part_of() -> None:
    page = (
        'vllm:kv_cache_usage_perc{engine="0"} NaN\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
        'vllm:num_requests_running{engine="0"} 1e308\nvllm:num_requests_running{engine="1"} 1e308\n'
        "vllm:prompt_tokens_total +Inf\nvllm:num_requests_waiting 2\n"
    )
    assert series(page) == {"waiting": 2}


def test_the_same_labels_twice_count_once() -> None:
    assert series('vllm:num_requests_running{a="1"} 3\n' * 2) == {"running": 3}


def test_a_page_of_nobody_we_know_is_empty() -> None:
    families = Families()
    assert series("# TYPE up gauge\nup 1\nvllmx:num_requests_running 4\n", families) == {}
    assert families.engines == ()


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_ranks_add_up_and_replicas_do_not(values: list[int], replicas: int, random: object) -> None:
    lines = [
        f'sglang:num_running_reqs{{dp_rank="{rank}",tp_rank="{tp}",pp_rank="{tp}"}} {value}'
        for rank, value in enumerate(values)
        for tp in range(replicas)
    ]
    random.shuffle(lines)  # type: ignore[attr-defined]
    assert series("\n".join(lines) + "\n") == {"running": sum(values)}


NAMES = st.sampled_from(
    ["vllm:prompt_tokens_total", "vllm:request_queue_time_seconds_bucket", "# TYPE vllm:kv", ""]
)


@given(st.lists(st.tuples(NAMES, st.text(alphabet='{}"=\\ ,#a:_1+If\n', max_size=30)), max_size=5))
def test_lines_that_are_none_are_a_value_error_at_most(lines: list[tuple[str, str]]) -> None:
    try:
        found = series("\n".join(name + rest for name, rest in lines))
    except ValueError:
        return
    assert all(math.isfinite(value) for value in found.values())


def test_the_table_is_checked() -> None:
    row = {"engine": "x", "display": "X", "prefix": "x_", "source": "s", "date": "2026-09"}
    good = {"running": [{"name": "x_running"}], "prefix_hits.host": [{"name": "x_hits"}]}
    assert Engine.model_validate({**row, "series": good}).engine == "x"
    mistakes: tuple[dict[str, list[dict[str, str]]], ...] = (
        {"runing": [{"name": "x"}]},
        {"prefix_hits": [{"name": "x"}]},
        {"prefix_hits.disk": [{"name": "x"}]},
        {"running.device": [{"name": "x"}]},
        {"running": []},
        {"running": [{"nam": "x"}]},
    )
    for wrong in mistakes:
        with pytest.raises(ValidationError):
            Engine.model_validate({**row, "series": wrong})


def test_every_name_of_the_table_is_its_engines() -> None:
    for row in engines():
        like = next((other.prefix for other in engines() if other.engine == row.like), row.prefix)
        for options in row.series.values():
            for option in options:
                also = [name for name in (option.needs, option.lacks) if name is not None]
                for name in (option.name, *option.plus, *also):
                    assert name.startswith((row.prefix, like))
                    assert not name.endswith(("_total", "_bucket"))
    assert {key.partition(".")[0] for row in engines() for key in row.series} == set(SERIES)
    assert family_options("vllm", "running")[0].name == "vllm:num_requests_running"
    assert family_options("nobody", "running") == ()
