"""Pairs of input and output lengths counted by somebody, as rows or as a histogram, to draw from.

A CSV file with the columns `input_tokens`, `output_tokens` and, where rows stand for many,
`weight`; a length may be a range LOW-HIGH (a bin), drawn uniformly. The Azure trace's own columns
are taken too, without its times.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from inferometer.errors import InputError, Problem
from inferometer.workload.files import lines
from inferometer.workload.reading import MAX_PROBLEMS_PER_FILE, MAX_TOKENS

COLUMNS = ("input_tokens", "output_tokens", "weight")
ALIASES: Mapping[str, str] = {"contexttokens": "input_tokens", "generatedtokens": "output_tokens"}
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """`bounds` int64[n, 4]: least and greatest input, least and greatest output of each row;
    `chances` float64[n]: the summed weights, the last is 1."""

    bounds: npt.NDArray[np.int64]
    chances: npt.NDArray[np.float64]
    digest: str

    def draw(self, rng: np.random.Generator) -> tuple[int, int]:
        """(input tokens, output tokens) of one request."""
        row = int(np.searchsorted(self.chances, rng.random(), side="right"))
        least_in, most_in, least_out, most_out = self.bounds[
            min(row, len(self.bounds) - 1)
        ].tolist()
        tokens = int(rng.integers(least_in, most_in, endpoint=True))
        return tokens, int(rng.integers(least_out, most_out, endpoint=True))


def read_pairs(file: Path) -> Pairs:
    """The rows of a file. Raises InputError with every row that is wrong, up to a bound."""
    table = _table(file)
    names = [ALIASES.get(name.strip().lower(), name.strip().lower()) for name in table[0][1]]
    missing = [column for column in COLUMNS[:2] if column not in names]
    if missing:
        raise InputError(*(Problem("column is missing", str(file), 1, name) for name in missing))
    problems: list[Problem] = []
    bounds: list[tuple[int, ...]] = []
    weights: list[float] = []
    for line, cells in table[1:]:
        row = dict(zip(names, cells, strict=False))
        place = Problem("", str(file), line)
        bounds.append(
            (
                *_range(row, "input_tokens", 1, place, problems),
                *_range(row, "output_tokens", 0, place, problems),
            )
        )
        weights.append(_weight(row, place, problems))
    if not problems and not sum(weights) > 0:
        problems.append(Problem("expected at least one row with a weight above 0", str(file)))
    if problems:
        raise InputError(*problems[:MAX_PROBLEMS_PER_FILE])
    array, sums = np.array(bounds, np.int64), np.cumsum(np.array(weights))
    chances = sums / sums[-1]
    digest = hashlib.sha256(array.tobytes() + chances.tobytes()).hexdigest()
    array[:, 2:] = np.maximum(array[:, 2:], 1)
    return Pairs(array, chances, digest)


def _table(file: Path) -> list[tuple[int, list[str]]]:
    rows = [
        (line, next(csv.reader([text.decode("utf-8-sig", "replace")])))
        for line, text in lines(_existing(file))
    ]
    if not rows:
        raise InputError(Problem("expected rows, the file is empty", str(file)))
    return rows


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise InputError(Problem("no such file", str(file)))
    return file


def _range(
    row: Mapping[str, str], key: str, least: int, place: Problem, problems: list[Problem]
) -> Sequence[int]:
    text = row.get(key, "").strip()
    match = _RANGE.fullmatch(text)
    low = int(match[1]) if match else -1
    high = int(match[2] or low) if match else -1
    if least <= low <= high <= MAX_TOKENS:
        return low, high
    wanted = f"expected an integer or LOW-HIGH from {least} to {MAX_TOKENS} (tokens)"
    problems.append(Problem(f"{wanted}, got {text!r}"[:160], place.file, place.line, key))
    return 1, 1


def _weight(row: Mapping[str, str], place: Problem, problems: list[Problem]) -> float:
    text = row.get("weight", "1").strip() or "1"
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if 0 <= weight < 1e15:
        return weight
    wanted = "expected a number, 0 or more"
    problems.append(Problem(f"{wanted}, got {text!r}"[:120], place.file, place.line, "weight"))
    return 0.0
