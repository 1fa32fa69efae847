"""How a table of facts is read: strict frozen rows from a YAML file of the package.

A fault in one of these files is ours, not the user's: it leaves as pydantic's own error.
"""

from __future__ import annotations

from importlib import resources
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Precision = Literal["bf16", "fp8", "fp4"]
PRECISIONS: tuple[Precision, ...] = ("bf16", "fp8", "fp4")

Date = Annotated[str, Field(pattern=r"^\d{4}-\d{2}(-\d{2})?$")]
"""Year and month, and the day where it is known."""


class Fact(BaseModel):
    """A row with its provenance. Unknown keys are errors: a typo would be a silent default."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)

    source: str
    date: Date


Row = TypeVar("Row", bound=Fact)


def read_rows(file: str, kind: type[Row]) -> list[Row]:
    """All rows of `data/FILE`, in the order they are written."""
    text = resources.files("inferometer.catalog").joinpath("data", file).read_text("utf-8")
    rows = yaml.load(text, Loader=yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)
    return TypeAdapter(list[kind]).validate_python(rows)  # type: ignore[valid-type]
