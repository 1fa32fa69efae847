"""The record only grows, entries have one form, and each rule says no when it should."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from audit_repo import LINK, MASTER, RUNNERS, Repo, errors, new_repo

from inferometer.audit import Asked, Rules
from inferometer.errors import InputError

ENTRY = f"""\
config-keys: [qwen-h200]
scenarios: [fixed-seq-len]
description: A newer image.
link: {LINK}
changes:
- {{ key: image, old: "vllm/vllm-openai:v0.26.0", new: "vllm/vllm-openai:v0.27.0" }}
"""
NEWER = MASTER.replace("v0.26.0", "v0.27.0")
OLD = f"- config-keys: [qwen-*]\n  description: [First]\n  pr-link: {LINK}\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = new_repo(tmp_path / "repo")
    made.commit(
        "base",
        {
            "configs/master.yaml": MASTER,
            "configs/runners.yaml": RUNNERS,
            "changelog.d/first.yaml": ENTRY,
            "perf-changelog.yaml": OLD,
        },
    )
    return made


def rules(repo: Repo, files: dict[str, str | None], asked: Asked | None = None) -> list[str]:
    """Names of the rules that say no of a head."""
    repo.commit("head", files)
    return [finding.rule for finding in errors(repo.audit(asked=asked))]


def test_a_true_entry_passes(repo: Repo) -> None:
    assert rules(repo, {"configs/master.yaml": NEWER, "changelog.d/second.yaml": ENTRY}) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("v0.27.0", "v0.28.0", "contradicted"),
        ("v0.26.0", "v0.25.0", "contradicted"),
        ("key: image", "key: --max-num-seqs", "no-difference"),
        ("key: image", "key: --port", "no-difference"),
        ("[qwen-h200]", "[qwen-h200, qwen-h201]", "unknown-config"),
        ("A newer image.", "TODO", "placeholder"),
        (f"link: {LINK}\n", "", "link"),
        (f"link: {LINK}", "link: see chat", "link"),
        (f"link: {LINK}", "link: https://github.com/org/project/pull/XXX", "placeholder"),
        ("config-keys", "config-key", "syntax"),
        ("changes:\n", "changes:\n- ladder up\n", "syntax"),
        ("changes:\n", "changes:\n- ladder +64\n", "no-difference"),
        ("changes:\n", "changes:\n- removed\n", "no-difference"),
        ("changes:\n", "changes:\n- { key: image }\n", "syntax"),
        ("[fixed-seq-len]", "[agentic]", "no-difference"),
    ],
)
def test_an_entry_that_is_not_so(repo: Repo, old: str, new: str, rule: str) -> None:
    assert old in ENTRY
    entry = ENTRY.replace(old, new)
    found = rules(repo, {"configs/master.yaml": NEWER, "changelog.d/second.yaml": entry})
    assert rule in found


def test_a_difference_without_an_entry(repo: Repo) -> None:
    assert rules(repo, {"configs/master.yaml": NEWER}) == ["uncovered"]


def test_an_entry_for_half_of_the_points_leaves_the_others(repo: Repo) -> None:
    entry = ENTRY.replace('v0.27.0" }', 'v0.27.0", conc: [4, 8] }')
    repo.commit("head", {"configs/master.yaml": NEWER, "changelog.d/second.yaml": entry})
    (found,) = errors(repo.audit())
    assert found.rule == "uncovered"
    assert [point.rpartition("_")[2] for point in found.points] == ["c16", "c1", "c2"]


def test_a_config_without_a_difference_is_only_measured_again(repo: Repo) -> None:
    entry = ENTRY.partition("changes:")[0]
    assert rules(repo, {"changelog.d/second.yaml": entry}) == ["no-difference"]
    repo.commit("again", {"changelog.d/second.yaml": f"{entry}re-measure: true\n"})
    audit = repo.audit(head="again")
    assert errors(audit) == []
    assert [wanted.name.rpartition("_")[2] for wanted in audit.to_measure] == ["c4", "c1"]


@pytest.mark.parametrize(
    "files",
    [
        {"changelog.d/first.yaml": ENTRY.replace("newer", "better")},
        {"changelog.d/first.yaml": None},
        {"perf-changelog.yaml": OLD.replace("First", "Second")},
        {"perf-changelog.yaml": None},
    ],
)
def test_the_record_is_never_rewritten(repo: Repo, files: dict[str, str | None]) -> None:
    assert "rewritten" in rules(repo, files)


def test_the_list_may_grow_and_its_form_may_not_break(repo: Repo) -> None:
    more = OLD.replace("[First]", "[Image from v0.26.0 to v0.27.0]").replace("qwen-*", "qwen-h200")
    assert rules(repo, {"configs/master.yaml": NEWER, "perf-changelog.yaml": OLD + more}) == []
    repo.commit("twice", {"perf-changelog.yaml": OLD + more + "  pr-link: again\n"})
    assert [finding.rule for finding in errors(repo.audit(head="twice"))] == ["syntax", "link"]


def test_open_work_may_hold_placeholders(repo: Repo) -> None:
    entry = ENTRY.replace("A newer image.", "TODO").replace(f"link: {LINK}\n", "")
    files: dict[str, str | None] = {"configs/master.yaml": NEWER, "changelog.d/second.yaml": entry}
    assert rules(repo, files) == ["link", "placeholder"]
    repo.commit("open", {})
    assert errors(repo.audit(head="open", asked=Asked(rules=Rules(open=True)))) == []


def test_an_arm_and_a_config_that_come_and_go(repo: Repo) -> None:
    arm = MASTER.replace("      - { tp: 8, conc-list: [1, 2] }\n", "")
    assert rules(repo, {"configs/master.yaml": arm}) == ["uncovered"]
    entry = ENTRY.partition("changes:")[0]
    repo.commit("gone", {"changelog.d/second.yaml": f"{entry}changes: [removed]\n"})
    assert errors(repo.audit(head="gone")) == []
    repo.commit("not", {"changelog.d/second.yaml": f"{entry}changes: [added]\n"})
    assert {f.rule for f in errors(repo.audit(head="not"))} == {"no-difference", "uncovered"}
    other = MASTER + MASTER.replace("qwen-h200", "qwen-other")
    named = f"{entry}changes: [added]\n".replace("qwen-h200", "qwen-other")
    repo.commit("new", {"configs/master.yaml": other, "changelog.d/second.yaml": named})
    assert errors(repo.audit(head="new")) == []


def test_a_point_that_no_longer_resolves_is_an_error(repo: Repo) -> None:
    recipe = "- when: conc > 8\n  refuse: too many\n"
    repo.commit("head", {"configs/recipes/site.yaml": recipe})
    found = {finding.rule: finding for finding in errors(repo.audit())}
    assert found["unresolved"].points == ("qwen-h200_8k1k_tp4_c16",)
    assert found["unresolved"].file == "configs/recipes/site.yaml"
    assert "too many" in found["unresolved"].message
    assert found["uncovered"].key == "launch"


def test_a_router_of_another_version_is_a_value_not_an_arm(repo: Repo) -> None:
    routed = MASTER.replace("tp: 4,", 'tp: 4, router: { name: r, version: "1" },')
    repo.commit("one", {"configs/master.yaml": routed})
    repo.commit("two", {"configs/master.yaml": routed.replace('version: "1"', 'version: "2"')})
    audit = repo.audit("one", "two")
    (difference,) = audit.comparison.differences
    assert (difference.kind, difference.cases[0].old, difference.cases[0].new) == (
        "value",
        "1",
        "2",
    )
    assert difference.key.endswith("router.version")
    assert len(audit.comparison.renamed) == 3
    assert audit.comparison.added == audit.comparison.removed == ()


def test_a_renamed_config_is_the_same_experiment(repo: Repo) -> None:
    repo.commit("head", {"configs/master.yaml": MASTER.replace("qwen-h200", "qwen-renamed")})
    (difference,) = repo.audit().comparison.differences
    assert (difference.key, difference.cases[0].old) == ("config", "qwen-h200")


def test_other_session_data_is_another_experiment(repo: Repo) -> None:
    recipe = "- workload: { sessions: traces }\n"
    repo.commit("one", {"configs/recipes/site.yaml": recipe, "traces/a.json": "{}"})
    repo.commit("two", {"traces/a.json": "[]"})
    (difference,) = repo.audit("one", "two").comparison.differences
    assert difference.key == "workload.sessions_digest"
    assert len(difference.points) == 5


def test_layers_and_readers_of_the_package_are_those_of_the_revision(tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "own")
    package = "src/inferometer/plan"
    defaults = Path(__file__).parents[2] / "src/inferometer/plan/recipes"
    files = {
        f"{package}/recipes/{path.relative_to(defaults)}": path.read_text()
        for path in sorted(defaults.rglob("*.yaml"))
    }
    files |= {"conf/master.yaml": MASTER, "runners.yaml": RUNNERS, f"{package}/derivations.py": "1"}
    repo.commit("base", files)
    edited = files[f"{package}/recipes/defaults.yaml"].replace("seed: 42", "seed: 43")
    repo.commit(
        "head", {f"{package}/recipes/defaults.yaml": edited, f"{package}/derivations.py": "2"}
    )
    audit = repo.audit()
    (difference,) = audit.comparison.differences
    assert (difference.key, difference.file) == (
        "workload.seed",
        f"{package}/recipes/defaults.yaml",
    )
    assert "code" in {finding.rule for finding in audit.findings}


def test_a_side_that_cannot_be_read_names_itself(repo: Repo) -> None:
    repo.commit("head", {"configs/master.yaml": MASTER.replace("tp: 8", "tp: none")})
    with pytest.raises(InputError, match=r"^configs/master\.yaml:\d+"):
        repo.audit()
    with pytest.raises(InputError, match=r"^head:configs/master\.yaml:\d+"):
        repo.audit("head", "base")


TWO = MASTER + MASTER.replace("qwen-h200", "qwen-other").replace("v0.26.0", "v0.20.0")


def changes_of(repo: Repo, head: str) -> list[object]:
    """The changes that a draft for the head writes, which then pass."""
    repo.commit("next", {"configs/master.yaml": head})
    drafted = repo.draft("two", "next")
    repo.commit("said", {"changelog.d/drafted.yaml": drafted})
    assert errors(repo.audit("two", "said")) == []
    found: list[object] = yaml.safe_load(drafted)["changes"]
    return found


def test_a_draft_names_no_rung_where_whole_ladders_move(repo: Repo) -> None:
    repo.commit("two", {"configs/master.yaml": TWO})
    head = TWO.replace("v0.26.0", "v0.27.0").replace("v0.20.0", "v0.21.0")
    head = head.replace("[4, 8, 16]", "[4, 8, 16, 32]")
    image = "vllm/vllm-openai:v0."
    assert changes_of(repo, head) == [
        {
            "key": "image",
            "old": f"{image}{old}.0",
            "new": f"{image}{new}.0",
            "points": [f"{config}_*"],
        }
        for config, old, new in (("qwen-h200", 26, 27), ("qwen-other", 20, 21))
    ] + ["ladder +32"]


def test_a_draft_of_one_image_names_nothing(repo: Repo) -> None:
    repo.commit("two", {"configs/master.yaml": TWO})
    (found,) = changes_of(repo, TWO.replace("v0.26.0", "v0.27.0"))
    assert isinstance(found, dict)
    assert set(found) == {"key", "old", "new"}


def test_a_draft_tells_arms_apart(repo: Repo) -> None:
    repo.commit("two", {"configs/master.yaml": TWO})
    site = "- when: tp == 4\n  env: { A: x }\n- when: tp == 8 and conc == 1\n  env: { A: y }\n"
    repo.commit("arms", {"configs/recipes/site.yaml": site})
    found = changes_of(repo, TWO)
    assert [each["points"] for each in found if isinstance(each, dict)] == [
        ["qwen-h200_8k1k_tp4_c*", "qwen-other_8k1k_tp4_c*"],
        ["qwen-h200_8k1k_tp8_c*", "qwen-other_8k1k_tp8_c*"],
    ]
