"""Random single edits of master files, the runner file, recipes, an engine's own file and a table
of the catalog: the audit names exactly the points whose digest changes, which are worked out here
from the files by themselves. INFEROMETER_AUDIT_EDITS asks for more of them than the suite does.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Sequence

from audit_repo import RUNNERS

from inferometer.audit import Asked, Audit, examine
from inferometer.audit.tree import Entry, Tree
from inferometer.errors import InputError
from inferometer.plan import (
    digest,
    expand,
    load_configs,
    load_recipes,
    read_facts,
    resolve,
)

EDITS = int(os.environ.get("INFEROMETER_AUDIT_EDITS", "60"))
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
DUO = """\
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
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false,
          additional-settings: ["PREFILL_NODES=1", "GPUS_PER_NODE=8", "SLURM_PARTITION=main"] }
        decode: { num-worker: 1, tp: 16, ep: 1, dp-attn: false,
          additional-settings: ["DECODE_NODES=2", "DECODE_MTP_SIZE=0"] }
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
      - conc-list: [1, 4]
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false,
          additional-settings: ["CONFIG_FILE=recipes/vllm/away.yaml",
            "SYNTHETIC_ACCEPTANCE=true", "SYNTHETIC_ACCEPTANCE_LENGTH=2.27", "OTHER=1"] }
        decode: { num-worker: 0, tp: 8, ep: 1, dp-attn: false }
"""
ROLES = """\
- when: role == "prefill"
  argv: { --watchdog-timeout: 100, --max-prefill-tokens: "{2 * isl}" }
- when: role == "decode" and node_rank == 0
  argv: { --max-running-requests: "{2 * conc}" }
- when: framework == "sglang"
  env: { SIDE: "{worker + workers}", NODES: "{nodes}" }
"""
AWAY = "model: { container: 'vllm/vllm-openai:v0.26.0' }\nroles: 1\n"
TABLE = """\
- model: dsv4
  method: mtp
  thinking: "on"
  lengths: { 1: 1.79, 2: 2.27, 3: 2.49, 4: 2.54 }
  source: made
  date: "2026-08"
- model: qwen3
  method: mtp
  thinking: "on"
  lengths: { 2: 2.1, 3: 2.5 }
  source: made
  date: "2026-08"
"""
TABLE_PLACE = "src/inferometer/catalog/data/acceptance.yaml"
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
    "configs/recipes/roles.yaml": ROLES,
    "configs/recipes/vllm/away.yaml": AWAY,
    "configs/nodes-master.yaml": DUO,
    TABLE_PLACE: TABLE,
}
MASTERS = ["configs/master.yaml", "configs/nodes-master.yaml"]
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
        if path not in files:
            raise InputError(f"{path}: no such file")
        return files[path].encode()

    def below(root: str) -> list[str]:
        start = f"{root}/"
        return [path.removeprefix(start) for path in files if path.startswith(start)]

    configs = load_configs(MASTERS, "configs/runners.yaml", read)
    facts = read_facts(read, TABLE_PLACE, None)
    recipes = load_recipes(read, [ROOT], below, facts=facts)
    found: dict[str, str] = {}
    for point in expand(configs):
        name, again = point.id, 1
        while name in found:
            again += 1
            name = f"{point.id}#{again}"
        try:
            found[name] = digest(point, resolve(point, recipes))
        except InputError:
            found[name] = repr(point)
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


def another_setting(rng: random.Random, text: str) -> str:
    """One of the texts KEY=VALUE gets another value, or is gone."""
    places = list(re.finditer(r'"([A-Z_]+)=([^"]*)",?', text))
    if not places:
        return another_word(rng, text)
    place = rng.choice(places)
    value = str(int(place[2]) + 1) if place[2].isdigit() else f"{place[2]}9"
    new = rng.choice([f'"{place[1]}={value}",', ""])
    return text[: place.start()] + new + text[place.end() :]


EDIT: tuple[Edit, ...] = (
    another_number,
    another_number,
    another_word,
    one_line_less,
    a_line_of_no_effect,
    another_operator,
    another_setting,
)


def test_the_files_have_what_is_to_be_edited() -> None:
    plain = digests(FILES)
    resolved = {name.partition("_")[0] for name, found in plain.items() if len(found) == 64}
    assert resolved == {"qwen-h200", "dsv4-mi355x", "duo", "away"}
    moved = digests(FILES | {TABLE_PLACE: TABLE.replace("2.49", "2.5")})
    drafting = {f"dsv4-mi355x_agentic_tp8_mtp_c{conc}" for conc in (1, 2, 4)}
    assert {name for name in plain if plain[name] != moved[name]} == drafting


def test_every_edit_is_reported_at_exactly_its_points() -> None:
    rng = random.Random(20260901)
    before = digests(FILES)
    base = tree_of("base", FILES)
    done = refused = moved = 0
    while done < EDITS:
        path = rng.choice(list(FILES))
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
    assert EDITS / 3 < moved < EDITS
    assert refused < EDITS
