"""What is to be measured: one fully resolved point of a sweep. Complete and frozen: no defaults."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

SpecDecoding = Literal["none", "mtp", "draft_model"]


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How the model is spread; `gpus` is the whole deployment, divisor of every per-GPU rate."""

    tp: int
    pp: int
    dcp: int
    pcp: int
    ep: int
    dp_attn: bool

    @property
    def gpus(self) -> int:
        """tp · pp · pcp; EP and DCP share the TP devices (InferenceX's count too)."""
        return self.tp * self.pp * self.pcp

    @property
    def label(self) -> str:
        """Short name on charts: TP4, DEP8, TEP8, EP2, with PP, PCP and DCP where above one."""
        if self.dp_attn:
            name = f"DEP{self.ep}" if self.ep == self.tp else f"DPATP{self.tp}"
        elif self.ep > 1:
            name = f"TEP{self.tp}" if self.ep == self.tp else f"TP{self.tp}EP{self.ep}"
        else:
            name = f"TP{self.tp}"
        extra = (("PP", self.pp), ("PCP", self.pcp), ("DCP", self.dcp))
        return name + "".join(f"{axis}{size}" for axis, size in extra if size > 1)


@dataclass(frozen=True, slots=True)
class FixedSeqLen:
    """Input and output lengths in tokens; the plan says whether exact or drawn from [0.8 L, L]."""

    isl: int
    osl: int

    @property
    def label(self) -> str:
        """`1k1k`, `8k1k`, else `isl_osl`."""
        return f"{_kilo(self.isl)}{_kilo(self.osl)}" if self._even else f"{self.isl}_{self.osl}"

    @property
    def _even(self) -> bool:
        return self.isl % 1024 == 0 and self.osl % 1024 == 0


@dataclass(frozen=True, slots=True)
class AgenticCoding:
    """Replay of recorded coding sessions; the plan names the sessions and the rules."""

    @property
    def label(self) -> str:
        """The scenario's name on screen and in files."""
        return "agentic"


@dataclass(frozen=True, slots=True)
class OtherSessions:
    """Sessions that no coding agent had, replayed by the same rules."""

    family: str
    """Of the workload: `chat`, `lengths`, `mooncake`, ..."""

    @property
    def label(self) -> str:
        """The family's name."""
        return self.family


Scenario = FixedSeqLen | AgenticCoding | OtherSessions


@dataclass(frozen=True, slots=True)
class KvOffload:
    """Where KV blocks go beyond GPU memory. `dram_gb` is the budget of the deployment, in 1e9 B."""

    mode: Literal["none", "dram"]
    backend: str | None
    version: str | None
    dram_gb: int


@dataclass(frozen=True, slots=True)
class Router:
    """What spreads requests over the engine's ranks, as the config names it."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Pool:
    """The workers of one role, all alike. `settings` are (KEY, VALUE) in the order written.

    They are data that a recipe may read, and are never handed to a shell. `hardware` is the GPU of
    this role, where the roles differ.
    """

    workers: int
    parallelism: Parallelism
    hardware: str | None
    settings: tuple[tuple[str, str], ...]

    @property
    def gpus(self) -> int:
        """GPUs of all workers: workers · tp · pp · pcp, or workers · ep where ep is above that.

        Every expert rank holds a GPU. So ranks that all workers together have no GPUs for are
        those of each worker, whose attention is data-parallel and whose `tp` counts one rank of it.
        """
        declared = self.workers * self.parallelism.gpus
        spread = self.workers * self.parallelism.ep
        return spread if self.parallelism.ep > declared else declared

    @property
    def worker_gpus(self) -> int:
        """GPUs of one worker; 0 without workers."""
        return self.gpus // self.workers if self.workers else 0

    @property
    def label(self) -> str:
        """`2xTP8`."""
        return f"{self.workers}x{self.parallelism.label}"


@dataclass(frozen=True, slots=True)
class MultiNode:
    """A deployment of two roles. A decode pool without workers: prefill workers do both."""

    prefill: Pool
    decode: Pool
    disagg: bool
    p2p_transfer: str | None
    gpus_per_node: int | None = None
    """As the runner file has it; None where it does not say."""

    @property
    def gpus(self) -> int:
        """GPUs of both roles."""
        return self.prefill.gpus + self.decode.gpus

    @property
    def label(self) -> str:
        """`P2xTP8+D1xDEP8`, or `2xTP8` where one role does both."""
        if not self.decode.workers:
            return self.prefill.label
        return f"P{self.prefill.label}+D{self.decode.label}"


@dataclass(frozen=True, slots=True)
class Point:
    """One thing to measure: a config, a scenario, a deployment, a concurrency, a repeat.

    `parallelism` is that of the one worker of a node. Where `multi_node` says what pools there are,
    it is that of the prefill pool, and no count of GPUs: `gpus` is.
    """

    config: str
    image: str
    model: str
    model_prefix: str
    precision: str
    framework: str
    runner: str
    hardware: str
    scenario: Scenario
    parallelism: Parallelism
    spec_decoding: SpecDecoding
    kv_offload: KvOffload
    router: Router | None
    conc: int
    max_model_len: int | None
    repeat: int
    multi_node: MultiNode | None = None
    require_power: Literal["native"] | None = None
    """Without power measured by the nodes' own sensors the point is no result."""

    @property
    def gpus(self) -> int:
        """GPUs of the whole deployment, divisor of every per-GPU rate."""
        return self.multi_node.gpus if self.multi_node else self.parallelism.gpus

    @property
    def deployment(self) -> str:
        """Short name of what is deployed: TP8, 2xTP8, P2xTP8+D1xDEP8."""
        return self.multi_node.label if self.multi_node else self.parallelism.label

    @property
    def id(self) -> str:
        """Name of the point's directory: unique within a run, safe in a file name.

        What has no short name (settings of pools, versions) goes in as eight digits of its hash.
        """
        parts = [self.config, self.scenario.label]
        if self.multi_node is None:
            parts.append(_spread(self.parallelism))
        else:
            roles = (("p", self.multi_node.prefill), ("d", self.multi_node.decode))
            parts += [f"{role}{p.workers}x{_spread(p.parallelism)}" for role, p in roles]
        if self.spec_decoding != "none":
            parts.append(self.spec_decoding)
        if self.kv_offload.mode != "none":
            parts.append(f"kv{self.kv_offload.mode}-{self.kv_offload.backend}")
        if self.router is not None:
            parts.append(self.router.name)
        if rest := self._unnamed():
            parts.append(hashlib.sha256(repr(rest).encode()).hexdigest()[:8])
        parts.append(f"c{self.conc}")
        if self.repeat:
            parts.append(f"r{self.repeat}")
        return "_".join(parts).replace("/", "-").replace(" ", "-")

    def _unnamed(self) -> tuple[object, ...]:
        """What tells two arms of one config apart beyond what the id spells out."""
        router = (self.router.version,) if self.router else ()
        backend = (self.kv_offload.version,) if self.kv_offload.version else ()
        nodes = self.multi_node
        if nodes is None:
            return (*router, *backend)
        pools = tuple((pool.hardware, pool.settings) for pool in (nodes.prefill, nodes.decode))
        return (*router, *backend, pools, nodes.p2p_transfer)


def _spread(parallelism: Parallelism) -> str:
    """Parallelism in an id: every axis that is not one."""
    name = parallelism.label.lower()
    if parallelism.dp_attn:
        return f"{name}ep{parallelism.ep}dpa"
    return f"{name}ep{parallelism.ep}" if parallelism.ep > 1 else name


def _kilo(tokens: int) -> str:
    return f"{tokens // 1024}k"
