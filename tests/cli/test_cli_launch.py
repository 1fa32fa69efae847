"""`launch` and `explain`: one point of config files, as JSON, as commands, and with its reasons."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import call

MASTER = """
m-fp8-h200-mine:
  image: mine/engine:1
  model: org/m
  model-prefix: m
  precision: fp8
  framework: mine
  runner: h200
  multinode: false
  scenarios:
    fixed-seq-len:
    - isl: 1024
      osl: 64
      search-space:
      - { tp: 1, conc-list: [4, 8] }
      - { tp: 2, conc-list: [8] }
      - { tp: 2, ep: 2, dp-attn: true, conc-list: [8] }
"""
RECIPE = """
- command: [serve, "{model_path}"]
  argv:
    --port: "{port+1}"
    --seqs: "{2 * seqs}"
    --config: { tp: "{tp}", name: "it's" }
  env: { WHERE: "{result_dir}/x y" }
  files: { a.json: { port: "{port}" }, b.txt: plain }
- when: dp_attn
  argv:
    --seqs: null
  router: { name: r, version: "1", argv: [route, --port, "{port}"] }
"""
KEY = "m-fp8-h200-mine"
NOT_CHECKED = "note: no flags are recorded for mine: not checked\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "master.yaml").write_text(MASTER)
    (tmp_path / "runners.yaml").write_text("labels:\n  h200: [one]\nhardware: {}\n")
    (tmp_path / "recipes" / "engines").mkdir(parents=True)
    (tmp_path / "recipes" / "compat").mkdir()
    (tmp_path / "recipes" / "engines" / "mine.yaml").write_text(RECIPE)
    (tmp_path / "recipes" / "compat" / "mine.yaml").write_text("- argv: {--seqs: 99}")
    return ("--config", f"{tmp_path}/master.yaml", "--runners", f"{tmp_path}/runners.yaml")


def test_json_has_the_whole_launch_with_placeholders_as_they_are(files: tuple[str, ...]) -> None:
    said = call("launch", KEY, *files, "--conc", "8", "--tp", "1")
    assert (said.code, said.err) == (0, NOT_CHECKED)
    assert json.loads(said.out) == {
        "image": "mine/engine:1",
        "argv": [
            *("serve", "{model_path}", "--port", "{port+1}", "--seqs", "16"),
            *("--config", '{"tp":1,"name":"it\'s"}'),
        ],
        "env": {"WHERE": "{result_dir}/x y"},
        "files": {"a.json": {"port": "{port}"}, "b.txt": "plain"},
        "router": None,
    }


def test_shell_form_is_to_paste_with_the_site_s_values(files: tuple[str, ...]) -> None:
    site = ("--site", "port=9000", "--site", "model_path=/data/m")
    at = ("--conc", "8", "--dp-attn", "true")
    said = call("launch", KEY, *files, *at, "--format", "shell", *site)
    assert (said.code, said.err) == (0, NOT_CHECKED)
    assert (
        said.out
        == """# image: mine/engine:1
cat > a.json <<'END'
{"port":"9000"}
END
cat > b.txt <<'END'
plain
END
WHERE='./x y' \\
  serve /data/m \\
  --port 9001 \\
  --config '{"tp":2,"name":"it'"'"'s"}'
# router: r 1, once the engine serves
route \\
  --port 9000
