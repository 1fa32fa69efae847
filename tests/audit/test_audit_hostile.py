"""A head that means harm: refused in bounded time and memory, and nothing of it is run."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from audit_repo import MASTER, RUNNERS, Repo, errors, new_repo

from inferometer.audit.tree import MAX_FILE_BYTES, Entry, checked, folder_tree
from inferometer.errors import InputError
from inferometer.plan import read_document
from inferometer.plan.source import MAX_BYTES, MAX_NODES

BASE = {"configs/master.yaml": MASTER, "configs/runners.yaml": RUNNERS}
MEMORY = 1_500_000_000
"""Bytes of address space that an audit of a hostile head may have."""
SECONDS = 60
"""CPU seconds after which it is killed: not how fast it is, but that it ends."""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = new_repo(tmp_path / "repo")
    made.commit("base", BASE)
    return made


def bounded_audit(repo: Repo) -> subprocess.CompletedProcess[str]:
    """`inferometer audit base head` in a process whose memory and time are bounded."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    return subprocess.run(
        [sys.executable, "-m", "inferometer", "audit", "base", "head"],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=limit,
    )


def refused(repo: Repo) -> str:
    """Why the audit reads nothing further."""
    with pytest.raises(InputError) as error:
        repo.audit()
    return str(error.value)


def refused_within_bounds(repo: Repo) -> str:
    """The same, of a process that may have little memory and time. It leaves no traceback."""
    done = bounded_audit(repo)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr


def test_an_anchors_bomb_is_refused(repo: Repo) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    repo.commit("head", {"configs/master.yaml": "\n".join(lines) + "\n" + MASTER})
    said = refused_within_bounds(repo)
    assert "aliases expanded" in said


