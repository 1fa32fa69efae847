"""What a deployment is made of beyond one engine: workers by role, side processes, settings.

Hosts and ports of other roles are placeholders such as `{prefill_0_host}`: where a process runs is
known only where it is started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from inferometer.core.point import Parallelism

Role = Literal["prefill", "decode", "aggregated", "router"]
KvTransfer = Literal["nixl", "mooncake", "mori", "ucx"]
TRANSFERS: tuple[KvTransfer, ...] = get_args(KvTransfer)


@dataclass(frozen=True, slots=True)
class SideProcess:
    """A process beside the engine, started before it, in the order of the plan.

    `beside` is the launch on whose node it runs; None where the plan has one engine on one node.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    beside: str | None


@dataclass(frozen=True, slots=True)
class RoleLaunch:
    """One process of a deployment: a worker on one of its nodes, or the router.

    A worker of `nodes` > 1 is that many launches, `node_rank` from 0. `gpus` are those on this
    node; a router has none, and no parallelism. `kv_transfer` is how KV blocks go from prefill to
    decode workers; None where no role hands any over.
    """

    role: Role
    index: int
    nodes: int
    node_rank: int
    gpus: int
    hardware: str
    parallelism: Parallelism | None
    kv_transfer: KvTransfer | None
    image: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str]

    @property
    def name(self) -> str:
        """`prefill_0`, `decode_2_node1`, `router_0`: unique within a plan."""
        return launch_name(self.role, self.index, self.node_rank)


def launch_name(role: str, index: int, node_rank: int = 0) -> str:
    """The name of a launch; of the first node of a worker it is the worker's own."""
    name = f"{role}_{index}"
    return f"{name}_node{node_rank}" if node_rank else name


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """`additional-settings` of both roles, typed; None where unset. `other`: what has no type.

    `slurm_partition` says where a job waits: it alone moves no number.
    """

    config_file: str | None
    eval_config_file: str | None
    client_image: str | None
    prefill_image: str | None
    synthetic_acceptance: bool | None
    synthetic_acceptance_length: float | None
    prefill_nodes: int | None
    decode_nodes: int | None
    prefill_workers: int | None
    decode_mtp_size: int | None
    gpus_per_node: int | None
    slurm_partition: str | None
    other: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """Engine settings that lie in a file outside of the config.

    `file` is the reference as written; `sha256` that of the file's bytes, None where it is not
    beside the config.
    """

    file: str
    sha256: str | None
