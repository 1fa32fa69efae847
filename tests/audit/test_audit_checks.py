"""Policy, InferenceX's own rules, what to measure, and what GitHub is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_repo import LINK, MASTER, RUNNERS, Repo, errors, new_repo

from inferometer.audit import Asked, annotated, comment, examine
from inferometer.audit.compat import check_bytes, select
from inferometer.audit.stale import Wanted, one_an_arm
from inferometer.audit.tree import folder_tree
from inferometer.errors import InputError

OLD = f"- config-keys:\n    - qwen-h200\n  description:\n    - First\n  pr-link: {LINK}\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = new_repo(tmp_path / "repo")
    files = {"configs/master.yaml": MASTER, "configs/runners.yaml": RUNNERS}
    made.commit("base", files | {"perf-changelog.yaml": OLD})
    return made


def policy_rules(repo: Repo, head: str = "head") -> dict[str, str]:
    """Rule to level of every finding of the policy."""
    found = repo.audit(head=head).findings
    return {f.rule.removeprefix("policy/"): f.level for f in found if f.rule.startswith("policy")}


def test_a_placeholder_image_is_refused_where_it_comes(repo: Repo) -> None:
    repo.commit("head", {"configs/master.yaml": MASTER.replace("v0.26.0", "nightly-TBD")})
    assert policy_rules(repo) == {"no-placeholder-image": "error"}
    repo.commit("later", {"configs/recipes/site.yaml": "- workload: { seed: 1 }\n"})
    audit = repo.audit("head", "head")
    assert [(f.rule, f.level) for f in audit.findings] == [("policy/no-placeholder-image", "note")]


def test_the_list_of_a_project_changes_and_adds_checks(repo: Repo) -> None:
    own = """\
