"""Where the config files lie that come with the package."""

from __future__ import annotations

from pathlib import Path

_QUICKSTART = Path(__file__).parent / "quickstart"
_NEWER = Path(__file__).parent / "newer"


def quickstart_paths() -> tuple[tuple[str, ...], str]:
    """(master files, runner file) of a sweep of the built-in engine; its recipes lie beside."""
    return (str(_QUICKSTART / "master.yaml"),), str(_QUICKSTART / "runners.yaml")


def newer_paths() -> tuple[tuple[str, ...], str]:
    """(master files, runner file) of deployments newer than the reference; recipes as above."""
    return (str(_NEWER / "master.yaml"),), str(_NEWER / "runners.yaml")
