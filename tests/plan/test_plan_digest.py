"""The digest: changed by every value that can move a number, and by nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import inferometer
from examples import POINT
from inferometer.core import (
    AgenticCoding,
    ClientSettings,
    DeploymentSettings,
    ExternalFile,
    LaunchPlan,
    MultiNode,
    Origin,
    Point,
    Pool,
    RoleLaunch,
    RouterPlan,
    SideProcess,
    WorkloadSettings,
)
from inferometer.plan import digest

CLIENT = ClientSettings(
    endpoint="chat",
    connect_timeout_s=10.0,
    first_byte_timeout_s=1800.0,
    between_bytes_timeout_s=600.0,
    total_timeout_s=3600.0,
    usage_every_chunk=True,
    ignore_eos=True,
    temperature=0.0,
    affinity_header=None,
    stop_failed_share=0.1,
    grace_s=30.0,
)
WORKLOAD = WorkloadSettings(
    kind="fixed",
    duration_s=None,
    requests=60,
    seed=0,
    isl=1024,
    osl=64,
    length_ratio=0.8,
    sessions=None,
    sessions_digest=None,
    replay_rules="none",
    warmup_requests_per_lane=2,
    warmup_grace_s=1800.0,
    start_min_share=0.0,
    start_max_share=0.0,
    tree_idle_cap_s=0.0,
    system_idle_cap_s=0.0,
)
PLAN = LaunchPlan(
    image="i:1",
    argv=("serve", "--port", "{port}"),
    env={"A": "1", "B": "2"},
    files={"f": "x", "g": "y"},
    router=RouterPlan("r", "1", ("router",)),
    client=CLIENT,
    workload=WORKLOAD,
    origins={"image": Origin("a.yaml", 1, None, None)},
)
SETTINGS = DeploymentSettings(
    config_file="a.yaml",
    eval_config_file="b.yaml",
    client_image="c:1",
    prefill_image="d:1",
    synthetic_acceptance=True,
    synthetic_acceptance_length=2.49,
    prefill_nodes=1,
    decode_nodes=2,
    prefill_workers=1,
    decode_mtp_size=3,
    gpus_per_node=8,
    slurm_partition="batch",
    other={"A": "1"},
)
LAUNCH = RoleLaunch(
    role="prefill",
    index=0,
    nodes=1,
    node_rank=0,
    gpus=2,
    hardware="h200",
    parallelism=POINT.parallelism,
    kv_transfer="nixl",
    image="i:1",
    argv=("serve",),
    env={"A": "1"},
    files={"f": "x"},
)
SEVERAL = dataclasses.replace(
    PLAN,
    side=(SideProcess("etcd", ("etcd",), {"A": "1"}, "router_0"),),
    launches=(LAUNCH,),
    external=ExternalFile("a.yaml", "00"),
    settings=SETTINGS,
    require_power="native",
)
POOL = Pool(1, POINT.parallelism, "h200", (("GPUS_PER_NODE", "8"),))
POOLS = MultiNode(POOL, POOL, disagg=True, p2p_transfer="nixl", gpus_per_node=8)
Settings = tuple[tuple[str, str], ...]
NOT_COUNTED = {
    ("point", "config"),
    ("plan", "origins"),
    ("plan", "settings", "slurm_partition"),
}


def leaves(value: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The path of every field below a dataclass."""
    if not dataclasses.is_dataclass(value):
        return [path]
    return [
        leaf
        for field in dataclasses.fields(value)
        for leaf in leaves(getattr(value, field.name), (*path, field.name))
    ]