- { name: no-placeholder-image, level: "off" }
- { name: no-eager, what: eager is slow, forbid: { "argv.--enforce-eager": ["*"] } }
- { name: same-seed, equal: ["workload.seed", "env.SEED"] }
- { name: has-cap, when: conc > 4, require: ["argv.--max-num-seqs"], level: warning }
"""
    recipe = "- when: tp == 8\n  argv: { --enforce-eager: true }\n  env: { SEED: 7 }\n"
    files = {"audit-policy.yaml": own, "configs/recipes/site.yaml": recipe}
    image = MASTER.replace("v0.26.0", "nightly-TBD")
    repo.commit("head", files | {"configs/master.yaml": image})
    assert policy_rules(repo) == {"no-eager": "error", "same-seed": "error", "has-cap": "warning"}


def test_a_change_does_not_lift_a_rule_for_itself(repo: Repo) -> None:
    repo.commit("strict", {"audit-policy.yaml": "[]\n"})
    lifted = '- { name: no-placeholder-image, level: "off" }\n'
    image = MASTER.replace("v0.26.0", "nightly-TBD")
    repo.commit("head", {"audit-policy.yaml": lifted, "configs/master.yaml": image})
    audit = repo.audit("strict")
    assert {f.rule for f in errors(audit)} == {"policy/no-placeholder-image", "uncovered"}
    assert "policy" in {f.rule for f in audit.findings}


@pytest.mark.parametrize(
    "text",
    [
        "- { name: x }\n",
        "- { name: x, require: [a], forbid: { a: [b] } }\n",
        "- { name: x, require: [a], when: conc.real }\n",
        "- { name: x, requires: [a] }\n",
        "- x\n",
    ],
)
def test_a_faulty_check_is_input(repo: Repo, text: str) -> None:
    repo.commit("head", {"audit-policy.yaml": text})
    with pytest.raises(InputError, match=r"audit-policy\.yaml:1"):
        repo.audit()


def test_power_is_asked_of_the_results_of_listed_keys(repo: Repo) -> None:
    own = '- { name: power-required, keys: ["qwen-*"] }\n'
    repo.commit("head", {"audit-policy.yaml": own})
    # Nothing is to be measured: nothing is to be told.
    assert policy_rules(repo) == {}
    repo.commit("newer", {"configs/master.yaml": MASTER.replace("v0.26.0", "v0.27.0")})
    notes = [
        f.message for f in repo.audit(head="newer").findings if f.rule == "policy/power-required"
    ]
    assert notes == ["power-required: not checked, since no store is given (--store)"]


COMPAT = Asked(inferencex=True)


@pytest.mark.parametrize(
    ("raw", "rules"),
    [
        (OLD.encode(), set()),
        (OLD.encode() + b"\n" + OLD.encode(), set()),
        (OLD.encode() + OLD.encode(), {"compat/blank-line"}),
        (OLD.encode() + b"  \n" + OLD.encode(), {"compat/blank-line"}),
        (OLD.encode().replace(b"\n", b"\r\n"), {"compat/lf"}),
        (OLD.encode().replace(b"First", b"Fi\trst"), {"compat/lf", "compat/append"}),
        (OLD.encode()[:-1], {"compat/final-newline"}),
        (OLD.encode() + b"\n", {"compat/final-newline"}),
        (OLD.encode().replace(b"First", b"F\xffrst"), {"compat/utf-8", "compat/yaml"}),
        (OLD.encode().replace(b"pull/7", b"pull/8"), set()),
        (OLD.encode().replace(b"First", b"Second"), {"compat/append"}),
        (OLD.encode() + b"  pr-link: x\n", {"compat/unique-keys"}),
        (OLD.encode().replace(b"  pr", b"  why: x\n  pr"), {"compat/field", "compat/append"}),
        (OLD.encode().replace(b"pull/7", b"pull/7/files"), {"compat/link"}),
    ],
)
def test_the_bytes_of_the_list(repo: Repo, raw: bytes, rules: set[str]) -> None:
    (repo.path / "perf-changelog.yaml").write_bytes(raw)
    repo.git("config", "core.autocrlf", "false")
    repo.commit("head", {})
    found = repo.audit(asked=COMPAT)
    compat = {f.rule for f in found.findings if f.rule.startswith("compat/") and f.level == "error"}
    assert rules <= compat
    if not rules:
        assert compat == set()


def test_an_entry_selects_once_and_trims_to_the_lowest(repo: Repo) -> None:
    second = OLD.replace("First", "Second")
    repo.commit("head", {"perf-changelog.yaml": f"{OLD}\n{second}\n{second}"})
    audit = repo.audit(asked=COMPAT)
    first, again = audit.selected or ()
    assert [name.rpartition("_")[2] for name in first.points] == ["c4", "c8", "c16", "c1", "c2"]
    assert [name.rpartition("_")[2] for name in first.trimmed] == ["c4", "c1"]
    assert again.points == ()
    assert select(audit.record.added, audit.comparison) == audit.selected


def test_append_only_only_appends(repo: Repo) -> None:
    entry = OLD.replace("First", "Add concurrency 32") + "  append-only: true\n"
    more = MASTER.replace("[4, 8, 16]", "[4, 8, 16, 32]")
    repo.commit("head", {"perf-changelog.yaml": f"{OLD}\n{entry}", "configs/master.yaml": more})
    audit = repo.audit(asked=COMPAT)
    assert errors(audit) == []
    assert [each.points for each in audit.selected or ()] == [("qwen-h200_8k1k_tp4_c32",)]
    repo.commit(
        "less", {"configs/master.yaml": more.replace("[4, 8,", "[8,").replace(".26", ".27")}
    )
    found = errors(repo.audit(head="less", asked=COMPAT), "compat/append-only")
    assert len(found) == 2


def test_the_real_list_is_of_the_form(shared_data: Path, tmp_path: Path) -> None:
    real = shared_data / "inferencex"
    (tmp_path / "base").mkdir()
    for name in ("amd-master.yaml", "nvidia-master.yaml", "runners.yaml"):
        (tmp_path / "base" / name).write_bytes((real / name).read_bytes())
    audit = examine(folder_tree(tmp_path / "base"), folder_tree(real), COMPAT)
    assert len(audit.record.added) == 772
    assert [f for f in audit.findings if f.rule == "syntax"] == []
    counts: dict[str, int] = {}
    for finding in check_bytes(audit.comparison.base, audit.comparison.head):
        counts[finding.rule] = counts.get(finding.rule, 0) + 1
    # Twenty of a rule are listed, then how many more.
    assert counts == {"compat/blank-line": 21, "compat/link": 1, "compat/old-key": 21}
    again = examine(folder_tree(real), folder_tree(real), COMPAT)
    assert again.record.added == ()
    assert {f.rule for f in errors(again)} == {"compat/blank-line", "compat/link"}


def test_one_point_an_arm() -> None:
    wanted = [Wanted(f"{arm}_c{conc}", f"{arm}{conc}", "") for arm in "ab" for conc in (8, 4, 16)]
    arms = {each.name: (each.name[0], int(each.name[3:])) for each in wanted}
    assert [each.name for each in one_an_arm(wanted, arms)] == ["a_c4", "b_c4"]


HOSTILE = "evil:1%0A::error::x\u202e @all <img src=x> | `x` [a](https://e.org) ::warning::"


@pytest.fixture
def hostile(repo: Repo) -> Repo:
    """An image and a file name that mean to be markup and commands."""
    image = MASTER.replace("vllm/vllm-openai:v0.26.0", f'"{HOSTILE}\\n::error::y"')
    repo.commit(
        "head",
        {"configs/master.yaml": image, "configs/recipes/a,b::error x%.yaml": "- env: { A: 1 }\n"},
    )
    return repo


def test_an_annotation_is_one_line_and_one_command(hostile: Repo) -> None:
    audit = hostile.audit()
    assert errors(audit)
    for line in annotated(audit.findings):
        assert line.startswith("::")
        assert "\n" not in line
        assert "\u202e" not in line
        command, properties, data = line[2:].split("::", 2)[0], line, line
        assert command.split(" ")[0] in {"error", "warning", "notice"}
        head = properties.removeprefix("::").partition("::")[0]
        assert head.count("file=") <= 1
        assert "%0A::" not in data.replace("%250A", "")


def test_a_comment_is_inert(hostile: Repo) -> None:
    body = comment(hostile.audit())
    rows = [line for line in body.splitlines() if line.startswith("| <code>")]
    assert rows
    for line in rows:
        outside = line.replace("<code>", "").replace("</code>", "").replace(" | ", "").strip("| ")
        assert not set(outside) & set("<>@[]`*_!:/\u202e"), line
    assert not any(line.startswith("::") for line in body.splitlines())