"""
    )


def test_compat_reproduces_the_reference(files: tuple[str, ...]) -> None:
    said = call("launch", KEY, *files, "--conc", "4", "--compat")
    argv = json.loads(said.out)["argv"]
    assert argv[argv.index("--seqs") + 1] == "99"


def test_several_points_are_an_error_that_lists_them(files: tuple[str, ...]) -> None:
    said = call("launch", KEY, *files, "--conc", "8")
    assert (said.code, said.out) == (2, "")
    assert "3 points are left; choose with --conc, --tp, --ep" in said.err
    assert said.err.count("--conc 8 --tp 2") == 2
    assert "--ep 2 --dp-attn true" in said.err
    none = call("launch", KEY, *files, "--conc", "8", "--tp", "4")
    assert none.code == 2
    assert "no point is as asked" in none.err
    assert "--conc 8 --tp 1" in none.err


def test_a_key_alone_is_told_what_to_choose_from(files: tuple[str, ...]) -> None:
    said = call("launch", KEY, *files)
    assert (said.code, said.out) == (2, "")
    assert "points are left; choose with --conc, --tp" in said.err
    assert {"--conc 4", "--conc 8"} <= set(re.findall(r"--conc \d+", said.err))


def test_a_long_list_of_points_ends_with_their_number(files: tuple[str, ...]) -> None:
    Path(files[1]).write_text(MASTER.replace("[4, 8]", str(list(range(1, 90)))))
    lines = call("launch", KEY, *files).err.splitlines()
    assert len(lines) == 1 + 40 + 1
    assert re.fullmatch(r"error:   and \d+ more \(`plan` shows all\)", lines[-1])


def test_a_point_that_is_declared_twice_is_one(files: tuple[str, ...]) -> None:
    master = Path(files[1])
    master.write_text(MASTER.replace("[4, 8]", "[4, 8, 4]"))
    assert call("launch", KEY, *files, "--conc", "4").code == 0


def test_deployments_that_come_with_the_package_are_named_by_a_word() -> None:
    words = ("dsv41flash-fp4-mi355x-vllm-agentic-dspark", "--config", "newer", "--conc", "128")
    said = call("launch", *words)
    argv = json.loads(said.out)["argv"]
    assert argv[argv.index("--max-cudagraph-capture-size") + 1] == "1024"
    told = call("explain", *words, "--", "--max-cudagraph-capture-size").out
    assert "{graph_cap(verify_tokens(128, 5), 8, 1024)}" in told
    both = call("launch", *words, "--config", "quickstart")
    assert (both.code, both.err) == (2, "error: newer stands alone; name it without other files\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("launch", "m-fp8-h200-mime", "--conc", "4"), f"did you mean '{KEY}'?"),
        (("launch", KEY, "--conc", "5"), "no point has concurrency 5; there are: 4, 8"),
        (("launch", KEY, "--conc", "4", "--site", "prt=1"), "--site takes NAME=VALUE with one of"),
        (("launch", KEY, "--conc", "4", "--site", "port=x"), "--site port takes a number, got 'x'"),
        (("explain", KEY, "--conc", "4", "--", "--seq"), "did you mean '--seqs'?"),
        (("explain", KEY, "--conc", "4", "--seq"), "did you mean '--seqs'?"),
        (("explain", KEY, "--conc", "4", "--kv-offloadin", "x"), "did you mean '--kv-offloading'?"),
    ],
)
def test_mistakes(files: tuple[str, ...], words: tuple[str, ...], message: str) -> None:
    said = call(*words[:2], *files, *words[2:])
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_explain_says_where_a_value_is_from(files: tuple[str, ...]) -> None:
    said = call("explain", KEY, *files, "--conc", "4", "--", "--seqs")
    assert (said.code, said.err) == (0, "")
    folder = Path(files[1]).parent
    told = said.out.splitlines()
    assert told[0] == "let.seqs = 4"
    assert told[1].startswith("    inferometer/plan/recipes/defaults.yaml:")
    assert told[2:5] == ['    when scenario == "fixed"', "    {conc}", "    {4}"]
    assert told[5:] == [
        "argv.--seqs = 8",
        f"    {folder}/recipes/engines/mine.yaml:5",
        "    {2 * seqs}",
        "    {2 * 4}",
    ]


def test_a_flag_of_the_engine_needs_no_dashes_before_it(files: tuple[str, ...]) -> None:
    separate = call("explain", KEY, *files, "--conc", "4", "--", "--seqs")
    assert call("explain", KEY, *files, "--conc", "4", "--seqs") == separate
    assert call("explain", KEY, "--seqs", *files, "--conc", "4") == separate
    assert "--seqs" in separate.out


def test_explain_without_a_name_tells_everything(files: tuple[str, ...]) -> None:
    said = call("explain", KEY, *files, "--conc", "8", "--ep", "2")
    keys = [line.split(" = ")[0] for line in said.out.splitlines() if not line.startswith(" ")]
    assert {"image", "command", "argv.--config.tp", "files.a.json.port"} <= set(keys)
    assert {"router", "client.grace_s", "workload.isl", "env.WHERE"} <= set(keys)
    assert "workload.rate = null" in said.out.splitlines()
    assert "argv.--seqs" not in keys
    sections = [key.split(".")[0] for key in keys]
    assert sections == sorted(sections, key=list(dict.fromkeys(sections)).index)


def test_compat_prints_what_the_reference_executes(shared_data: Path) -> None:
    folder = shared_data / "inferencex"
    with (folder / "launches.jsonl").open() as lines:
        row = json.loads(next(lines))
    at = row["point"]
    words = ("--conc", at["conc"], "--tp", at["tp"], "--kv-offloading", at["kv-offloading"])
    where = ("--config", folder / f"{row['config']}-master.yaml")
    said = call(
        "launch",
        row["config_key"],
        *where,
        "--runners",
        folder / "runners.yaml",
        *words,
        "--compat",
    )
    launch = json.loads(said.out)
    assert launch["image"] == row["image"]
    assert sorted(launch["argv"]) == sorted(row["server"]["argv"])
    assert launch["env"] == row["server"]["env"]
    assert "{model}" in launch["argv"]


def test_host_memory_above_the_budget_is_told_and_the_launch_is_printed(
    files: tuple[str, ...], tmp_path: Path
) -> None:
    rule = "- argv: {--enable-hierarchical-cache: true, --hicache-size: 144}"
    (tmp_path / "recipes" / "site.yaml").write_text(rule)
    said = call("launch", KEY, *files, "--conc", "4")
    assert said.code == 0
    assert json.loads(said.out)["argv"][-2:] == ["--hicache-size", "144"]
    assert said.err == (
        f"warning: {tmp_path}/recipes/site.yaml:1: --hicache-size: reserves 144 GB of host memory "
        "(--hicache-size: 1 rank of 144 GB), and the point's budget is 0 GB\n"
        "note: no flags are recorded for mine: not checked\n"
    )


SGLANG = MASTER.replace("mine/engine:1", "lmsysorg/sglang:VERSION").replace(
    "framework: mine", "framework: sglang"
)


@pytest.fixture
def sglang(tmp_path: Path) -> tuple[str, ...]:
    """A config of SGLang whose own layer sets a flag that the engine's later versions lack."""
    (tmp_path / "runners.yaml").write_text("labels:\n  h200: [one]\nhardware: {}\n")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text("- argv:\n    --cuda-graph-max-bs: 8\n")
    (tmp_path / "old.yaml").write_text(SGLANG.replace("VERSION", "v0.5.17-cu130"))
    (tmp_path / "new.yaml").write_text(SGLANG.replace("VERSION", "v0.5.23-cu130"))
    return (KEY, "--runners", f"{tmp_path}/runners.yaml", "--conc", "4")


