"""The package's own recipes: none is a copy of another, and each says what it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import inferometer.plan

RECIPES = Path(inferometer.plan.__file__).parent / "recipes"
FILES = sorted(RECIPES.rglob("*.yaml"))
LONGEST_COPY = 5
"""Lines. Two engines may have the same short conditions and the same few flags."""


def lines() -> list[tuple[str, str]]:
    """(place, text) of every line that sets something; a file ends with a line of its own."""
    found = []
    for file in FILES:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if line.strip() and not line.strip().startswith("#"):
                found.append((f"{file.name}:{number}", line))
        found.append((f"{file.name}:end", f"end of {file}"))
    return found


def copies(texts: list[str]) -> Iterator[tuple[int, int, int]]:
    """(length, start, other start) of every run of lines that stands in two places."""
    places: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        for other in places.get(text, []):
            if other and texts[other - 1] == texts[index - 1]:
                continue  # inside a run that began earlier
            length = 1
            while texts[other + length] == texts[index + length] and other + length < index:
                length += 1
            yield length, other, index
        places.setdefault(text, []).append(index)


def test_no_recipe_has_a_copy() -> None:
    found = lines()
    longest, first, second = max(copies([text for _, text in found]))
    told = f"{longest} lines stand both at {found[first][0]} and at {found[second][0]}"
    assert longest <= LONGEST_COPY, told


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(RECIPES)))
def test_a_recipe_begins_with_what_it_is_for(file: Path) -> None:
    first = file.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert len(first) > 20
