"""Two pull requests that a reader had to find the faults of, rebuilt: the gate finds each of them,
with point, key, old and new, and lets the corrected entry pass.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from audit_repo import LINK, RUNNERS, Repo, errors, new_repo

from inferometer.audit import Audit, Finding

DSPARK = "dsv41flash-fp4-mi355x-vllm-agentic-dspark"
OLD_IMAGE = "vllm/vllm-openai-rocm:nightly-1b5b7f22c8ac6ab0b0d4ac3fa2b4eb4d8b32b9a1"
NEW_IMAGE = "vllm/vllm-openai-rocm:nightly-eed1f3d0c6043bd494424a22443ee198dd56f657"


def flash_master(image: str, end: int) -> str:
    return f"""\
{DSPARK}:
  image: {image}
  model: deepseek-ai/DeepSeek-V4.1-Flash
  model-prefix: dsv41flash
  precision: fp4
  framework: vllm
  runner: cluster:mi355x-amds
  multinode: false
  scenarios:
    agentic-coding:
    - search-space:
      - {{ tp: 4, kv-offloading: none, spec-decoding: mtp, conc-start: 1, conc-end: {end} }}
"""


def flash_recipe(tokens: str, seqs: str, moe: str) -> str:
    """The pair's layer; the capture rule is the same at both sides, what it is made of is not."""
    return f"""\
# DeepSeek-V4.1-Flash on vLLM.
- let:
    step_tokens: "{tokens}"
- argv:
    --max-model-len: 1048576
    --max-num-seqs: "{seqs}"
    --moe-backend: {moe}
    --max-cudagraph-capture-size: "{{clamp(next_pow2(step_tokens), 8, 1024)}}"
"""


FLASH_BASE = {
    "configs/amd-master.yaml": flash_master(OLD_IMAGE, 32),
    "configs/runners.yaml": RUNNERS,
    "configs/recipes/pairs/vllm-dsv41flash.yaml": flash_recipe(
        "{128 * (1 + draft_tokens)}", "{2 * conc}", "auto"
    ),
    "perf-changelog.yaml": f"- config-keys: [{DSPARK}]\n  description: [First recipe]\n"
    "  pr-link: https://github.com/org/project/pull/1\n",
}
FLASH_HEAD = {
    "configs/amd-master.yaml": flash_master(NEW_IMAGE, 128),
    "configs/recipes/pairs/vllm-dsv41flash.yaml": flash_recipe(
        "{conc * (1 + draft_tokens)}", "128", "aiter"
    ),
}
PROSE = f"""
- config-keys: [{DSPARK}]
  scenario-type: [agentic-coding]
  description:
    - "Switch the MoE backend to aiter: whole step -8.7 % at concurrency 16."
  pr-link: https://github.com/org/project/pull/3068
"""


@pytest.fixture
def flash(tmp_path: Path) -> Repo:
    """Base, and a head whose entry tells of the MoE backend alone."""
    repo = new_repo(tmp_path / "flash")
    repo.commit("base", FLASH_BASE)
    record = FLASH_BASE["perf-changelog.yaml"] + PROSE
    repo.commit("head", FLASH_HEAD | {"perf-changelog.yaml": record})
    return repo


def keyed(findings: list[Finding]) -> dict[str | None, Finding]:
    return {finding.key: finding for finding in findings}


def test_what_the_entry_left_out_is_found(flash: Repo) -> None:
    audit = flash.audit()
    assert not audit.passed
    found = keyed(errors(audit))
    assert set(found) == {
        "image",
        "argv.--max-num-seqs",
        "argv.--max-cudagraph-capture-size",
        "ladder",
    }
    assert {finding.rule for finding in found.values()} == {"uncovered"}
    image = found["image"]
    assert (image.old, image.new, len(image.points)) == (OLD_IMAGE, NEW_IMAGE, 6)
    assert (image.file, image.line) == ("configs/amd-master.yaml", 1)
    seqs = found["argv.--max-num-seqs"]
    assert (seqs.old, seqs.new, seqs.points[0]) == ("2", "128", f"{DSPARK}_agentic_tp4_mtp_c1")
    assert seqs.file == "configs/recipes/pairs/vllm-dsv41flash.yaml"
    assert [point.rpartition("_")[2] for point in found["ladder"].points] == ["c64", "c128"]


