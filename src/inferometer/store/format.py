"""The integer version of the store's format, and how older files are brought up to it.

A reader takes its own version and every older one (through the named migrations, in order) and
refuses a newer one: a guess at an unknown format is a false number.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from inferometer.errors import StoreError

FORMAT = 1

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From version N to N + 1, by N."""


def load_json(path: Path) -> dict[str, Any]:
    """Read one of the store's JSON files, migrated to `FORMAT`."""
    if path.exists() and not path.is_file():
        raise StoreError(f"{path}: not a file")
    try:
        data = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise StoreError(f"{path}: not there") from None
    except orjson.JSONDecodeError as error:
        raise StoreError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(data, dict) or not isinstance(data.get("format"), int):
        raise StoreError(f"{path}: no integer `format`; not a file of ours")
    return migrate(data, path)


def migrate(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """Bring parsed data up to `FORMAT`; refuse what is newer."""
    version = data["format"]
    if version > FORMAT:
        raise StoreError(
            f"{path}: format {version} is newer than this version reads ({FORMAT}); "
            "install a newer inferometer"
        )
    while version < FORMAT:
        if version not in MIGRATIONS:
            raise StoreError(f"{path}: format {version} is unknown")
        data = MIGRATIONS[version](data)
        version = data["format"] = version + 1
    return data
