"""How far drafts are accepted: mean tokens a verification emits, by model, method, draft length and
thinking mode.

Measured once on real coding prompts; taken to be independent of engine and concurrency. Includes
the bonus token, so a length lies in [1, 1 + drafts].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import model_validator

from inferometer.catalog.tables import Fact, read_rows
from inferometer.errors import InputError, nearest

Thinking = Literal["on", "off"]


class Curve(Fact):
    """One curve. `lengths` maps the draft length to mean tokens a verification."""

    model: str
    """The prefix that config files call the model by."""
    method: str
    thinking: Thinking
    lengths: Mapping[int, float]

    @model_validator(mode="after")
    def _possible(self) -> Curve:
        """A verification emits the bonus token and at most every draft."""
        for drafts, length in self.lengths.items():
            if not 1 <= length <= 1 + drafts:
                raise ValueError(f"{drafts} drafts cannot give {length} tokens")
        return self


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One measured length, with where it is from."""

    length: float
    source: str
    date: str


class AcceptanceTable:
    """The curves of one file. Two tables are never equal: whoever keeps what a table gave keeps it
    under the table itself.
    """

    def __init__(self, rows: Sequence[Curve]) -> None:
        """ValueError where two curves are for one model, method and thinking mode."""
        self._curves = {(row.model, row.method, str(row.thinking)): row for row in rows}
        if len(self._curves) != len(rows):
            raise ValueError("two curves for one model, method and thinking mode")

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Every curve, in the order of the file."""
        return tuple(self._curves.values())

    def at(self, model: str, method: str, drafts: int, thinking: str = "on") -> Acceptance:
        """The measured length for `drafts` drafted tokens. InputError where the table has none: a
        length between two measured ones is not invented.
        """
        curve = self._curves.get((model, method, thinking))
        if curve is None:
            known = sorted({f"{m} {how} {mode}" for m, how, mode in self._curves})
            hint = nearest(f"{model} {method} {thinking}", known) or f"; known: {', '.join(known)}"
            raise InputError(
                f"no acceptance curve for {method!r} drafts of {model!r} with thinking "
                f"{thinking!r}{hint}"
            )
        if type(drafts) is not int or drafts not in curve.lengths:
            known_lengths = ", ".join(str(length) for length in curve.lengths)
            raise InputError(
                f"the acceptance curve of {model} {method} lacks draft length {drafts}; "
                f"known: {known_lengths}"
            )
        return Acceptance(curve.lengths[drafts], curve.source, curve.date)


@cache
def installed_acceptance() -> AcceptanceTable:
    """The table of the package."""
    return AcceptanceTable(read_rows("acceptance.yaml", Curve))


def acceptance_curves() -> tuple[Curve, ...]:
    """Every curve of the package, in the order of the file."""
    return installed_acceptance().curves


def acceptance(model: str, method: str, drafts: int, thinking: str = "on") -> Acceptance:
    """The measured length as the package's table has it."""
    return installed_acceptance().at(model, method, drafts, thinking)