def test_a_value_that_nobody_edited_is_said_to_be_derived(flash: Repo) -> None:
    capture = next(
        difference
        for difference in flash.audit().comparison.differences
        if difference.key == "argv.--max-cudagraph-capture-size"
    )
    assert capture.derived
    assert capture.follows == ("step_tokens 768 -> 6",)
    first = capture.cases[0]
    assert (first.old, first.new, first.points) == ("1024", "8", (f"{DSPARK}_agentic_tp4_mtp_c1",))
    assert [case.new for case in capture.cases] == ["8", "16", "32", "64", "128", "256"]
    edited = [d for d in flash.audit().comparison.differences if not d.derived]
    assert {d.key for d in edited} == {
        "image",
        "argv.--max-num-seqs",
        "argv.--moe-backend",
        "ladder",
    }


def test_the_drafted_entry_passes_once_why_is_said(flash: Repo) -> None:
    record = {"perf-changelog.yaml": FLASH_BASE["perf-changelog.yaml"]}
    flash.commit("fixed", record | {"changelog.d/moe.yaml": flash.draft()})
    audit = flash.audit(head="fixed")
    assert errors(audit) == []
    assert audit.record.added[0].claims


def test_a_corrected_entry_in_words_passes(flash: Repo) -> None:
    words = PROSE.replace(
        "  pr-link",
        f"""\
    - "Bump the image from {OLD_IMAGE} to {NEW_IMAGE}."
    - "Set --max-num-seqs from 2·CONC to 128; the cudagraph capture size goes from 1,024 to 8 at
      concurrency 1."
    - "将并发扩展到 64 和 128。"
  pr-link""",
    )
    flash.commit("words", {"perf-changelog.yaml": FLASH_BASE["perf-changelog.yaml"] + words})
    assert errors(flash.audit(head="words")) == []


def test_corrected_data_with_one_wrong_value_does_not(flash: Repo) -> None:
    text = flash.draft()
    assert "'{2 * conc}'" in text
    wrong = text.replace("new: 128}", "new: 256}")
    assert wrong != text
    record = {"perf-changelog.yaml": FLASH_BASE["perf-changelog.yaml"]}
    flash.commit("wrong", record | {"changelog.d/moe.yaml": wrong})
    (found,) = errors(flash.audit(head="wrong"))
    assert (found.rule, found.key, found.new) == ("contradicted", "argv.--max-num-seqs", "128")
    assert found.claimed is not None
    assert "256" in found.claimed
    assert found.file == "changelog.d/moe.yaml"


ATOM = "dsv4-fp4-mi355x-atom-agentic-mtp"
ATOM_HEAD = f"""\
{ATOM}:
  image: rocm/atom-dev:nightly_202608201032
  model: deepseek-ai/DeepSeek-V4-Pro
  model-prefix: dsv4
  precision: fp4
  framework: atom
  runner: cluster:mi355x-amds
  multinode: false
  scenarios:
    agentic-coding:
    - search-space:
      - {{ tp: 8, ep: 1, kv-offloading: none, spec-decoding: mtp, conc-list: [1, 2, 4, 8, 16] }}
"""
DEP_ARM = """\
      - { tp: 8, ep: 8, dp-attn: true, kv-offloading: none, spec-decoding: mtp,
          conc-list: [48, 64, 96, 128, 256] }
"""
ATOM_RECIPE = """\
- argv:
    --state-checkpoint-interval-tokens: 8192
"""
DEP_RULE = """
- when: dp_attn
  argv:
    --enable-dp-attention: true
    --all2all-backend: rccl
    --spec-decode-acceptance-length: null
  env:
    ATOM_DP_LB_REQ_EQUIV: 512
"""
ATOM_BASE = {
    "configs/amd-master.yaml": ATOM_HEAD,
    "configs/runners.yaml": RUNNERS,
    "configs/recipes/pairs/atom-dsv4.yaml": ATOM_RECIPE,
    "perf-changelog.yaml": "- config-keys: [first]\n  description: First\n  pr-link: XXX\n",
}
CLAIM = f"""
- config-keys: [{ATOM}]
  scenario-type: [agentic-coding]
  description:
    - "Add a DEP arm at concurrency 48 to 256 with request equivalence 0 and a 32,768-token
      checkpoint interval, and tuned client settings."
  pr-link: https://github.com/org/project/pull/2912
"""


