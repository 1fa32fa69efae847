"""Model architectures, and the bytes and FLOPs that follow from them.

Figures are those of the published configuration. Not covered: the fixed state of linear-attention
layers, the window of sliding-window layers and the vision tower; all are small beside weights and
growing KV.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from inferometer.catalog.tables import Fact, Precision, read_rows
from inferometer.errors import InputError, nearest

WEIGHT_BYTES: dict[Precision, float] = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625}
"""Bytes a weight; fp4 with one 8-bit scale every 16 values (4.5 bits)."""

KV_BYTES: dict[Precision, float] = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625}
"""Bytes a KV element."""


class Latent(BaseModel):
    """Multi-head latent attention: one shared latent a token in place of keys and values."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int


class Experts(BaseModel):
    """Routed experts: `count` in each of `layers`, of which a token uses `per_token`."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    count: int
    per_token: int
    layers: int
    intermediate: int


class ModelFigures(Fact):
    """What is publicly known of one model. Counts of parameters are of the text model.

    None: not published, never guessed; `note` says so. `kv_elements` and `score_flops` stand for
    attention that heads and layers alone do not describe.
    """

    name: str
    """Hugging Face id of the original weights."""
    aliases: Annotated[tuple[str, ...], Field(strict=False)]
    """The prefix that config files use, and names of other checkpoints of the model."""
    layers: PositiveInt | None = None
    growing_kv_layers: PositiveInt | None = None
    """Layers whose KV grows with the context (not sliding-window, not linear attention)."""
    hidden: PositiveInt | None = None
    heads: PositiveInt | None = None
    kv_heads: PositiveInt | None = None
    head_dim: PositiveInt | None = None
    latent: Latent | None = None
    vocab: PositiveInt | None = None
    tied_embeddings: bool | None = None
    total_params: PositiveInt | None = None
    active_params: PositiveInt | None = None
    """Parameters that one token is multiplied with."""
    experts: Experts | None = None
    max_context: PositiveInt | None = None
    kv_elements: float | None = None
    """KV elements that a token of context adds over all layers, where KV is compressed."""
    score_flops: float | None = None
    """FLOPs of a query on a token of context over all layers, where attention is compressed."""
    checkpoint_bytes: Mapping[Precision, int] = Field(default_factory=dict)
    """Published sizes of checkpoints, by the precision of most of their weights."""
    note: str | None = None
    """Which figures are missing or assumed, and why."""

    @model_validator(mode="after")
    def _explained(self) -> ModelFigures:
        """A gap without a reason would be taken for an oversight."""
        if self.missing() and not self.note:
            raise ValueError(f"{self.name} lacks {', '.join(self.missing())} without a note")
        return self

    def missing(self) -> tuple[str, ...]:
        """The figures without which nothing can be computed, that are not known."""
        return tuple(name for name in _NEEDED if getattr(self, name) is None)


_NEEDED = (
    "layers",
    "growing_kv_layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "vocab",
    "tied_embeddings",
    "total_params",
    "active_params",
    "max_context",
)


class ModelSpec(ModelFigures):
    """A model of which every figure is known that bytes and FLOPs follow from."""

    layers: PositiveInt
    growing_kv_layers: PositiveInt
    hidden: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    vocab: PositiveInt
    tied_embeddings: bool
    total_params: PositiveInt
    active_params: PositiveInt
    max_context: PositiveInt

    @property
    def embedding_params(self) -> int:
        """Input embedding and output head; kept in bf16 by every quantised checkpoint here."""
        return self.vocab * self.hidden * (1 if self.tied_embeddings else 2)

    @property
    def routed_params(self) -> int:
        """Parameters of all routed experts (three matrices each), 0 for a dense model."""
        if self.experts is None:
            return 0
        one = 3 * self.hidden * self.experts.intermediate
        return self.experts.layers * self.experts.count * one

    @property
    def flops_per_token(self) -> float:
        """FLOPs of the matrix products of one token, attention scores excluded: 2 · active."""
        return 2.0 * self.active_params

    def kv_bytes_per_token(self, precision: Precision) -> float:
        """KV bytes that one token of context adds, over all layers and all KV heads."""
        if self.kv_elements is not None:
            return self.kv_elements * KV_BYTES[precision]
        if self.latent is not None:
            elements = self.latent.rank + self.latent.rope_dim
        else:
            elements = 2 * self.kv_heads * self.head_dim
        return self.growing_kv_layers * elements * KV_BYTES[precision]

    def kv_shards(self, tensor_parallel: int) -> int:
        """Over how many GPUs of a tensor-parallel group the KV of one token is spread.

        Whole KV heads are dealt out; a latent is one for all heads, so each GPU keeps all of it.
        """
        return 1 if self.latent is not None else min(tensor_parallel, self.kv_heads)

    def weight_bytes(self, precision: Precision) -> float:
        """Bytes of all weights: of the published checkpoint where there is one, else with
        embeddings in bf16 and everything else in `precision`.
        """
        if precision in self.checkpoint_bytes:
            return float(self.checkpoint_bytes[precision])
        body = self.total_params - self.embedding_params
        return body * WEIGHT_BYTES[precision] + self.embedding_params * WEIGHT_BYTES["bf16"]

    def attention_flops(self, *, decode: bool) -> float:
        """FLOPs a query token spends on one token of context: scores and weighted values.

        A latent is attended to in the latent space when decoding (wider, but read once), and
        expanded to heads in prefill.
        """
        if self.score_flops is not None:
            return self.score_flops
        if self.latent is None:
            width = 2 * self.head_dim
        elif decode:
            width = 2 * self.latent.rank + self.latent.rope_dim
        else:
            width = self.latent.nope_dim + self.latent.rope_dim + self.latent.value_dim
        return 2.0 * self.heads * width * self.growing_kv_layers


@cache
def _table() -> dict[str, ModelFigures]:
    """Lower-cased full names, their last parts, and aliases, each to its model."""
    table: dict[str, ModelFigures] = {}
    for row in read_rows("models.yaml", ModelFigures):
        for name in (row.name, row.name.rpartition("/")[2], *row.aliases):
            if table.setdefault(name.lower(), row) is not row:
                raise ValueError(f"models.yaml: {name!r} is the name of two models")
    return table


def model_names() -> tuple[str, ...]:
    """The Hugging Face id of every model known, in the order of the file."""
    return tuple(dict.fromkeys(row.name for row in _table().values()))


def figures(name: str) -> ModelFigures:
    """What is known of the model of this Hugging Face id, alias or local path, case ignored.

    A path or an organisation that is not known falls back to the last part of the name. InputError
    with the nearest name when unknown.
    """
    table, key = _table(), name.lower().rstrip("/")
    found = table.get(key) or table.get(key.rpartition("/")[2])
    if found is None:
        raise InputError(
            f"unknown model {name!r}{nearest(key, table)} (known: {', '.join(model_names())})"
        )
    return found


def model(name: str) -> ModelSpec:
    """The model called `name`, as `figures` finds it, with all that is needed to compute with it.

    InputError names the figures that are not known, with what the catalog says about them.
    """
    found = figures(name)
    if missing := found.missing():
        raise InputError(
            f"the catalog lacks {', '.join(missing)} of {found.name}, so nothing can be computed "
            f"for it: {found.note} ({found.source}, {found.date})"
        )
    return _spec(found.name)


@cache
def _spec(name: str) -> ModelSpec:
    """One object a model, so that equal names give the same one."""
    return ModelSpec.model_validate(dict(figures(name)))
