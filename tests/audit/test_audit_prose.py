"""Values in sentences: found beside their names, in two languages, and never invented."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer.audit.names import Vocabulary, meant
from inferometer.audit.prose import concurrencies, numbers_of, read_text, same_value

KEYS = (
    "image",
    "argv.--max-num-seqs",
    "argv.--state-checkpoint-interval-tokens",
    "argv.--max-cudagraph-capture-size",
    "argv.--moe-backend",
    "argv.--speculative-config.num_speculative_tokens",
    "argv.--gpu-memory-utilization",
    "argv.--hicache-ratio",
    "argv.--mem-fraction-static",
    "env.ATOM_DP_LB_REQ_EQUIV",
    "env.VLLM_ROCM_USE_AITER_MOE",
    "workload.warmup_grace_s",
)
WORDS = Vocabulary(KEYS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("request equivalence 0", {"env.ATOM_DP_LB_REQ_EQUIV": (None, "0")}),
        (
            "a 32,768-token checkpoint interval",
            {"argv.--state-checkpoint-interval-tokens": (None, "32,768")},
        ),
        ("将 MAX_NUM_SEQS 从 2·CONC 改为 128。", {"argv.--max-num-seqs": ("2·CONC", "128")}),
        ("镜像从 v0.5.11 升级到 v0.5.12", {"image": ("v0.5.11", "v0.5.12")}),
        ("gpu-memory-utilization 0.85 -> 0.9,", {"argv.--gpu-memory-utilization": ("0.85", "0.9")}),
        ("0.85→0.9 gpu-memory-utilization", {"argv.--gpu-memory-utilization": ("0.85", "0.9")}),
        (
            "Increase mem_fraction_static from 0.72 to 0.85 and reduce HICACHE_RATIO from 4 to 3.",
            {"argv.--mem-fraction-static": ("0.72", "0.85"), "argv.--hicache-ratio": ("4", "3")},
        ),
        (
            "Bump the image from lmsysorg/sglang:v0.5.17-cu130 to lmsysorg/sglang:v0.5.18.",
            {"image": ("lmsysorg/sglang:v0.5.17-cu130", "lmsysorg/sglang:v0.5.18")},
        ),
        ("`ATOM_DP_LB_REQ_EQUIV=512`", {"env.ATOM_DP_LB_REQ_EQUIV": (None, "512")}),
        (
            "the graph capture size goes from 1,024 to 8",
            {"argv.--max-cudagraph-capture-size": ("1,024", "8")},
        ),
        (
            "num_speculative_tokens: 2",
            {"argv.--speculative-config.num_speculative_tokens": (None, "2")},
        ),
        ("gpu memory utilization of 90 %", {"argv.--gpu-memory-utilization": (None, "90 %")}),
        ("warmup grace 60 min", {"workload.warmup_grace_s": (None, "60 min")}),
        ("检查点间隔为 32,768", {"argv.--state-checkpoint-interval-tokens": (None, "32,768")}),
        ("请求等价为 0。", {"env.ATOM_DP_LB_REQ_EQUIV": (None, "0")}),
        ("MoE backend from auto to aiter", {"argv.--moe-backend": ("auto", "aiter")}),
        ("Switch the MoE backend; whole step -8.7 % (2.72 to 2.30 ms)", {}),
        ("Warm-up requests take longer; 3 of 4 hosts agree", {}),
        ("", {}),
    ],
)
def test_what_a_sentence_says(text: str, said: dict[str, tuple[str | None, str]]) -> None:
    found = {s.mention.keys[0]: (s.old, s.new) for s in read_text(text, WORDS).said}
    assert found == said


def test_a_name_alone_is_a_mention() -> None:
    reading = read_text("Switch the MoE backend and drop the request-equivalence weight", WORDS)
    assert [m.keys for m in reading.mentions] == [
        ("argv.--moe-backend",),
        ("env.ATOM_DP_LB_REQ_EQUIV",),
    ]


def test_what_has_no_name_is_handed_back() -> None:
    assert read_text("Set FOO_BAR=7 and x from 1 to 2", WORDS).unplaced == (
        "FOO_BAR=7",
        "from 1 to 2",
    )


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Extend concurrency to 128", {128}),
        ("Add concurrency 48 and 64 to the TP8 sweep", {48, 64}),
        ("concurrencies 4, 24, 388, 736, 1152, and 2626.", {4, 24, 388, 736, 1152, 2626}),
        ("conc=48 across TP8", {48}),
        ("将并发扩展到 64 和 128。", {64, 128}),
        ("conc 64/128", {64, 128}),
        ("TP8 only", set()),
    ],
)
def test_concurrencies_of_a_text(text: str, numbers: set[int]) -> None:
    assert concurrencies(text) == numbers


@pytest.mark.parametrize(
    ("claimed", "resolved", "same"),
    [
        ("1,024", "1024", True),
        ("0.90", "0.9", True),
        ("32K", "32768", True),
        ("32K", "32000", True),
        ("32K", "8192", False),
        ("0", "512", False),
        ("v0.22.0", "vllm/vllm-openai:v0.22.0", True),
        ("0.22.0", "vllm/vllm-openai:v0.22.0", True),
        ("v0.2", "vllm/vllm-openai:v0.22.0", False),
        ("on", "true", True),
        ("8", None, False),
        ("90 %", "0.9", True),
        ("90%", "0.9", True),
        ("95 %", "0.9", False),
        ("32 768", "32768", True),
        ("32_768", "32768", True),
        ("3600s", "3600", True),
        ("60 min", "3600", True),
        ("1 小时", "3600", True),
        ("1.5x", "1.5", True),
    ],
)
def test_equal_values(claimed: str, resolved: str | None, same: bool) -> None:
    assert same_value(claimed, resolved) is same


@given(st.integers(0, 10**12))
def test_separators_do_not_change_a_number(number: int) -> None:
    assert numbers_of(f"{number:,}") == numbers_of(str(number)) == {float(number)}


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    reading = read_text(text, WORDS)
    assert all(0 <= said.start <= said.end <= len(text) for said in reading.said)


@pytest.mark.parametrize(
    "part", ["from 1 to ", "a_b=1 ", "image ", "--x 1 -> ", "'", "1,", "a-" * 9]
)
def test_no_text_takes_long(part: str) -> None:
    # Of the largest text that an entry may hold. Squared in its length this would take minutes.
    reading = read_text(part * (20_000 // len(part)), WORDS)
    assert len(reading.said) <= 20_000


def test_names_of_entries() -> None:
    assert meant("--max-num-seqs", KEYS) == ("argv.--max-num-seqs",)
    assert meant("max_num_seqs", KEYS) == ("argv.--max-num-seqs",)
    assert meant("req-equiv", KEYS) == ()
    assert meant("num_speculative_tokens", KEYS) == (KEYS[5],)
    assert len(meant("x", ("argv.--x", "env.X"))) == 2