def test_a_file_of_millions_of_values_is_refused(repo: Repo) -> None:
    repo.commit("head", {"configs/recipes/site.yaml": "- a\n" * (MAX_FILE_BYTES // 4 - 10)})
    said = refused_within_bounds(repo)
    assert f"more than {MAX_NODES} values" in said


def test_a_large_file_is_refused_before_it_is_read(repo: Repo) -> None:
    place = repo.path / "configs/recipes/large.yaml"
    place.parent.mkdir()
    with place.open("wb") as file:
        file.truncate(100_000_000)
    repo.commit("head", {})
    said = refused(repo)
    assert "has 100000000 bytes" in said
    place.unlink()


def test_a_huge_ladder_is_refused(repo: Repo) -> None:
    arms = "".join(
        f"      - {{ tp: {tp}, conc-list: [{', '.join(map(str, range(1, 9_000)))}] }}\n"
        for tp in (1, 2, 8)
    )
    repo.commit("head", {"configs/master.yaml": MASTER + arms})
    said = refused(repo)
    assert "declares more than 20000 points" in said


def test_a_ladder_beyond_reason_is_refused(repo: Repo) -> None:
    text = MASTER.replace("[4, 8, 16]", f"[{', '.join(map(str, range(1, 10_002)))}]")
    repo.commit("head", {"configs/master.yaml": text})
    said = refused(repo)
    assert "at most 10000 items" in said


@pytest.mark.parametrize(
    ("template", "word"),
    [
        ("{__import__('os').system('touch ran')}", "no function"),
        ("{().__class__}", "not part of the expression language"),
        ("{conc.__class__}", "not part of the expression language"),
        ("{9**9**9}", "not part of the expression language"),
        ("{conc", "a single {"),
        ("{" + "-" * 30 + "1}", "nests at most 20 deep"),
        ("{steps(1, 4096, 1)}" * 60_000, "characters"),
    ],
)
def test_a_template_runs_nothing_and_ends(repo: Repo, template: str, word: str) -> None:
    recipe = f'- argv:\n    --x: "{template}"\n'
    repo.commit("head", {"configs/recipes/site.yaml": recipe})
    said = refused(repo)
    assert word in said
    assert not (repo.path / "ran").exists()


def test_a_recipe_that_makes_every_plan_large_is_refused(repo: Repo) -> None:
    flags = "".join(
        f"    --x{n}: '{{steps(1, 4096, 1)}} {{steps(1, 4096, 1)}}'\n" for n in range(400)
    )
    arm = f"      - {{ tp: 1, conc-list: [{', '.join(map(str, range(1, 100)))}] }}\n"
    files = {"configs/recipes/site.yaml": f"- argv:\n{flags}", "configs/master.yaml": MASTER + arm}
    repo.commit("head", files)
    said = refused_within_bounds(repo)
    assert "characters in all" in said


@pytest.mark.parametrize("name", ["configs/recipes", "configs/master.yaml", "changelog.d"])
def test_a_symlink_is_not_followed(repo: Repo, name: str) -> None:
    outside = repo.path.parent / "outside"
    outside.mkdir()
    (outside / "site.yaml").write_text("- workload: { seed: 1 }\n")
    place = repo.path / name
    place.unlink(missing_ok=True)
    place.symlink_to(outside)
    repo.commit("head", {})
    said = refused(repo)
    assert "symlink" in said
    assert name in said


def test_a_path_that_leaves_its_tree_is_refused(repo: Repo) -> None:
    blob = repo.git("hash-object", "-w", "--stdin", given=b"- workload: {seed: 1}\n")
    up = repo.git("mktree", given=f"100644 blob {blob}\tevil-master.yaml\n".encode())
    whole = repo.git("ls-tree", "base")
    # git itself does not make such a tree by `add`; one can be written all the same.
    tree = repo.git(
        "hash-object",
        "-t",
        "tree",
        "-w",
        "--literally",
        "--stdin",
        given=b"".join(
            (f"{mode.lstrip('0')} {name}".encode() + b"\0" + bytes.fromhex(object_id))
            for mode, object_id, name in [("40000", up, "..")]
            + [
                (m, o, n)
                for m, _, o, n in (line.replace("\t", " ").split() for line in whole.splitlines())
            ]
        ),
    )
    commit = repo.git("commit-tree", tree, "-m", "x")
    repo.git("tag", "head", commit)
    said = refused(repo)
    assert "leads out of its tree" in said
    with pytest.raises(InputError, match="git's own directory"):
        checked([Entry(".git/hooks/x", 1, "")], "t")


def test_a_tree_that_lists_without_end_is_refused(repo: Repo) -> None:
    blob = repo.git("hash-object", "-w", "--stdin", given=b"x")
    tree = repo.git(
        "mktree", given="".join(f"100644 blob {blob}\t{n}\n" for n in range(10)).encode()
    )
    for _ in range(9):
        lines = "".join(f"040000 tree {tree}\td{n}\n" for n in range(10))
        tree = repo.git("mktree", given=lines.encode())
    repo.git("tag", "head", repo.git("commit-tree", tree, "-m", "bomb"))
    said = refused_within_bounds(repo)
    assert "more than 100000 files" in said


def test_hooks_and_filters_of_the_head_do_not_run(repo: Repo) -> None:
    ran = repo.path.parent / "ran"
    hook = repo.path / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    repo.git("config", "core.fsmonitor", f"touch {ran}; false")
    repo.git("config", "filter.evil.smudge", f"touch {ran}")
    repo.git("config", "core.pager", f"touch {ran}")
    repo.commit("head", {".gitattributes": "*.yaml filter=evil\n"})
    ran.unlink(missing_ok=True)
    done = bounded_audit(repo)
    assert done.returncode == 0, done.stderr
    assert not ran.exists()


PROGRAMS = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.gitProxy"),
    *("core.askPass", "core.alternateRefsCommand", "diff.external", "diff.evil.textconv"),
    *("diff.evil.command", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
    *("pager.ls-tree", "pager.rev-parse", "pager.cat-file", "alias.rev-parse", "alias.ls-tree"),
    *("credential.helper", "gpg.program", "uploadpack.packObjectsHook", "interactive.diffFilter"),
)


def test_programs_in_the_settings_of_a_repository_do_not_run(repo: Repo) -> None:
    ran = repo.path.parent / "ran"
    attributes = "*.yaml filter=evil diff=evil text eol=crlf\n"
    repo.commit("head", {"configs/.gitattributes": attributes})
    for name in PROGRAMS:
        repo.git("config", name, f"touch {ran}")
    audit = repo.audit()
    assert audit.passed
    assert len(audit.comparison.head.states) == 5
    assert not ran.exists()


def test_what_is_not_there_is_not_fetched(repo: Repo) -> None:
    """A repository whose missing objects are promised by a program, and that allows every way."""
    ran = repo.path.parent / "ran"
    repo.commit("head", {"configs/recipes/site.yaml": "- workload: { seed: 1 }\n"})
    blob = repo.git("rev-parse", "head:configs/recipes/site.yaml")
    (repo.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "evil",
        "remote.evil.promisor": "true",
        "remote.evil.url": str(repo.path),
        "remote.evil.uploadpack": f"touch {ran}; git-upload-pack",
        "protocol.allow": "always",
        "protocol.file.allow": "always",
    }.items():
        repo.git("config", name, value)
    said = refused(repo)
    assert "git has not its content" in said
    assert not ran.exists()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"configs/master.yaml": "[" * 200_000 + "]" * 200_000}, "maximum nesting depth"),
        ({"configs/master.yaml": "[" * 900 + "]" * 900}, "more than 40 levels"),
        ({"configs/recipes/a.yaml": "- " * 100_000 + "a\n"}, "maximum nesting depth"),
        ({"configs/recipes/a.yaml": "".join(" " * n + "a:\n" for n in range(2_000))}, "nesting"),
        ({"configs/master.yaml": MASTER + "".join(f"k{n}: 1\n" for n in range(190_000))}, "values"),
        ({"configs/master.yaml": MASTER + "x\0y: 1\n"}, "character #x00 is not allowed"),
    ],
    ids=["flow", "levels", "sequences", "block", "keys", "nul"],
)
def test_a_form_beyond_bounds_is_refused(repo: Repo, files: dict[str, str], said: str) -> None:
    repo.commit("head", files)
    assert said in refused(repo)


