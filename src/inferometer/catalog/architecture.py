"""Model architectures, and the bytes and FLOPs that follow from them.

Figures are those of the published configuration. Not covered: the fixed state of linear-attention
layers, the window of sliding-window layers and the vision tower; all are small beside weights and
growing KV.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from inferometer.catalog.tables import Fact, Precision, read_rows
from inferometer.errors import InputError, nearest

WEIGHT_BYTES: dict[Precision, float] = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625}
"""Bytes a weight; fp4 with one 8-bit scale every 16 values (4.5 bits)."""

KV_BYTES: dict[Precision, float] = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5625}
"""Bytes a KV element."""


class Latent(BaseModel):
    """Multi-head latent attention: one shared latent a token in place of keys and values."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int


class Experts(BaseModel):
    """Routed experts: `count` in each of `layers`, of which a token uses `per_token`."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    count: int
    per_token: int
    layers: int
    intermediate: int


class ModelSpec(Fact):
    """One model. Counts of parameters are of the text model."""

    name: str
    """Hugging Face id of the original weights."""
    aliases: Annotated[tuple[str, ...], Field(strict=False)]
    layers: int
    growing_kv_layers: int
    """Layers whose KV grows with the context (not sliding-window, not linear attention)."""
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    latent: Latent | None
    vocab: int
    tied_embeddings: bool
    total_params: int
    active_params: int
    """Parameters that one token is multiplied with."""
    experts: Experts | None
    max_context: int

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
        """Bytes of all weights with embeddings in bf16 and everything else in `precision`."""
        body = self.total_params - self.embedding_params
        return body * WEIGHT_BYTES[precision] + self.embedding_params * WEIGHT_BYTES["bf16"]

    def attention_flops(self, *, decode: bool) -> float:
        """FLOPs a query token spends on one token of context: scores and weighted values.

        A latent is attended to in the latent space when decoding (wider, but read once), and
        expanded to heads in prefill.
        """
        if self.latent is None:
            width = 2 * self.head_dim
        elif decode:
            width = 2 * self.latent.rank + self.latent.rope_dim
        else:
            width = self.latent.nope_dim + self.latent.rope_dim + self.latent.value_dim
        return 2.0 * self.heads * width * self.growing_kv_layers


@cache
def _table() -> dict[str, ModelSpec]:
    """Lower-cased full names, their last parts, and aliases, each to its model."""
    table: dict[str, ModelSpec] = {}
    for row in read_rows("models.yaml", ModelSpec):
        for name in (row.name, row.name.rpartition("/")[2], *row.aliases):
            table[name.lower()] = row
    return table


def model_names() -> tuple[str, ...]:
    """The Hugging Face id of every model known, in the order of the file."""
    return tuple(dict.fromkeys(spec.name for spec in _table().values()))


def model(name: str) -> ModelSpec:
    """The model of this Hugging Face id, alias or local path, case ignored.

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