@pytest.fixture
def atom(tmp_path: Path) -> Repo:
    """Base, and a head whose entry claims two values that the recipe does not set."""
    repo = new_repo(tmp_path / "atom")
    repo.commit("base", ATOM_BASE)
    repo.commit(
        "head",
        {
            "configs/amd-master.yaml": ATOM_HEAD + DEP_ARM,
            "configs/recipes/pairs/atom-dsv4.yaml": ATOM_RECIPE + DEP_RULE,
            "perf-changelog.yaml": ATOM_BASE["perf-changelog.yaml"] + CLAIM,
        },
    )
    return repo


def test_values_that_the_text_claims_and_nobody_set_are_found(atom: Repo) -> None:
    found = keyed(errors(atom.audit(), "contradicted"))
    equivalence = found["env.ATOM_DP_LB_REQ_EQUIV"]
    interval = found["argv.--state-checkpoint-interval-tokens"]
    assert (equivalence.claimed, equivalence.new) == ("0", "512")
    assert (interval.claimed, interval.new) == ("32,768", "8192")
    assert len(found) == 2
    arm = [f"{ATOM}_agentic_dep8ep8dpa_mtp_c{conc}" for conc in (48, 64, 96, 128, 256)]
    assert list(equivalence.points) == arm
    assert (interval.file, interval.line) == ("perf-changelog.yaml", 8)


def test_a_curve_of_two_acceptance_modes_breaks_the_policy(atom: Repo) -> None:
    found = {finding.rule: finding for finding in errors(atom.audit())}
    assert {"policy/synthetic-acceptance", "policy/one-acceptance-mode"} <= set(found)
    assert len(found["policy/one-acceptance-mode"].points) == 5


def test_the_corrected_text_and_recipe_pass(atom: Repo) -> None:
    told = CLAIM.replace("equivalence 0", "equivalence 512").replace("32,768", "8,192")
    record = {"perf-changelog.yaml": ATOM_BASE["perf-changelog.yaml"] + told}
    atom.commit("told", record)
    assert {finding.rule for finding in errors(atom.audit(head="told"))} == {
        "policy/synthetic-acceptance",
        "policy/one-acceptance-mode",
    }
    pinned = DEP_RULE.replace("    --spec-decode-acceptance-length: null\n", "")
    recipe = {"configs/recipes/pairs/atom-dsv4.yaml": ATOM_RECIPE + pinned}
    atom.commit("pinned", recipe)
    assert errors(atom.audit(head="pinned")) == []


def test_the_same_claims_as_data_are_found_and_mended(atom: Repo) -> None:
    entry = f"""\
config-keys: [{ATOM}]
scenarios: [agentic]
description: A DEP arm for high concurrency.
link: {LINK}
changes:
- added
- {{ key: ATOM_DP_LB_REQ_EQUIV, new: 0 }}
- {{ key: --state-checkpoint-interval-tokens, new: 32768 }}
"""
    record = {"perf-changelog.yaml": ATOM_BASE["perf-changelog.yaml"]}
    atom.commit("data", record | {"changelog.d/dep.yaml": entry})
    found = errors(atom.audit(head="data"), "contradicted")
    assert [(f.key, f.new, f.claimed, f.line) for f in found] == [
        ("env.ATOM_DP_LB_REQ_EQUIV", "512", "0", 7),
        ("argv.--state-checkpoint-interval-tokens", "8192", "32768", 8),
    ]
    mended = entry.replace("new: 0 ", "new: 512 ").replace("32768", "8192")
    atom.commit("mended", {"changelog.d/dep.yaml": mended})
    rules = {finding.rule for finding in errors(atom.audit(head="mended"))}
    assert all(rule.startswith("policy/") for rule in rules)


FLASH_TEXTS = (
    "Switch the MoE backend to aiter.",
    f"Bump the image from {OLD_IMAGE} to {NEW_IMAGE}.",
    "Set --max-num-seqs from 2·CONC to 128.",
    "The cudagraph capture size goes from 1,024 to 8 at concurrency 1.",
    "将并发扩展到 64 和 128。",
)
FLASH_KEYS = (
    "argv.--moe-backend",
    "image",
    "argv.--max-num-seqs",
    "argv.--max-cudagraph-capture-size",
    "ladder",
)


