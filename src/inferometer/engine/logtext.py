"""A line of a log as a reader would see it, and the shape that it has in common with others.

No meaning is looked for.
"""

from __future__ import annotations

import re

_STAMP = re.compile(
    r"[0-9][0-9](?:[0-9]{2}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}|-[0-9]{2} [0-9]{2})?"
    r":[0-9]{2}:[0-9]{2}(?:[.,][0-9]*)?"
)
_NUMBER = re.compile(r"[0-9](?:[xX][0-9a-fA-F]+|[0-9]*(?:[.,][0-9]+)*)")
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][0-9A-Z]|[=>@-Z\\^_])"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def shape_of(text: str) -> str:
    """A line without what differs each time: its stamp is dropped, each number becomes `#`."""
    return _NUMBER.sub("#", _STAMP.sub("", text)).strip()


def readable(piece: bytes) -> str:
    """The text of a piece, without what tells a terminal to do something."""
    text = piece.decode("utf-8", "replace")
    if not text.isprintable():
        text = _CONTROL.sub("", _ESCAPE.sub("", text).replace("\t", " ")).strip()
    return text
