"""A git repository made for a test, and audits of its revisions. No test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from inferometer.audit import Asked, Audit, Finding, draft, examine, read_sides, tree_at
from inferometer.audit import Where as Where

RUNNERS = """\
labels:
  cluster:mi355x-amds: [mi355x-amds_00]
  h200: [a]
hardware:
  cluster:mi355x-amds: { available-cpu-dram-mib: 3_095_781, gpus-per-node: 8 }
  h200: { available-cpu-dram-mib: 1_000_000, gpus-per-node: 8 }
"""
MASTER = """\
qwen-h200:
  image: vllm/vllm-openai:v0.26.0
  model: Qwen/Qwen3-8B
  model-prefix: qwen3
  precision: fp8
  framework: vllm
  runner: h200
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 8192
      osl: 1024
      search-space:
      - { tp: 4, conc-list: [4, 8, 16] }
      - { tp: 8, conc-list: [1, 2] }
"""
LINK = "https://github.com/org/project/pull/7"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "t",
    "GIT_AUTHOR_EMAIL": "t@example.org",
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True)
class Repo:
    """One repository. A revision is named by its tag."""

    path: Path

    def commit(self, name: str, files: Mapping[str, str | None]) -> None:
        """Write, remove (None), commit and tag."""
        for path, text in files.items():
            place = self.path / path
            if text is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "--allow-empty", "-qm", name)
        self.git("tag", name)

    def git(self, *words: str, given: bytes | None = None) -> str:
        """One git command; what it printed."""
        done = subprocess.run(
            ["git", "-C", str(self.path), *words],
            input=given,
            capture_output=True,
            check=True,
            env={"PATH": os.environ["PATH"], **_IDENTITY},
        )
        return done.stdout.decode().strip()

    def audit(self, base: str = "base", head: str = "head", asked: Asked | None = None) -> Audit:
        """The whole audit of two tags."""
        sides = (tree_at(base, self.path), tree_at(head, self.path))
        return examine(*sides, asked or Asked())

    def draft(self, base: str = "base", head: str = "head") -> str:
        """The entry that the difference asks for, why and link filled in."""
        sides = (tree_at(base, self.path), tree_at(head, self.path))
        text = draft(read_sides(*sides, Where()))
        text = text.replace("TODO: say why", "it is faster")
        return text.replace("'TODO: link to the discussion'", LINK)


def new_repo(path: Path) -> Repo:
    """An empty repository."""
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["git", "init", "-q", str(path)], check=True, env={"PATH": os.environ["PATH"], **_IDENTITY}
    )
    return Repo(path)


def errors(audit: Audit, rule: str | None = None) -> list[Finding]:
    """The findings that say no, of one rule if named."""
    found = [finding for finding in audit.findings if finding.level == "error"]
    return found if rule is None else [finding for finding in found if finding.rule == rule]