def test_a_launch_that_the_engine_would_refuse_is_refused(
    sglang: tuple[str, ...], tmp_path: Path
) -> None:
    new = ("--config", f"{tmp_path}/new.yaml")
    said = call("launch", *sglang, *new)
    assert (said.code, said.out) == (2, "")
    place = f"error: {tmp_path}/recipes/mine.yaml:2: --cuda-graph-max-bs: is ambiguous"
    assert said.err.startswith(place)
    assert "--cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill (sglang 0.5.23" in said.err
    # A reproduction is printed with its faults, unless they are asked for.
    compat = call("launch", *sglang, *new, "--compat")
    assert (compat.code, compat.err.count("warning: ")) == (0, 1)
    assert "--cuda-graph-max-bs" in json.loads(compat.out)["argv"]
    assert call("launch", *sglang, *new, "--compat", "--strict").code == 2


def test_a_launch_that_the_engine_takes_is_printed_with_a_warning(
    sglang: tuple[str, ...], tmp_path: Path
) -> None:
    old = ("--config", f"{tmp_path}/old.yaml")
    said = call("launch", *sglang, *old)
    assert said.code == 0
    assert "is replaced by --cuda-graph-max-bs-decode (sglang 0.5.17)" in said.err
    assert said.err.startswith("warning: ")
    assert json.loads(said.out)["image"] == "lmsysorg/sglang:v0.5.17-cu130"
    assert call("launch", *sglang, *old, "--strict").code == 2
