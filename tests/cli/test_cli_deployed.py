"""Deployments of several roles on the command line: launched, explained, and refused where run."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from command_line import call

from inferometer.plan import newer_paths

MASTER = """
several:
  image: i:1
  model: org/m
  model-prefix: m
  precision: fp8
  framework: vllm
  runner: h200
  multinode: true
  disagg: true
  router: { name: vllm-router, version: "0.1.14" }
  kv-p2p-transfer: nixl
  scenarios:
    fixed-seq-len:
    - isl: 1024
      osl: 64
      search-space:
      - conc-list: [8]
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false, additional-settings: [SETTING] }
        decode: { num-worker: 1, tp: 8, ep: 1, dp-attn: false }
      - conc-list: [8]
        prefill: { num-worker: 1, tp: 8, ep: 1, dp-attn: false, additional-settings: [SETTING] }
        decode: { num-worker: 2, tp: 4, ep: 1, dp-attn: false }
"""
RUNNERS = """
labels: { h200: [one] }
hardware: { h200: { available-cpu-dram-mib: 1000, gpus-per-node: 8 } }
"""
FIRST = "several_1024_64_p1xtp8_d1xtp8_vllm-router"

UNCHECKED = "note: flags are checked against vllm 0.32.0; image i:1 names no version\n"


def files(folder: Path, setting: str = "PREFILL_NODES=1") -> tuple[str, ...]:
    text = MASTER.replace("[SETTING]", f"[{json.dumps(setting)}]")
    (folder / "m.yaml").write_text(text)
    (folder / "r.yaml").write_text(RUNNERS)
    return ("--config", f"{folder}/m.yaml", "--runners", f"{folder}/r.yaml", "--conc", "8")


def point_id(options: tuple[str, ...]) -> str:
    """The id of the first arm's point, as the error of an ambiguous choice lists it."""
    said = call("launch", "several", *options)
    assert said.code == 2
    found = next(line for line in said.err.splitlines() if FIRST in line)
    return found.rpartition("--id ")[2]


def test_arms_of_equal_prefill_are_told_apart_by_id(tmp_path: Path) -> None:
    options = files(tmp_path)
    said = call("launch", "several", *options, "--id", point_id(options))
    assert (said.code, said.err) == (0, UNCHECKED)
    data = json.loads(said.out)
    assert data["kind"] == "multi-node"
    assert [each["name"] for each in data["launches"]] == ["prefill_0", "decode_0", "router_0"]
    assert [each["gpus"] for each in data["launches"]] == [8, 8, 0]
    assert data["launches"][0]["kv_transfer"] == "nixl"
    assert data["router"] == {"name": "vllm-router", "version": "0.1.14"}
    assert data["settings"] == {"prefill_nodes": 1}
    assert (data["argv"], data["env"], data["files"]) == ([], {}, {})


def test_shell_form_fills_in_hosts_and_ports_that_are_given(tmp_path: Path) -> None:
    options = files(tmp_path)
    site = ("prefill_0_host=10.0.0.1", "decode_0_host=10.0.0.2", "decode_0_port=7000", "port=9000")
    given = [word for pair in site for word in ("--site", pair)]
    name = ("--id", point_id(options))
    said = call("launch", "several", *options, *name, "--format", "shell", *given)
    assert (said.code, said.err) == (0, UNCHECKED)
    assert "--prefill http://10.0.0.1:9000" in said.out
    assert "--decode http://10.0.0.2:7000" in said.out
    decode = said.out.partition("# decode_0: ")[2]
    assert "--port 7000" in decode
    assert "VLLM_NIXL_SIDE_CHANNEL_PORT=8000" in decode
    assert "--port 9000" in said.out.partition("# prefill_0: ")[2].partition("# decode_0")[0]


def test_a_file_elsewhere_is_named_and_said_to_be_unknown(tmp_path: Path) -> None:
    options = files(tmp_path, "CONFIG_FILE=recipes/vllm/x.yaml")
    name = ("--id", point_id(options))
    data = json.loads(call("launch", "several", *options, *name).out)
    assert data["kind"] == "external"
    assert data["external"]["sha256"] is None
    assert "not part of the config and not beside it" in data["external"]["note"]
    assert [(each["role"], each["gpus"]) for each in data["roles"]] == [
        ("prefill", 8),
        ("decode", 8),
    ]
    assert data["workload"]["isl"] == 1024
    assert data["client"]["keep_alive_s"] == 4.0
    (tmp_path / "recipes" / "vllm").mkdir(parents=True)
    (tmp_path / "recipes" / "vllm" / "x.yaml").write_text("roles: {}\n")
    beside = json.loads(call("launch", "several", *options, *name).out)
    assert len(beside["external"]["sha256"]) == 64
    assert "the SHA-256 of the file beside it" in beside["external"]["note"]
    shell = call("launch", "several", *options, *name, "--format", "shell").out
    assert all(line.startswith("# ") for line in shell.splitlines())
    assert "# workload.isl: 1024" in shell
    assert beside["external"]["sha256"] in shell


def test_pasting_a_hostile_setting_runs_nothing(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    options = files(tmp_path, f"PREFILL_IMAGE=x\ntouch {trap}\n$(touch {trap}) `touch {trap}`")
    name = ("--id", point_id(options))
    shell = call("launch", "several", *options, *name, "--format", "shell").out
    assert str(trap) in shell
    # The commands themselves do not exist there.
    bare = {**os.environ, "PATH": str(tmp_path)}
    bash = ["/bin/bash", "-c", f"cd {shlex.quote(str(tmp_path))}\n{shell}"]
    subprocess.run(bash, env=bare, check=False, capture_output=True, timeout=600)
    assert not trap.exists()


def test_explain_names_the_launch(tmp_path: Path) -> None:
    options = files(tmp_path)
    name = ("--id", point_id(options))
    said = call("explain", "several", *options, *name, "--", "--kv-transfer-config")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == "prefill_0.argv.--kv-transfer-config.kv_connector = NixlConnector"
    assert any(line.startswith("decode_0.argv.--kv-transfer-config") for line in lines)
    role = call("explain", "several", *options, *name, "router_0")
    assert all(line.startswith(("router_0.", "    ")) for line in role.out.splitlines())
    router = call("explain", "several", *options, *name, "let")
    assert "prefill_0.let.seqs = 8" in router.out


@pytest.mark.parametrize("verb", ["run", "predict"])
def test_running_a_deployment_is_refused_and_says_what_is_not_supported(
    verb: str, tmp_path: Path
) -> None:
    files(tmp_path)
    said = call(verb, f"{tmp_path}/m.yaml", "--runners", f"{tmp_path}/r.yaml")
    assert (said.code, said.out) == (2, "")
    assert "multi-node deployments are planned, not started yet" in said.err


@pytest.mark.parametrize(
    ("key", "conc", "names"),
    [
        (
            "glm5.2-fp4-gb200-dynamo-sglang-agentic-agg",
            "12",
            ["aggregated_0", "aggregated_0_node1", "router_0"],
        ),
        ("glm5.1-fp8-b200-tilert", "1", ["prefill_0", "decode_0", "router_0"]),
    ],
)
def test_the_bundled_deployments_launch(key: str, conc: str, names: list[str]) -> None:
    masters, runners = newer_paths()
    options = ("--config", masters[0], "--runners", runners, "--conc", conc)
    lengths = ("--isl", "8192") if "tilert" in key else ()
    data = json.loads(call("launch", key, *options, *lengths).out)
    assert [each["name"] for each in data["launches"]] == names
    shell = call("launch", key, *options, *lengths, "--format", "shell")
    assert shell.code == 0
