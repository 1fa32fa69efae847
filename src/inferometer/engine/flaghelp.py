"""Reads the options of a parser out of its help text, as llama.cpp's programs print it.

An option's line begins with a dash in the first column: its names, apart by commas, then a hint
for each value; the rest is explanation. A hint of alternatives in braces gives the choices; `N`
says that a number is meant. What a hint does not say is not known: it may be any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_NAME = re.compile(r"(--?[A-Za-z][\w.-]*)(,\s*|\s|$)")
_CHOICES = re.compile(r"\{([^{}]+)\}")


def help_schema(text: str) -> dict[str, Any]:
    """The options, and the rules of llama.cpp's parser: exact names, `_` as `-` in long ones, no
    `=`, and whatever word follows is the value.
    """
    return {
        "positionals": 0,
        "rules": {
            "abbreviations": False,
            "equals": False,
            "dashed_values": True,
            "underscores": True,
        },
        "options": [_option(line) for line in text.splitlines() if _NAME.match(line)],
    }


def _option(line: str) -> dict[str, Any]:
    names, rest = _split(line)
    hints = _hints(rest)
    entry: dict[str, Any] = {"names": names}
    if not hints:
        return {**entry, "value": "none"}
    if len(hints) > 1:
        entry["count"] = len(hints)
    choices = _CHOICES.fullmatch(hints[0])
    if choices:
        entry["choices"] = [choice.strip() for choice in choices[1].split(",")]
    elif hints[0] == "N":
        # It does not tell whole numbers from others.
        entry["value"] = "float"
    return entry


def _split(line: str) -> tuple[list[str], str]:
    """The names at a line's beginning, and what follows them."""
    names = []
    at = 0
    while found := _NAME.match(line, at):
        names.append(found[1])
        at = found.end()
        if not found[2].startswith(","):
            break
    return names, line[at:]


def _hints(rest: str) -> list[str]:
    """The value hints: words until two spaces, behind which the explanation stands."""
    hint = "" if rest.startswith(" ") else re.split(r"\s{2,}", rest)[0]
    return list(_words(hint))


def _words(hint: str) -> Iterator[str]:
    """Words of a hint; brackets and braces keep theirs together."""
    for found in re.finditer(r"\{[^{}]*\}|\[[^\[\]]*\]|<[^<>]*>|\S+", hint):
        yield found[0]
