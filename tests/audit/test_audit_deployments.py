"""Deployments of several roles and files with an engine's settings, audited."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_repo import LINK, RUNNERS, Repo, errors, new_repo

MASTER = """\
duo:
  image: lmsysorg/sglang:v0.5.12
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: sglang
  runner: h200
  multinode: true
  disagg: true
  router: { name: sglang-router, version: "0.3.2" }
  kv-p2p-transfer: nixl
  scenarios:
    fixed-seq-len:
    - isl: 1024
      osl: 1024
      search-space:
      - conc-list: [8, 64]
        prefill: { num-worker: 2, tp: 8, ep: 1, dp-attn: false }
        decode: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
away:
  image: vllm/vllm-openai:v0.26.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: dynamo-vllm
  runner: h200
  multinode: true
  disagg: false
  scenarios:
    fixed-seq-len:
    - isl: 1024
      osl: 1024
      search-space:
      - conc-list: [1]
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false,
          additional-settings: ["CONFIG_FILE=recipes/vllm/away.yaml"] }
        decode: { num-worker: 0, tp: 8, ep: 1, dp-attn: false }
"""
AWAY = "model: { container: 'vllm/vllm-openai:v0.26.0' }\nroles: 1\n"
SITE = """\
- argv: { --watchdog-timeout: 100 }
- when: role == "decode"
  argv: { --max-running-requests: "{2 * conc}" }
"""
FILES: dict[str, str | None] = {
    "configs/master.yaml": MASTER,
    "configs/runners.yaml": RUNNERS,
    "configs/recipes/site.yaml": SITE,
    "configs/recipes/vllm/away.yaml": AWAY,
}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = new_repo(tmp_path / "repo")
    made.commit("base", FILES)
    return made


def edited(repo: Repo, path: str, old: str, new: str) -> None:
    text = FILES[path] or ""
    assert old in text
    repo.commit("head", {path: text.replace(old, new)})


def entry(changes: str) -> str:
    return f"""\
