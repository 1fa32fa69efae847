"""`additional-settings` of a multi-node entry: KEY=VALUE texts into typed settings.

InferenceX exports them into a shell. Here they are data: nothing expands, quotes or runs a value. A
key or a value that cannot be read is kept as text, and said to be so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from inferometer.core import DeploymentSettings, MultiNode
from inferometer.errors import nearest
from inferometer.plan.fields import MAX_INT32


@dataclass(frozen=True, slots=True)
class Additional:
    """Settings of one deployment, and (position among the pairs, what is wrong with the pair)."""

    settings: DeploymentSettings
    faults: tuple[tuple[int, str], ...]


def read_additional(pairs: Iterable[tuple[str, str]]) -> Additional:
    """The pairs of both roles, in order, since both are for the whole deployment: the last of a key
    counts.
    """
    typed: dict[str, Any] = {}
    other: dict[str, str] = {}
    faults = []
    for index, (key, text) in enumerate(pairs):
        if key not in _READERS:
            hint = nearest(key, _READERS) or f"; known: {', '.join(_READERS)}"
            faults.append((index, f"{key!r} is no setting known here, and is kept as text{hint}"))
            other[key] = text
            continue
        what, reader = _READERS[key]
        value, name = reader(text), key.lower()
        if value is None:
            faults.append((index, f"{key} expects {what}, got {text[:60]!r}; it is kept as text"))
            other[key] = text
            continue
        if typed.get(name, value) != value:
            faults.append((index, f"{key} is given twice; {typed[name]} does not count"))
        typed[name] = value
    empty: dict[str, Any] = {field.name: None for field in fields(DeploymentSettings)}
    settings = DeploymentSettings(**{**empty, **typed, "other": dict(sorted(other.items()))})
    return Additional(settings, tuple(faults))


def settings_of(nodes: MultiNode) -> DeploymentSettings:
    """The settings of a deployment; what cannot be read is in `other`."""
    return read_additional((*nodes.prefill.settings, *nodes.decode.settings)).settings


def unreadable(settings: DeploymentSettings) -> Mapping[str, str]:
    """Known keys whose values are none: what nothing can be started with."""
    return {key: text for key, text in settings.other.items() if key in _READERS}


def _count(text: str) -> int | None:
    # No int(): it takes spaces, underscores, signs and other scripts' digits.
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    value = int(text)
    return value if value <= MAX_INT32 else None


def _positive(text: str) -> int | None:
    return _count(text) or None


def _length(text: str) -> float | None:
    whole, _, part = text.partition(".")
    if not (whole + part).isdigit() or not text.isascii() or len(text) > 20:
        return None
    value = float(text)
    return value if value >= 1 else None


def _flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


def _text(text: str) -> str | None:
    return text or None


_READERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "CONFIG_FILE": ("the path of a file", _text),
    "EVAL_CONFIG_FILE": ("the path of a file", _text),
    "CLIENT_IMAGE": ("an image", _text),
    "PREFILL_IMAGE": ("an image", _text),
    "SYNTHETIC_ACCEPTANCE": ("true or false", _flag),
    "SYNTHETIC_ACCEPTANCE_LENGTH": ("a number of 1 or more", _length),
    "PREFILL_NODES": ("a positive integer", _positive),
    "DECODE_NODES": ("a positive integer", _positive),
    "PREFILL_WORKERS": ("a positive integer", _positive),
    "DECODE_MTP_SIZE": ("an integer of 0 or more", _count),
    "GPUS_PER_NODE": ("a positive integer", _positive),
    "SLURM_PARTITION": ("the name of a partition", _text),
}
"""Key to what its value is, and the reader, which gives None for anything else."""
