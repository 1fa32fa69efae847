"""Text of strangers made fit to be shown: nothing in it moves a cursor or hides from a reader."""

from __future__ import annotations

import unicodedata

_HIDDEN = ("C", "Zl", "Zp")


def plain(text: str) -> str:
    """The text with every control, format and unassigned character written as its number."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(c) for c in text)


def _shown(character: str) -> str:
    if unicodedata.category(character).startswith(_HIDDEN):
        return f"\\u{ord(character):04x}"
    return character