def test_bytes_that_are_no_text_are_refused(repo: Repo) -> None:
    (repo.path / "configs/master.yaml").write_bytes(MASTER.encode() + b"# \xff\xfe\n")
    repo.commit("head", {})
    assert re.search(r"configs/master\.yaml:\d+: not YAML: the bytes are not UTF-8", refused(repo))


def test_a_name_that_is_no_text_hides_nothing(repo: Repo) -> None:
    blob = repo.git("hash-object", "-w", "--stdin", given=b"a")
    listed = f"100644 blob {blob}\ta\\xff\0".encode() + f"100644 blob {blob}\ta".encode()
    tree = repo.git("mktree", "-z", given=listed + b"\xff\0")
    repo.git("tag", "head", repo.git("commit-tree", tree, "-m", "x"))
    assert "two files are named" in refused(repo)


def test_directories_in_the_place_of_files_and_the_other_way(repo: Repo) -> None:
    for path in ("configs/master.yaml", "configs/runners.yaml"):
        (repo.path / path).unlink()
    files: dict[str, str | None] = {"configs/master.yaml/x.yaml": "a", "changelog.d": "a"}
    repo.commit("head", files)
    found = errors(repo.audit())
    assert [(f.rule, f.key) for f in found] == [("uncovered", "config")]
    (repo.path / "configs/master.yaml/x.yaml").unlink()
    (repo.path / "configs/master.yaml").rmdir()
    (repo.path / "configs").rmdir()
    repo.commit("next", {"configs": "a"})
    assert {f.rule for f in errors(repo.audit(head="next"))} == {"uncovered"}


def test_a_submodule_in_the_place_of_recipes_is_not_followed(repo: Repo) -> None:
    commit = repo.git("rev-parse", "base")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{commit},configs/recipes")
    repo.git("commit", "-qm", "x")
    repo.git("tag", "head")
    assert "is a symlink or a submodule" in refused(repo)


NEWER = MASTER.replace("v0.26.0", "v0.27.0")
ITEM = "- config-keys: ['*']\n  description: d\n  link: https://e.org/1\n"
FILE = "config-keys: [KEYS]\ndescription: d\nlink: https://e.org/1\n"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"perf-changelog.yaml": ITEM * 2_001}, "more than 2000 new entries"),
        (
            {
                "changelog.d/a.yaml": FILE.replace(
                    "KEYS", ", ".join(f"'*{n}'" for n in range(5_001))
                )
            },
            "more than 5000 config keys and changes",
        ),
        (
            {
                "changelog.d/a.yaml": FILE.replace("KEYS", "'*'")
                + f"changes: [{', '.join(['{ key: image, new: 1 }'] * 5_000)}]\n"
            },
            "more than 5000 config keys and changes",
        ),
        (
            {"audit-policy.yaml": f"- {{ name: x, require: [{', '.join(['a*b*c'] * 1_001)}] }}\n"},
            "more than 1000 globs",
        ),
    ],
    ids=["entries", "keys", "changes", "globs"],
)
def test_a_record_without_end_is_refused(repo: Repo, files: dict[str, str], said: str) -> None:
    repo.commit("head", files | {"configs/master.yaml": NEWER})
    assert said in refused(repo)


@pytest.mark.parametrize(
    "ref",
    [
        *("--output=ran", "-h", "head^{/x}", "", "no such ref", "--upload-pack=touch ran"),
        *("--exec=touch ran", "--git-dir=x", "-c core.pager=touch ran", "--all", "base..head"),
        *("x" * 200_000, "a/" * 3_000, "\udcff", "base\nhead", "base:configs", "base^{tree}"),
    ],
    ids=lambda ref: ref[:20].encode("unicode_escape").decode(),
)
def test_a_ref_is_never_an_option(repo: Repo, ref: str) -> None:
    for names in ((ref, "base"), ("base", ref)):
        with pytest.raises(InputError, match="neither a git ref nor a directory"):
            repo.audit(*names)
    assert not (repo.path / "ran").exists()


def test_a_branch_named_like_an_option_is_a_name(repo: Repo) -> None:
    commit = repo.git("rev-parse", "base")
    for name in ("--upload-pack=ran", "-h"):
        repo.git("update-ref", f"refs/heads/{name}", commit)
        with pytest.raises(InputError, match="neither a git ref nor a directory"):
            repo.audit(head=name)
        assert repo.audit(head=f"refs/heads/{name}").passed


def test_a_directory_is_held_to_the_same(tmp_path: Path) -> None:
    (tmp_path / "a-master.yaml").write_text(MASTER)
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    (tmp_path / "pipe").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "b-master.yaml")
    (tmp_path / "large.yaml").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    tree = folder_tree(tmp_path)
    assert tree.read("a-master.yaml") == MASTER.encode()
    for name in ("pipe", "b-master.yaml", "large.yaml", "../x", "gone.yaml"):
        with pytest.raises(InputError):
            tree.read(name)


def test_values_are_counted_before_they_are_built() -> None:
    def read(_path: str) -> bytes:
        return b"[" + b"a," * (MAX_BYTES // 4) + b"]"

    with pytest.raises(InputError, match=f"more than {MAX_NODES} values"):
        read_document("x", read, "list")
