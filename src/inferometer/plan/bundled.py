"""Where the config files lie that come with the package."""

from __future__ import annotations

from pathlib import Path

_QUICKSTART = Path(__file__).parent / "quickstart"


def quickstart_paths() -> tuple[tuple[str, ...], str]:
    """(master files, runner file) of a sweep of the built-in engine; its recipes lie beside."""
    return (str(_QUICKSTART / "master.yaml"),), str(_QUICKSTART / "runners.yaml")
