"""Tables of the catalog as each revision has them: an edit shows the points that it moves."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_repo import RUNNERS, Repo, errors, new_repo

from inferometer import catalog
from inferometer.errors import InputError

TABLES = Path(catalog.__file__).parent / "data"
PLACE = "src/inferometer/catalog/data"
MASTER = """\
dsv4-mi355x:
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
      - { tp: 8, ep: 1, kv-offloading: none, spec-decoding: mtp, conc-list: [1, 2, 4] }
pools:
  image: lmsysorg/sglang:v0.5.12
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: sglang
  runner: b300-elsewhere
  multinode: true
  disagg: true
  router: { name: sglang-router, version: "0.3.2" }
  kv-p2p-transfer: nixl
  scenarios:
    fixed-seq-len:
    - isl: 1024
      osl: 1024
      search-space:
      - conc-list: [8]
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
        decode: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
"""
ACCEPTANCE = (TABLES / "acceptance.yaml").read_text(encoding="utf-8")
GPUS = (TABLES / "gpus.yaml").read_text(encoding="utf-8")
PRICES = (TABLES / "prices.yaml").read_text(encoding="utf-8")
FILES: dict[str, str | None] = {
    "configs/master.yaml": MASTER,
    "configs/runners.yaml": RUNNERS,
    f"{PLACE}/acceptance.yaml": ACCEPTANCE,
    f"{PLACE}/gpus.yaml": GPUS,
    f"{PLACE}/prices.yaml": PRICES,
}
MTP = "{ 1: 1.79, 2: 2.27, 3: 2.49,"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = new_repo(tmp_path / "repo")
    made.commit("base", FILES)
    return made


def acceptance(repo: Repo, old: str, new: str, name: str = "head") -> None:
    assert old in ACCEPTANCE
    repo.commit(name, {f"{PLACE}/acceptance.yaml": ACCEPTANCE.replace(old, new)})


def test_another_acceptance_moves_its_points_and_is_derived(repo: Repo) -> None:
    acceptance(repo, MTP, MTP.replace("2.49", "2.6"))
    audit = repo.audit()
    (found,) = audit.comparison.differences
    assert found.derived
    assert found.key == "argv.--spec-decode-acceptance-length"
    assert [(case.old, case.new, len(case.points)) for case in found.cases] == [("2.49", "2.6", 3)]
    assert found.follows == ("acceptance_length('dsv4', 'mtp', 3) 2.49 -> 2.6",)
    assert {f.rule for f in errors(audit)} == {"uncovered"}
    repo.commit("said", {"changelog.d/a.yaml": repo.draft()})
    assert errors(repo.audit(head="said")) == []


def test_a_length_that_no_point_has_moves_none(repo: Repo) -> None:
    acceptance(repo, "5: 2.55", "5: 2.56")
    audit = repo.audit()
    assert audit.comparison.differences == ()
    assert audit.passed


def test_without_its_curve_a_point_no_longer_resolves(repo: Repo) -> None:
    acceptance(repo, MTP, "{ 1: 1.79,")
    (found,) = errors(repo.audit(), "unresolved")
    assert "lacks draft length 3" in found.message
    assert len(found.points) == 3


def test_a_side_without_a_table_takes_the_one_installed(repo: Repo) -> None:
    repo.commit("none", {f"{PLACE}/acceptance.yaml": None})
    assert repo.audit(head="none").comparison.differences == ()
    repo.commit("other", {f"{PLACE}/acceptance.yaml": ACCEPTANCE.replace("2.49", "2.6")})
    assert [d.derived for d in repo.audit("none", "other").comparison.differences] == [True]
    assert [d.derived for d in repo.audit("other", "none").comparison.differences] == [True]


def test_a_gpu_that_is_no_longer_known(repo: Repo) -> None:
    repo.commit("head", {f"{PLACE}/gpus.yaml": GPUS.replace("name: b300", "name: b301")})
    (found,) = errors(repo.audit(), "unresolved")
    assert "how many GPUs a node of 'b300' has" in found.message


def test_a_table_that_moves_no_launch_is_a_note(repo: Repo) -> None:
    repo.commit("head", {f"{PLACE}/prices.yaml": PRICES + "\n# more\n"})
    audit = repo.audit()
    told = [(f.level, f.file) for f in audit.findings if f.rule == "catalog"]
    assert told == [("note", f"{PLACE}/prices.yaml")]
    assert audit.passed


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (MTP, MTP.replace("2.49", "9"), r"acceptance\.yaml:\d+.* 3 drafts cannot give 9"),
        (MTP, MTP.replace("2.49", "x"), r"acceptance\.yaml:7: .*3"),
        ("- model: dsv4\n", "- modal: dsv4\n", r"acceptance\.yaml:\d+"),
        ("- model: glm5.2\n", "- model: dsv4\n", "two curves for one model"),
        (MTP, f"{MTP} {'9' * 5000}: 1,", r"acceptance\.yaml"),
        ("- model: glm5.2", "- &a [" + "*b, " * 9 + "]\n- model: glm5.2", r"acceptance\.yaml"),
    ],
)
def test_a_faulty_table_is_input(repo: Repo, old: str, new: str, said: str) -> None:
    acceptance(repo, old, new)
    with pytest.raises(InputError, match=said):
        repo.audit()


def test_a_bomb_of_a_table_is_refused(repo: Repo) -> None:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    repo.commit("head", {f"{PLACE}/acceptance.yaml": "\n".join(lines)})
    with pytest.raises(InputError, match="aliases expanded"):
        repo.audit()
