"""What is to be measured: one fully resolved point of a sweep. Complete and frozen: no defaults."""

from __future__ import annotations

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


Scenario = FixedSeqLen | AgenticCoding


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
class Point:
    """One thing to measure: a config, a scenario, a parallelism, a concurrency, a repeat."""

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

    @property
    def id(self) -> str:
        """Name of the point's directory: unique within a run, safe in a file name."""
        parts = [self.config, self.scenario.label, self.parallelism.label.lower()]
        if self.parallelism.dp_attn:
            parts[-1] += f"ep{self.parallelism.ep}dpa"
        elif self.parallelism.ep > 1:
            parts[-1] += f"ep{self.parallelism.ep}"
        if self.spec_decoding != "none":
            parts.append(self.spec_decoding)
        if self.kv_offload.mode != "none":
            parts.append(f"kv{self.kv_offload.mode}-{self.kv_offload.backend}")
        if self.router is not None:
            parts.append(self.router.name)
        parts.append(f"c{self.conc}")
        if self.repeat:
            parts.append(f"r{self.repeat}")
        return "_".join(parts).replace("/", "-").replace(" ", "-")


def _kilo(tokens: int) -> str:
    return f"{tokens // 1024}k"