def other(value: Any) -> Any:
    """A value that differs, of the same kind where there is one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case None:
            return "x"
        case tuple():
            return value[1:]
        case _:
            return {**value, "x": "x"}


def changed(value: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return other(value)
    inner = changed(getattr(value, path[0]), path[1:])
    return dataclasses.replace(value, **{path[0]: inner})


LEAVES = [
    path
    for path in (*leaves(POINT, ("point",)), *leaves(SEVERAL, ("plan",)))
    if path != ("point", "multi_node")
]


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_every_value_that_can_move_a_number_counts(path: tuple[str, ...]) -> None:
    point = changed(POINT, path[1:]) if path[0] == "point" else POINT
    plan = changed(SEVERAL, path[1:]) if path[0] == "plan" else SEVERAL
    assert (digest(point, plan) == digest(POINT, SEVERAL)) == (path in NOT_COUNTED)


@pytest.mark.parametrize("path", leaves(LAUNCH, ()), ids=".".join)
def test_every_value_of_a_launch_counts(path: tuple[str, ...]) -> None:
    plan = dataclasses.replace(SEVERAL, launches=(changed(LAUNCH, path),))
    assert digest(POINT, plan) != digest(POINT, SEVERAL)


@pytest.mark.parametrize("path", leaves(SEVERAL.side[0], ()), ids=".".join)
def test_every_value_of_a_side_process_counts(path: tuple[str, ...]) -> None:
    plan = dataclasses.replace(SEVERAL, side=(changed(SEVERAL.side[0], path),))
    assert digest(POINT, plan) != digest(POINT, SEVERAL)


def test_the_order_of_launches_and_side_processes_counts() -> None:
    other_launch = dataclasses.replace(LAUNCH, index=1)
    side = (*SEVERAL.side, dataclasses.replace(SEVERAL.side[0], name="nats"))
    plan = dataclasses.replace(SEVERAL, launches=(LAUNCH, other_launch), side=side)
    turned = dataclasses.replace(plan, launches=plan.launches[::-1])
    assert len({digest(POINT, p) for p in (plan, turned)}) == 2
    assert digest(POINT, dataclasses.replace(plan, side=side[::-1])) != digest(POINT, plan)


def test_a_setting_that_was_a_constant_once_leaves_old_digests_alone() -> None:
    assert CLIENT.keep_alive_s == 4.0
    assert "keep_alive_s" not in CANONICAL
    longer = dataclasses.replace(CLIENT, keep_alive_s=5.0)
    assert digest(POINT, dataclasses.replace(PLAN, client=longer)) != digest(POINT, PLAN)


def test_there_are_leaves_in_every_part() -> None:
    assert set(LEAVES) > NOT_COUNTED
    assert {path[1] for path in LEAVES if path[0] == "plan"} >= {"client", "workload", "router"}


CANONICAL = (
    '{"measurement_version":1,"plan":{"argv":["serve","--port","{port}"],"client":{'
    '"affinity_header":null,"between_bytes_timeout_s":600.0,"connect_timeout_s":10.0,'
    '"endpoint":"chat","first_byte_timeout_s":1800.0,"grace_s":30.0,"ignore_eos":true,'
    '"stop_failed_share":0.1,"temperature":0.0,"total_timeout_s":3600.0,'
    '"usage_every_chunk":true},"env":{"A":"1","B":"2"},"files":{"f":"x","g":"y"},"image":"i:1",'
    '"router":{"argv":["router"],"name":"r","version":"1"},"workload":{"duration_s":null,'
    '"isl":1024,"kind":"fixed","length_ratio":0.8,"osl":64,'
    '"replay_rules":"none","requests":60,'
    '"seed":0,"sessions":null,"sessions_digest":null,"start_max_share":0.0,'
    '"start_min_share":0.0,"system_idle_cap_s":0.0,'
    '"tree_idle_cap_s":0.0,'
    '"warmup_grace_s":1800.0,"warmup_requests_per_lane":2}},"point":{"conc":6,"framework":"vllm",'
    '"hardware":"h200","image":"i:1","kv_offload":{"backend":null,"dram_gb":0,"mode":"none",'
    '"version":null},"max_model_len":1344,"model":"org/m","model_prefix":"m","parallelism":{'
    '"dcp":1,"dp_attn":false,"ep":1,"pcp":1,"pp":1,"tp":2},"precision":"fp8","repeat":0,'
    '"router":null,"runner":"h200","scenario":{"isl":1024,"osl":64},"spec_decoding":"none"}}'
)


def test_it_is_the_sha256_of_the_canonical_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(digest.__globals__, "MEASUREMENT_VERSION", 1)
    assert digest(POINT, PLAN) == hashlib.sha256(CANONICAL.encode()).hexdigest()


def test_a_scenario_and_a_missing_router_count() -> None:
    agentic = dataclasses.replace(POINT, scenario=AgenticCoding())
    bare = dataclasses.replace(PLAN, router=None)
    assert len({digest(POINT, PLAN), digest(agentic, PLAN), digest(POINT, bare)}) == 3


def several(nodes: MultiNode = POOLS) -> Point:
    return dataclasses.replace(POINT, multi_node=nodes)


def with_settings(prefill: Settings, decode: Settings = ()) -> str:
    nodes = dataclasses.replace(
        POOLS,
        prefill=dataclasses.replace(POOL, settings=prefill),
        decode=dataclasses.replace(POOL, settings=decode),
    )
    return digest(several(nodes), PLAN)


def test_every_value_of_pools_counts() -> None:
    # Settings count by what they come to, as the next tests say.
    paths = [path for path in leaves(POOLS, ("multi_node",)) if path[-1] != "settings"]
    assert len(paths) == 2 * 8 + 3
    found = {digest(changed(several(), path), PLAN) for path in paths}
    assert len(found | {digest(several(), PLAN), digest(POINT, PLAN)}) == len(paths) + 2


KNOWN = [
    ("CONFIG_FILE", "a.yaml"),
    ("EVAL_CONFIG_FILE", "b.yaml"),
    ("CLIENT_IMAGE", "c:1"),
    ("PREFILL_IMAGE", "d:1"),
    ("SYNTHETIC_ACCEPTANCE", "true"),
    ("SYNTHETIC_ACCEPTANCE_LENGTH", "2.49"),
    ("PREFILL_NODES", "1"),
    ("DECODE_NODES", "2"),
    ("PREFILL_WORKERS", "1"),
    ("DECODE_MTP_SIZE", "0"),
    ("GPUS_PER_NODE", "4"),
    ("SOMETHING", "else"),
    ("PREFILL_NODES", "$(reboot)"),
]


@pytest.mark.parametrize("pair", KNOWN, ids="=".join)
def test_every_setting_but_one_counts(pair: tuple[str, str]) -> None:
    assert with_settings((pair,)) != with_settings(())
    assert with_settings((pair,)) != with_settings(((pair[0], "7"),))


@given(st.text(max_size=20), st.text(max_size=20))
def test_the_partition_of_a_queue_moves_no_number(one: str, other_one: str) -> None:
    digests = {with_settings((("SLURM_PARTITION", name),)) for name in (one, other_one) if name}
    assert digests <= {with_settings(())}


@given(st.lists(st.sampled_from(KNOWN[:-1]), unique_by=lambda pair: pair[0]), st.randoms())
def test_settings_count_by_what_they_say_not_by_where_and_in_which_order(
    pairs: list[tuple[str, str]], random: Any
) -> None:
    mixed = list(pairs)
    random.shuffle(mixed)
    cut = random.randint(0, len(mixed))
    assert with_settings(tuple(pairs)) == with_settings(tuple(mixed[:cut]), tuple(mixed[cut:]))


def test_the_measurement_version_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(POINT, PLAN)
    version = inferometer.MEASUREMENT_VERSION + 1
    monkeypatch.setitem(digest.__globals__, "MEASUREMENT_VERSION", version)
    assert digest(POINT, PLAN) != before


texts = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5)


@given(texts, texts, st.randoms())
def test_the_order_of_keys_does_not_count(
    env: dict[str, str], files: dict[str, str], random: Any
) -> None:
    def shuffled(mapping: dict[str, str]) -> dict[str, str]:
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    plan = dataclasses.replace(PLAN, env=env, files=files)
    same = dataclasses.replace(PLAN, env=shuffled(env), files=shuffled(files))
    assert digest(POINT, plan) == digest(POINT, same)


@given(texts, texts)
def test_environments_that_differ_have_other_digests(a: dict[str, str], b: dict[str, str]) -> None:
    first = digest(POINT, dataclasses.replace(PLAN, env=a))
    second = digest(POINT, dataclasses.replace(PLAN, env=b))
    assert (first == second) == (a == b)
