"""A file elsewhere, hostile settings, where values come from, and what a digest counts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from deployment_points import (
    TP8,
    launches,
    packaged,
    point,
    pool,
)
from hypothesis import given
from hypothesis import strategies as st

from inferometer.core import LaunchPlan, MultiNode, Parallelism, Point, Pool
from inferometer.errors import InputError
from inferometer.plan import digest, expand, explain, load_configs, load_recipes, resolve

MASTER = """\
key:
  image: i:1
  model: org/m
  model-prefix: m
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
          additional-settings: ["CONFIG_FILE=FILE"] }
        decode: { num-worker: 0, tp: 8, ep: 1, dp-attn: false }
"""
RUNNERS = """\
labels: { h200: [h200_0] }
hardware: { h200: { available-cpu-dram-mib: 1, gpus-per-node: 8 } }
"""


def planned(files: dict[str, str], name: str) -> tuple[Point, LaunchPlan]:
    def read(path: str) -> bytes:
        if path not in files:
            raise InputError(f"{path}: cannot be read")
        return files[path].encode()

    def below(directory: str) -> list[str]:
        prefix = f"{directory}/"
        return [path.removeprefix(prefix) for path in files if path.startswith(prefix)]

    files = {"conf/m.yaml": MASTER.replace("FILE=FILE", f"FILE={name}"), **files}
    files["r.yaml"] = RUNNERS
    (of,) = expand(load_configs(["conf/m.yaml"], "r.yaml", read))
    return of, resolve(of, load_recipes(read, ["conf/recipes"], below))


@pytest.mark.parametrize("name", ["recipes/vllm/a.yaml", "recipes/a/b/c.yaml:part[1]", "a.yaml"])
def test_a_file_beside_the_config_counts_by_its_bytes(name: str) -> None:
    path = f"conf/{name.partition(':')[0]}"
    of, plan = planned({path: "roles: 1"}, name)
    assert plan.external is not None
    assert plan.external.sha256 == hashlib.sha256(b"roles: 1").hexdigest()
    again, other = planned({path: "roles: 2"}, name)
    missing = planned({}, name)
    assert of == again == missing[0]
    assert len({digest(of, each) for each in (plan, other, missing[1])}) == 3
    assert missing[1].external is not None
    assert (missing[1].external.file, missing[1].external.sha256) == (name, None)


@pytest.mark.parametrize("name", ["../r.yaml", "/etc/passwd", "recipes/../../r.yaml"])
def test_no_file_outside_of_the_config_s_directory_is_read(name: str) -> None:
    _of, plan = planned({"/etc/passwd": "x", "conf/../r.yaml": "x"}, name)
    assert plan.external is not None
    assert plan.external.sha256 is None


def test_an_external_plan_is_loaded_as_any_other() -> None:
    _of, plan = planned({}, "a.yaml")
    assert (plan.kind, plan.argv, plan.launches) == ("external", (), ())
    assert plan.client.affinity_header == "X-Dynamo-Session-ID"
    assert plan.workload.isl == 1024
    assert plan.origins["client.affinity_header"].layer.endswith("engines/dynamo.yaml")


@pytest.mark.parametrize(
    "hostile",
    [
        "$(reboot)",
        "`id`",
        "a; rm -rf /",
        "a\nB=1",
        "{port}",
        "{conc.__class__}",
        "%s",
        "\u202ex",
        "=",
    ],
)
def test_a_value_is_data_whatever_it_looks_like(hostile: str) -> None:
    found = launches(point(pool(PREFILL_IMAGE=hostile, SLURM_PARTITION=hostile, OTHER=hostile)))
    assert found["prefill_0"].image == hostile
    for launch in found.values():
        assert hostile == "=" or not any(
            hostile in word for word in launch.argv if hostile != "{port}"
        )


keys = st.sampled_from(
    [
        "PREFILL_NODES",
        "DECODE_MTP_SIZE",
        "GPUS_PER_NODE",
        "SYNTHETIC_ACCEPTANCE",
        "X",
        "CONFIG_FILE",
    ]
)


@given(st.lists(st.tuples(keys, st.text(max_size=30)), max_size=4))
def test_any_settings_resolve_or_are_refused_in_our_own_words(pairs: list[tuple[str, str]]) -> None:
    of = point(Pool(1, TP8, None, tuple(pairs)))
    try:
        found = digest(of, resolve(of, packaged()))
    except InputError as error:
        found = str(error)
    assert found


def test_an_explanation_names_the_launch_and_repeats_nothing() -> None:
    of = point(pool(2), pool(1))
    values = {".".join(each.target): each for each in explain(of, packaged())}
    assert values["prefill_0.argv.--tensor-parallel-size"].value == "8"
    # The second prefill worker differs in nothing but its address.
    second = [name for name in values if name.startswith("prefill_1.")]
    assert second == ["prefill_1.env.VLLM_NIXL_SIDE_CHANNEL_HOST"]
    assert values["workload.isl"].value == "1024"
    assert values["router_0.argv.--policy"].origin.layer.endswith("routers/vllm-router.yaml")
    origins = set(resolve(of, packaged()).origins)
    assert {name for name in values if "let" not in name.split(".")[:2]} <= origins


POOL = pool()
NODES = MultiNode(POOL, POOL, True, "nixl", 8)
CHANGES: dict[str, Callable[[MultiNode], MultiNode]] = {
    "workers": lambda nodes: replace(nodes, prefill=replace(POOL, workers=2)),
    "transfer": lambda nodes: replace(nodes, p2p_transfer="mooncake"),
    "hardware": lambda nodes: replace(nodes, decode=replace(POOL, hardware="b200")),
    "image": lambda nodes: replace(nodes, prefill=pool(PREFILL_IMAGE="p:2")),
    "nodes": lambda nodes: replace(nodes, gpus_per_node=4),
    "parallelism": lambda nodes: replace(nodes, decode=pool(2, Parallelism(4, 1, 1, 1, 1, False))),
}


def test_a_digest_changes_with_roles_settings_images_transfer_and_hardware() -> None:
    def of(nodes: MultiNode) -> str:
        changed = replace(point(), multi_node=nodes)
        return digest(changed, resolve(changed, packaged()))

    found = {name: of(change(NODES)) for name, change in CHANGES.items()}
    assert len({*found.values(), of(NODES)}) == len(CHANGES) + 1
    queued = replace(NODES, prefill=pool(SLURM_PARTITION="batch"))
    assert of(queued) == of(NODES)
