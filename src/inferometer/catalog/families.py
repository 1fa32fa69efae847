"""What engines call what we watch of them: the families of their metrics pages, mapped to one set
of series. A table only; nothing is read or summed here.

A series is named once, whatever the engine calls it. Units: tokens, requests, seconds, 0..1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from inferometer.catalog.tables import Fact, read_rows

Kind = Literal["counter", "gauge", "histogram"]
Tier = Literal["device", "host", "external"]


class Series(NamedTuple):
    """One thing watched. `combine` is how the engines or ranks of a page make one value."""

    kind: Kind
    combine: Literal["sum", "mean"]
    unit: str


SERIES: Mapping[str, Series] = {
    "running": Series("gauge", "sum", "requests"),
    "waiting": Series("gauge", "sum", "requests"),
    "kv_use": Series("gauge", "mean", "0..1"),
    "queue_time_s": Series("histogram", "sum", "s"),
    "ttft_s": Series("histogram", "sum", "s"),
    "itl_s": Series("histogram", "sum", "s"),
    "prefill_time_s": Series("histogram", "sum", "s"),
    "decode_time_s": Series("histogram", "sum", "s"),
    "inference_time_s": Series("histogram", "sum", "s"),
    "prefix_queries": Series("counter", "sum", "tokens"),
    "prefix_hits": Series("counter", "sum", "tokens"),
    "prompt_tokens": Series("counter", "sum", "tokens"),
    "prompt_tokens_cached": Series("counter", "sum", "tokens"),
    "prompt_tokens_computed": Series("counter", "sum", "tokens"),
    "generation_tokens": Series("counter", "sum", "tokens"),
    "requests": Series("counter", "sum", "requests"),
    "preemptions": Series("counter", "sum", "events"),
    "drafts": Series("counter", "sum", "verifications"),
    "draft_tokens": Series("counter", "sum", "tokens"),
    "accepted_tokens": Series("counter", "sum", "tokens"),
    "acceptance_recent": Series("gauge", "mean", "tokens"),
    "lateness_p99_s": Series("gauge", "mean", "s"),
}


class Option(BaseModel):
    """One way to read a series off a page. The first of a list that the page has is taken."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    name: str
    """Of the samples, with or without `_total`; of a histogram without `_bucket`."""
    plus: list[str] = Field(default_factory=list)
    """Added to it. All must be there."""
    where: dict[str, list[str]] = Field(default_factory=dict)
    """Label → patterns of which one must match. A label that is not there is empty."""
    needs: str | None = None
    """Taken only where the page has this family too: so that two series are of one kind."""
    lacks: str | None = None
    """Taken only where the page has not this family."""
    note: str | None = None
    """What a reader of the figure must know."""


Options = Annotated[list[Option], Field(min_length=1)]


class Engine(Fact):
    """One engine's row."""

    engine: str
    display: str
    prefix: str
    """Whose families are on a page. The order of the file is the order of preference."""
    like: str | None = None
    """Shares the names of this engine, and adds to them."""
    replicas: list[str] = Field(default_factory=list)
    """Labels that only tell replicas apart: each says the same, and counts once."""
    refresh_s: float = 0.0
    """How old what the page says may be: some engines renew it by a clock of its own."""
    series: dict[str, Options]
    """`NAME`, or `NAME.TIER` where a prefix cache has tiers."""

    @model_validator(mode="after")
    def _known(self) -> Engine:
        for key in self.series:
            name, _, tier = key.partition(".")
            if name not in SERIES:
                raise ValueError(f"{self.engine}: no series {name!r}")
            if name.startswith("prefix_") != (tier in ("device", "host", "external")):
                raise ValueError(f"{self.engine}: {key}: a tier is for the prefix cache alone")
        return self


@cache
def engines() -> tuple[Engine, ...]:
    """Every engine whose page is known, the preferred first; `like` is resolved."""
    rows = read_rows("metrics.yaml", Engine)
    by_name = {row.engine: row for row in rows}

    def resolved(row: Engine) -> Engine:
        if row.like is None:
            return row
        other = by_name[row.like]
        shared = {"series": other.series | row.series, "replicas": other.replicas + row.replicas}
        return row.model_copy(update=shared)

    return tuple(resolved(row) for row in rows)


def family_options(engine: str, series: str) -> tuple[Option, ...]:
    """How `engine` publishes `series` (`NAME` or `NAME.TIER`); empty where it does not."""
    row = next((row for row in engines() if row.engine == engine), None)
    return () if row is None else tuple(row.series.get(series, ()))
