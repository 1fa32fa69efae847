"""Master files and runner files as InferenceX has them: fields, defaults, and rules between fields.

Unknown fields are refused at every level. One model for configs of one node, one for configs of
several; `multinode` says which. Rules that need another file are in `load`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from inferometer.plan.fields import (
    MAX_LADDER,
    Count,
    Fault,
    Flag,
    Items,
    ItemsOrNull,
    Lanes,
    PositiveInt,
    Share,
    SomeItems,
    Strict,
    Text,
    at_most_items,
    one_of,
)
from inferometer.plan.source import DataPath

SpecDecoding = Annotated[
    Literal["none", "mtp", "draft_model"], one_of("none", "mtp", "draft_model")
]
KvOffloading = Annotated[Literal["none", "dram"], one_of("none", "dram")]


class Router(Strict):
    """A router in front of the engine, by name and version."""

    name: Text
    version: Text

    def faults(self) -> Iterator[Fault]:
        if self.version.startswith("image:"):
            yield Fault(("version",), "expected a version, got an image")


class KvBackend(Strict):
    """What moves KV blocks to host memory."""

    name: Text
    version: Text | None = None


class Ladder(Strict):
    """The concurrencies of one search-space entry: a range of powers of two, or a list."""

    conc_start: Lanes | None = None
    conc_end: Lanes | None = None
    conc_list: Annotated[SomeItems[Lanes] | None, at_most_items(MAX_LADDER)] = None

    def faults(self) -> Iterator[Fault]:
        start, end = self.conc_start, self.conc_end
        if self.conc_list is not None:
            if start is not None or end is not None:
                yield Fault((), "give conc-start and conc-end, or conc-list, not both")
        elif start is None or end is None:
            yield Fault((), "give conc-start and conc-end, or conc-list")
        elif start > end:
            yield Fault(("conc-end",), f"{end} is below conc-start, which is {start}")


class SingleNodeEntry(Ladder):
    """One arm of a single-node search space: a parallelism and its concurrencies."""

    tp: PositiveInt
    pp: PositiveInt = 1
    dcp_size: PositiveInt = 1
    pcp_size: PositiveInt = 1
    ep: PositiveInt | None = None
    dp_attn: Flag | None = None
    spec_decoding: SpecDecoding = "none"
    router: Router | None = None

    def faults(self) -> Iterator[Fault]:
        yield from _dcp_divides(self.tp, self.dcp_size)


class SingleNodeAgenticEntry(SingleNodeEntry):
    """The same for agentic replay, which must say whether KV blocks go to host memory."""

    kv_offloading: KvOffloading
    kv_offload_backend: KvBackend | None = None

    def faults(self) -> Iterator[Fault]:
        yield from _backend_fits(self.kv_offloading, self.kv_offload_backend)


class Worker(Strict):
    """The workers of one role of a multi-node deployment, all alike."""

    num_worker: Count
    tp: PositiveInt
    pp: PositiveInt = 1
    dcp_size: PositiveInt = 1
    pcp_size: PositiveInt = 1
    ep: PositiveInt
    dp_attn: Flag
    hardware: Text | None = None
    additional_settings: ItemsOrNull[Text] = ()

    def faults(self) -> Iterator[Fault]:
        yield from _dcp_divides(self.tp, self.dcp_size)
        for index, setting in enumerate(self.additional_settings):
            if not setting.partition("=")[1] or setting.startswith("="):
                yield Fault(("additional-settings", index), f"expected KEY=VALUE, got {setting!r}")


class MultiNodeEntry(Ladder):
    """One arm of a multi-node search space. A decode block with no worker: one role does both."""

    prefill: Worker
    decode: Worker
    spec_decoding: SpecDecoding = "none"
    router: Router | None = None
    kv_p2p_transfer: Text | None = None

    def faults(self) -> Iterator[Fault]:
        if (self.prefill.hardware is None) != (self.decode.hardware is None):
            role = "prefill" if self.prefill.hardware is None else "decode"
            yield Fault((role,), "give hardware for both roles or for neither")


class MultiNodeAgenticEntry(MultiNodeEntry):
    """The same for agentic replay."""

    kv_offloading: KvOffloading = "none"
    kv_offload_backend: KvBackend | None = None

    def faults(self) -> Iterator[Fault]:
        yield from _backend_fits(self.kv_offloading, self.kv_offload_backend)


E = TypeVar("E", bound=SingleNodeEntry | MultiNodeEntry)
A = TypeVar("A", bound=SingleNodeAgenticEntry | MultiNodeAgenticEntry)


class Fixed(Strict, Generic[E]):
    """Fixed sequence lengths in tokens, and the arms measured at them."""

    isl: PositiveInt
    osl: PositiveInt
    search_space: Items[E]


class Agentic(Strict, Generic[A]):
    """Agentic replay. `dram-utilization`: the share of host memory that KV blocks may take."""

    dram_utilization: Share | None = None
    search_space: Items[A]

    def faults(self) -> Iterator[Fault]:
        wanting = any(entry.kv_offloading == "dram" for entry in self.search_space)
        if wanting and self.dram_utilization is None:
            yield Fault((), "kv-offloading dram needs dram-utilization")


class Scenarios(Strict, Generic[E, A]):
    """What a config is measured under; at least one."""

    fixed_seq_len: SomeItems[Fixed[E]] | None = None
    agentic_coding: SomeItems[Agentic[A]] | None = None

    def faults(self) -> Iterator[Fault]:
        if self.fixed_seq_len is None and self.agentic_coding is None:
            yield Fault((), "expected fixed-seq-len or agentic-coding, got neither")

    def spaces(self) -> Iterator[tuple[DataPath, tuple[E | A, ...]]]:
        """Every search space, with its path below the config."""
        for index, fixed in enumerate(self.fixed_seq_len or ()):
            yield ("scenarios", "fixed-seq-len", index, "search-space"), fixed.search_space
        for index, agentic in enumerate(self.agentic_coding or ()):
            yield ("scenarios", "agentic-coding", index, "search-space"), agentic.search_space

    def arms(self) -> Iterator[tuple[DataPath, E | A]]:
        """Every search-space entry, with its path below the config."""
        for path, space in self.spaces():
            for index, arm in enumerate(space):
                yield (*path, index), arm


NativePower = Annotated[Literal["native"], one_of("native")]


class _Config(Strict):
    image: Text
    model: Text
    model_prefix: Text
    precision: Text
    framework: Text
    runner: Text
    multinode: Flag
    disagg: Flag = False
    router: Router | None = None
    require_power: NativePower | None = None
    """Not of InferenceX, which refuses a file that has it. Its own files are read as they are."""


class SingleNodeConfig(_Config):
    """One config key whose deployment fits one node."""

    scenarios: Scenarios[SingleNodeEntry, SingleNodeAgenticEntry]

    def faults(self) -> Iterator[Fault]:
        if self.disagg:
            yield Fault(("disagg",), "a single-node config cannot be disaggregated")
        yield from _runs_agentic(self.runner, self.scenarios.agentic_coding)
        for path, entry in self.scenarios.arms():
            yield from _declared_once((*path, "router"), self.router, entry.router)


class MultiNodeConfig(_Config):
    """One config key whose deployment spans nodes, or has prefill and decode roles."""

    kv_p2p_transfer: Text | None = None
    scenarios: Scenarios[MultiNodeEntry, MultiNodeAgenticEntry]

    def faults(self) -> Iterator[Fault]:
        yield from _runs_agentic(self.runner, self.scenarios.agentic_coding)
        for path, entry in self.scenarios.arms():
            common, own = self.kv_p2p_transfer, entry.kv_p2p_transfer
            yield from _declared_once((*path, "router"), self.router, entry.router)
            yield from _declared_once((*path, "kv-p2p-transfer"), common, own)
            if self.disagg and common is None and own is None:
                yield Fault(path, "disagg needs kv-p2p-transfer, here or for the whole config")


class Hardware(Strict):
    """A node of one runner label: host memory in MiB, GPUs."""

    available_cpu_dram_mib: PositiveInt
    gpus_per_node: PositiveInt


class Runners(Strict):
    """Runner labels with the machines behind each, and what a node of a label has."""

    labels: dict[str, SomeItems[Text]]
    hardware: dict[str, Hardware] = Field(default_factory=dict)


def _dcp_divides(tp: int, dcp: int) -> Iterator[Fault]:
    if tp % dcp:
        yield Fault(("dcp-size",), f"{dcp} does not divide tp, which is {tp}")


def _backend_fits(mode: str, backend: KvBackend | None) -> Iterator[Fault]:
    if mode == "none" and backend is not None:
        yield Fault(("kv-offload-backend",), "not allowed: kv-offloading is none")
    if mode != "none" and backend is None:
        yield Fault(("kv-offload-backend",), f"is required with kv-offloading {mode}")


def _runs_agentic(runner: str, agentic: tuple[object, ...] | None) -> Iterator[Fault]:
    if agentic and not runner.startswith("cluster:"):
        yield Fault(("runner",), f"agentic-coding needs a label cluster:..., got {runner!r}")


def _declared_once(path: DataPath, common: object, own: object) -> Iterator[Fault]:
    if common is not None and own is not None:
        yield Fault(path, "given for the whole config too; give it in one place")
