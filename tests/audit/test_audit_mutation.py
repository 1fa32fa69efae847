"""300 random single edits of configs and recipes: the audit names exactly the points whose digest
changes, which are worked out here from the files by themselves.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from audit_repo import RUNNERS

from inferometer.audit import Asked, Audit, examine
from inferometer.audit.tree import Entry, Tree
from inferometer.errors import InputError
from inferometer.plan import digest, expand, load_configs, load_recipes, resolve

EDITS = 300
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
      - { tp: 8, conc-list: [1, 2], spec-decoding: mtp }
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
    - dram-utilization: 0.8
      search-space:
      - { tp: 8, ep: 1, kv-offloading: none, spec-decoding: mtp, conc-list: [1, 2, 4] }
      - { tp: 4, ep: 4, kv-offloading: dram, kv-offload-backend: { name: lmcache, version: "1" },
          router: { name: r, version: "2" }, spec-decoding: mtp, conc-start: 8, conc-end: 64 }
pools:
  image: sglang:v1.0
  model: org/m
  model-prefix: m
  precision: fp8
  framework: nobody-has-it
  runner: h200
  kv-p2p-transfer: nixl
  multinode: true
  disagg: true
  scenarios:
    fixed-seq-len:
    - isl: 1024
      osl: 1024
      search-space:
      - conc-list: [8, 64]
        prefill: { num-worker: 1, tp: 4, ep: 4, dp-attn: true, additional-settings: ["A=1"] }
        decode: { num-worker: 2, tp: 8, ep: 8, dp-attn: false }
"""
QWEN = """\
- let: { draft_method: mtp, draft_tokens: 3 }
- argv:
    --gpu-memory-utilization: 0.9
    --max-num-batched-tokens: "{2 * isl}"
    --compilation-config: { mode: 3, cudagraph_capture_sizes: [1, 2, "{steps(4, 64, 4)}"] }
- when: conc > 4 and tp < 8
  argv:
    --max-num-seqs: "{next_pow2(conc * 3)}"
  env: { NCCL_DEBUG: WARN, X: "{conc}" }
"""
SITE = """\
- workload: { seed: 42 }
  client: { grace_s: 30 }
- when: scenario == "agentic"
  workload: { sessions: "traces", duration_s: 900 }
  files: { note.json: { level: 7, text: "a {conc}" } }
- when: hardware == "h200"
  argv: { --swap-space: "{min(16, 4 * conc)}" }
"""
FILES = {
    "configs/master.yaml": MASTER,
    "configs/runners.yaml": RUNNERS,
    "configs/recipes/models/qwen3.yaml": QWEN,
    "configs/recipes/site.yaml": SITE,
}
ROOT = "configs/recipes"


def tree_of(name: str, files: dict[str, str]) -> Tree:
    """Files in memory."""
    entries = {path: Entry(path, len(text), f"{hash(text)}") for path, text in files.items()}

    def load(wanted: Sequence[Entry]) -> list[bytes]:
        return [files[entry.path].encode() for entry in wanted]

    return Tree(name, entries, load, lambda entry: entry.blob)


def digests(files: dict[str, str]) -> dict[str, str]:
    """Point id to digest, or to its own text where it does not resolve."""

    def read(path: str) -> bytes:
        return files[path].encode()

    def below(root: str) -> list[str]:
        start = f"{root}/"
        return [path.removeprefix(start) for path in files if path.startswith(start)]

    configs = load_configs(["configs/master.yaml"], "configs/runners.yaml", read)
    recipes = load_recipes(read, [ROOT], below)
    found = {}
    for point in expand(configs):
        try:
            found[point.id] = digest(point, resolve(point, recipes))
        except InputError:
            found[point.id] = repr(point)
    return found


Edit = Callable[[random.Random, str], str]


def another_number(rng: random.Random, text: str) -> str:
    places = list(re.finditer(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", text))
    place = rng.choice(places)
    old = place[0]
    new = f"{float(old) / 2:g}" if "." in old else str(rng.choice([int(old) + 1, int(old) * 2]))
    return text[: place.start()] + new + text[place.end() :]


def another_word(rng: random.Random, text: str) -> str:
    places = list(re.finditer(r"(?<=: )[A-Za-z][\w./-]*", text))
    if not places:
        return another_number(rng, text)
    place = rng.choice(places)
    return text[: place.start()] + place[0] + rng.choice("xyz") + text[place.end() :]


def one_line_less(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    del lines[rng.randrange(len(lines))]
    return "".join(lines)


def a_line_of_no_effect(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines)), "# a comment\n")
    return "".join(lines)


def another_operator(rng: random.Random, text: str) -> str:
    places = list(re.finditer(r" (?:\*|<|>|and) ", text))
    if not places:
        return another_number(rng, text)
    place = rng.choice(places)
    other = {" * ": " + ", " < ": " > ", " > ": " <= ", " and ": " or "}[place[0]]
    return text[: place.start()] + other + text[place.end() :]


EDIT: tuple[Edit, ...] = (
    another_number,
    another_number,
    another_word,
    one_line_less,
    a_line_of_no_effect,
    another_operator,
)


def expected(before: dict[str, str], after: dict[str, str]) -> tuple[set[str], set[str], set[str]]:
    both = before.keys() & after.keys()
    changed = {name for name in both if before[name] != after[name]}
    return changed, after.keys() - both, before.keys() - both


def reported(audit: Audit) -> tuple[set[str], set[str], set[str]]:
    """Points by id alone: one that only has another name came under it and went under the old."""
    comparison = audit.comparison
    came = {*comparison.added, *comparison.renamed}
    gone = {*comparison.removed, *comparison.renamed.values()}
    return set(comparison.changed) - set(comparison.renamed), came, gone


def test_every_edit_is_reported_at_exactly_its_points(tmp_path: Path) -> None:
    rng = random.Random(20260901)
    before = digests(FILES)
    base = tree_of("base", FILES)
    done = refused = moved = 0
    while done < EDITS:
        path = rng.choice(
            [p for p in FILES if p != "configs/runners.yaml"] + ["configs/runners.yaml"]
        )
        text = rng.choice(EDIT)(rng, FILES[path])
        files = FILES | {path: text}
        head = tree_of("head", files)
        try:
            after = digests(files)
        except InputError:
            # What cannot be read is no edit to report; the audit must refuse it too.
            refused += 1
            try:
                examine(base, head, Asked())
            except InputError:
                continue
            raise
        done += 1
        audit = examine(base, head, Asked())
        want = expected(before, after)
        assert reported(audit) == want, (path, text)
        moved += any(want)
        named = {
            name for found in audit.findings if found.rule == "uncovered" for name in found.points
        }
        touched = {*audit.comparison.changed, *audit.comparison.added, *audit.comparison.removed}
        broken = {n for f in audit.findings if f.rule == "unresolved" for n in f.points}
        assert named | broken >= touched
        assert named <= touched
        assert audit.passed == (not touched)
    # The edits are worth something: most move a point, some must not, few are no files at all.
    assert 150 < moved < EDITS
    assert refused < EDITS