config-keys: ["*"]
description: it hangs less
link: {LINK}
changes: [{changes}]
"""


def test_one_rule_at_all_launches_is_one_line(repo: Repo) -> None:
    edited(repo, "configs/recipes/site.yaml", "100", "200")
    audit = repo.audit()
    (found,) = audit.comparison.differences
    assert found.key == "prefill_0.argv.--watchdog-timeout"
    assert [(case.old, case.new, len(case.points)) for case in found.cases] == [("100", "200", 2)]
    also = {"prefill_1.argv.--watchdog-timeout", "decode_0.argv.--watchdog-timeout"}
    assert set(found.also) == also
    assert found.file == "configs/recipes/site.yaml"


def test_a_role_of_its_own_is_told_by_its_name(repo: Repo) -> None:
    edited(repo, "configs/recipes/site.yaml", "2 * conc", "3 * conc")
    (found,) = repo.audit().comparison.differences
    assert found.key == "decode_0.argv.--max-running-requests"
    assert [(case.old, case.new) for case in found.cases] == [("16", "24"), ("128", "192")]


@pytest.mark.parametrize("key", ["--watchdog-timeout", "decode_0.argv.--watchdog-timeout"])
def test_a_flag_of_several_launches_is_claimed_once(repo: Repo, key: str) -> None:
    change = f"{{ key: {key}, old: 100, new: 200 }}"
    site = SITE.replace("100", "200")
    named = {"configs/recipes/site.yaml": site, "changelog.d/a.yaml": entry(change)}
    repo.commit("head", named)
    assert errors(repo.audit()) == []
    wrong = entry(change.replace("200", "300"))
    repo.commit("wrong", {"changelog.d/a.yaml": wrong})
    (found,) = errors(repo.audit(head="wrong"))
    assert (found.rule, found.old, found.new) == ("contradicted", "100", "200")


def test_a_router_is_the_same_arm_with_another_value(repo: Repo) -> None:
    edited(repo, "configs/master.yaml", "0.3.2", "0.3.3")
    comparison = repo.audit().comparison
    assert (comparison.added, comparison.removed) == ((), ())
    assert [d.key for d in comparison.differences] == ["router.version"]
    assert len(comparison.changed) == 2


def test_a_ladder_of_several_nodes(repo: Repo) -> None:
    edited(repo, "configs/master.yaml", "[8, 64]", "[8, 64, 128]")
    audit = repo.audit()
    (found,) = audit.comparison.differences
    assert (found.kind, found.delta, len(found.points)) == ("ladder", (128,), 1)
    repo.commit("said", {"changelog.d/a.yaml": entry("ladder +128")})
    assert [f.rule for f in errors(repo.audit(head="said"))] == []


def test_more_workers_of_a_role(repo: Repo) -> None:
    edited(repo, "configs/master.yaml", "num-worker: 2", "num-worker: 3")
    audit = repo.audit()
    assert errors(audit, "uncovered")
    repo.commit("said", {"changelog.d/a.yaml": repo.draft()})
    assert [(f.rule, f.message) for f in errors(repo.audit(head="said"))] == []


def test_another_external_file_is_named(repo: Repo) -> None:
    edited(repo, "configs/recipes/vllm/away.yaml", "roles: 1", "roles: 2")
    (found,) = repo.audit().comparison.differences
    assert (found.key, found.file) == ("external.sha256", "configs/recipes/vllm/away.yaml")
    drafted = repo.draft()
    assert "recipes/vllm/away.yaml" in drafted
    repo.commit("said", {"changelog.d/a.yaml": drafted})
    assert errors(repo.audit(head="said")) == []


def test_a_container_is_the_image_of_its_config(repo: Repo) -> None:
    edited(repo, "configs/recipes/vllm/away.yaml", "v0.26.0", "v0.27.0")
    (found,) = errors(repo.audit(), "policy/container-is-image")
    assert (found.key, found.new) == ("image", "vllm/vllm-openai:v0.26.0")
    assert "external.model.container is vllm/vllm-openai:v0.27.0" in found.message


HOSTILE = {
    "anchors": "a: &a [1,1,1,1,1,1,1,1,1]\n"
    + "".join(
        f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n"
        for p, c in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "model: { container: x }\n",
    "nul": "model: \0\n",
    "deep": "{" * 100_000,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_plain_yaml_is_told(repo: Repo, content: str) -> None:
    repo.commit("head", {"configs/recipes/vllm/away.yaml": content})
    audit = repo.audit()
    told = [f for f in audit.findings if f.rule == "policy/container-is-image"]
    assert [f.level for f in told] == ["note"]
    assert "cannot be read" in told[0].message
    assert [d.key for d in audit.comparison.differences] == ["external.sha256"]


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "/etc/passwd", "recipes/../../x", "gone.yaml"]
)
def test_a_file_outside_of_the_tree_is_not_read(repo: Repo, path: str) -> None:
    edited(repo, "configs/master.yaml", "recipes/vllm/away.yaml", path)
    audit = repo.audit()
    state = next(s for s in audit.comparison.head.states.values() if s.point.config == "away")
    assert state.plan is not None
    assert state.plan.external is not None
    assert state.plan.external.sha256 is None
    told = [f.message for f in audit.findings if f.rule == "policy/container-is-image"]
    assert told == [
        "container-is-image: not checked: the file that a config names is not beside it"
    ]


def test_a_file_that_is_not_at_hand_is_told_where_it_matters(repo: Repo) -> None:
    """Where the image or the file is another, and not where something else moves every point."""
    edited(repo, "configs/master.yaml", "recipes/vllm/away.yaml", "gone.yaml")
    rule = "policy/container-is-image"
    repo.commit("seed", {"configs/recipes/site.yaml": SITE + "- workload: { seed: 7 }\n"})
    audit = repo.audit("head", "seed")
    assert len(audit.comparison.changed) == 3
    assert [f for f in audit.findings if f.rule == rule] == []
    gone = MASTER.replace("recipes/vllm/away.yaml", "gone.yaml").replace("v0.26.0", "v0.27.0")
    repo.commit("image", {"configs/master.yaml": gone})
    assert [f.level for f in repo.audit("seed", "image").findings if f.rule == rule] == ["note"]


def test_a_symlink_in_the_place_of_the_file_is_not_followed(repo: Repo, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("model: { container: secret }\n", encoding="utf-8")
    place = repo.path / "configs/away2.yaml"
    place.symlink_to(secret)
    edited(repo, "configs/master.yaml", "recipes/vllm/away.yaml", "away2.yaml")
    audit = repo.audit()
    state = next(s for s in audit.comparison.head.states.values() if s.point.config == "away")
    assert state.plan is not None
    assert state.plan.external is not None
    assert state.plan.external.sha256 is None
    assert "secret" not in repr(audit.findings)


def test_power_is_asked_where_a_config_asks_for_it(repo: Repo) -> None:
    edited(repo, "configs/master.yaml", "away:\n", "away:\n  require-power: native\n")
    audit = repo.audit()
    notes = [f.message for f in audit.findings if f.rule == "policy/power-required"]
    assert notes == ["power-required: not checked, since no store is given (--store)"]
    keys = [d.key for d in audit.comparison.differences]
    assert keys == ["require_power"]