def flash_says(flash: Repo, *texts: str) -> list[Finding]:
    told = "".join(f"    - {json.dumps(text, ensure_ascii=False)}\n" for text in texts)
    entry = PROSE.partition("    - ")[0] + told + "  pr-link: https://e.org/pull/3068\n"
    flash.commit("says", {"perf-changelog.yaml": FLASH_BASE["perf-changelog.yaml"] + entry})
    return errors(flash.audit(head="says"))


@pytest.mark.parametrize("left_out", range(5))
def test_a_part_of_the_correction_does_not_pass(flash: Repo, left_out: int) -> None:
    texts = [text for index, text in enumerate(FLASH_TEXTS) if index != left_out]
    (found,) = flash_says(flash, *texts)
    assert (found.rule, found.key) == ("uncovered", FLASH_KEYS[left_out])
    assert found.points
    assert (found.old, found.new) != (None, None)


@pytest.mark.parametrize(
    ("index", "text", "claimed"),
    [
        (0, "Switch the MoE backend from auto to triton.", "auto -> triton"),
        (0, "将 MoE backend 从 auto 改为 triton。", "auto -> triton"),
        (0, "Set `--moe-backend triton` everywhere.", "triton"),
        (1, f"Bump the image to {OLD_IMAGE}.", OLD_IMAGE),
        (2, "Set --max-num-seqs from 2·CONC to 256.", "2·CONC -> 256"),
        (2, "--max-num-seqs 从 2·CONC 改为 256。", "2·CONC -> 256"),
        (2, "Set --max-num-seqs from 4·CONC to 128.", "4·CONC -> 128"),
        (2, "--max-num-seqs is now 1,280.", "1,280"),
        (2, "--max-num-seqs（256）。", "256"),
        (3, "The graph capture size goes from 2,048 to 8.", "2,048 -> 8"),
        (3, "图捕获大小 1,024 → 7。", "1,024 -> 7"),
        (4, "Extend concurrency to 64 and 256.", "256"),
        (4, "将并发扩展到 64、128 和 512。", "512"),
    ],
)
def test_a_wrong_value_in_either_language_is_found(
    flash: Repo, index: int, text: str, claimed: str
) -> None:
    texts = list(FLASH_TEXTS)
    texts[index] = text
    found = [each for each in flash_says(flash, *texts) if each.rule == "contradicted"]
    assert [(each.key, each.claimed) for each in found] == [(FLASH_KEYS[index], claimed)]
    assert found[0].line == 8 + index
    assert found[0].points


@pytest.mark.parametrize(
    "text",
    [
        "request equivalence 512 and a 8,192-token checkpoint interval",
        "ATOM_DP_LB_REQ_EQUIV=512, state checkpoint interval of 8k tokens",
        "检查点间隔为 8,192，请求等价为 512",
        "将 ATOM_DP_LB_REQ_EQUIV 设为 512，检查点间隔改为 8 192",
        "checkpoint interval 8_192; `ATOM_DP_LB_REQ_EQUIV 512`",
    ],
)
def test_true_values_pass_however_they_are_written(atom: Repo, text: str) -> None:
    assert errors(atom_says(atom, text), "contradicted") == []


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("request equivalence 0 and a 8,192-token checkpoint interval", {"equiv"}),
        ("request equivalence 512 and a 32k checkpoint interval", {"interval"}),
        ("检查点间隔为 32,768，请求等价为 0", {"equiv", "interval"}),
        ("将 ATOM_DP_LB_REQ_EQUIV 设为 0，检查点间隔改为 32 768", {"equiv", "interval"}),
        ("ATOM_DP_LB_REQ_EQUIV=0 and --state-checkpoint-interval-tokens=8192", {"equiv"}),
    ],
)
def test_wrong_values_fail_however_they_are_written(atom: Repo, text: str, keys: set[str]) -> None:
    names = {
        "equiv": "env.ATOM_DP_LB_REQ_EQUIV",
        "interval": "argv.--state-checkpoint-interval-tokens",
    }
    found = errors(atom_says(atom, text), "contradicted")
    assert {each.key for each in found} == {names[key] for key in keys}


def atom_says(atom: Repo, text: str) -> Audit:
    told = CLAIM.replace(
        """request equivalence 0 and a 32,768-token
      checkpoint interval, and tuned client settings.""",
        text,
    )
    assert text in told
    record = {"perf-changelog.yaml": ATOM_BASE["perf-changelog.yaml"] + told}
    atom.commit("says", record)
    return atom.audit(head="says")
